"""What processes do of a transaction over several tables: each could be the catalog process, which may be killed."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import recovery, settle, snapshot, take_snapshots
from pyspark_pravega.connector.log.decided import turns
from pyspark_pravega.connector.log.opening import open_ledger
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.read import BatchReader
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.connector.write import (
    Epoch,
    OverwritingJob,
    Prepared,
    ReadSet,
    TableRead,
    WriteJob,
    WritePlan,
    commit_together,
    forget_together,
    prepare,
    withdraw_together,
)
from pyspark_pravega.connector.write.commit import Stage
from pyspark_pravega.connector.write.job import TaskMessage
from pyspark_pravega.errors import PravegaError

Looked = dict[Stream, tuple[ReadSet, list[bytes]]]
"""Of each table what was read, for the comparison at the commit, and its events."""
GRACE_S = 1.0
"""How long others wait for a commit that makes no progress."""
LEASE_MS = 10_000


def hurry() -> None:
    """Let this process wait for dead ones no longer than that; readers help at once."""
    recovery.GRACE_S, snapshot.HELP_AFTER_MS = GRACE_S, 500
    turns.TURN_S, turns.FREE_AFTER_S = 2 * GRACE_S, 3 * GRACE_S


def look(tables: Sequence[TableDefinition], seen: Mapping[Stream, int]) -> Looked:
    """Read tables at one moment.

    Args:
        tables: which ones.
        seen: versions of others that were seen before.
    """
    hurry()
    client = shared_client(tables[0].settings)
    taken = take_snapshots(client, [table.stream for table in tables], seen)
    looked: Looked = {}
    for table in tables:
        reader = BatchReader(table, taken[table.stream], ["event"])
        batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
        events = [event for batch in batches for event in batch.column("event").to_pylist()]
        looked[table.stream] = ReadSet.of(taken[table.stream]), events
    return looked


def begin_statement(table: TableDefinition, replaces: bool) -> bytes:
    """A job that takes a statement's rows."""
    hurry()
    plan = WritePlan.of(table, WriteOptions(transaction_timeout_ms=LEASE_MS))
    return pickle.dumps(OverwritingJob(plan) if replaces else WriteJob(plan))


def prepare_statement(
    job: bytes, messages: Sequence[TaskMessage], id: uuid.UUID, scope: str | None, epoch: Epoch | None
) -> Prepared:
    """Take a statement into a transaction."""
    hurry()
    prepared = prepare(pickle.loads(job), messages, id, scope, epoch)
    assert prepared is not None
    return prepared


def commit(prepared: Sequence[Prepared], reads: Mapping[Stream, ReadSet]) -> str:
    """Commit a transaction, perhaps once more."""
    hurry()
    client = _client(prepared)
    seen = {stream: TableRead(stream=stream, seen=[one]) for stream, one in reads.items()}
    stage: Stage = commit_together(client, prepared, seen)
    return stage.name


def forget(prepared: Sequence[Prepared]) -> None:
    """Let the logs forget that it was committed."""
    forget_together(_client(prepared), prepared)


def roll_back(prepared: Sequence[Prepared]) -> None:
    """Throw a transaction away."""
    hurry()
    withdraw_together(_client(prepared), prepared)


def come_to_rest(tables: Sequence[TableDefinition]) -> None:
    """Bring to its end what the dead have left, as the next writer does."""
    hurry()
    for table in tables:
        client = shared_client(table.settings)
        ledger = open_ledger(client, table.stream)
        if ledger is not None:
            settle(client, ledger)


def _client(prepared: Sequence[Prepared]) -> Client:
    return shared_client(prepared[0].job.plan.settings)


def quietly_abort(job: bytes) -> None:
    """Throw a statement away that wasn't taken in."""
    with suppress(PravegaError):
        pickle.loads(job).abort_job([None])
