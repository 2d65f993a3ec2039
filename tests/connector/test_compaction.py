"""Compaction of tables with keys: what is written meanwhile wins, and a compaction that dies changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import pyarrow as pa
import pytest
from compaction_tools import COLUMNS, STEPS, compact_with, events_of, put, rows_of, runs, two_versions
from connector_tools import begin, promise, transaction_of
from pyspark.sql.types import LongType
from readers import rows_read
from waiting import eventually

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import AddColumn
from pyspark_pravega.catalog.plans.compactions import Compactions
from pyspark_pravega.client import Client
from pyspark_pravega.client.reader_groups import ReaderGroup, ReaderGroupRetention, ReaderGroupStream
from pyspark_pravega.connector.log import open_ledger, take_snapshot
from pyspark_pravega.connector.options import ReadOptions, WriteOptions
from pyspark_pravega.connector.read import (
    CHANGE_COLUMNS,
    ChangesRange,
    RowChangesReader,
    snapshot_reader,
)
from pyspark_pravega.connector.stream import ChangesSource
from pyspark_pravega.connector.table import TableDefinition, TableProperties
from pyspark_pravega.connector.write import CompactingJob, WriteJob, WritePlan, compact, compact_if_due, replace_all
from pyspark_pravega.errors import (
    ConfigurationError,
    DataLossError,
    SegmentTruncatedError,
    WriteConflictError,
)

pytestmark = [pytest.mark.server]

ADD_C = AddColumn(column=("c",), type=LongType())


@pytest.fixture
def table(catalog: Catalog, scope: str) -> TableDefinition:
    return two_versions(catalog, scope)


class ProcessDiedError(Exception):
    """The compaction's process has died."""


@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.in_turn
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
    done = compact(table.settings, table.stream)
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
    job = CompactingJob(WritePlan.of(table, WriteOptions()), snapshot)
    reader = snapshot_reader(table, snapshot, ["id", "v"], ReadOptions())
    messages = [job.write_partition(n, reader.read(part)) for n, part in enumerate(reader.partitions())]
    before = rows_of(table, client, "4")
    assert len(before) == 100
    eras = import_module("pyspark_pravega.connector.read.eras")
    events_of = eras.events_of

    def after_a_commit(*given: Any) -> Any:
        job.commit_job(messages)
        return events_of(*given)

    monkeypatch.setattr(eras, "events_of", after_a_commit)
    # What the compaction before has written is kept for queries that are under way.
    assert rows_of(table, client, "4") == before


@pytest.mark.parametrize("remove_now", [False, True])
def test_a_query_that_is_under_way_reads_what_a_compaction_has_replaced(
    catalog: Catalog, table: TableDefinition, client: Client, remove_now: bool
) -> None:
    name, expected = f"{table.stream.scope}.{table.stream.name}", rows_of(table, client)
    reader = snapshot_reader(table, take_snapshot(client, table.stream), ["id", "v"], ReadOptions())
    parts = list(reader.partitions())

    def read() -> dict[int, str]:
        return {row["id"]: row["v"] for part in parts for one in reader.read(part) for row in one.to_pylist()}

    assert read() == expected
    catalog.procedures.call("compact", [name, remove_now])
    put(table, {0: "later", 1: None})
    if not remove_now:
        assert read() == expected
        assert rows_of(table, client) == {**{id: v for id, v in expected.items() if id != 1}, 0: "later"}
        # It stays until the next one.
        catalog.procedures.call("compact", [name, False])
    with pytest.raises(DataLossError):
        read()


@pytest.mark.parametrize("table_format", ["avro", "json", "protobuf"])
def test_a_compaction_knows_the_columns_of_what_it_has_read(
    catalog: Catalog, scope: str, client: Client, table_format: str
) -> None:
    """A column is added, and a row with it is written, while the compaction waits for somebody's commit."""
    made = catalog.tables.create([scope], table_format, COLUMNS, [], {"primary-key": "id", "format": table_format})
    put(made, {1: "one", 2: "two"})
    slow = begin(made)
    message = slow.write_partition(0, iter([pa.record_batch([pa.array([3]), pa.array(["three"])], ["id", "v"])]))
    promise(client, made, slow, message)
    compaction = threading.Thread(target=compact, args=(made.settings, made.stream))
    compaction.start()
    eventually(lambda: runs(compaction, "settle"))
    catalog.altering.alter([scope], table_format, [ADD_C])
    altered = catalog.load_table([scope], table_format, age_s=0)
    job = WriteJob(WritePlan.of(altered, WriteOptions(writer_mode="at-least-once")))
    job.write_partition(0, iter([pa.record_batch([pa.array([1]), pa.array(["a2"]), pa.array([42])], ["id", "v", "c"])]))
    client.controller.commit_transaction(made.stream, transaction_of(message))
    compaction.join()
    assert take_snapshot(client, made.stream).version == 3
    reader = snapshot_reader(altered, take_snapshot(client, made.stream), ["id", "v", "c"], ReadOptions())
    rows = [tuple(row.values()) for row in rows_read(reader)]
    assert sorted(rows) == [(1, "a2", 42), (2, "two", None), (3, "three", None)]


