"""Rows that travel as they lie in Spark's memory come to the stream as they were, whatever their types."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from crossed_types import columns
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from test_type_crossing import configured
from unsafe_layout import as_bits, pack_of, taken_apart

from pyspark_pravega.frames.native_module import module
from pyspark_pravega.spark.unsafe_rows import can_unpack

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn]

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


def as_they_lie(rows: DataFrame) -> pa.RecordBatch:
    """A pack of the rows as Spark's JVM has them."""
    # In one answer: each answer with some bytes of a row takes 40 ms, as Python acknowledges its first half late.
    jvm: Any = rows.sparkSession._jvm
    output, sizes = jvm.java.io.ByteArrayOutputStream(), []
    for row in rows._jdf.queryExecution().executedPlan().executeCollect():
        row.writeToStream(output, None)
        sizes.append(row.getSizeInBytes())
    content = bytes(output.toByteArray())
    ends = list(itertools.accumulate(sizes, initial=0))
    return pack_of([content[begin:end] for begin, end in itertools.pairwise(ends)])


def in_three_ways(rows: DataFrame) -> tuple[list[Any], list[Any], list[Any]]:
    """The rows' columns: as Spark's own Arrow writer has them, from its rows by the native codec, by the plain twin."""
    assert can_unpack(rows.schema)
    pack = as_they_lie(rows)
    # What `toArrow` begins with: it fails where a VARIANT is null, as pyarrow can't cast such columns.
    with_arrow: Any = rows
    spark_s = pa.Table.from_batches(with_arrow._collect_as_arrow()).combine_chunks()
    batches = (taken_apart(pack, rows.schema, native) for native in ("1" if module() else "0", "0"))
    native, plain = ([as_bits(column).to_pylist() for column in batch.columns] for batch in batches)
    return [as_bits(column.combine_chunks()).to_pylist() for column in spark_s.columns], native, plain


def test_rows_of_every_type_nested_in_every_other_one(spark: SparkSession) -> None:
    with configured(spark, {"spark.sql.timeType.enabled": "true", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}):
        # As Spark does it for INSERT: a bare NULL has no type of its own.
        types = {
            made.name: re.sub(r"(VAR)?CHAR\(\d+\)", "STRING", made.type).replace(" NOT NULL", "")
            for made in columns("avro")
        }
        values = (f"CAST({made.value} AS {types[made.name]}) AS {made.name}" for made in columns("avro"))
        rows = spark.range(0, 280, 1, 1).selectExpr(*values)
        spark_s, native, plain = in_three_ways(rows)
    for name, *answers in zip(rows.columns, spark_s, native, plain, strict=True):
        assert answers[0] == answers[1], name
        assert answers[0] == answers[2], name


def test_rows_of_decimals_and_texts_of_each_size(spark: SparkSession) -> None:
    digits = "IF(id = 0, NULL, concat(IF(id % 2 = 0, '', '-'), repeat('7', CAST(1 + id % {0} AS INT))))"
    decimals = [f"CAST({digits.format(precision)} AS DECIMAL({precision}, 0))" for precision in range(1, 39)]
    of_texts = "transform(sequence(0, CAST(id AS INT)), at -> IF(at % 3 = 1, NULL, repeat(char(97 + at % 26), at)))"
    rows = spark.range(0, 80, 1, 1).selectExpr(
        *(f"{decimal} AS d{at}" for at, decimal in enumerate(decimals, 1)),
        *(f"IF(id % 5 = 1, NULL, array({decimal}, NULL)) AS a{at}" for at, decimal in enumerate(decimals, 1)),
        f"{of_texts} AS texts",
        f"map_from_arrays(sequence(0, CAST(id AS INT)), {of_texts}) AS by_number",
        "repeat('ü', CAST(id AS INT)) AS text",
    )
    spark_s, native, plain = in_three_ways(rows)
    for name, *answers in zip(rows.columns, spark_s, native, plain, strict=True):
        assert answers[0] == answers[1], name
        assert answers[0] == answers[2], name


