"""What this package does in Spark, with the catalog configured as a user would do it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import pyspark_pravega
from benchmarks.harness import driver_pid, process_tree_cpu_seconds
from benchmarks.ours import THREADS
from pyspark_pravega.connector.option_names import EXACTLY_ONCE
from pyspark_pravega.sandbox import Sandbox

WARM_UP_EPOCHS = 15
_ROWS = "rows_to_write"


class OursInSpark:
    """A session, and a cached DataFrame of the events to write."""

    def __init__(self, session: SparkSession, scope: str) -> None:
        self._session, self._scope, self._cached = session, scope, 0
        self._jvm_pid = driver_pid(session)

    def cache_rows(self, rows: pa.RecordBatch, events: int, folder: Path) -> None:
        """Cache the rows over and over, in the JVM's memory.

        Args:
            rows: the different rows.
            events: how many there shall be.
            folder: where a file goes.
        """
        file = folder / "rows.parquet"
        pq.write_table(pa.Table.from_batches([rows]), file)
        copies = self._session.range(0, -(-events // len(rows)), 1, THREADS * 2)
        repeated = copies.crossJoin(self._session.read.parquet(str(file))).drop(copies.id).limit(events)
        repeated.repartition(THREADS * 2).cache().createOrReplaceTempView(_ROWS)
        self._cached = self._session.table(_ROWS).count()
        assert self._cached == events

    def write(self, stream: str, events: int, mode: str = EXACTLY_ONCE) -> int:
        """INSERT INTO ... SELECT from the cached rows; returns the number of events."""
        limit = "" if events == self._cached else f" LIMIT {events}"
        options = f"WITH ('writer-mode' = '{mode}')"
        self._session.sql(f"INSERT INTO {self._table(stream)} {options} SELECT * FROM {_ROWS}{limit}")
        return events

    def small_epochs(self, stream: str, mode: str, *, epochs: int, rows: int, folder: Path) -> list[float]:
        """A streaming query with little data in each micro-batch.

        Args:
            stream: where to; its table has the columns `timestamp` and `value`.
            mode: the writer mode.
            epochs: how many micro-batches.
            rows: of each.
            folder: for its checkpoint.

        Returns:
            For each the milliseconds from its plan to the end of its commit, the first ones left out.
        """
        source = self._session.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
        source = source.option("numPartitions", THREADS)
        writer = source.load().writeStream.option("checkpointLocation", str(folder)).option("writer-mode", mode)
        query = writer.trigger(processingTime="0 seconds").toTable(self._table(stream))
        try:
            while (last := query.lastProgress) is None or last.batchId < epochs + WARM_UP_EPOCHS:
                if query.exception():
                    raise RuntimeError(f"the query has failed: {query.exception()}")
                time.sleep(0.1)
            progress = [one for one in query.recentProgress if one.batchId >= WARM_UP_EPOCHS]
        finally:
            query.stop()
        return [float(one.durationMs["queryPlanning"] + one.durationMs["addBatch"]) for one in progress[:epochs]]

    def count(self, stream: str) -> int:
        """SELECT count(*)."""
        return int(self._one_value(f"SELECT count(*) FROM {self._table(stream)}"))

    def sum(self, stream: str, column: str) -> float:
        """SELECT sum(column)."""
        return float(self._one_value(f"SELECT sum({column}) FROM {self._table(stream)}"))

    def all_columns(self, stream: str) -> None:
        """All columns of all rows to a sink that throws them away."""
        self._session.table(self._table(stream)).write.format("noop").mode("overwrite").save()

    def catch_up(self, stream: str) -> int:
        """A streaming query with Trigger.AvailableNow, all columns of all rows to a sink that throws them away.

        Returns:
            How many rows it has read.
        """
        with tempfile.TemporaryDirectory(prefix="pravega-bench-") as checkpoint:
            rows = self._session.readStream.table(self._table(stream))
            writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            return sum(progress.numInputRows for progress in query.recentProgress)

    def cpu_seconds(self) -> float:
        """User and system time so far of the JVM, Spark's Python workers and the catalog's process."""
        return process_tree_cpu_seconds(self._jvm_pid)

    def _one_value(self, query: str) -> Any:
        return self._session.sql(query).collect()[0][0]

    def _table(self, stream: str) -> str:
        return f"pravega.`{self._scope}`.`{stream}`"


@contextmanager
def ours_in_spark(sandbox: Sandbox, scope: str, timeout_s: str) -> Iterator[OursInSpark]:
    """Start Spark with two task slots.

    Args:
        sandbox: the servers.
        scope: the scope of all streams.
        timeout_s: how long a call to a server may take, in seconds.
    """
    builder: SparkSession.Builder = SparkSession.builder
    builder = builder.master(f"local[{THREADS}]").appName("benchmark")
    builder = pyspark_pravega.configure(
        builder, controller=sandbox.controller_uri, schema_registry=sandbox.schema_registry_uri
    )
    settings = {
        "spark.sql.catalog.pravega.timeout": timeout_s,
        "spark.ui.enabled": "false",
        "spark.driver.memory": "3g",
        "spark.driver.host": "localhost",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield OursInSpark(session, scope)
    finally:
        session.stop()
