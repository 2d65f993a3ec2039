"""INSERT OVERWRITE of tables with keys, beside others that change rows: what came since stays, or nothing changes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from compaction_tools import COLUMNS, put, rows_of
from pyspark.sql.types import LongType, StringType, StructField, StructType
from readers import rows_read

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import AddColumn, SetProperty
from pyspark_pravega.catalog.plans.scans import ScanRequest, plan_scan
from pyspark_pravega.client import Client
from pyspark_pravega.connector.log import open_ledger, take_snapshot
from pyspark_pravega.connector.options import ReadOptions, WriteOptions
from pyspark_pravega.connector.read import CHANGE_COLUMNS, RowChangesReader, row_changes, snapshot_reader
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.connector.write import (
    ROW_OPERATION,
    DeltaJob,
    OverwritingJob,
    ReadSet,
    WriteJob,
    WritePlan,
    compact,
)
from pyspark_pravega.errors import WriteConflictError

pytestmark = [pytest.mark.server]


class Overwrite:
    """A statement that has read a table, and has written what is to take the place of its rows."""

    def __init__(self, client: Client, table: TableDefinition, rows: dict[int, str]) -> None:
        self._seen = ReadSet.of(take_snapshot(client, table.stream))
        self._job = OverwritingJob(WritePlan.of(table, WriteOptions()))
        batch = pa.record_batch([pa.array(list(rows)), pa.array(list(rows.values()))], ["id", "v"])
        self._messages = [self._job.write_partition(0, iter([batch]))]

    def commit(self) -> None:
        self._job.commit_job(self._messages, seen=[self._seen])


@pytest.mark.parametrize("level", ["snapshot", "serializable"])
@pytest.mark.parametrize("table_format", ["avro", "json", "protobuf"])
@pytest.mark.in_turn
def test_what_came_since_stays_and_wins(
    catalog: Catalog, scope: str, client: Client, table_format: str, level: str
) -> None:
    """Rows that others have changed, deleted and inserted, with and without commits and over a scale."""
    given = {"primary-key": "id", "format": table_format, "isolation-level": level, "segments": "2"}
    table = catalog.tables.create([scope], "t", COLUMNS, [], given)
    before: dict[int, str | None] = dict.fromkeys(range(1, 7), "old")
    put(table, before)
    overwrite = Overwrite(client, table, dict.fromkeys(range(1, 7), "overwritten"))
    changes: dict[int, str | None] = {1: "updated", 2: None, 10: "inserted"}
    put(table, changes)
    client.controller.scale_to(table.stream, 3)
    put(table, {3: "direct"}, mode="at-least-once")
    changes[3] = "direct"
    catalog.procedures.call("take_version", [f"{scope}.t"])
    if level == "serializable":
        with pytest.raises(WriteConflictError, match="Nothing was written"):
            overwrite.commit()
        expected = before | changes
    else:
        overwrite.commit()
        expected = {**dict.fromkeys(range(1, 7), "overwritten"), **changes}
    expected = {id: value for id, value in expected.items() if value is not None}
    for most in (None, 2):
        assert rows_of(table, client, most=most) == expected
    version = take_snapshot(client, table.stream).version
    put(table, {1: "last", 4: None, 11: "new"})
    assert rows_of(table, client, str(version)) == expected
    ledger = open_ledger(client, table.stream)
    assert ledger is not None
    reader = RowChangesReader(table, row_changes(client, ledger, version + 1, version + 1), ["id", "v", *NAMES])
    told = rows_read(reader)
    assert sorted((row["_change_type"], row["id"], row["v"]) for row in told) == [
        ("delete", 4, expected[4]),
        ("insert", 11, "new"),
        ("update_postimage", 1, "last"),
        ("update_preimage", 1, "updated"),
    ]
    expected = {id: value for id, value in (expected | {1: "last", 11: "new"}).items() if id != 4}
    compact(table.settings, table.stream)
    assert rows_of(table, client) == expected
    # What it has read is still what is there.
    Overwrite(client, table, {7: "seven"}).commit()
    assert rows_of(table, client) == {7: "seven"}
    put(table, {7: None})
    assert rows_of(table, client) == {}


NAMES = CHANGE_COLUMNS.fieldNames()


def test_events_of_others_are_not_marked(catalog: Catalog, scope: str, client: Client) -> None:
    """Another program reads what happened in a field of its own: it gets no value that it doesn't know."""
    columns = StructType([*COLUMNS, StructField("op", StringType())])
    table = catalog.tables.create([scope], "t", columns, [], {"isolation-level": "snapshot", "routing-key": "id"})
    own = {"primary-key": "id", "operation-column": "op", "delete-values": "d", "upsert-value": "u"}
    changes = [SetProperty(property=name, value=value) for name, value in own.items()]
    catalog.altering.alter([scope], "t", changes)
    table = catalog.load_table([scope], "t", age_s=0)
    put(table, {1: "one", 2: "two"})
    overwrite = Overwrite(client, table, {1: "overwritten"})
    put(table, {2: "updated"})
    with pytest.raises(WriteConflictError, match="Nothing was written"):
        overwrite.commit()
    assert rows_of(table, client) == {1: "one", 2: "updated"}
    Overwrite(client, table, {1: "overwritten"}).commit()
    assert rows_of(table, client) == {1: "overwritten"}


