"""A table whose rows are in the lake beside one whose rows are in the stream, and Spark's own scan of the lake's files,
by turns: `python -m benchmarks.lake --help`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.catalog import session
from benchmarks.harness import Measured, case_in, measure, tell
from benchmarks.results import append, describe_machine
from pyspark_pravega.sandbox import Sandbox

WARM_UPS = 3
NAMESPACE = "pravega.bench"
COLUMNS = 10
COMMITS = 10
_COLUMNS = ("id * {0}", "concat('text ', (id + {0}) % 1000)", "id * 0.25D + {0}", "CAST((id + {0}) % 100 AS INT)")
_CASES = {
    "two columns, a tenth of the time": lambda rows, tenth: _sum(rows.where(tenth)),
    "two columns": lambda rows, _: _sum(rows),
    "all columns to noop": lambda rows, _: (
        rows.drop("_segment", "_offset", "_version").write.format("noop").mode("overwrite").save()
    ),
    "count(*)": lambda rows, _: rows.count(),
}


def main() -> None:
    """Run the benchmark as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lake", description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000, help="how many rows each table has")
    parser.add_argument("--runs", type=int, default=5, help="how often everything is measured")
    parser.add_argument("--heap", default="10g", help="the server's heap; it holds all that is written")
    parser.add_argument(
        "--record", action="store_true", help="keep the results, and show them in benchmarks/RESULTS.md"
    )
    arguments = parser.parse_args()
    with Sandbox(heap=arguments.heap, preallocate=True) as sandbox, tempfile.TemporaryDirectory() as folder:
        spark = session(sandbox.controller_uri, sandbox.schema_registry_uri)
        spark.conf.set("spark.sql.catalog.pravega.lake.warehouse", folder)
        try:
            report = _report(spark, arguments.events, arguments.runs, Path(folder))
        finally:
            spark.stop()
    print(f"\n{describe_machine()}\n\n{report}")
    if arguments.record:
        append(report, "benchmarks.lake", sys.argv[1:])


def _report(spark: SparkSession, events: int, runs: int, folder: Path) -> str:
    spark.sql(f"CREATE NAMESPACE {NAMESPACE}")
    columns = [f"{_COLUMNS[at % len(_COLUMNS)].format(at)} AS c{at}" for at in range(2, COLUMNS)]
    stream, tiered = f"{NAMESPACE}.stream", f"{NAMESPACE}.tiered"
    for table, properties in ((stream, ""), (tiered, ", 'lake' = 'iceberg', 'lake-keep-in-stream' = '0 ms'")):
        rows = spark.range(0).selectExpr("id", "timestamp_seconds(id) AS at", *columns)
        names = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema)
        spark.sql(f"CREATE TABLE {table} ({names}) TBLPROPERTIES ('segments' = '4'{properties})")
        for commit in range(COMMITS):
            first, last = events * commit // COMMITS, events * (commit + 1) // COMMITS
            spark.range(first, last, 1, 2).selectExpr("id", "timestamp_seconds(id) AS at", *columns).writeTo(
                table
            ).append()
    spark.sql("CALL pravega.system.tier(table => 'bench.tiered')").show()
    files = [str(path) for path in folder.glob("bench/tiered/data/*.parquet")]
    tenth = f"at >= timestamp_seconds({events * 6 // 10}) AND at < timestamp_seconds({events * 7 // 10})"
    cases = []
    for query, run in _CASES.items():
        for where, source in (
            ("stream", partial(spark.table, stream)),
            ("lake", partial(spark.table, tiered)),
            ("Spark's Parquet scan", partial(spark.read.parquet, *files)),
        ):
            cases.append(case_in(spark, f"{query}: {where}", _run(run, source, tenth)))
    for case in cases * WARM_UPS:
        case.run("", events)
    measured = measure(cases, runs=runs, events=events, stage=lambda: nullcontext(""), tell=tell)
    return _table(measured, events)


def _run(run: Callable[[DataFrame, str], object], source: Callable[[], DataFrame], tenth: str) -> Callable[[], None]:
    def query() -> None:
        run(source(), tenth)

    return query


def _table(measured: list[Measured], events: int) -> str:
    lines = [f"| {events:,} rows, {COLUMNS} columns | 1,000 rows/s | CPU us/row |", "|---|--:|--:|"]
    for entry in measured:
        rate, cpu = entry.events_per_second(events) / 1000, entry.cpu_microseconds_per_event(events)
        lines.append(f"| {entry.case.name} | {rate:,.0f} | {cpu:.2f} |")
    return "\n".join(lines)


def _sum(rows: DataFrame) -> None:
    rows.selectExpr("sum(id)", "sum(c4)").collect()


if __name__ == "__main__":
    main()
