"""CALL index: events that others wrote, or that were written before, are passed over from then on."""

from __future__ import annotations

import base64
import os
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from since import is_missing
from test_skipping import COLUMNS, COMMITS, SCHEMA, answers, condition, planned_bytes, rows_of, skipped_bytes

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import EventWriter
from pyspark_pravega.serde.encodings import EncodingSource, WriterSchema
from pyspark_pravega.serde.formats import REGISTERED, schema_for
from pyspark_pravega.spark.arrow import to_arrow_schema
from tests.jars.java_client import JavaPrograms

pytestmark = [pytest.mark.server, pytest.mark.spark]

SEED = int(os.environ.get("INDEX_SEED", "5"))
PREDICATES = int(os.environ.get("INDEX_PREDICATES", "100"))
JAVA, BEFORE, MIXED = "java", "before", "mixed"
"""Who has written: Java's writer with the official serializer (of Avro, for which it needs a class of its own, our own
writer does it, without commits), INSERTs before the property was there, or both and INSERTs behind it."""


class NoEncodings(EncodingSource):
    def writer_schema(self, encoding_id: int) -> WriterSchema:
        raise AssertionError(encoding_id)


def called(spark: SparkSession, table: str) -> dict[str, int]:
    row = spark.sql(f"CALL pravega.system.index(table => '{table.removeprefix('pravega.')}')").collect()[0]
    return row.asDict()


