"""Files of the lake that a join passes over when its other side has told its values: the rows are those of Parquet."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import test_lake_in_spark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from test_skipping import COLUMNS, COMMITS, SCHEMA, rows_of, skipped_bytes
from test_skipping_joins import ALWAYS, JOINS, SEED, ids

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark]

LAKE = "'lake' = 'iceberg', 'lake-keep-in-stream' = '0 ms', 'segments' = '2'"


@pytest.fixture
def lakes(spark: SparkSession, sandbox: Sandbox, tmp_path: Path) -> Iterator[str]:
    """A catalog whose lake is in a folder of the test's."""
    yield from test_lake_in_spark.catalog_in(spark, sandbox, tmp_path / "lake")


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("key", [None, "id"])
def test_a_join_reads_the_files_that_can_match(
    spark: SparkSession, namespace: str, lakes: str, tmp_path: Path, key: str | None
) -> None:
    """By each type, of a plain table and one with a key; some rows are in the stream only."""
    at, scope = random.Random(SEED), namespace.rpartition(".")[2]
    table = f"{lakes}.{scope}.facts"
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in SCHEMA)
    declared = columns if key is None else columns.replace("id bigint", "id bigint NOT NULL")
    more = "'routing-key' = 'id'" if key is None else f"'primary-key' = '{key}', 'lake-sorted-by' = 'id'"
    # Files of a few rows, as those of tables with a key are written anew each time.
    sizes = "'lake-row-group-size' = '4 KiB', 'lake-file-size' = '8 KiB'"
    spark.sql(f"CREATE TABLE {table} ({declared}) TBLPROPERTIES ({LAKE}, {more}, {sizes})")
    everything: list[tuple[Any, ...]] = []
    for commit in range(COMMITS):
        rows = rows_of(at, commit)
        everything += rows
        spark.createDataFrame(rows, SCHEMA).writeTo(table).append()
        if commit in range(3, COMMITS, 5):
            spark.sql(f"CALL {lakes}.system.tier(table => '{scope}.facts')").collect()
    few = [(*at.choice(everything)[1:], number % 4 and 1) for number in range(8)]
    few.append((*[None] * len(COLUMNS), 1))
    of_few = columns.removeprefix("id bigint, ") + ", pick INT"
    for name, values, schema in (("facts", everything, columns), ("few", few, of_few)):
        spark.createDataFrame(values, schema).coalesce(1).write.parquet(str(tmp_path / name))
    sources = {"ours": f"{table} {ALWAYS}", "parquet": f"parquet.`{tmp_path}/facts`"}
    for number, (kind, query) in enumerate(JOINS.items()):
        saved = []
        # Each type by one kind of join, and some by the others.
        for name in list(COLUMNS)[number :: 1 if kind == "inner" else 5]:
            ours, theirs = (
                spark.sql(query.format(fact=source, few=f"parquet.`{tmp_path}/few`", name=name))
                for source in sources.values()
            )
            assert ids(ours) == ids(theirs), (kind, name)
            if skipped_bytes(ours) > 0:
                saved.append(name)
        print(key, kind, saved)
        # Others have odd values in each file: row groups of theirs are passed over.
        assert kind != "inner" or len(saved) >= 4, (kind, saved)


