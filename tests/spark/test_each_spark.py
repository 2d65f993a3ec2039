"""What works with every Spark, and what an older one refuses: run by `make test SPARK=4.0 ARGS=...`, too."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from since import SPARK
from streaming_tools import run_available, scope_of, workers_of

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn(1)]

COLUMNS = """
  a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(38, 10), i STRING, j BINARY, k DATE,
  l TIMESTAMP, m TIMESTAMP_NTZ, n INTERVAL DAY TO SECOND, p ARRAY<STRUCT<x: INT, y: STRING>>,
  q MAP<STRING, DECIMAL(5, 1)>, r CHAR(3), s VARCHAR(4), v VARIANT"""
VALUES = """
  true, 1Y, 2S, 3, 4L, 5.5F, 6.5D, 7.25BD, 'eight', X'0909', DATE '2026-02-03', TIMESTAMP '2026-02-03 04:05:06.789012',
  TIMESTAMP_NTZ '2026-02-03 04:05:06.789012', INTERVAL '1 02:03:04.5' DAY TO SECOND,
  array(named_struct('x', 1, 'y', 'z')), map('k', 1.5BD), 'abc', 'd', parse_json('{"a":1}')"""


def rows(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in spark.sql(query).collect()]


def refusal(spark: SparkSession, statement: str) -> str:
    with pytest.raises(PySparkException) as error:
        spark.sql(statement).collect()
    return str(error.value)


def test_all_types_in_several_batches(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.types"
    spark.sql(f"CREATE TABLE {table} ({COLUMNS})")
    for _ in range(3):
        spark.sql(f"INSERT INTO {table} VALUES ({VALUES})")
    shown = {str(row) for row in spark.sql(f"SELECT * EXCEPT (v), to_json(v) FROM {table}").collect()}
    assert len(shown) == 1
    (row,) = rows(spark, f"SELECT e, h, i, to_json(v) FROM {table} LIMIT 1")
    assert row == (4, Decimal("7.2500000000"), "eight", '{"a":1}')


def test_many_rows_come_as_columns(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.many"
    spark.sql(
        f"CREATE TABLE {table} AS SELECT id, uuid() u, array(id, id + 1) a, struct(id x, 'y' y) s, map('k', id) m "
        "FROM range(100000)"
    )
    query = f"SELECT count(*), sum(id), sum(a[1]), sum(s.x), sum(m['k']), sum(length(u)) FROM {table}"
    assert rows(spark, query) == [(100000, 4999950000, 5000050000, 4999950000, 4999950000, 3600000)]
    assert len(rows(spark, f"SELECT * FROM {table} LIMIT 5")) == 5
    assert "BatchScan" in str(spark.sql(f"EXPLAIN SELECT id FROM {table}").collect())


@pytest.mark.parametrize(
    "properties",
    [
        "'segments' = '3'",
        "'segments' = '3', 'primary-key' = 'id'",
        "'partitions' = '3', 'primary-key' = 'id', 'table-type' = 'key-value'",
        "'segments' = '3', 'format' = 'raw'",
    ],
)
def test_rows_of_which_no_column_is_wanted_are_counted(spark: SparkSession, namespace: str, properties: str) -> None:
    table, columns = f"{namespace}.t", "binary(string(id)) AS event" if "raw" in properties else "id, 'x' AS v"
    spark.sql(f"CREATE TABLE {table} TBLPROPERTIES ({properties}) AS SELECT {columns} FROM range(9)")
    spark.sql(f"INSERT INTO {table} SELECT {columns} FROM range(9, 12)")
    sources = [table]
    if "key-value" not in properties:
        sources.append(f"{namespace}.`t$changes`")
        assert rows(spark, f"SELECT count(*) FROM {namespace}.`t$commits` WHERE rand() >= 0") == [(2,)]
    for source in sources:
        assert rows(spark, f"SELECT count(*) FROM {source}") == [(12,)]
        assert rows(spark, f"SELECT sum(1) FROM {source} WHERE rand() >= 0") == [(12,)]
        assert rows(spark, f"SELECT count(*) FROM (SELECT * FROM {source} LIMIT 5)") == [(5,)]
        assert rows(spark, f"SELECT count(*) FROM {table} CROSS JOIN (SELECT 1 FROM {source})") == [(144,)]
        assert rows(spark, f"SELECT 1 FROM {source}") == [(1,)] * 12


def test_workers_are_taken_again(spark: SparkSession, namespace: str) -> None:
    """One that hasn't read all that Spark has sent it would end with its task."""
    table = f"{namespace}.again"
    spark.sql(f"CREATE TABLE {table} AS SELECT id FROM range(10)")
    assert rows(spark, f"SELECT sum(id) FROM {table} WHERE id > 0") == [(45,)]
    workers = workers_of(spark)
    assert workers
    for _ in range(3):
        assert rows(spark, f"SELECT sum(id) FROM {table} WHERE id > 0") == [(45,)]
        assert workers_of(spark) & workers


