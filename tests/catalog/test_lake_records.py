"""Tables with keys of structs, and of other programs' change records, behind a lake with partitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lake_tools import Table
from pyspark.sql import types as t

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Stream, StreamConfiguration
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.read import ChangesRange
from pyspark_pravega.connector.write import WriteJob, WritePlan

pytestmark = pytest.mark.server

LAKE = {"lake": "iceberg", "lake-keep-in-stream": "0 ms"}
LAYOUT = {"lake-partitioned-by": "bucket(3, v)", "lake-sorted-by": "v DESC"}


@pytest.mark.parametrize("layout", [{}, LAYOUT])
def test_keys_of_structs(catalog: Catalog, scope: str, tmp_path: Path, layout: dict[str, str]) -> None:
    table = Table(catalog, scope, tmp_path)
    part = t.StructType([t.StructField("a", t.LongType()), t.StructField("b", t.StringType())])
    fields = [
        t.StructField("i", t.LongType(), False),
        t.StructField("k", part, False),
        t.StructField("v", t.LongType()),
    ]
    given = {**LAKE, **layout, "primary-key": "i, k"}
    table.stream = table.catalog.tables.create([scope], "structs", t.StructType(fields), [], given).stream
    table.columns = ["i", "k", "v"]
    rows: dict[int, int] = {}

    def put(**values: int) -> None:
        numbers = {int(name[1:]): value for name, value in values.items()}
        rows.update(numbers)
        batch = pa.record_batch(
            {
                "i": pa.array([number % 2 for number in numbers], pa.int64()),
                "k": pa.array([{"a": number, "b": f"b{number}"} for number in numbers]),
                "v": pa.array(list(numbers.values()), pa.int64()),
            }
        )
        job = WriteJob(WritePlan.of(table.catalog.definition(table.stream, age_s=0), WriteOptions()))
        job.commit_job([job.write_partition(0, iter([batch]))])

    def check() -> None:
        there = [(key["a"], key["b"], value) for _, key, value in table.unsorted()]
        assert sorted(there) == sorted((number, f"b{number}", value) for number, value in rows.items())
        assert table.count()[0] == len(rows)

    put(n1=1, n2=2, n3=3)
    for version in (1, 2, 3):
        assert table.tier()[0] == version
        lake = table.state().lake
        assert lake is not None
        assert lake.rows == len(rows)
        check()
        put(n2=10 * version, n4=version, **{f"n{version + 4}": 7})
        check()


def test_change_records_of_another_program(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """As Debezium writes them."""
    table = Table(catalog, scope, tmp_path)
    table.stream = Stream(scope, "customers")
    table.catalog.client.controller.create_stream(table.stream, StreamConfiguration())
    row = t.StructType([t.StructField("id", t.LongType()), t.StructField("tier", t.StringType())])
    fields = [("op", t.StringType()), ("ts_ms", t.LongType()), ("before", row), ("after", row)]
    columns = t.StructType([t.StructField(name, kind) for name, kind in fields])
    call = table.catalog.procedures.call
    call("register_schema", [table.name, columns.json(), None, "json"])
    given = {"primary-key": "id", "operation-column": "op", "delete-values": "d", "row-column": "after"}
    table.set(**given, **{"encoding-header": "false", "deleted-row-column": "before"})
    table.set(**LAKE, **{"lake-partitioned-by": "tier", "lake-sorted-by": "id DESC"})
    table.columns = ["id", "tier"]
    there: dict[int, Any] = {}
    versions: list[list[Any]] = [[]]

    def write(*changes: tuple[str, int, Any]) -> None:
        with table.catalog.client.writer(table.stream) as writer:
            for op, id, tier in changes:
                before = {"id": id, "tier": there[id]} if id in there else None
                after = None if op == "d" else {"id": id, "tier": tier}
                event = {"op": op, "before": before, "after": after, "ts_ms": 1}
                writer.write(json.dumps(event).encode(), key=json.dumps({"id": id}))
                there.pop(id, None)
                if after is not None:
                    there[id] = tier
        assert set(table.unsorted()) == set(there.items())
        call("take_version", [table.name])
        versions.append(sorted(there.items()))

    write(("c", 1, "silver"), ("c", 2, "gold"))
    assert table.tier()[:3] == [1, 2, 2]
    write(("u", 1, "gold"), ("d", 2, None), ("c", 3, None))
    assert table.read(None, "id") == [(1,), (3,)]
    assert table.tier()[:2] == [2, 2]
    assert table.state().base is not None
    write(("u", 1, "lead"))
    told = table.read(ChangesRange(from_version="3", to_version="3"), "_change_type", "id", "tier")
    assert told == [("update_postimage", 1, "lead"), ("update_preimage", 1, "gold")]
    for version in (2, 3):
        assert sorted(table.unsorted(table.as_of(str(version))), key=str) == versions[version]
    assert table.tier()[:2] == [3, 1], "the file of another partition stays"
    assert sorted(table.unsorted(), key=str) == versions[3]