@pytest.mark.parametrize("step", STEPS)
def test_a_compaction_that_dies_changes_nothing(table: TableDefinition, client: Client, step: str) -> None:
    expected = rows_of(table, client)

    def die() -> None:
        raise ProcessDiedError

    with pytest.raises(ProcessDiedError):
        compact_with(table, client, {step: die})
    assert rows_of(table, client) == expected
    assert rows_of(table, client, "1") == dict.fromkeys(range(100), "old")
    compact(table.settings, table.stream)
    assert rows_of(table, client) == expected
    with pytest.raises(SegmentTruncatedError, match="version 3 took the place"):
        rows_of(table, client, "2")
    assert rows_of(table, client, "3") == expected


def test_compactions_at_once_and_overwrites(table: TableDefinition, client: Client) -> None:
    """Of two compactions one does it; an overwrite in the midst of one wins."""
    expected = rows_of(table, client)
    with pytest.raises(WriteConflictError, match="was not compacted"):
        compact_with(table, client, {STEPS[2]: lambda: compact(table.settings, table.stream)})
    assert rows_of(table, client) == expected

    def truncate() -> None:
        ledger = open_ledger(client, table.stream)
        assert ledger is not None
        replace_all(client, ledger)

    with pytest.raises(WriteConflictError, match="was not compacted"):
        compact_with(table, client, {STEPS[2]: truncate})
    assert rows_of(table, client) == {}
    assert compact(table.settings, table.stream).rows == 0
    put(table, {1: "one"})
    assert rows_of(table, client) == {1: "one"}


def test_events_that_are_to_be_kept_are_kept(catalog: Catalog, table: TableDefinition, client: Client) -> None:
    """A named cut keeps the events that its rows are made of, and versions of its era; once it is gone they go."""
    name = f"{table.stream.scope}.{table.stream.name}"
    catalog.procedures.call("create_cut", [name, "month_end", None])
    put(table, {0: "later"})
    assert catalog.procedures.call("compact", [name, True])[0][:2] == [4, 100]
    put(table, {0: "last", 1: None})
    assert events_of(table, client) == 102
    for version, value in (("month_end", "newer"), ("1", "old"), ("2", "newer"), ("3", "later"), ("4", "later")):
        assert rows_of(table, client, version)[0] == value
    client.controller.scale_to(table.stream, 3)
    catalog.procedures.call("create_cut", [name, "second", None])
    # The first cut's era, and all after it.
    assert compact(table.settings, table.stream).rows == 99
    expected = rows_of(table, client)
    assert rows_of(table, client, "month_end")[0] == "newer"
    assert rows_of(table, client, "second") == rows_of(table, client, "5") == rows_of(table, client, "6") == expected
    catalog.procedures.call("drop_cut", [name, "month_end"])
    with pytest.raises(SegmentTruncatedError, match=r"version 2 .*is gone"):
        rows_of(table, client, "2")
    assert rows_of(table, client, "4")[0] == "later"
    assert rows_of(table, client, "second") == expected
    catalog.procedures.call("drop_cut", [name, "second"])
    with pytest.raises(SegmentTruncatedError, match=r"version 5 .*is gone"):
        rows_of(table, client, "5")
    assert rows_of(table, client) == expected
    head = client.controller.head(table.stream)
    assert catalog.procedures.call("compact", [name, True])[0][1] == 99
    assert client.controller.head(table.stream) != head


@pytest.mark.in_turn
def test_subscribers_keep_what_they_have_to_read(table: TableDefinition, client: Client) -> None:
    """Of a query over CHANGES that has told its version; of others everything stays."""
    options = ReadOptions(subscriber=f"follower-{table.stream.name}")
    follower = [f"{table.stream.scope}/{options.subscriber}"]
    source = ChangesSource(client, table.stream, ChangesRange(from_version="1"), options, keyed=True)
    start = source.initial_offset()
    source.subscribe()
    first = client.controller.head(table.stream)
    compact(table.settings, table.stream)
    put(table, {0: "one"})
    compact(table.settings, table.stream)
    put(table, {0: "two"})
    assert client.controller.head(table.stream) == first
    end = source.latest_offset(start)
    changes = changes_of(table, source.partitions(start, end))
    assert [change for change in changes if change[2] == 0] == [
        (1, "insert", 0, "old"),
        (2, "update_preimage", 0, "old"),
        (2, "update_postimage", 0, "newer"),
        (4, "update_preimage", 0, "newer"),
        (4, "update_postimage", 0, "one"),
        (6, "update_preimage", 0, "one"),
        (6, "update_postimage", 0, "two"),
    ]
    assert len(changes) == 100 + 2 * 50 + 4
    source.commit(end)
    compact(table.settings, table.stream)
    assert client.controller.head(table.stream) != first
    put(table, {0: None})
    # It goes on behind that, in another process.
    again = ChangesSource(client, table.stream, ChangesRange(from_version="1"), options, keyed=True)
    last = again.latest_offset(end)
    assert changes_of(table, again.partitions(end, last)) == [(8, "delete", 0, "two")]
    other = ReaderGroup(
        scope=table.stream.scope,
        name="others",
        streams=(ReaderGroupStream(stream=table.stream),),
        retention=ReaderGroupRetention.MANUAL,
    )
    client.controller.create_reader_group(other)
    again.commit(last)
    head = client.controller.head(table.stream)
    compact(table.settings, table.stream)
    assert client.controller.head(table.stream) == head
    # Who no longer runs is dropped, and what was kept for them goes at once.
    catalog, name = Catalog(table.settings), f"{table.stream.scope}.{table.stream.name}"
    assert catalog.procedures.call("drop_subscriber", [name, "others"]) == [[True]]
    assert catalog.procedures.call("drop_subscriber", [name, "others"]) == [[False]]
    assert [follower] == catalog.procedures.call("subscribers", [name])
    kept = client.controller.head(table.stream)
    assert catalog.procedures.call("drop_subscriber", [name, *follower]) == [[True]]
    assert catalog.procedures.call("subscribers", [name]) == []
    assert client.controller.head(table.stream) != kept


