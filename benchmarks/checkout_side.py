"""One side of `benchmarks.checkouts`: a session that reads and writes as it is told, by lines of JSON.

It runs in the environment of any checkout, so it uses nothing of this folder, and of the package only `configure`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import pyspark_pravega

ROWS = "rows_to_write"


def main() -> None:
    """Answer each line [what, table, events, options]."""
    controller, registry, rows, events, threads = sys.argv[1:]
    builder: SparkSession.Builder = SparkSession.builder
    builder = builder.master(f"local[{threads}]").appName("benchmark")
    builder = pyspark_pravega.configure(builder, controller=controller, schema_registry=registry)
    for key, value in {
        "spark.sql.catalog.pravega.timeout": "120",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.driver.host": "localhost",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    _cache(session, rows, int(events), int(threads) * 2)
    print("ready", flush=True)
    for line in sys.stdin:
        what, table, count, options = json.loads(line)
        try:
            _do(session, what, table, count, options)
            print("done", flush=True)
        except Exception as error:
            print(" ".join(str(error).split()), flush=True)
    session.stop()


def _cache(session: SparkSession, file: str, events: int, partitions: int) -> None:
    rows = session.read.parquet(file)
    copies = session.range(0, -(-events // rows.count()), 1, partitions)
    repeated = copies.withColumnRenamed("id", "copy").crossJoin(rows).drop("copy").limit(events)
    repeated.repartition(partitions).cache().createOrReplaceTempView(ROWS)
    assert session.table(ROWS).count() == events


def _do(session: SparkSession, what: str, table: str, events: int, options: dict[str, str]) -> None:
    if what == "write":
        session.sql(f"INSERT INTO {table} SELECT * FROM {ROWS}")
        return
    rows = session.read.options(**options).table(table)
    if what == "new workers":
        _end_workers(session)
    if what in ("sum", "new workers"):
        rows.selectExpr("sum(amount)", "avg(discount)").collect()
    elif what == "count":
        # The condition keeps the catalog from answering with the number that the commit log knows.
        assert rows.where("_offset >= 0").selectExpr("count(*)").collect()[0][0] == events
    else:
        _to_noop(rows.select("id", "customer") if what == "two columns" else rows)


def _end_workers(session: SparkSession) -> None:
    """End all Python workers: Spark has its daemons fork others."""
    assert session._jvm is not None
    daemons = _children(session._jvm.java.lang.ProcessHandle.current().pid())
    for worker in [worker for daemon in daemons for worker in _children(daemon)]:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def _children(process: int) -> list[int]:
    pids: list[int] = []
    for thread in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # the thread has just ended
            pids += map(int, thread.read_text().split())
    return pids


def _to_noop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


if __name__ == "__main__":
    main()
