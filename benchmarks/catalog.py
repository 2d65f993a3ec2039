"""How fast SQL answers: `python -m benchmarks.catalog --help`.

One run: queries on a table and on a Parquet file with the same rows, by turns in one session; a scope of many streams;
many sessions at once; and sums with and without columnar batches, each in a JVM of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

import pyspark_pravega
from benchmarks.harness import driver_pid, process_tree_cpu_seconds
from benchmarks.results import append
from pyspark_pravega.client import Client, Stream, StreamConfiguration
from pyspark_pravega.connector.datasource import DefaultSource
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

SEGMENTS = THREADS = 2
TABLE = "pravega.bench.events"
COLUMNS = ", ".join(
    (
        "id",
        "concat('customer-', id % 10000) AS customer",
        "concat('product-', id % 500) AS product",
        "CAST(id % 10 AS INT) AS quantity",
        "id * 0.25D AS amount",
        "(id % 7) * 0.1D AS discount",
        "timestamp_micros(1767225600000000 + id * 1000000) AS at",
        "id % 3 = 0 AS gift",
        "CAST(id % 97 AS BIGINT) AS shop",
        "concat('note ', id % 1000) AS note",
    )
)
WARM_UPS = 40
"""Sums before those that are measured: in its first ones a JVM spends twice as much on compiling as on the query."""
SUM = f"SELECT sum(amount), avg(discount) FROM {TABLE}"


def session(controller: str, registry: str, *, columnar: bool = True, java: str = "") -> SparkSession:
    """A session with two task slots.

    Args:
        controller: the controller's address.
        registry: the registry's address.
        columnar: whether batches stay columns on their way to Spark.
        java: more options of the JVM.
    """
    builder: SparkSession.Builder = SparkSession.builder
    builder = builder.master(f"local[{THREADS}]").appName("benchmark")
    builder = pyspark_pravega.configure(builder, controller=controller, schema_registry=registry)
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "3g",
        "spark.driver.host": "localhost",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(THREADS),
        "spark.driver.extraJavaOptions": f"-Dpyspark.pravega.columnar={str(columnar).lower()} {java}",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def by_turns(runs: int, *cases: Callable[[], object], warm_ups: int = 2) -> list[float]:
    """The median seconds of some things that are done one after the other, again and again.

    Args:
        runs: how often each is measured.
        cases: what is done.
        warm_ups: how often each is done before.
    """
    times: list[list[float]] = [[] for _ in cases]
    for run in range(-warm_ups, runs):
        for case, seconds in zip(cases, times, strict=True):
            begin = time.perf_counter()
            case()
            if run >= 0:
                seconds.append(time.perf_counter() - begin)
    return [statistics.median(seconds) for seconds in times]


def limits(spark: SparkSession, runs: int, folder: Path) -> list[str]:
    """SELECT * LIMIT 10 beside a local Parquet table; count(*) beside decoding all columns."""
    parquet = str(folder / "events.parquet")
    spark.table(TABLE).write.mode("overwrite").parquet(parquet)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW local AS SELECT * FROM parquet.`{parquet}`")
    ours, theirs = by_turns(
        runs,
        lambda: spark.sql(f"SELECT * FROM {TABLE} LIMIT 10").collect(),
        lambda: spark.sql("SELECT * FROM local LIMIT 10").collect(),
    )
    count, decode = by_turns(
        max(3, runs // 3),
        lambda: spark.sql(f"SELECT count(*) FROM {TABLE}").collect(),
        lambda: spark.table(TABLE).write.format("noop").mode("overwrite").save(),
    )
    (events,) = by_turns(
        max(3, runs // 3),
        # A read with an option isn't answered by the commit log.
        lambda: spark.read.option("mode", "fail-fast").table(TABLE).groupBy().count().collect(),
    )
    return [
        f"| `SELECT * LIMIT 10`, warm | {ours:.3f} s | Parquet {theirs:.3f} s | {ours / theirs:.2f}x | <= 1.5x |",
        f"| `count(*)` | {count:.3f} s | all columns {decode:.3f} s | {decode / count:.1f}x | >= 5x |",
        f"| `count(*)`, events counted | {events:.3f} s | all columns {decode:.3f} s | {decode / events:.1f}x | |",
    ]


def many_streams(spark: SparkSession, settings: Settings, streams: int, runs: int) -> str:
    """SHOW TABLES in a scope of many streams."""
    with Client(settings) as client, ThreadPoolExecutor(16) as threads:
        client.controller.create_scope("many")

        def make(number: int) -> bool:
            return client.controller.create_stream(Stream("many", f"stream-{number}"), StreamConfiguration())

        count = sum(threads.map(make, range(streams)))
    (seconds,) = by_turns(runs, lambda: spark.sql("SHOW TABLES IN pravega.many").collect())
    assert spark.sql("SHOW TABLES IN pravega.many").count() == count == streams
    return f"| `SHOW TABLES`, {streams} streams | {seconds:.2f} s | | | < 3 s |"


def many_sessions(spark: SparkSession, sessions: int, statements: int) -> str:
    """Sessions that all ask at once."""

    def one(_: int) -> int:
        own = spark.newSession()
        for number in range(statements):
            own.sql([f"DESCRIBE {TABLE}", "SHOW TABLES IN pravega.bench", f"SHOW TBLPROPERTIES {TABLE}"][number % 3])
        return statements

    begin = time.perf_counter()
    with ThreadPoolExecutor(sessions) as threads:
        statements_run = sum(threads.map(one, range(sessions)))
    seconds = time.perf_counter() - begin
    listed = subprocess.run(
        ["ps", "-ww", "-o", "args=", "--ppid", str(driver_pid(spark))], capture_output=True, text=True, check=True
    )
    processes = sum("pyspark_pravega.catalog.process.service" in line for line in listed.stdout.splitlines())
    return (
        f"| {sessions} sessions x {statements} statements | {seconds:.1f} s, {statements_run / seconds:.0f} a second | "
        f"{processes} catalog process | no errors | 1 process, no errors |"
    )


def sums(controller: str, registry: str, runs: int, how: str) -> dict[str, float]:
    """Seconds and CPU seconds of a sum and an average, in a JVM of its own.

    Args:
        controller: the controller's address.
        registry: the registry's address.
        runs: how often.
        how: `columns`, or `rows` (the catalog's table, made rows on the way to Spark), or `source` (without the
            catalog, as Spark reads any data source in Python: planned by a worker, made rows).
    """
    arguments = ["--sums", json.dumps([controller, registry, runs, how])]
    command = [sys.executable, "-m", "benchmarks.catalog", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return figures


def by_turns_in_jvms(controller: str, registry: str, runs: int, *, turns: int = 3) -> list[dict[str, float]]:
    """`sums` each way, one after the other and again: the medians of `columns`, `rows` and `source`."""
    ways = ("columns", "rows", "source")
    rounds = [[sums(controller, registry, runs, how) for how in ways] for _ in range(turns)]
    return [{key: statistics.median(turn[way][key] for turn in rounds) for key in rounds[0][way]} for way in range(3)]


def measure_sums(controller: str, registry: str, runs: int, how: str) -> dict[str, float]:
    """What `sums` starts."""
    spark = session(controller, registry, columnar=how == "columns")
    if how == "source":
        spark.dataSource.register(DefaultSource)
        options = {"controller-uri": controller, "schema-registry-uri": registry, "stream": "bench/events"}
        spark.read.format("pravega").options(**options).load().createOrReplaceTempView("source")
    query = SUM.replace(TABLE, "source") if how == "source" else SUM
    jvm = driver_pid(spark)
    seconds, cpu = [], []
    for run in range(-WARM_UPS, runs):
        begin, used = time.perf_counter(), process_tree_cpu_seconds(jvm)
        spark.sql(query).collect()
        if run >= 0:
            seconds.append(time.perf_counter() - begin)
            cpu.append(process_tree_cpu_seconds(jvm) - used)
    spark.stop()
    return {"seconds": statistics.median(seconds), "cpu": statistics.median(cpu)}


def run(events: int, streams: int, runs: int, tell: Callable[[str], None]) -> str:
    """All of it.

    Args:
        events: how many events of 10 columns the table holds.
        streams: how many streams the large scope holds.
        runs: how often each query is measured.
        tell: is told each line as soon as it is measured.

    Returns:
        A table in Markdown.
    """
    lines = ["| what | here | beside | ratio | wanted |", "|---|---|---|---|---|"]
    with Sandbox(heap="4g") as sandbox, tempfile.TemporaryDirectory() as folder:
        controller, registry = sandbox.controller_uri, sandbox.schema_registry_uri
        settings = Settings.resolve({"controller-uri": controller, "schema-registry-uri": registry})
        spark = session(controller, registry)
        spark.sql("CREATE NAMESPACE pravega.bench")
        spark.sql(
            f"CREATE TABLE {TABLE} CLUSTERED BY (customer) INTO {SEGMENTS} BUCKETS "
            f"AS SELECT {COLUMNS} FROM range(0, {events}, 1, {THREADS})"
        )
        lines += limits(spark, runs, Path(folder))
        tell("\n".join(lines))
        columns, *others = by_turns_in_jvms(controller, registry, runs)
        lines.append(many_sessions(spark, 50, 20))
        tell(lines[-1])
        lines.append(many_streams(spark, settings, streams, 3))
        tell(lines[-1])
        spark.stop()
    for other, what in zip(others, ("by rows", "Spark's own way"), strict=True):
        lines.append(
            f"| sum and avg, CPU microseconds an event | {columns['cpu'] / events * 1e6:.2f} | "
            f"{what} {other['cpu'] / events * 1e6:.2f} | {other['cpu'] / columns['cpu']:.2f}x | <= 0.6 |"
        )
        lines.append(
            f"| sum and avg, {events} events | {columns['seconds']:.3f} s | {what} {other['seconds']:.3f} s | "
            f"{other['seconds'] / columns['seconds']:.2f}x | >= 1.5x |"
        )
    tell("\n".join(lines[-4:]))
    return "\n".join(lines)


def main() -> None:
    """Parse the command line, measure, print; `--record` keeps the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.catalog", description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--streams", type=int, default=5_000)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--record", action="store_true", help="keep the results, and show them in RESULTS.md")
    parser.add_argument("--sums", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.sums:
        controller, registry, runs, how = json.loads(arguments.sums)
        print(json.dumps(measure_sums(controller, registry, runs, how)))
        return
    report = run(arguments.events, arguments.streams, arguments.runs, lambda text: print(text, flush=True))
    if arguments.record:
        append(report, "benchmarks.catalog", [argument for argument in sys.argv[1:] if argument != "--record"])


if __name__ == "__main__":
    main()
