"""Tables that grow by writing, defaults and constraints, in SQL and in streaming queries."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from since import is_missing

from pyspark_pravega.registry import SchemaInfo, SchemaRegistry
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn]

Stream = Callable[..., None]


def rows(frame: DataFrame) -> list[Any]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=repr)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """Writes rows to a table by a streaming query with a checkpoint that has a name."""

    def run(frame: DataFrame, table: str, checkpoint: str, **options: str) -> None:
        folder = tmp_path / checkpoint / "rows"
        frame.write.mode("append").parquet(str(folder))
        reader = spark.readStream.schema(frame.schema).parquet(str(folder))
        writer = reader.writeStream.options(**options).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / checkpoint / "checkpoint")).toTable(table)
        query.awaitTermination()

    return run


@pytest.mark.since_spark("4.2")
@pytest.mark.parametrize("table_format", ["avro", "json", "protobuf"])
@pytest.mark.in_turn(8)
def test_a_table_grows_as_parquet_would(
    spark: SparkSession, namespace: str, stream: Stream, tmp_path: Path, table_format: str
) -> None:
    table = f"{namespace}.grows"
    spark.sql(
        f"CREATE TABLE {table} (k STRING, n INT, st STRUCT<x: INT>) CLUSTERED BY (k) INTO 2 BUCKETS "
        f"TBLPROPERTIES ('format' = '{table_format}')"
    )
    written = tmp_path / "parquet"
    steps = 0

    def step(statement: str, write: Callable[[DataFrame], None]) -> None:
        nonlocal steps
        frame = spark.sql(statement)
        frame.write.parquet(str(written / f"step={steps}"))
        write(frame)
        steps += 1

    def insert(frame: DataFrame) -> None:
        spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {table} BY NAME SELECT * FROM {{rows}}", rows=frame)

    def streamed(frame: DataFrame) -> None:
        stream(frame, table, f"by_{steps}", mergeSchema="true")

    widens = table_format != "protobuf"
    nested = table_format != "protobuf"
    number, new = ("5000000000L", "BIGINT") if widens else ("5", "INT")
    # A map in Protobuf is never NULL, so no column of that type can be left out.
    more = "map('m', array(1, 2))" if nested else "'m'"
    inner = "named_struct('x', 3, 'y', 'deep')" if nested else "named_struct('x', 3)"
    # Spark fills columns that rows don't have, but not fields of structs.
    short = "named_struct('x', 4, 'y', NULL)" if nested else "named_struct('x', 4)"
    step("SELECT 'a' k, 1 n, named_struct('x', 1) st", insert)
    step("SELECT 'b' k, 2 n, named_struct('x', 2) st, DATE '2026-01-01' `day`", insert)
    step(f"SELECT 'c' k, {number} n, {inner} st, {more} more", insert)
    # Narrower rows again, and columns in another order, with a NULL in each.
    step(f"SELECT {short} st, CAST(NULL AS INT) n, 'd' k", insert)
    everything = "CAST('e' AS STRING) k, CAST(6 AS " + new + ") n, " + inner + " st, DATE '2026-01-02' `day`"
    step(f"SELECT {everything}, {more} more, 1.5D streamed, TIMESTAMP '2026-01-01 00:00:00' at", streamed)
    step(f"SELECT {everything}, {more} more, 2.5D streamed, TIMESTAMP '2026-01-02 00:00:00' at", streamed)

    table_rows = spark.table(table)
    parts = [spark.read.parquet(str(written / f"step={number}")) for number in range(steps)]
    expected = functools.reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    names = table_rows.columns
    assert names == ["k", "n", "st", "day", "more", "streamed", "at"]
    assert rows(table_rows) == rows(expected.select(*names))
    assert dict(table_rows.dtypes)["n"] == new.lower()

    # One that can't be: what is there stays, and nothing was written.
    with pytest.raises(AnalysisException, match="n"):
        insert(spark.sql("SELECT 'f' k, 'text' n, named_struct('x', 1) st"))
    with pytest.raises(StreamingQueryException, match=r"other.*option\(.mergeSchema., .true.\) adds new"):
        stream(spark.sql("SELECT 'f' k, 1 other"), table, "refused")
    assert spark.table(table).columns == names
    assert spark.table(table).count() == steps


@pytest.mark.since_spark("4.2")
def test_several_sessions_bring_the_same_columns(spark: SparkSession, namespace: str) -> None:
    """Each finds them there or adds them; no row is lost, and none is NULL."""
    table, many = f"{namespace}.shared", 4
    spark.sql(f"CREATE TABLE {table} (id BIGINT)")
    sessions = [spark.newSession() for _ in range(many)]
    for turn in range(2):
        together = Barrier(many)

        def insert(number: int, turn: int = turn, together: Barrier = together) -> None:
            together.wait()
            sessions[number].sql(
                f"INSERT WITH SCHEMA EVOLUTION INTO {table} BY NAME "
                f"SELECT {turn * many + number}L AS id, {number} AS c{turn}, 'text' AS note"
            )

        with ThreadPoolExecutor(many) as pool:
            list(pool.map(insert, range(many)))
    numbers = [(number, number) for number in range(many)] + [(many + number, number) for number in range(many)]
    written = spark.sql(f"SELECT id, coalesce(c0, c1) AS c, note FROM {table}").collect()
    assert sorted(tuple(row) for row in written) == [(id, c, "text") for id, c in numbers]
    assert sorted(spark.table(table).columns) == ["c0", "c1", "id", "note"]


@pytest.mark.since_spark("4.2")
def test_a_policy_that_forbids_it_is_named(spark: SparkSession, namespace: str, stream: Stream) -> None:
    table = f"{namespace}.closed"
    spark.sql(f"CREATE TABLE {table} (id BIGINT) TBLPROPERTIES ('compatibility' = 'DenyAll')")
    with pytest.raises(AnalysisException, match="DenyAll"):
        spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {table} BY NAME SELECT 1L AS id, 2 AS b")
    with pytest.raises(StreamingQueryException, match="DenyAll"):
        stream(spark.sql("SELECT 1L AS id, 2 AS b"), table, "closed", mergeSchema="true")
    assert spark.table(table).collect() == []
    assert spark.table(table).columns == ["id"]


@pytest.mark.since_spark("4.1")
def test_defaults_and_constraints_hold_in_every_statement(
    spark: SparkSession, namespace: str, stream: Stream, settings: Settings, tmp_path: Path
) -> None:
    table = f"{namespace}.orders"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT NOT NULL, state STRING DEFAULT 'new', n INT DEFAULT 1 + 2, "
        "at TIMESTAMP DEFAULT current_timestamp(), CONSTRAINT positive CHECK (id > 0)) "
        "CLUSTERED BY (id) INTO 2 BUCKETS"
    )
    spark.sql(f"INSERT INTO {table} (id) VALUES (1)")
    spark.sql(f"INSERT INTO {table} VALUES (2, DEFAULT, NULL, NULL), (3, 'x', DEFAULT, DEFAULT)")
    spark.range(4, 5).writeTo(table).append()
    spark.range(5, 6).write.mode("append").saveAsTable(table)
    found = spark.sql(f"SELECT id, state, n, at IS NULL AS empty FROM {table}").collect()
    assert sorted(tuple(row) for row in found) == [
        (1, "new", 3, False),
        (2, "new", None, True),
        (3, "x", 3, False),
        (4, "new", 3, False),
        (5, "new", 3, False),
    ]
    created = spark.sql(f"SHOW CREATE TABLE {table}").collect()[0][0]
    assert "DEFAULT 1 + 2" in created
    assert "CONSTRAINT positive CHECK (id > 0)" in created

    for statement in (
        f"INSERT INTO {table} (id) VALUES (9), (0)",
        f"INSERT OVERWRITE {table} (id) SELECT id - 2 FROM {table}",
    ):
        with pytest.raises((SparkRuntimeException, AnalysisException)) as error:
            spark.sql(statement)
        assert "CHECK" in str(error.value), statement
    with pytest.raises(SparkRuntimeException, match="CHECK_CONSTRAINT_VIOLATION"):
        spark.range(1).writeTo(table).append()
    with pytest.raises(SparkRuntimeException, match="NEW_CHECK_CONSTRAINT_VIOLATION"):
        spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT few CHECK (id < 4)")
    assert sorted(row.id for row in spark.table(table).collect()) == [1, 2, 3, 4, 5]

    # Spark doesn't hold a streaming query's rows against constraints: foreachBatch does.
    five = spark.range(6, 8).selectExpr("id", "'s' state", "1 n", "current_timestamp() at")
    with pytest.raises(StreamingQueryException, match=r"CHECK constraints \(positive\).*foreachBatch"):
        stream(five, table, "refused")
    scope = namespace.removeprefix("pravega.").replace("_", "-")
    options = {
        "controller-uri": settings.controller_uri,
        "schema-registry-uri": str(settings.schema_registry_uri),
        "scope": scope,
        "stream": "orders",
    }
    with pytest.raises(Exception, match=r"CHECK constraints \(positive\)"):
        five.write.format("pravega").options(**options).mode("append").save()
    (tmp_path / "each").mkdir()
    five.write.parquet(str(tmp_path / "each" / "rows"))
    reader = spark.readStream.schema(five.schema).parquet(str(tmp_path / "each" / "rows"))
    writer = reader.writeStream.foreachBatch(lambda batch, _: batch.writeTo(table).append())
    writer.option("checkpointLocation", str(tmp_path / "each" / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert spark.table(table).count() == 7

    spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT few CHECK (id < 100)")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN state SET DEFAULT upper('later')")
    with pytest.raises(SparkRuntimeException, match="few"):
        spark.sql(f"INSERT INTO {table} (id) VALUES (100)")
    spark.sql(f"ALTER TABLE {table} DROP CONSTRAINT few")
    spark.sql(f"INSERT INTO {table} (id) VALUES (100)")
    assert spark.sql(f"SELECT state FROM {table} WHERE id = 100").collect()[0].state == "LATER"

    # Like this one, without constraints, as Spark has it; and one that takes its place.
    if not is_missing("4.2"):
        spark.sql(f"CREATE TABLE {namespace}.alike LIKE {table}")
        spark.sql(f"INSERT INTO {namespace}.alike (id) VALUES (-1)")
        assert spark.sql(f"SELECT state, n FROM {namespace}.alike").collect()[0] == ("LATER", 3)
    spark.sql(f"CREATE OR REPLACE TABLE {table} (id BIGINT DEFAULT 8, CHECK (id > 7))")
    spark.sql(f"INSERT INTO {table} VALUES (DEFAULT)")
    with pytest.raises(SparkRuntimeException, match="CHECK_CONSTRAINT_VIOLATION"):
        spark.sql(f"INSERT INTO {table} VALUES (7)")
    assert spark.sql(f"SELECT min(id), count(*) FROM {table}").collect()[0] == (8, 1)


def test_defaults_of_a_schema_that_others_made(spark: SparkSession, namespace: str, registry: SchemaRegistry) -> None:
    table, scope = f"{namespace}.theirs", namespace.removeprefix("pravega.").replace("_", "-")
    spark.sql(f"CREATE TABLE {table} (id BIGINT NOT NULL)")
    known = registry.history(scope, "theirs")[-1][0]
    space, _, name = known.type.rpartition(".")
    fields = [
        {"name": "id", "type": "long"},
        {"name": "state", "type": "string", "default": "it's new"},
        {"name": "n", "type": ["int", "null"], "default": 5},
    ]
    theirs = json.dumps({"type": "record", "name": name, "namespace": space, "fields": fields}).encode()
    registry.add_schema(
        scope,
        "theirs",
        SchemaInfo(type=known.type, serialization_format=known.serialization_format, schema_data=theirs),
    )
    spark.sql(f"INSERT INTO {table} VALUES (1, DEFAULT, DEFAULT)")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN n SET DEFAULT 6")
    spark.sql(f"INSERT INTO {table} VALUES (2, DEFAULT, DEFAULT)")
    assert rows(spark.table(table)) == [
        {"id": 1, "state": "it's new", "n": 5},
        {"id": 2, "state": "it's new", "n": 6},
    ]
