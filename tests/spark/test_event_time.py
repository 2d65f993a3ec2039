"""Stateful queries over streams: watermarks, windows, deduplication, joins."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from streaming_tools import run_available, scope_of

from pyspark_pravega.client import Client, Stream

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn]


@pytest.fixture
def orders(spark: SparkSession, namespace: str) -> Callable[[str], str]:
    """Makes tables of orders."""

    def make(name: str) -> str:
        table = f"{namespace}.{name}"
        spark.sql(
            f"CREATE TABLE {table} (id INT, customer STRING, at TIMESTAMP) CLUSTERED BY (customer) INTO 2 BUCKETS"
        )
        return table

    return make


def insert(spark: SparkSession, table: str, *rows: tuple[int, str, str]) -> None:
    values = ", ".join(f"({id_}, '{customer}', TIMESTAMP '2026-01-01 {at}Z')" for id_, customer, at in rows)
    spark.sql(f"INSERT INTO {table} VALUES {values}")


def rows_of(frame: DataFrame, checkpoint: Path) -> list[tuple[Any, ...]]:
    found = run_available(frame, checkpoint)
    return sorted(tuple(row) for rows in found.rows.values() for row in rows)


def minute(text: str) -> dt.datetime:
    hour, minutes = map(int, text.split(":"))
    return dt.datetime(2026, 1, 1, hour, minutes, tzinfo=dt.UTC).astimezone().replace(tzinfo=None)


def test_windows_close_when_the_watermark_passes(
    spark: SparkSession, orders: Callable[[str], str], tmp_path: Path
) -> None:
    table = orders("t")
    counts = (
        spark.readStream.table(table)
        .withWatermark("at", "1 minute")
        .groupBy(sf.window("at", "1 minute"))
        .count()
        .select("window.start", "count")
    )
    insert(spark, table, (1, "a", "10:00:10"), (2, "b", "10:00:50"), (3, "a", "10:01:10"))
    assert rows_of(counts, tmp_path) == []
    insert(spark, table, (4, "a", "10:05:00"), (5, "b", "10:00:59"))
    # One micro-batch brings the rows, the next one the watermark that closes the windows.
    assert rows_of(counts, tmp_path) == [(minute("10:00"), 3), (minute("10:01"), 1)]
    # Too late for its window.
    insert(spark, table, (6, "b", "10:00:58"), (7, "b", "10:20:00"))
    assert rows_of(counts, tmp_path) == [(minute("10:05"), 1)]


def test_duplicates_are_dropped_across_runs(spark: SparkSession, orders: Callable[[str], str], tmp_path: Path) -> None:
    table = orders("t")
    unique = spark.readStream.table(table).withWatermark("at", "1 hour").dropDuplicatesWithinWatermark(["id"])
    insert(spark, table, (1, "a", "10:00:00"), (1, "a", "10:00:01"), (2, "a", "10:00:02"))
    assert [row[0] for row in rows_of(unique, tmp_path)] == [1, 2]
    insert(spark, table, (2, "b", "10:00:03"), (3, "b", "10:00:04"))
    assert [row[0] for row in rows_of(unique, tmp_path)] == [3]


def test_two_streams_are_joined(spark: SparkSession, orders: Callable[[str], str], tmp_path: Path) -> None:
    first, second = orders("placed"), orders("paid")
    placed = spark.readStream.table(first).withWatermark("at", "10 minutes").alias("o")
    paid = spark.readStream.table(second).withWatermark("at", "10 minutes").alias("p")
    joined = placed.join(
        paid, sf.expr("o.id = p.id AND p.at BETWEEN o.at AND o.at + INTERVAL 5 MINUTES"), "inner"
    ).select("o.id", "o.customer", "p.at")
    insert(spark, first, (1, "a", "10:00:00"), (2, "b", "10:00:00"), (3, "c", "10:00:00"))
    insert(spark, second, (1, "a", "10:02:00"))
    assert [row[:2] for row in rows_of(joined, tmp_path)] == [(1, "a")]
    # What came in an earlier run is remembered; what came too late isn't joined.
    insert(spark, second, (2, "b", "10:04:00"), (3, "c", "10:06:00"))
    assert [row[:2] for row in rows_of(joined, tmp_path)] == [(2, "b")]


def test_a_running_total_goes_on_from_its_state(
    spark: SparkSession, orders: Callable[[str], str], tmp_path: Path
) -> None:
    table = orders("t")
    totals = spark.readStream.table(table).groupBy("customer").agg(sf.sum("id").alias("total"))
    insert(spark, table, (1, "a", "10:00:00"), (10, "b", "10:00:00"))
    sink: dict[str, int] = {}

    def keep(frame: DataFrame, _: int) -> None:
        sink.update({row.customer: row.total for row in frame.collect()})

    def run() -> None:
        writer = totals.writeStream.outputMode("update").foreachBatch(keep)
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    run()
    insert(spark, table, (2, "a", "10:00:00"))
    run()
    assert sink == {"a": 3, "b": 10}


@pytest.mark.parametrize("way", ["versions", "plain"])
@pytest.mark.in_turn(8)
def test_a_limit_makes_no_row_late_that_was_written_in_order(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path, way: str
) -> None:
    """Of three segments two have three of the keys each, and one has one; eleven hours, and a watermark of one."""
    source, target = f"{namespace}.source", f"{namespace}.target"
    spark.sql(f"CREATE TABLE {source} (event STRING NOT NULL) CLUSTERED BY (event) INTO 3 BUCKETS TBLPROPERTIES "
              "('format' = 'string')")  # fmt: skip
    columns = "timestamp_seconds(1767225600 + 2 * CAST(split_part(event, ':', 2) AS BIGINT)) AS at"
    frame = spark.readStream.option("maxEventsPerTrigger", "1500")
    if way == "versions":
        spark.sql(f"DROP TABLE {source}")
        spark.sql(f"CREATE TABLE {source} (id BIGINT, at TIMESTAMP, k STRING) CLUSTERED BY (k) INTO 3 BUCKETS")
        rows = "id, timestamp_seconds(1767225600 + 2 * id) AS at, 'k' || id % 7 AS k"
        for first in range(0, 20_000, 5_000):
            spark.sql(f"INSERT INTO {source} SELECT {rows} FROM range({first}, {first + 5_000})")
        read = frame.table(source)
    else:
        events = [f"k{number % 7}:{number}" for number in range(20_000)]
        with client.writer(Stream(scope_of(namespace), "source")) as writer:
            writer.write_batch([event.encode() for event in events], [event.split(":")[0] for event in events])
        read = frame.table(source).selectExpr(columns, "split_part(event, ':', 1) AS k")
    sums = read.withWatermark("at", "1 hour").groupBy(sf.window("at", "10 minutes"), "k").agg(sf.count("*").alias("n"))
    spark.sql(
        f"CREATE TABLE {target} (w TIMESTAMP NOT NULL, k STRING NOT NULL, n BIGINT) "
        "TBLPROPERTIES ('primary-key' = 'w, k')"
    )
    written = sums.selectExpr("window.start AS w", "k", "n").writeStream.outputMode("update")
    query = written.trigger(availableNow=True).option("checkpointLocation", str(tmp_path)).toTable(target)
    query.awaitTermination()
    dropped = [one.numRowsDroppedByWatermark for batch in query.recentProgress for one in batch.stateOperators]
    assert sum(dropped) == 0
    assert spark.sql(f"SELECT sum(n), count(*) FROM {target}").first() == (20_000, 469)
    assert sum(batch.numInputRows > 0 for batch in query.recentProgress) == {"versions": 4, "plain": 14}[way]