def write_directly(catalog: Catalog, java: JavaPrograms, table: str, rows: list[tuple[Any, ...]]) -> None:
    namespace, name = table.removeprefix("pravega.").split(".")
    definition = catalog.load_table([namespace], name, age_s=0)
    batch = pa.RecordBatch.from_pylist(
        [dict(zip(SCHEMA.fieldNames(), row, strict=True)) for row in rows],
        schema=to_arrow_schema(SCHEMA, timezone="UTC"),
    )
    if definition.format == "avro":
        with EventWriter(catalog.client, definition.stream) as writer:
            writer.write_batch(definition.for_writing().encode(batch), [str(row[0]) for row in rows])
        return
    assert definition.registered is not None
    info, _ = definition.registered
    schema = schema_for(definition.format, SCHEMA, name=name, namespace=namespace)
    bodies = schema.codec(schema.columns(), NoEncodings(), header=False).encode(batch).to_pylist()
    is_text = definition.format == "json"
    lines = [body.decode() if is_text else base64.b64encode(body).decode() for body in bodies]
    data = info.schema_data.decode() if is_text else base64.b64encode(info.schema_data).decode()
    stream = definition.stream
    arguments = (stream.scope, stream.name, REGISTERED[definition.format], "None", info.type, data)
    java.run("interop.FormatWrite", *arguments, stdin="\n".join(lines) + "\n")


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("way", [JAVA, BEFORE, MIXED])
@pytest.mark.parametrize("table_format", ["avro", "json", "protobuf"])
def test_any_condition_gives_the_rows_that_parquet_gives(
    spark: SparkSession,
    namespace: str,
    catalog: Catalog,
    java: JavaPrograms,
    tmp_path: Path,
    table_format: str,
    way: str,
) -> None:
    at = random.Random(f"{SEED} {table_format} {way}")
    table = f"{namespace}.t"
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in SCHEMA)
    spark.sql(
        f"CREATE TABLE {table} ({columns}) TBLPROPERTIES ('format' = '{table_format}', 'segments' = '2', "
        "'routing-key' = 'id', 'compatibility' = 'AllowAny')"
    )
    index = f"ALTER TABLE {table} SET TBLPROPERTIES ('index-columns' = '{', '.join(COLUMNS)}')"
    everything: list[tuple[Any, ...]] = []
    commits = COMMITS if way == BEFORE else 6
    for commit in range(0, COMMITS, COMMITS // commits):
        rows = rows_of(at, commit)
        everything += rows
        if way == JAVA or (way == MIXED and commit % 8 == 0):
            write_directly(catalog, java, table, rows)
        else:
            spark.createDataFrame(rows, SCHEMA).repartition(1).writeTo(table).append()
        if way == MIXED and commit >= COMMITS // 2:
            spark.sql(index)
            called(spark, table)
    spark.sql(index)
    first = called(spark, table)
    # Blocks are of a megabyte: here each INSERT and each call before has made one.
    assert first["bytes_left"] == 0
    assert way == MIXED or (first["events"], first["bytes_before"]) == (len(everything), 0)
    again = called(spark, table)
    assert (again["blocks"], again["bytes_before"]) == (0, first["bytes"] + first["bytes_before"])
    spark.createDataFrame(everything, SCHEMA).write.parquet(str(tmp_path / "rows"))
    parquet, own = spark.read.parquet(str(tmp_path / "rows")), spark.table(table)
    saved = 0
    for number in range(PREDICATES):
        wanted = condition(at, everything)
        filtered = own.where(wanted)
        assert answers(filtered) == answers(parquet.where(wanted)), (SEED, table_format, way, number, str(wanted))
        saved += skipped_bytes(filtered) > 0
    assert saved


def test_a_filter_reads_less_behind_a_call_than_before(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.measures"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, note STRING) TBLPROPERTIES ('segments' = '2')")
    spark.range(200_000, numPartitions=1).selectExpr("id", "repeat('x', 100) AS note").writeTo(table).option(
        "writer-mode", "at-least-once"
    ).append()
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('index-columns' = 'id')")
    query = f"SELECT id, note FROM {table}{{}} WHERE id BETWEEN 100000 AND 101999"
    cut = f"CALL pravega.system.create_cut('{table.removeprefix('pravega.')}', 'now')"
    spark.sql(cut)
    before = spark.sql(query.format(""))
    (size, skipped), rows = planned_bytes(before), before.count()
    assert (skipped, rows) == (0, 2000)
    row = called(spark, table)
    assert (row["events"], row["bytes"], row["bytes_before"]) == (200_000, size, 0)
    assert row["blocks"] >= 20
    for suffix in ("", " VERSION AS OF 'now'"):
        behind = spark.sql(query.format(suffix))
        assert behind.count() == 2000
        read, skipped = planned_bytes(behind)
        assert (read + skipped, read < skipped / 4) == (row["bytes"], True)
    # What reads by versions, or follows the stream, has all rows.
    spark.sql(f"CALL pravega.system.take_version('{table.removeprefix('pravega.')}')")
    assert spark.table(f"{namespace}.`measures$changes`").select("id").distinct().count() == 200_000
    spark.sql(f"INSERT INTO {table} VALUES (-1, 'new')")
    assert spark.sql(f"SELECT * FROM {table} WHERE id < 0").count() == 1
    assert called(spark, table)["bytes"] == 0


def test_what_can_t_be_indexed_is_refused_by_name(spark: SparkSession, namespace: str) -> None:
    for name, columns, more in (
        ("keyed", "id BIGINT NOT NULL", "'primary-key' = 'id'"),
        ("raw", "event BINARY", "'format' = 'raw'"),
        ("bare", "id BIGINT", "'segments' = '1'"),
        ("pairs", "id BIGINT NOT NULL, v STRING, PRIMARY KEY (id)", "'table-type' = 'key-value'"),
    ):
        spark.sql(f"CREATE TABLE {namespace}.{name} ({columns}) TBLPROPERTIES ({more})")
    has_views = not is_missing("4.2")
    if has_views:
        spark.sql(f"CREATE VIEW {namespace}.seen AS SELECT 1 AS id")
    for name, words in (
        ("keyed", "has a primary key"),
        ("raw", "are of format raw"),
        ("bare", "TBLPROPERTIES ('index-columns' = 'column, ...')"),
        ("pairs", "is a key-value table"),
        ("seen", "is a view" if has_views else "does not exist"),
        ("none", "does not exist"),
    ):
        with pytest.raises(PySparkException, match=re.escape(words)):
            called(spark, f"{namespace}.{name}")


def test_texts_of_others_that_no_one_padded_are_compared_as_spark_compares_them(
    spark: SparkSession, namespace: str, catalog: Catalog
) -> None:
    """Spark pads a CHAR when it writes one, and others don't."""
    table = f"{namespace}.padded"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, c CHAR(5), v VARCHAR(5)) TBLPROPERTIES ('segments' = '1')")
    definition = catalog.load_table([namespace.split(".")[1]], "padded", age_s=0)
    codec = definition.for_writing()
    texts = ["a", "a ", "ab", "a    ", "b", "", "~", "ü", None]
    rows = [{"id": n, "c": text, "v": text} for n, text in enumerate(texts)]
    conditions = [
        f"{column} {comparison} '{value}'"
        for column in ("c", "v")
        for comparison in ("=", "<", ">=", "<>")
        for value in ("a", "a ", "", "~   ")
    ]
    wanted = []
    for each in (False, True):
        for row in rows:
            with EventWriter(catalog.client, definition.stream) as writer:
                writer.write_batch(codec.encode(pa.RecordBatch.from_pylist([row], schema=codec.schema)))
            if each:
                called(spark, table)
        if not each:
            wanted = [answers(spark.sql(f"SELECT * FROM {table} WHERE {one}")) for one in conditions]
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('index-columns' = 'c, v')")
    for one, ids in zip(conditions, wanted, strict=True):
        found = answers(spark.sql(f"SELECT * FROM {table} WHERE {one}"))
        assert found == Counter({id_: 2 * count for id_, count in ids.items()}), one


