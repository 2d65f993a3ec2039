"""Columns whose names Avro doesn't allow, some of which it would take for the same, beside Parquet's answer."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from since import is_missing

from pyspark_pravega.registry import SchemaRegistry

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

NAMES = ["größe", "Ключ", "a b", "a.b", "a`b", 'a"b', "日付", "field-with-dash", "a_b", "1st", "a_b_2"]
STRUCT = "STRUCT<`in-ner`: INT, in_ner: STRING, deep: ARRAY<STRUCT<`größe`: BIGINT>>>"

EVOLVING = "" if is_missing("4.2") else "WITH SCHEMA EVOLUTION "


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def rows(frame: DataFrame) -> list[str]:
    return sorted(repr(row) for row in frame.select([quoted(name) for name in sorted(frame.columns)]).collect())


@pytest.mark.parametrize("table_format", ["avro", "json"])
@pytest.mark.in_turn(8)
def test_columns_may_be_called_as_they_like(
    spark: SparkSession, namespace: str, tmp_path: Path, registry: SchemaRegistry, table_format: str
) -> None:
    table = f"{namespace}.odd"
    columns = ", ".join(f"{quoted(name)} INT" for name in NAMES)
    spark.sql(
        f"CREATE TABLE {table} ({columns}, st {STRUCT}) CLUSTERED BY (`größe`) INTO 2 BUCKETS "
        f"TBLPROPERTIES ('format' = '{table_format}')"
    )
    assert spark.table(table).columns == [*NAMES, "st"]
    written: list[Path] = []

    def some(first: int, *more: str) -> DataFrame:
        values = [f"int(id * 100 + {place}) AS {quoted(name)}" for place, name in enumerate(NAMES)]
        inner = "'in-ner', int(id), 'in_ner', string(id), 'deep', array(named_struct('größe', id))"
        return spark.range(first, first + 300, 1, 3).selectExpr(*values, f"named_struct({inner}) AS st", *more)

    def step(frame: DataFrame) -> None:
        written.append(tmp_path / str(len(written)))
        frame.write.parquet(str(written[-1]))
        new = [field for field in frame.schema if field.name not in spark.table(table).columns]
        if new and is_missing("4.2"):
            added = ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in new)
            spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({added})")
        spark.sql(f"INSERT {EVOLVING}INTO {table} BY NAME SELECT * FROM {{rows}}", rows=frame)
        assert rows(spark.table(table)) == rows(expected())

    def expected() -> DataFrame:
        frames = [spark.read.parquet(str(folder)) for folder in written]
        return functools.reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)

    step(some(0))
    step(some(300))
    sums = ["sum(`field-with-dash`)", "max(`a b`)", "sum(st.`in-ner`)", "max(st.deep[0].`größe`)", "count(`1st`)"]
    assert spark.table(table).selectExpr(*sums).collect() == expected().selectExpr(*sums).collect()
    wanted = f"`a.b` = {7 * 100 + NAMES.index('a.b')}"
    assert rows(spark.table(table).where(wanted)) == rows(expected().where(wanted))
    # Columns whose legal names others have already, by the rows that bring them and by ALTER TABLE.
    step(some(600, "int(id) AS `a-b`"))
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (`1-st` STRING COMMENT 'first', st.`in.ner` DOUBLE)")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN `field-with-dash` COMMENT 'dashing'")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN `größe` TYPE BIGINT")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN `field-with-dash` FIRST")
    described = {row.col_name: (row.data_type, row.comment) for row in spark.sql(f"DESCRIBE {table}").collect()}
    assert (described["größe"][0], described["field-with-dash"]) == ("bigint", ("int", "dashing"))
    wide = f.col("größe") + 5_000_000_000
    inner = f.col("st").withField("`in.ner`", f.lit(1.5))
    step(some(900, "int(id) AS `a-b`", "'one' AS `1-st`").withColumn("größe", wide).withColumn("st", inner))
    spark.sql(f"ALTER TABLE {table} DROP COLUMNS `a b`, `1-st`")
    assert rows(spark.table(table)) == rows(expected().drop("a b", "1-st"))
    spark.sql(f"CREATE TABLE {namespace}.copied AS SELECT * FROM {table}")
    assert rows(spark.table(f"{namespace}.copied")) == rows(spark.table(table))

    if table_format == "avro":
        latest = registry.history(namespace.removeprefix("pravega.").replace("_", "-"), "odd")[-1][0]
        fields = json.loads(latest.schema_data)["fields"]
        own = {field["name"]: field.get("spark.name") for field in fields}
        assert all(name.isascii() and name.isidentifier() for name in own)
        assert (own["field_with_dash"], own["a_b"], own["_1st"]) == ("field-with-dash", None, "1st")
