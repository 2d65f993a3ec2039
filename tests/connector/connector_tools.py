"""What the connector's tests share: raw tables, jobs without Spark, and what a stream then holds."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence

import pyarrow as pa
from client_tools import make_stream

from pyspark_pravega.client import Client, Stream, TransactionState
from pyspark_pravega.client.routing import key_fractions
from pyspark_pravega.client.segments import read_range
from pyspark_pravega.connector.log import Ledger, open_ledger
from pyspark_pravega.connector.log.entries import Commit, Intent
from pyspark_pravega.connector.log.snapshot import take_snapshot
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.read.reader import BatchReader
from pyspark_pravega.connector.read.versions import Moment, snapshot_until
from pyspark_pravega.connector.table.definition import TableDefinition, raw_definition
from pyspark_pravega.connector.write.job import WriteJob
from pyspark_pravega.connector.write.writer import BatchWriter, TaskMessage
from pyspark_pravega.frames import framing
from pyspark_pravega.settings import Settings

LEASE_MS = 60_000


def raw_table(client: Client, settings: Settings, scope: str, name: str = "t", *, segments: int = 4) -> TableDefinition:
    """A stream of raw events, each its own routing key."""
    stream = make_stream(client, scope, name, segments=segments)
    return raw_definition(settings, stream, {"routing-key": "event"})


def begin(definition: TableDefinition, *, lease_ms: int = LEASE_MS) -> BatchWriter:
    return BatchWriter(definition, WriteOptions(transaction_timeout_ms=lease_ms))


def batch(*events: bytes) -> pa.RecordBatch:
    return pa.record_batch([pa.array(events, pa.binary())], names=["event"])


def run_task(writer: WriteJob, *events: bytes, partition: int = 0) -> TaskMessage:
    return writer.write_partition(partition, iter([batch(*events)]))


def transaction_of(message: TaskMessage) -> uuid.UUID:
    assert message.staged is not None
    return message.staged.transaction.id


def numbered(name: str, count: int, *, size: int = 0) -> list[bytes]:
    return [f"{name}-{i}".ljust(size).encode() for i in range(count)]


def read_events(client: Client, definition: TableDefinition) -> list[bytes]:
    """All events of a snapshot, segment by segment."""
    reader = BatchReader(definition, take_snapshot(client, definition.stream), ["event"])
    batches = [rows for partition in reader.partitions() for rows in reader.read(partition)]
    return [event for rows in batches for event in rows.column("event").to_pylist()]


def check_places(
    client: Client, definition: TableDefinition, keys_of: Callable[[pa.Array], pa.Array] = lambda events: events
) -> None:
    """Each event lies in the segment of its routing key.

    Args:
        client: the cluster.
        definition: the table.
        keys_of: tells the keys of events; without it each is its own.
    """
    stream, parts = definition.stream, take_snapshot(client, definition.stream).parts
    owners = client.controller.segment_ranges(stream, [part.segment_id for part in parts])
    for part in parts:
        data = b"".join(read_range(client.pool, stream, part.segment_id, part.start, part.end))
        owner, fractions = owners[part.segment_id], key_fractions(keys_of(framing.split(data).payloads))
        assert ((owner.min_key <= fractions) & (fractions < owner.max_key)).all()


def ledger_of(client: Client, definition: TableDefinition) -> Ledger:
    ledger = open_ledger(client, definition.stream)
    assert ledger is not None
    return ledger


def size_until(client: Client, stream: Stream, commit: Commit) -> int:
    """The bytes of a stream up to a version."""
    return snapshot_until(client, stream, Moment(offsets=commit.cut, name=f"version {commit.version}")).size


def states(client: Client, definition: TableDefinition, ids: Sequence[uuid.UUID]) -> list[TransactionState]:
    return [client.controller.transaction_state(definition.stream, id_) for id_ in ids]


def are_over(client: Client, definition: TableDefinition, ids: Sequence[uuid.UUID]) -> bool:
    """Whether transactions are aborted, or about to be."""
    return set(states(client, definition, ids)) <= {TransactionState.ABORTING, TransactionState.ABORTED}


def open_transactions(client: Client, stream: Stream) -> list[uuid.UUID]:
    """The open ones among the last transactions that were begun: the controller can't list them, but it counts them."""
    latest = client.controller.begin_transaction(stream, lease_ms=10_000).id
    client.controller.abort_transaction(stream, latest)
    candidates = [uuid.UUID(int=latest.int - back) for back in range(1, min(39, latest.int & (2**64 - 1)) + 1)]
    return [id_ for id_ in candidates if client.controller.transaction_state(stream, id_) is TransactionState.OPEN]


def promise(client: Client, table: TableDefinition, writer: BatchWriter, message: TaskMessage) -> None:
    """What a driver does first of a commit: record its intent."""
    ledger = ledger_of(client, table)
    assert message.staged is not None
    ledger.begin(
        ledger.state(),
        Intent(
            job=str(writer.job),
            transactions=(str(transaction_of(message)),),
            rows=message.staged.events,
            bytes=message.staged.bytes,
            started_at=time.time_ns() // 1_000_000,
        ),
    )


def versions(client: Client, table: TableDefinition) -> list[tuple[int, str]]:
    """The completed versions and their jobs."""
    ledger = ledger_of(client, table)
    assert ledger.state().pending is None
    return [(commit.version, commit.job) for commit in ledger.commits(range(1, ledger.state().version + 1))]