def test_who_changes_a_table_calls_again(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.changed"
    spark.sql(f"CREATE TABLE {table} (id INT, s STRING) TBLPROPERTIES ('index-columns' = 'id', 'segments' = '1')")

    def write(begin: int, columns: str = "CAST(id AS INT) AS id, repeat(hex(id), 2000) AS s") -> None:
        rows = spark.range(begin, begin + 100, numPartitions=1).selectExpr(*re.split(r", (?=repeat|id \+)", columns))
        rows.writeTo(table).option("writer-mode", "at-least-once").append()

    def check(where: str, wanted: Counter[int] | int, *, saves: bool) -> None:
        rows = spark.sql(f"SELECT id FROM {table} WHERE {where}")
        assert rows.count() == wanted, where
        assert (skipped_bytes(rows) > 0) == saves, where

    write(0)
    assert called(spark, table)["events"] == 100
    check("id < 0", 0, saves=True)
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT")
    check("id < 0", 0, saves=False)
    assert called(spark, table)["events"] == 100
    check("id < 0", 0, saves=True)
    # A column that comes is null in what is there; one that comes back is another one.
    for value in ("id + 1000000", "id + 2000000"):
        spark.sql(f"ALTER TABLE {table} ADD COLUMN more BIGINT")
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('index-columns' = 'id, more')")
        rows = spark.table(table).count()
        check("more IS NULL", rows, saves=False)
        check("more IS NOT NULL", 0, saves=False)
        assert called(spark, table)["events"] == rows
        check("more IS NULL", rows, saves=False)
        check("more IS NOT NULL", 0, saves=True)
        spark.sql(f"INSERT INTO {table} SELECT id, 'x', {value} FROM range(100, 110)")
        check(f"more > {value.removeprefix('id + ')}", 10, saves=True)
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('index-columns' = 'id')")
        spark.sql(f"ALTER TABLE {table} DROP COLUMN more")
    check("id < 0", 0, saves=True)
    spark.sql(f"INSERT OVERWRITE {table} SELECT id, 'new' FROM range(5, 7)")
    assert called(spark, table)["bytes"] == 0
    assert spark.sql(f"SELECT s FROM {table} WHERE id < 6").count() == 1
