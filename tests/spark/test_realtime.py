"""Triggers that run no micro-batches with fixed ends: refused where rows would be lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client_tools import eventually
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from streaming_tools import TIMEOUT_S

pytestmark = [pytest.mark.server, pytest.mark.spark]


@pytest.fixture
def real_time(spark: SparkSession) -> Iterator[None]:
    """Spark lets sinks that it knows take part only, unless it is told otherwise."""
    spark.conf.set("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
    yield
    spark.conf.unset("spark.sql.streaming.realTimeMode.allowlistCheck")


def real_time_rows(spark: SparkSession, *values: str) -> DataFrame:
    """Rows from Spark's own source for its tests of the trigger."""
    jvm: Any = spark._jvm
    streams = jvm.org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
    stream = streams.apply(spark._jsparkSession, 1, jvm.org.apache.spark.sql.Encoders.STRING())
    stream.addData(jvm.PythonUtils.toSeq(list(values)))
    return DataFrame(stream.toDF(), spark)


def writer(rows: DataFrame, checkpoint: Path, **options: str) -> Any:
    begun: Any = rows.writeStream.option("checkpointLocation", str(checkpoint)).outputMode("update")
    # Asynchronous progress, with which Spark runs such queries, is for sinks that it knows, too.
    return begun.option("asyncProgressTrackingEnabled", "false").options(**options).trigger(realTime="5 seconds")


def test_real_time_is_refused_where_an_epoch_is_written_once(
    spark: SparkSession, namespace: str, tmp_path: Path, real_time: None
) -> None:
    # Seen without the refusal: an epoch that was run again, with a row more, was taken for the one that was there.
    table = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {table} (value STRING)")
    rows = real_time_rows(spark, "a", "b")
    query = writer(rows, tmp_path / "once").toTable(table)
    with pytest.raises(StreamingQueryException, match=r"real-time trigger.*\"writer-mode\", \"at-least-once\""):
        query.awaitTermination(TIMEOUT_S)
    assert spark.table(table).count() == 0
    query = writer(rows, tmp_path / "direct", **{"writer-mode": "at-least-once"}).toTable(table)
    try:
        eventually(lambda: spark.table(table).count() == 2)
    finally:
        query.stop()


def test_the_continuous_trigger_is_refused(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    # Seen without the refusal: "Continuous execution does not support task retry", without a word of why.
    spark.sql(f"CREATE TABLE {namespace}.t (value BIGINT)")
    rows = spark.readStream.format("rate").option("numPartitions", 1).load().select("value")
    begun = rows.writeStream.option("checkpointLocation", str(tmp_path)).trigger(continuous="1 second")
    with pytest.raises(PySparkException, match="can't be written by a query with the continuous trigger"):
        begun.toTable(f"{namespace}.t")
