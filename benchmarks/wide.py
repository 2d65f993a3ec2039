"""Records of 200 columns and nested ones, in Spark, by turns: `python -m benchmarks.wide --help`."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from benchmarks.catalog import session
from benchmarks.harness import Case, Measured, case_in, measure, tell
from benchmarks.results import append, describe_machine
from pyspark_pravega.sandbox import Sandbox

WARM_UPS = 4
"""How often each case runs before it is measured: so long the JVM compiles."""
COLUMNS = 200
NAMESPACE = "pravega.bench"
_COLUMNAR = "pyspark.pravega.columnar"
_WIDE = ("id * {0}", "concat('text ', (id + {0}) % 1000)", "id * 0.25D + {0}", "CAST((id + {0}) % 100 AS INT)")
_LEAF = "named_struct('x', id + {0}, 'y', id * 0.5D, 's', concat('leaf ', id % 100))"
_MIDDLE = f"named_struct('one', {_LEAF.format(1)}, 'two', {_LEAF.format(2)}, 'n', CAST(id % 7 AS INT))"
_NESTED_VALUES = 2 * (2 * 3 + 1) + 2 * 3 + 1
"""Leaves of a nested row: two structs of two structs and a number, a list of two structs, and the id."""


def main() -> None:
    """Run the benchmark as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wide", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="how many are written and read")
    parser.add_argument("--runs", type=int, default=5, help="how often everything is measured")
    parser.add_argument("--heap", default="10g", help="the server's heap; it holds all that the INSERTs write")
    parser.add_argument(
        "--record", action="store_true", help="keep the results, and show them in benchmarks/RESULTS.md"
    )
    arguments = parser.parse_args()
    with Sandbox(heap=arguments.heap, preallocate=True) as sandbox:
        spark = session(sandbox.controller_uri, sandbox.schema_registry_uri)
        try:
            report = _report(spark, arguments.events, arguments.runs)
        finally:
            spark.stop()
    print(f"\n{describe_machine()}\n\n{report}")
    if arguments.record:
        append(report, "benchmarks.wide", sys.argv[1:])


def _report(spark: SparkSession, events: int, runs: int) -> str:
    spark.sql(f"CREATE NAMESPACE {NAMESPACE}")
    columns = [f"{_WIDE[at % len(_WIDE)].format(at)} AS c{at}" for at in range(1, COLUMNS)]
    wide = spark.range(0, events, 1, 2).selectExpr("id", *columns)
    nested = spark.range(0, events, 1, 2).selectExpr(
        "id", f"{_MIDDLE} AS a", f"{_MIDDLE} AS b", f"array({_LEAF.format(3)}, {_LEAF.format(4)}) AS l"
    )
    cases: list[tuple[Case, int]] = []
    for name, stream, rows, values, few in (
        ("200 columns", "wide", wide, COLUMNS, ("c4", "c198")),
        ("nested, three levels", "nested", nested, _NESTED_VALUES, ("a.one.x", "b.two.y")),
    ):
        table = f"{NAMESPACE}.{stream}"
        rows.limit(0).writeTo(table).create()
        kept = rows.cache()
        kept.count()
        kept.writeTo(table).append()
        spare = f"{NAMESPACE}.{stream}_written"
        rows.limit(0).writeTo(spare).create()
        cases += [
            (case_in(spark, f"{name}: all to noop", partial(_to_noop, spark.table(table))), values),
            (case_in(spark, f"{name}: two values", partial(_sum, spark.table(table), few)), 2),
            (case_in(spark, f"{name}: the rows of an INSERT, to noop", partial(_to_noop, kept)), values),
            (case_in(spark, f"{name}: INSERT", partial(_insert, kept, spare)), values),
            (case_in(spark, f"{name}: INSERT, Spark's own way", partial(_insert_by_values, kept, spare)), values),
        ]
    for case, _ in cases * WARM_UPS:
        case.run("", events)
    measured = measure([case for case, _ in cases], runs=runs, events=events, stage=lambda: nullcontext(""), tell=tell)
    return _table(measured, [values for _, values in cases], events)


def _table(measured: list[Measured], values: list[int], events: int) -> str:
    lines = [f"| {events:,} Avro events | 1,000 events/s | CPU us/event | CPU ns/value |", "|---|--:|--:|--:|"]
    for entry, count in zip(measured, values, strict=True):
        cpu = entry.cpu_microseconds_per_event(events)
        rate = entry.events_per_second(events) / 1000
        lines.append(f"| {entry.case.name} | {rate:,.0f} | {cpu:.2f} | {cpu / count * 1000:.0f} |")
    return "\n".join(lines)


def _to_noop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _insert(rows: DataFrame, table: str) -> None:
    rows.writeTo(table).append()


def _insert_by_values(rows: DataFrame, table: str) -> None:
    """Each value into an Arrow vector, as Spark does it for Python data sources, instead of rows as they lie."""
    jvm = rows.sparkSession._jvm
    assert jvm is not None
    jvm.java.lang.System.setProperty(_COLUMNAR, "false")
    try:
        _insert(rows, table)
    finally:
        jvm.java.lang.System.clearProperty(_COLUMNAR)


def _sum(rows: DataFrame, columns: tuple[str, str]) -> None:
    rows.selectExpr(*(f"sum({column})" for column in columns)).collect()


if __name__ == "__main__":
    main()