def test_changes_go_on_behind_a_compaction(table: TableDefinition, client: Client) -> None:
    """Also where the stream was scaled just before, so that the segments of the version before are gone; and twice."""
    source = ChangesSource(client, table.stream, ChangesRange(from_version="1"), ReadOptions(), keyed=True)
    start = source.latest_offset(source.initial_offset())
    client.controller.scale_to(table.stream, 3)
    compact(table.settings, table.stream)
    put(table, {0: "one", 200: "new"})
    end = source.latest_offset(start)
    expected = [
        (4, "insert", 200, "new"),
        (4, "update_preimage", 0, "newer"),
        (4, "update_postimage", 0, "one"),
    ]
    assert changes_of(table, source.partitions(start, end)) == expected
    client.controller.scale_to(table.stream, 2)
    compact(table.settings, table.stream)
    put(table, {200: None})
    assert changes_of(table, source.partitions(end, source.latest_offset(end))) == [(6, "delete", 200, "new")]
    with pytest.raises(DataLossError, match=r"version 5 is a compaction.*begin with 5"):
        source.partitions(start, end)


def changes_of(definition: TableDefinition, partitions: Sequence[Any]) -> list[tuple[int, str, int, str | None]]:
    reader = RowChangesReader(definition, None, ["id", "v", *CHANGE_COLUMNS.fieldNames()])
    rows = [row for part in partitions for batch in reader.read(part) for row in batch.to_pylist()]
    order = ("insert", "delete", "update_preimage", "update_postimage")
    changes = [(row["_commit_version"], row["_change_type"], row["id"], row["v"]) for row in rows]
    return sorted(changes, key=lambda change: (change[0], order.index(change[1]), change[2]))


def test_commits_start_compactions(catalog: Catalog, table: TableDefinition, client: Client) -> None:
    """When enough has come since the last one; the era before stays for queries that are under way."""
    plan = WritePlan.of(
        replace(table, properties=TableProperties({**table.properties, "compact-when": "2 KiB"})), WriteOptions()
    )
    assert plan.compact_when == 2048
    settings, stream = table.settings, table.stream
    begun, expected = take_snapshot(client, stream), rows_of(table, client)
    first = compact_if_due(settings, stream, 2048)
    assert first is not None
    assert first.version == 3
    # Who has begun to read before can read to the end.
    reader = snapshot_reader(table, begun, ["id", "v"], ReadOptions())
    assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)) == 100
    assert rows_of(table, client, "1")[1] == "old"
    assert compact_if_due(settings, stream, 2048) is None
    put(table, dict.fromkeys(range(60), "newest"))
    # As large as the table was: else a large one would be written again and again.
    assert compact_if_due(settings, stream, 10) is None
    compactions = Compactions()
    versions = take_snapshot(client, stream).version
    for number in range(4):
        put(table, dict.fromkeys(range(40), f"value {number}"))
        compactions.consider(plan)
    expected |= dict.fromkeys(range(60), "newest") | dict.fromkeys(range(40), "value 3")
    eventually(lambda: take_snapshot(client, stream).version > versions + 4)
    assert rows_of(table, client) == expected

    def is_cleaned() -> bool:
        try:
            rows_of(table, client, "1")
        except SegmentTruncatedError as error:
            return "is gone" in str(error)
        except DataLossError:
            # They went while they were read.
            return False
        return False

    # A compaction is a version first, and removes then what nobody needs any more.
    eventually(is_cleaned)
    for properties, message in (({"compact-when": "x"}, "compact-when"), ({}, "primary-key")):
        wrong = {"primary-key": "id", **properties} if properties else {"compact-when": "1 MiB"}
        with pytest.raises(ConfigurationError, match=message):
            catalog.tables.create([stream.scope], "wrong", COLUMNS, [], wrong)
