"""Rows that travel as they lie in Spark's memory come to the stream as they were, whatever their types."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.server, pytest.mark.spark]

TYPES = [
    ("bo", "BOOLEAN", "id % 2 = 0"),
    ("by", "TINYINT", "CAST(id % 256 - 128 AS TINYINT)"),
    ("sh", "SMALLINT", "CAST(id % 65536 - 32768 AS SMALLINT)"),
    ("it", "INT", "CAST(id * 1000003 % 4294967296 - 2147483648 AS INT)"),
    ("lo", "BIGINT", "(id - 500) * 9000000000000000"),
    ("fl", "FLOAT", "CAST(id / -3 AS FLOAT)"),
    ("do", "DOUBLE", "CAST(id AS DOUBLE) / 7"),
    ("st", "STRING", "repeat('ü€x', CAST(id % 13 AS INT))"),
    ("bi", "BINARY", "CAST(repeat('z', CAST(id % 40 AS INT)) AS BINARY)"),
    ("da", "DATE", "date_add(DATE'1970-01-01', CAST(id * 37 - 9000 AS INT))"),
    ("ti", "TIMESTAMP", "timestamp_micros((id - 300) * 1234567890123)"),
    ("de", "DECIMAL(12,3)", "CAST((id - 400) * 1.017 AS DECIMAL(12,3))"),
    ("hu", "DECIMAL(38,6)", "CAST((id - 400) * 123456789012345678901.5 AS DECIMAL(38,6))"),
]


@pytest.mark.parametrize("nulls", ["none", "some", "all"])
def test_all_flat_types(spark: SparkSession, namespace: str, nulls: str) -> None:
    made = {"none": "{1}", "some": "IF((id + {2}) % 3 = 0, NULL, {1})", "all": "CAST(NULL AS {0})"}[nulls]
    columns = ", ".join(f"{name} {kind}" for name, kind, _ in TYPES)
    values = ", ".join(
        made.format(kind, value, number) + f" AS {name}" for number, (name, kind, value) in enumerate(TYPES)
    )
    spark.sql(f"CREATE TABLE {namespace}.flat (id BIGINT, {columns})")
    expected = spark.sql(f"SELECT id, {values} FROM range(1000)")
    expected.writeTo(f"{namespace}.flat").append()
    assert spark.table(f"{namespace}.flat").orderBy("id").collect() == expected.orderBy("id").collect()


def test_more_columns_than_a_word_has_bits(spark: SparkSession, namespace: str) -> None:
    names = [f"c{number}" for number in range(130)]
    spark.sql(f"CREATE TABLE {namespace}.wide (id BIGINT, {', '.join(f'{name} INT' for name in names)})")
    values = ", ".join(f"IF((id + {number}) % 5 = 0, NULL, CAST(id * {number} AS INT)) AS {name}"
                       for number, name in enumerate(names))  # fmt: skip
    expected = spark.sql(f"SELECT id, {values} FROM range(300)")
    expected.writeTo(f"{namespace}.wide").append()
    assert spark.table(f"{namespace}.wide").orderBy("id").collect() == expected.orderBy("id").collect()


def test_nested_columns_go_spark_s_own_way(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.nested (id BIGINT, a ARRAY<STRING>, s STRUCT<x: INT, y: STRING>)")
    expected = spark.sql(
        "SELECT id, array('a', CAST(id AS STRING)) a, struct(CAST(id AS INT) x, 'y' y) s FROM range(9)"
    )
    expected.writeTo(f"{namespace}.nested").append()
    assert spark.table(f"{namespace}.nested").orderBy("id").collect() == expected.orderBy("id").collect()


def test_large_rows_and_many_small_ones(spark: SparkSession, namespace: str) -> None:
    """Packs are of a megabyte: rows larger than that, and partitions without rows."""
    spark.sql(f"CREATE TABLE {namespace}.sizes (id BIGINT, s STRING)")
    rows = spark.sql("SELECT id, repeat('x', IF(id % 700 = 3, 3000000, 5)) s FROM range(0, 2100, 1, 3)")
    rows.where("id < 1400").writeTo(f"{namespace}.sizes").append()
    found = spark.sql(f"SELECT count(*), sum(length(s)), count(DISTINCT id) FROM {namespace}.sizes").first()
    assert found == (1400, 2 * 3_000_000 + 1398 * 5, 1400)