@pytest.mark.in_turn(8)
def test_files_and_row_groups_that_cant_match_arent_read(
    spark: SparkSession, namespace: str, lakes: str, tmp_path: Path
) -> None:
    """They are taken away, and their pages are overwritten. What changed meanwhile changes no row."""
    scope = namespace.rpartition(".")[2]
    table, few = f"{lakes}.{scope}.facts", f"parquet.`{tmp_path}/few`"
    spark.sql("SELECT d AS d, 1 AS pick FROM VALUES (2L), (4L), (NULL) AS t(d)").coalesce(1).write.parquet(
        str(tmp_path / "few")
    )
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, d BIGINT) TBLPROPERTIES ({LAKE}, 'lake-partitioned-by' = 'bucket(64, d)', "
        "'lake-sorted-by' = 'd', 'lake-row-group-size' = '2 KiB')"
    )

    def fill(first: int, last: int) -> None:
        spark.sql(f"INSERT INTO {table} SELECT id, id % 6 FROM range({first}, {last})")

    def tier() -> None:
        spark.sql(f"CALL {lakes}.system.tier(table => '{scope}.facts')").collect()

    fill(0, 60)
    tier()
    query = f"SELECT f.id FROM {table} {ALWAYS} f JOIN {few} d ON f.d = d.d WHERE d.pick = 1"
    expected = dict.fromkeys([id for id in range(60) if id % 6 in (2, 4)], 1)
    folder = tmp_path / "lake" / scope.replace("-", "_") / "facts" / "data"

    def planned() -> Any:
        frame = spark.sql(query)
        frame._jdf.queryExecution().executedPlan()
        return frame

    hidden = {}
    frame = planned()
    for path in folder.glob("*.parquet"):
        if not {2, 4}.intersection(pq.read_table(path)["d"].to_pylist()):
            hidden[path] = path.rename(tmp_path / path.name)
    assert hidden
    assert ids(frame) == expected
    assert skipped_bytes(frame) > 0
    for path, place in hidden.items():
        place.rename(path)
    # One sorted file of several row groups.
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('lake-partitioned-by')")
    before = set(folder.iterdir())
    spark.sql(f"INSERT INTO {table} SELECT id, 5 + id % 6 FROM range(1000, 4000)")
    tier()
    (path,) = set(folder.iterdir()) - before
    whole = path.read_bytes()
    broken = bytearray(whole)
    groups: Any = pq.read_metadata(path)
    assert groups.num_row_groups > 5
    spoiled = 0
    for number in range(groups.num_row_groups):
        group = groups.row_group(number)
        figures = next(group.column(i) for i in range(group.num_columns) if group.column(i).path_in_schema == "d")
        if not figures.statistics.min <= 7 <= figures.statistics.max:
            spoiled += 1
            for i in range(group.num_columns):
                column = group.column(i)
                begin = column.dictionary_page_offset or column.data_page_offset
                broken[begin : begin + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    assert spoiled
    spark.sql("SELECT 7L AS d, 1 AS pick").coalesce(1).write.parquet(str(tmp_path / "seven"))
    path.write_bytes(broken)
    joined = f"{table} {ALWAYS} f JOIN parquet.`{tmp_path}/seven` d ON f.d = d.d"
    seven = spark.sql(f"SELECT f.id FROM {joined} WHERE d.pick = 1")
    assert ids(seven) == {id: 1 for id in range(1000, 4000) if id % 6 == 2}
    path.write_bytes(whole)
    # A plan reads the moment at which it was made, by the columns of then.
    all_rows = dict(ids(spark.sql(query)))
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('lake-keep-in-stream' = '1 day')")
    for change in (
        f"INSERT INTO {table} SELECT id, 2 FROM range(9000, 9010)",
        f"CALL {lakes}.system.tier(table => '{scope}.facts')",
        f"ALTER TABLE {table} ADD COLUMN more STRING",
        f"INSERT OVERWRITE {table} SELECT 1, 2, 'x'",
        f"CREATE OR REPLACE TABLE {table} (id BIGINT, d STRING) TBLPROPERTIES ({LAKE})",
        f"CALL {lakes}.system.tier(table => '{scope}.facts')",
    ):
        frame = planned()
        spark.sql(change).collect()
        try:
            result: Any = ids(frame)
        except PySparkException as error:
            result = str(error)
        # It is read rightly, or not at all.
        assert result == all_rows or re.search("made another table|replaced|truncated", str(result)), (change, result)
        all_rows = dict(ids(spark.sql(query)))


@pytest.mark.in_turn(8)
def test_a_scan_waits_for_a_join_where_its_values_leave_out_much(
    spark: SparkSession, namespace: str, lakes: str, tmp_path: Path
) -> None:
    """Spark plans a scan that waits anew for each that waits for it: where all did, no plan came within minutes."""
    scope, few = namespace.rpartition(".")[2], f"parquet.`{tmp_path}/few`"
    table = f"{lakes}.{scope}.facts"
    groups = "'lake-row-group-size' = '4 KiB', 'lake-sorted-by' = 'id'"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, mixed BIGINT) TBLPROPERTIES ({LAKE}, {groups})")
    spark.sql(f"INSERT INTO {table} SELECT id, id * 7919 % 5000 FROM range(0, 5000, 1, 1)")
    spark.sql(f"CALL {lakes}.system.tier(table => '{scope}.facts')").collect()
    spark.sql("SELECT 5L AS id, 6L AS mixed, 1 AS pick").coalesce(1).write.parquet(str(tmp_path / "few"))
    for size, name, waits in (
        (None, "id", False),
        ("0", "id", True),
        ("0", "mixed", True),
        ("1", "id", True),
        ("1", "mixed", False),
        ("1g", "id", False),
    ):
        option = "" if size is None else f"WITH ('runtime-filter-size' = '{size}')"
        frame = spark.sql(f"SELECT f.{name} AS id FROM {table} {option} f JOIN {few} d USING ({name}) WHERE d.pick = 1")
        assert ids(frame) == {5 if name == "id" else 6: 1}
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert ("dynamicpruning" in plan) == waits, (size, name, plan)
    with pytest.raises(PySparkException, match='"runtimeFilterSize" must be a number of bytes'):
        spark.sql(f"SELECT * FROM {table} WITH ('runtimeFilterSize' = 'small')").collect()
    # Eleven tables, each joined with the one before.
    joins = "".join(f" JOIN {table} t{i} ON t{i}.id = t{i - 1}.mixed" for i in range(1, 11))
    frame = spark.sql(f"SELECT t0.id FROM {table} t0{joins} JOIN {few} d ON d.id = t10.mixed WHERE d.pick = 1")
    assert "dynamicpruning" not in frame._jdf.queryExecution().executedPlan().toString()
    assert sum(ids(frame).values()) == 1
