"""Reads in memory that task and worker share: the same rows as through the socket, and nothing that stays."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from shared_memory_tools import (
    FORMATS,
    MANNERS,
    RINGS_NOW,
    ROWS,
    digest,
    filled_namespace,
    jvm,
    make_rows,
    nothing_stays,
    opened,
    read,
    readers,
    resident,
    rings,
)

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return make_rows(spark)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, rows: DataFrame) -> Iterator[str]:
    with filled_namespace(spark, "pravega.shared_memory", rows, *FORMATS) as namespace:
        yield namespace


@pytest.fixture(autouse=True)
def after_each_test(spark: SparkSession) -> Iterator[None]:
    with nothing_stays(spark):
        yield


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_rows_in_every_format(spark: SparkSession, rows: DataFrame, tables: str, form: str) -> None:
    table = f"{tables}.{form}"
    expected = digest(rows.select(spark.table(table).columns))
    assert [digest(read(spark, table, manner)) for manner in MANNERS] == [expected] * 3
    places = [read(spark, table, manner).select("_offset", "_event_size", "st") for manner in MANNERS]
    assert len({digest(one) for one in places}) == 1
    # Few columns, none, and a filter that leaves nothing.
    for manner in MANNERS:
        some = read(spark, table, manner)
        assert some.where("lo IS NULL AND st = 'none'").collect() == []
        assert some.selectExpr("count(1)", "sum(it)").first() == rows.selectExpr("count(1)", "sum(it)").first()


def test_it_is_memory_that_both_have(spark: SparkSession, tables: str) -> None:
    """Batches that wait for a function of Python's stay as they are."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            lengths = [len(text) for text in batch.column(1).to_pylist()]
            rings = [max(batch.column(2).to_pylist())]
            yield pa.record_batch({"rings": rings, "length": [sum(lengths)], "rows": [len(lengths)]})

    for manner, seen in (("0", False), ("1m", True), ("16m", True)):
        texts = read(spark, f"{tables}.avro", manner).where("sr.x IS NOT NULL")
        texts = texts.selectExpr("id", "coalesce(st, '') || sr.x || '!' AS t", f"{RINGS_NOW} AS rings")
        found = texts.mapInArrow(look, "rings BIGINT, length BIGINT, rows BIGINT").selectExpr(
            "max(rings) > 0", "sum(length)", "sum(rows)"
        )
        length, count = texts.selectExpr("sum(length(t))", "count(*)").first() or (0, 0)
        assert found.first() == (seen, length, count)


def test_reads_that_stop_early(spark: SparkSession, tables: str) -> None:
    for manner in MANNERS * 2:
        table = read(spark, f"{tables}.avro", manner)
        assert len(table.limit(5).collect()) == 5
        assert len(table.where("id % 2 = 1").limit(7).collect()) == 7
        assert len(table.select("st", "ar").take(3)) == 3
        assert table.where("id >= 0").selectExpr("max(id)").first() == (ROWS - 1,)


def test_events_larger_than_the_ring(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.sizes (id BIGINT, s STRING)")
    made = spark.sql("SELECT id, repeat(CAST(id % 10 AS STRING), IF(id % 50 = 3, 5000000, 50)) s FROM range(200)")
    made.writeTo(f"{namespace}.sizes").append()
    for manner in MANNERS:
        assert digest(read(spark, f"{namespace}.sizes", manner)) == digest(made)
    spark.sql(f"CREATE TABLE {namespace}.raw TBLPROPERTIES ('format' = 'raw') AS SELECT CAST(s AS BINARY) event "
              f"FROM {namespace}.sizes")  # fmt: skip
    for manner in MANNERS:
        raw = read(spark, f"{namespace}.raw", manner).selectExpr("CAST(event AS STRING) s")
        assert digest(raw) == digest(made.select("s"))


def test_streams_of_micro_batches(spark: SparkSession, tables: str, tmp_path: Path) -> None:
    for manner in MANNERS:
        source = spark.readStream.option("shared-memory", manner).option("max-events-per-trigger", 2900)
        seen: list[int] = []

        def take(batch: DataFrame, _: int, seen: list[int] = seen) -> None:
            seen.append(batch.selectExpr("sum(id)").first()[0])  # type: ignore[index]

        query = (
            source.table(f"{tables}.json")
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / manner))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert len(seen) > 1
        assert sum(seen) == ROWS * (ROWS - 1) // 2


def test_a_worker_keeps_its_ring_from_task_to_task(spark: SparkSession, tables: str) -> None:
    table = read(spark, f"{tables}.avro")
    expected = digest(table)
    before = kept(jvm(spark))
    assert before
    for _ in range(4):
        assert digest(table) == expected
    after = kept(jvm(spark))
    assert all(len(files) == 1 for files in after.values())
    # Spark may have taken another worker for some task, but not for all.
    assert set(before.values()) & set(after.values())
    # Behind a task that doesn't read to its end others still have the right rows.
    assert len(table.limit(5).collect()) == 5
    assert digest(table) == expected


def kept(driver: int) -> dict[int, frozenset[str]]:
    """The memory files that each worker of a driver has open, by their numbers."""
    return {worker: frozenset(rings(worker)) for worker in readers(driver)}


def test_many_queries_leave_memory_as_it_was(spark: SparkSession, tables: str) -> None:
    pid = jvm(spark)
    table = read(spark, f"{tables}.avro")
    table.write.format("noop").mode("overwrite").save()
    pipes = len(opened(pid, "pipe:"))
    for _ in range(12):
        table.selectExpr("sum(it)", "max(length(st))").collect()
        table.write.format("noop").mode("overwrite").save()
    assert len(opened(pid, "pipe:")) <= pipes
    deadline = time.monotonic() + 30
    while resident(pid, "RssShmem") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert resident(pid, "RssShmem") == 0