def test_statements_on_a_table(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.orders"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, name STRING DEFAULT 'x') CLUSTERED BY (name) INTO 2 BUCKETS")
    spark.sql(f"INSERT INTO {table} VALUES (1, DEFAULT)")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN name SET DEFAULT 'y'")
    spark.sql(f"INSERT INTO {table} " + ("(id) VALUES (2)" if SPARK >= (4, 1) else "VALUES (2, DEFAULT)"))
    assert rows(spark, f"SELECT * FROM {table} ORDER BY id") == [(1, "x"), (2, "y")]
    assert rows(spark, f"SELECT * FROM {table} VERSION AS OF 1") == [(1, "x")]
    spark.sql(f"ALTER TABLE {table} ADD COLUMN note STRING")
    spark.sql(f"INSERT OVERWRITE {table} VALUES (3, 'z', 'hi')")
    assert rows(spark, f"SELECT * FROM {table}") == [(3, "z", "hi")]
    spark.sql(f"TRUNCATE TABLE {table}")
    assert rows(spark, f"SELECT count(*) FROM {table}") == [(0,)]
    spark.sql(f"CREATE OR REPLACE TABLE {table} AS SELECT 1 AS n")
    assert rows(spark, f"SELECT * FROM {table}") == [(1,)]
    spark.sql(f"CALL pravega.system.create_cut(table => '{table.removeprefix('pravega.')}', name => 'here')")
    spark.sql(f"DROP TABLE {table}")


def test_rows_of_a_table_with_a_key_change(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.keyed"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, name STRING, n INT) TBLPROPERTIES ('primary-key' = 'id')")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    spark.sql(f"UPDATE {table} SET n = n + 10 WHERE id = 1")
    spark.sql(f"DELETE FROM {table} WHERE id = 2")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT 3L id, 'cc' name, 33 n UNION ALL SELECT 4L, 'd', 4) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(spark, f"SELECT * FROM {table} ORDER BY id") == [(1, "a", 11), (3, "cc", 33), (4, "d", 4)]
    told = f"SELECT id, n, _change_type FROM {namespace}.`keyed$changes` WITH (startingVersion = 2, endingVersion = 3)"
    images = [(1, 1, "update_preimage"), (1, 11, "update_postimage"), (2, 2, "delete")]
    assert sorted(rows(spark, told)) == sorted(images)
    stream = (
        spark.readStream.option("startingVersion", "2")
        .option("endingVersion", "3")
        .table(f"{namespace}.`keyed$changes`")
    )
    stream.select("id", "n", "_change_type").writeStream.format("memory").queryName("told_changes").trigger(
        availableNow=True
    ).start().awaitTermination()
    assert sorted(rows(spark, "SELECT * FROM told_changes")) == sorted(images)


