"""Blocks of events that a join passes over when its other side has told its values: the rows are those of Parquet."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from test_skipping import COLUMNS, COMMITS, SCHEMA, rows_of, skipped_bytes

pytestmark = [pytest.mark.server, pytest.mark.spark]

SEED = 11
ALWAYS = "WITH ('runtimeFilterSize' = '0')"
"""These tables are small."""
JOINS = {
    "inner": "SELECT f.id FROM {fact} f JOIN {few} d ON f.{name} = d.{name} WHERE d.pick = 1",
    "semi": "SELECT f.id FROM {fact} f WHERE f.{name} IN (SELECT {name} FROM {few} WHERE pick = 1)",
    "outer": "SELECT f.id FROM {few} d LEFT JOIN {fact} f ON f.{name} = d.{name} WHERE d.pick = 1",
    "anti": "SELECT f.id FROM {fact} f LEFT ANTI JOIN (SELECT * FROM {few} WHERE pick = 1) d ON f.{name} = d.{name}",
    "two": "SELECT f.id FROM {fact} f JOIN {few} d ON f.{name} = d.{name} AND f.day = d.day WHERE d.pick = 1",
    "both": "SELECT f.id FROM {fact} f JOIN {few} d ON f.{name} = d.{name} WHERE d.pick = 1 AND f.i64 > 20",
    "twice": "SELECT f.id FROM {fact} f JOIN {fact} g USING (id) JOIN {few} d ON g.{name} = d.{name} WHERE pick = 1",
}
SAVES = {"inner", "semi", "two", "both"}
"""What Spark filters when it runs; of the others it only has to be right."""


def ids(frame: DataFrame) -> Counter[Any]:
    return Counter(row.id for row in frame.collect())


def outcome(frame: DataFrame) -> Counter[Any] | str | None:
    try:
        return ids(frame)
    except PySparkException as error:
        return error.getCondition()


@pytest.fixture(scope="module")
def tables(spark: SparkSession, module_scope: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same rows as a table and in Parquet, and a few values of theirs."""
    at, table = random.Random(SEED), f"pravega.{module_scope.replace('-', '_')}.facts"
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in SCHEMA)
    spark.sql(
        f"CREATE TABLE {table} ({columns}) TBLPROPERTIES ('segments' = '2', 'routing-key' = 'id', "
        f"'index-columns' = '{', '.join(COLUMNS)}')"
    )
    everything: list[tuple[Any, ...]] = []
    for commit in range(COMMITS):
        rows = rows_of(at, commit)
        everything += rows
        spark.createDataFrame(rows, SCHEMA).repartition(1 + commit % 2).writeTo(table).append()
    few = [(*at.choice(everything)[1:], number % 4 and 1) for number in range(8)]
    few.append((*[None] * len(COLUMNS), 1))
    some = columns.removeprefix("id bigint, ") + ", pick INT"
    folder = tmp_path_factory.mktemp("joins")
    for name, values, schema in (("facts", everything, columns), ("few", few, some)):
        spark.createDataFrame(values, schema).coalesce(1).write.parquet(str(folder / name))
    return {"table": table, "parquet": f"parquet.`{folder}/facts`", "few": f"parquet.`{folder}/few`"}


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("kind", JOINS)
def test_a_join_gives_the_rows_that_parquet_gives(spark: SparkSession, tables: dict[str, str], kind: str) -> None:
    saved = 0
    for name in COLUMNS:
        own, of_parquet = (
            spark.sql(JOINS[kind].format(fact=fact, few=tables["few"], name=name))
            for fact in (f"{tables['table']} {ALWAYS}", tables["parquet"])
        )
        assert ids(own) == ids(of_parquet), (SEED, name)
        saved += skipped_bytes(own) > 0
    assert kind not in SAVES or saved > len(COLUMNS) // 2


@pytest.mark.in_turn(8)
def test_what_happens_to_the_table_meanwhile_changes_no_row(
    spark: SparkSession, namespace: str, tmp_path: Path
) -> None:
    """A plan reads the moment at which it was made; its values come later."""
    table, few = f"{namespace}.moved", str(tmp_path / "few")
    spark.sql("SELECT 5L AS a, 1 AS pick UNION ALL SELECT 450L, 1").coalesce(1).write.parquet(few)
    spark.sql("SELECT id AS a, 1 AS pick FROM range(20000)").coalesce(1).write.parquet(str(tmp_path / "many"))
    query = f"SELECT f.a AS id FROM {table} {ALWAYS} f JOIN parquet.`{few}` d ON f.a = d.a WHERE d.pick = 1"
    create = f"{table} (a BIGINT, b BIGINT) TBLPROPERTIES ('segments' = '1', 'index-columns' = 'a, b')"
    insert = f"INSERT INTO {table} (a, b) SELECT id, -id FROM range({{}}, {{}})"

    def planned() -> DataFrame:
        frame = spark.sql(query)
        frame._jdf.queryExecution().executedPlan()
        return frame

    for change in (
        insert.format(400, 500),
        f"ALTER TABLE {table} UNSET TBLPROPERTIES ('index-columns')",
        f"ALTER TABLE {table} SET TBLPROPERTIES ('index-columns' = 'b'); ALTER TABLE {table} DROP COLUMN a; "
        f"ALTER TABLE {table} ADD COLUMN a BIGINT; ALTER TABLE {table} SET TBLPROPERTIES ('index-columns' = 'a')",
        f"CALL pravega.system.scale(table => '{table.removeprefix('pravega.')}', segments => 3)",
    ):
        spark.sql(f"CREATE TABLE {create}")
        for first in (0, 100, 200):
            spark.sql(insert.format(first, first + 100))
        frame = planned()
        for statement in change.split("; "):
            spark.sql(statement)
        # It is read rightly, or not at all.
        assert outcome(frame) in ({5: 1}, "PRAVEGA_TABLE_CHANGED"), change
        spark.sql(f"DROP TABLE {table}")
    # Other ways to read it, and more values than are told.
    spark.sql(f"CREATE TABLE {create}")
    for first in (0, 100, 200, 400):
        spark.sql(insert.format(first, first + 100))
    for source, joined, wanted in (
        (f"(SELECT * FROM {table} VERSION AS OF 3 {ALWAYS})", few, {5: 1}),
        (f"{table} {ALWAYS}", few, {5: 1, 450: 1}),
        (f"{table} {ALWAYS}", str(tmp_path / "many"), dict.fromkeys([*range(300), *range(400, 500)], 1)),
        (f"{table} WITH (`mode` = 'permissive', 'runtimeFilterSize' = '0')", few, {5: 1, 450: 1}),
        (f"(SELECT * FROM {table} {ALWAYS} WHERE _offset >= 0)", few, {5: 1, 450: 1}),
        (f"(SELECT * FROM {table} {ALWAYS} LIMIT 300)", str(tmp_path / "many"), None),
    ):
        frame = spark.sql(f"SELECT f.a AS id FROM {source} f JOIN parquet.`{joined}` d ON f.a = d.a WHERE d.pick = 1")
        assert wanted is None or ids(frame) == wanted, source
        assert wanted is not None or sum(ids(frame).values()) == 300, source
    spark.sql("CALL pravega.system.begin()")
    try:
        spark.sql(insert.format(440, 460))
        assert ids(spark.sql(query)) == {5: 1, 450: 2}
    finally:
        spark.sql("CALL pravega.system.rollback()")
