"""Spark's own metric system has what is read and written: its servlets, JMX and sinks show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

WRITTEN = ("rows", "bytes", "commits")
READ = ("rows", "bytes", "partitions")


def source(spark: SparkSession, name: str) -> Any:
    """The one source of a name, as the metric system knows it."""
    jvm: Any = spark.sparkContext._jvm
    found = jvm.org.apache.spark.SparkEnv.get().metricsSystem().getSourcesByName(name)
    assert found.size() == 1
    return found.head().metricRegistry()


def counters(spark: SparkSession, name: str, keys: tuple[str, ...]) -> dict[str, int]:
    of_source = source(spark, name).getCounters()
    return {key: int(of_source.get(key).getCount()) for key in keys}


def test_reads_and_writes_are_counted(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    """By an INSERT, by a SELECT, and by a streaming query; figures are those of the commit log and of the rows."""
    spark.sql(f"CREATE TABLE {namespace}.a (id BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS")
    spark.sql(f"CREATE TABLE {namespace}.b (id BIGINT)")
    spark.sql(f"INSERT INTO {namespace}.a SELECT id FROM range(100)")
    written = counters(spark, "pravega.write", WRITTEN)
    spark.sql(f"INSERT INTO {namespace}.a SELECT id FROM range(50)")
    after = counters(spark, "pravega.write", WRITTEN)
    ((size,),) = spark.sql(f"SELECT bytes FROM {namespace}.`a$commits` WHERE version = 2").collect()
    assert {key: after[key] - written[key] for key in WRITTEN} == {"rows": 50, "bytes": size, "commits": 1}
    assert source(spark, "pravega.write").getTimers().get("commitDuration").getCount() == after["commits"]

    spark.sql(f"SELECT id FROM {namespace}.a").collect()
    read = counters(spark, "pravega.read", READ)
    assert len(spark.sql(f"SELECT id FROM {namespace}.a").collect()) == 150
    again = counters(spark, "pravega.read", READ)
    assert (again["rows"] - read["rows"], again["partitions"] > read["partitions"]) == (150, True)
    assert again["bytes"] - read["bytes"] >= 150 * 8

    query = (
        spark.readStream.table(f"{namespace}.a")
        .writeStream.option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .toTable(f"{namespace}.b")
    )
    query.awaitTermination()
    streamed = counters(spark, "pravega.write", WRITTEN)
    assert streamed["rows"] - after["rows"] == 150