def test_streams_without_the_catalog_are_read_over_scales(
    spark: SparkSession, sandbox: Sandbox, namespace: str, tmp_path: Path
) -> None:
    """By one run, by one that goes on from a checkpoint behind which the stream was scaled, and up to a cut."""
    table = f"{namespace}.scaled"
    spark.sql(f"CREATE TABLE {table} (id BIGINT) TBLPROPERTIES ('segments' = '2')")
    options = {
        "controller": sandbox.controller_uri,
        "schema-registry-uri": sandbox.schema_registry_uri,
        "stream": f"{scope_of(namespace)}/scaled",
    }
    found: dict[str, list[int]] = {"one": [], "other": [], "bounded": []}

    def run(name: str, **bound: str) -> list[int]:
        rows = spark.readStream.format("pravega").options(**options, **bound).load()
        while True:
            more = [row.id for batch in run_available(rows, tmp_path / name).rows.values() for row in batch]
            found[name] += more
            # Before 4.2 a run may end where the stream was scaled.
            if SPARK >= (4, 2) or not more:
                return sorted(found[name])

    for number, segments in enumerate((3, 2, 5, 1)):
        spark.sql(f"INSERT INTO {table} SELECT id FROM range({10 * number}, {10 * number + 10})")
        if number in (0, 3):
            assert run("one") == list(range(-number, 10 * number + 10))
        spark.sql(f"INSERT INTO {table} VALUES ({-number - 1})")
        if number == 1:
            spark.sql(f"CALL pravega.system.create_cut('{table.removeprefix('pravega.')}', 'early')")
        spark.sql(f"CALL pravega.system.scale('{table.removeprefix('pravega.')}', {segments})")
    assert run("other") == list(range(-4, 40))
    assert run("bounded", endStreamCut="early") == list(range(-2, 20))


def test_a_streaming_query_goes_on_where_it_was(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    source, target = f"{namespace}.source", f"{namespace}.target"
    spark.sql(f"CREATE TABLE {source} (n BIGINT)")
    spark.sql(f"CREATE TABLE {target} (n BIGINT)")
    for begin in (0, 1000):
        spark.sql(f"INSERT INTO {source} SELECT id + {begin} FROM range(1000)")
        read = spark.readStream.option("maxEventsPerTrigger", "400").table(source)
        write = read.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        write.toTable(target).awaitTermination()
        assert rows(spark, f"SELECT count(*), count(DISTINCT n) FROM {target}") == [(begin + 1000, begin + 1000)]


@pytest.mark.skipif(SPARK >= (4, 1), reason="Spark 4.1 has it")
def test_what_came_with_4_1_is_refused_before(spark: SparkSession, namespace: str) -> None:
    assert "PARSE" in refusal(spark, f"CREATE TABLE {namespace}.c (id BIGINT, PRIMARY KEY (id))")
    table = f"{namespace}.checked"
    spark.sql(f"CREATE TABLE {table} (n INT, m INT)")
    assert "CANNOT_FIND_DATA" in refusal(spark, f"INSERT INTO {table} (n) VALUES (1)")
    assert "PARSE" in refusal(spark, f"ALTER TABLE {table} ADD CONSTRAINT positive CHECK (n > 0)")


@pytest.mark.skipif(SPARK >= (4, 2), reason="Spark 4.2 has it")
def test_what_came_with_4_2_is_refused_before(spark: SparkSession, namespace: str) -> None:
    assert "VIEW" in refusal(spark, f"CREATE VIEW {namespace}.v AS SELECT 1 AS n").upper()
    spark.sql(f"CREATE TABLE {namespace}.t (n INT)")
    assert "PARSE" in refusal(spark, f"SELECT * FROM {namespace}.t CHANGES FROM VERSION 1 TO VERSION 2")


@pytest.mark.skipif(not (4, 2) <= SPARK < (4, 3), reason="Python has no such trigger before 4.2, and 4.3 runs it")
def test_real_time_is_refused_before_4_3(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {namespace}.live (n BIGINT)")
    write: Any = spark.readStream.table(f"{namespace}.live").writeStream.format("console").outputMode("update")
    with pytest.raises(PySparkException, match=r"real-time trigger .* since Spark 4\.3, and this is Spark 4"):
        write.option("checkpointLocation", str(tmp_path)).trigger(realTime="5 seconds").start().awaitTermination(60)
