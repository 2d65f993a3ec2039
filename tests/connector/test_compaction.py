"""Compaction of tables with keys: what is written meanwhile wins, and a compaction that dies changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client
from pyspark_pravega.connector.log import open_ledger, take_snapshot
from pyspark_pravega.connector.options import ReadOptions, WriteOptions
from pyspark_pravega.connector.read import moment_of, rows_at, snapshot_reader, versions
from pyspark_pravega.connector.table import DELETED, ChangeCodec, TableDefinition
from pyspark_pravega.connector.write import CompactingJob, WriteJob, WritePlan, compact, replace_all
from pyspark_pravega.errors import SegmentTruncatedError, UnsupportedOperationError, WriteConflictError

pytestmark = [pytest.mark.server]

COLUMNS = StructType().add("id", LongType(), nullable=False).add("v", StringType())
STEPS = ("before its snapshot", "before its rows", "before its commit")


@pytest.fixture
def table(catalog: Catalog, scope: str) -> TableDefinition:
    made = catalog.create_table([scope], "keyed", COLUMNS, [], {"primary-key": "id", "segments": "2"})
    put(made, dict.fromkeys(range(100), "old"))
    put(made, dict.fromkeys(range(0, 100, 2), "newer"))
    return made


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
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["v"] for row in rows}


def events_of(definition: TableDefinition, client: Client) -> int:
    reader = snapshot_reader(definition.as_log(), take_snapshot(client, definition.stream), [], ReadOptions())
    return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))


class ProcessDiedError(Exception):
    """The compaction's process has died."""


def compact_with(
    definition: TableDefinition, client: Client, meanwhile: dict[str, Callable[[], Any]] | None = None
) -> None:
    """What `compact` does, with something else at each step of it."""
    steps = meanwhile or {}
    steps.get(STEPS[0], lambda: None)()
    snapshot = take_snapshot(client, definition.stream)
    job = CompactingJob(WritePlan.of(definition, WriteOptions()), snapshot.cut, snapshot.version)
    steps.get(STEPS[1], lambda: None)()
    reader = snapshot_reader(definition, snapshot, ["id", "v"], ReadOptions())
    messages: Sequence[Any] = [job.write_partition(n, reader.read(part)) for n, part in enumerate(reader.partitions())]
    steps.get(STEPS[2], lambda: None)()
    job.commit_job(messages)
    ledger = open_ledger(client, definition.stream)
    assert ledger is not None
    job.note_places(ledger, messages)


@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("step", STEPS)
def test_what_is_written_meanwhile_wins(table: TableDefinition, client: Client, step: str, mode: str) -> None:
    """Rows that change, go and come while a compaction runs, in a commit or without one; and a scale."""
    expected: dict[int, str | None] = rows_of(table, client)
    changes: dict[int, str | None] = {0: "won", 1: "won", 2: None, 3: None, 100: "new"}

    def write() -> None:
        put(table, changes, mode=mode)
        client.controller.scale_to(table.stream, 3)

    compact_with(table, client, {step: write})
    expected = {id: v for id, v in {**expected, **changes}.items() if v is not None}
    assert rows_of(table, client) == expected
    # The next compaction takes all of that together.
    done = compact(table)
    assert rows_of(table, client) == expected
    assert done.rows == events_of(table, client) == len(expected)
    assert done.bytes_after <= done.bytes_before
    # Nothing came between its events: a read knows where they are.
    assert sum(behind - first for first, behind in take_snapshot(client, table.stream).compacted.values()) == (
        done.bytes_after
    )
    put(table, {0: None, 50: "last", 200: "new"})
    del expected[0]
    expected |= {50: "last", 200: "new"}
    for most in (None, 7):
        assert rows_of(table, client, most=most) == expected


def test_a_version_is_whole_or_refused_while_a_compaction_commits(
    table: TableDefinition, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version lies between what the compaction has read and its commit, which comes while a read is planned."""
    compact_with(table, client)
    snapshot = take_snapshot(client, table.stream)
    put(table, {1: "between"})
    job = CompactingJob(WritePlan.of(table, WriteOptions()), snapshot.cut, snapshot.version)
    reader = snapshot_reader(table, snapshot, ["id", "v"], ReadOptions())
    messages = [job.write_partition(n, reader.read(part)) for n, part in enumerate(reader.partitions())]
    assert len(rows_of(table, client, "4")) == 100
    until = versions.snapshot_until

    def after_a_commit(*given: Any) -> Any:
        job.commit_job(messages)
        return until(*given)

    monkeypatch.setattr(versions, "snapshot_until", after_a_commit)
    with pytest.raises(SegmentTruncatedError, match="version 5 took the place of all its rows"):
        rows_of(table, client, "4")


@pytest.mark.parametrize("step", STEPS)
def test_a_compaction_that_dies_changes_nothing(table: TableDefinition, client: Client, step: str) -> None:
    expected = rows_of(table, client)

    def die() -> None:
        raise ProcessDiedError

    with pytest.raises(ProcessDiedError):
        compact_with(table, client, {step: die})
    assert rows_of(table, client) == expected
    assert rows_of(table, client, "1") == dict.fromkeys(range(100), "old")
    compact(table)
    assert rows_of(table, client) == expected
    with pytest.raises(SegmentTruncatedError, match="version 3 took the place"):
        rows_of(table, client, "2")
    assert rows_of(table, client, "3") == expected


def test_compactions_at_once_and_overwrites(table: TableDefinition, client: Client) -> None:
    """Of two compactions one does it; an overwrite in the midst of one wins."""
    expected = rows_of(table, client)
    with pytest.raises(WriteConflictError, match="was not compacted"):
        compact_with(table, client, {STEPS[2]: lambda: compact(table)})
    assert rows_of(table, client) == expected

    def truncate() -> None:
        ledger = open_ledger(client, table.stream)
        assert ledger is not None
        replace_all(client, ledger)

    with pytest.raises(WriteConflictError, match="was not compacted"):
        compact_with(table, client, {STEPS[2]: truncate})
    assert rows_of(table, client) == {}
    assert compact(table).rows == 0
    put(table, {1: "one"})
    assert rows_of(table, client) == {1: "one"}


def test_events_that_are_to_be_kept_are_kept(catalog: Catalog, table: TableDefinition, client: Client) -> None:
    name = f"{table.stream.scope}.{table.stream.name}"
    catalog.call_procedure("create_cut", [name, "month_end", None])
    put(table, {0: "later"})
    with pytest.raises(UnsupportedOperationError, match="named cuts \\(month_end\\)"):
        compact(table)
    assert rows_of(table, client, "month_end")[0] == "newer"
    catalog.call_procedure("drop_cut", [name, "month_end"])
    assert catalog.call_procedure("compact", [name])[0][:2] == [4, 100]
    catalog.call_procedure("create_cut", [name, "compacted", None])
    put(table, {0: "last"})
    assert rows_of(table, client, "compacted")[0] == "later"
    assert rows_of(table, client)[0] == "last"
