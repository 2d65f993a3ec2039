"""What the tests of compactions share: a table with a key, its rows, and a compaction step by step."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructType
from readers import rows_read

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client
from pyspark_pravega.connector.log import open_ledger, take_snapshot
from pyspark_pravega.connector.options import ReadOptions, WriteOptions
from pyspark_pravega.connector.read import moment_of, rows_at, snapshot_reader
from pyspark_pravega.connector.table import DELETED, ChangeCodec, TableDefinition
from pyspark_pravega.connector.write import CompactingJob, WriteJob, WritePlan

COLUMNS = StructType().add("id", LongType(), nullable=False).add("v", StringType())
STEPS = ("before its snapshot", "before its rows", "before its commit")


def two_versions(catalog: Catalog, scope: str) -> TableDefinition:
    """A table with a hundred keys, of which half have a newer row."""
    definition = catalog.tables.create([scope], "keyed", COLUMNS, [], {"primary-key": "id", "segments": "2"})
    put(definition, dict.fromkeys(range(100), "old"))
    put(definition, dict.fromkeys(range(0, 100, 2), "newer"))
    return definition


def put(definition: TableDefinition, rows: dict[int, str | None], *, mode: str | None = None) -> None:
    """Rows to insert, and, where there is no value, to delete."""
    plan = WritePlan.of(definition, WriteOptions(writer_mode=mode))
    assert isinstance(plan.codec, ChangeCodec)
    job = WriteJob(replace(plan, codec=plan.codec.telling()))
    columns = [list(rows), list(rows.values()), [value is None for value in rows.values()]]
    batch = pa.record_batch([pa.array(column) for column in columns[:2]] + [pa.array(columns[2])], ["id", "v", DELETED])
    job.commit_job([job.write_partition(0, iter([batch]))])


def rows_of(
    definition: TableDefinition, client: Client, version: str | None = None, *, most: int | None = None
) -> dict[int, str | None]:
    stream = definition.stream
    if version is None:
        snapshot = take_snapshot(client, stream)
    else:
        snapshot = rows_at(client, stream, moment_of(client, stream, version))
    reader = snapshot_reader(definition, snapshot, ["id", "v"], ReadOptions(max_keys=most))
    rows = rows_read(reader)
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["v"] for row in rows}


def events_of(definition: TableDefinition, client: Client) -> int:
    reader = snapshot_reader(definition.as_log(), take_snapshot(client, definition.stream), [], ReadOptions())
    return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))


def compact_with(
    definition: TableDefinition, client: Client, meanwhile: dict[str, Callable[[], Any]] | None = None
) -> None:
    """What `compact` does, with something else at each step of it."""
    steps = meanwhile or {}
    steps.get(STEPS[0], lambda: None)()
    snapshot = take_snapshot(client, definition.stream)
    job = CompactingJob(WritePlan.of(definition, WriteOptions()), snapshot)
    steps.get(STEPS[1], lambda: None)()
    reader = snapshot_reader(definition, snapshot, ["id", "v"], ReadOptions())
    messages: Sequence[Any] = [job.write_partition(n, reader.read(part)) for n, part in enumerate(reader.partitions())]
    steps.get(STEPS[2], lambda: None)()
    job.commit_job(messages)
    ledger = open_ledger(client, definition.stream)
    assert ledger is not None
    job.note_ranges(ledger, messages)


def runs(thread: threading.Thread, function: str) -> bool:
    """Whether a thread is within a function."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame is not None