NESTED = "id BIGINT NOT NULL, a ARRAY<STRUCT<x: INT, y: STRING>>, s STRUCT<x: INT, m: MAP<STRING, ARRAY<BIGINT>>>"
OF_NESTED = [
    "id",
    "IF(id % 7 = 0, NULL, IF(id % 5 = 0, array(), array(named_struct('x', int(id), 'y', concat('y', id)), NULL))) AS a",
    "IF(id % 6 = 0, NULL, named_struct('x', IF(id % 4 = 0, NULL, int(id)), 'm', "
    "IF(id % 3 = 0, map(), map('k', array(id, NULL), concat('l', id), NULL)))) AS s",
]


def in_order(rows: DataFrame) -> list[Row]:
    return rows.orderBy("id").collect()


def test_nested_columns_by_each_way_to_write(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    rows = spark.range(0, 6000, 1, 3).selectExpr(*OF_NESTED)
    later = spark.range(6000, 9000, 1, 2).selectExpr(*OF_NESTED)
    expected = in_order(rows)
    spark.sql(f"CREATE TABLE {namespace}.kept ({NESTED}) CLUSTERED BY (id) INTO 3 BUCKETS")
    rows.writeTo(f"{namespace}.kept").append()
    kept = later.cache()
    assert kept.count() == 3000
    kept.writeTo(f"{namespace}.kept").append()
    kept.unpersist()
    assert in_order(spark.table(f"{namespace}.kept")) == expected + in_order(later)
    rows.writeTo(f"{namespace}.made").create()
    assert in_order(spark.table(f"{namespace}.made")) == expected
    rows.write.parquet(str(tmp_path / "rows"))
    for mode in ("exactly-once", "at-least-once"):
        table = f"{namespace}.{mode.replace('-', '_')}"
        spark.sql(f"CREATE TABLE {table} ({NESTED})")
        arriving = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "rows"))
        writing = arriving.writeStream.option("checkpointLocation", str(tmp_path / mode)).option("writer-mode", mode)
        writing.trigger(availableNow=True).toTable(table).awaitTermination()
        assert in_order(spark.table(table)) == expected


def test_nested_columns_that_are_changed(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.keyed ({NESTED}) TBLPROPERTIES ('primary-key' = 'id')")
    spark.range(0, 500).selectExpr(*OF_NESTED).writeTo(f"{namespace}.keyed").append()
    # Rows 400 to 499 become what rows 0 to 99 were, those from 500 on are new, and each tenth one of the others goes.
    shifted = [column.replace("id", "(id - 400)") for column in OF_NESTED[1:]]
    spark.range(400, 600).selectExpr("id", *shifted).createOrReplaceTempView("shifted")
    spark.sql(
        f"MERGE INTO {namespace}.keyed t USING shifted s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.id % 10 = 0 THEN DELETE"
    )
    unchanged = spark.range(0, 400).where("id % 10 <> 0").selectExpr(*OF_NESTED)
    expected = in_order(unchanged.unionAll(spark.table("shifted")))
    assert in_order(spark.table(f"{namespace}.keyed")) == expected


def test_a_text_that_isn_t_utf8_is_refused(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.texts (id BIGINT, t ARRAY<STRING>)")
    broken = "array('good', CAST(IF(id = 700, X'C3', X'C3BC') AS STRING))"
    with pytest.raises(PySparkException, match=r'column "t.element" holds a text that isn\'t UTF-8: make_valid_utf8'):
        spark.sql(f"INSERT INTO {namespace}.texts SELECT id, {broken} FROM range(1000)")
    spark.sql(
        f"INSERT INTO {namespace}.texts SELECT id, transform({broken}, one -> make_valid_utf8(one)) FROM range(1000)"
    )
    assert spark.table(f"{namespace}.texts").where("id = 700").first() == (700, ["good", "\ufffd"])


def test_large_rows_and_many_small_ones(spark: SparkSession, namespace: str) -> None:
    """Packs are of a megabyte: rows larger than that, and partitions without rows."""
    spark.sql(f"CREATE TABLE {namespace}.sizes (id BIGINT, s STRING)")
    rows = spark.sql("SELECT id, repeat('x', IF(id % 700 = 3, 3000000, 5)) s FROM range(0, 2100, 1, 3)")
    rows.where("id < 1400").writeTo(f"{namespace}.sizes").append()
    found = spark.sql(f"SELECT count(*), sum(length(s)), count(DISTINCT id) FROM {namespace}.sizes").first()
    assert found == (1400, 2 * 3_000_000 + 1398 * 5, 1400)