@pytest.mark.parametrize("planned_before", [False, True])
@pytest.mark.parametrize("table_format", ["avro", "json", "protobuf"])
@pytest.mark.in_turn
def test_values_of_a_column_that_a_statement_does_not_know_stay(
    catalog: Catalog, scope: str, client: Client, table_format: str, planned_before: bool
) -> None:
    """Another session adds it, and writes a value, before the rows are read that are written again without it: the
    statement knows an older definition, or Spark has planned it with one.
    """
    for level in ("snapshot", "serializable"):
        given = {"primary-key": "id", "format": table_format, "isolation-level": level}
        table = catalog.tables.create([scope], level, COLUMNS, [], given)
        put(table, {1: "one", 2: "two"})
        catalog.altering.alter([scope], level, [AddColumn(column=("c",), type=LongType())])
        altered = catalog.load_table([scope], level, age_s=0)
        job = WriteJob(WritePlan.of(altered, WriteOptions()))
        batch = pa.record_batch([pa.array([1]), pa.array(["new"]), pa.array([42])], ["id", "v", "c"])
        job.commit_job([job.write_partition(0, iter([batch]))])
        request = ScanRequest(columns=["id", "v"], planned=table.schema if planned_before else None)
        seen = plan_scan(altered if planned_before else table, request).seen
        assert seen is not None
        known = altered if planned_before else table
        written = {"id": pa.array([1]), "v": pa.array(["again"])}
        if planned_before:
            written["c"] = pa.nulls(1, pa.int64())
        for kind in (OverwritingJob, DeltaJob):
            again = kind(WritePlan.of(known, WriteOptions()))
            if kind is DeltaJob:
                written = {**written, ROW_OPERATION: pa.array([3])}
            messages = [again.write_partition(0, iter([pa.record_batch(written)]))]
            with pytest.raises(WriteConflictError, match=r"before an ALTER TABLE\. Nothing was written"):
                again.commit_job(messages, seen=[ReadSet.from_json(seen.to_json())])
            again.abort_job(messages)
        reader = snapshot_reader(altered, take_snapshot(client, table.stream), ["id", "v", "c"], ReadOptions())
        rows = [tuple(row.values()) for row in rows_read(reader)]
        assert sorted(rows) == [(1, "new", 42), (2, "two", None)]
        now = plan_scan(altered, ScanRequest(columns=["id", "v", "c"], planned=altered.schema)).seen
        assert now is not None
        last = DeltaJob(WritePlan.of(altered, WriteOptions()))
        changed = pa.record_batch({**written, "c": pa.array([43])}).select(["id", "v", "c", ROW_OPERATION])
        last.commit_job([last.write_partition(0, iter([changed]))], seen=[now])
        assert rows_of(altered, client) == {1: "again", 2: "two"}
