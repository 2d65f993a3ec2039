"""TPC-H's or TPC-DS's queries beside the same ones on Parquet: `python -m benchmarks.queries --help`.

Each query runs over streams of Avro, of JSON, over tables with keys, over tables whose rows are all in the lake, and
over Parquet, by turns in one session, and has to give Parquet's rows everywhere. Where a query leaves open which rows
come first, any answer to it is taken, and no other (`benchmarks.answers`). The table tells how the times compare, and
where Spark has planned something else: how often it scans a table, takes an exchange again that is there already, and
broadcasts one side of a join. All 103 of TPC-DS, once over some tables of each kind and once over the lake:

python -m benchmarks.queries --suite tpcds --scale 0.03 --kinds mixed,lake --runs 1
"""

from __future__ import annotations

import argparse
import gc
import logging
import re
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import ArithmeticException
from pyspark.sql import DataFrame, SparkSession

from benchmarks import tpcds, tpch
from benchmarks.answers import Expected, says_nothing
from benchmarks.results import append
from benchmarks.shapes import Shape, shape
from benchmarks.statements import session
from benchmarks.suites import Suite
from pyspark_pravega.sandbox import Sandbox

SUITES: dict[str, Suite] = {"tpch": tpch.SUITE, "tpcds": tpcds.SUITE}
PARQUET = "parquet"
KINDS = ("avro", "json", "keyed")
"""Streams of a format, and tables with keys."""
MIXED = "mixed"
"""Some of each."""
LAKE = "lake"
"""Tables whose rows are all in the lake."""
_SMALL_ROWS = 10_000
"""Tables with fewer rows have one segment."""
_SERVERS_HEAP, _HEAP = "4g", "8g"
"""The servers' one, which has all streams in memory; and Spark's: it broadcasts some large tables of Parquet files, as
these are small, and keeps what it has broadcast until its garbage is collected."""
_ANSI = "spark.sql.ansi.enabled"


def properties(suite: str, kind: str, table: str) -> str:
    """The properties of a table.

    Args:
        suite: of `SUITES`.
        kind: of `KINDS`, `MIXED`, or `LAKE`.
        table: its name in the suite.
    """
    keys = SUITES[suite].keys
    if kind == LAKE:
        return "'lake' = 'iceberg', 'lake-keep-in-stream' = '0 ms'"
    if kind == MIXED:
        kind = KINDS[list(keys).index(table) % len(KINDS)]
    return f"'primary-key' = '{keys[table]}'" if kind == "keyed" else f"'format' = '{kind}'"


def load(
    spark: SparkSession,
    folder: Path,
    suite: str,
    kinds: Iterable[str],
    *,
    scale: float,
    queries: Iterable[str],
    only: Mapping[str, str] | None = None,
    analyze: bool = False,
) -> dict[str, str]:
    """Make the tables of a suite that queries name.

    Args:
        spark: the session, whose catalog is `pravega`; it has a lake where one of the kinds is `LAKE`.
        folder: where the rows lie meanwhile; it is there.
        suite: of `SUITES`.
        kinds: of `KINDS`, `MIXED` or `LAKE`, beside Parquet.
        scale: how many rows; 1 is a gigabyte.
        queries: the queries' texts.
        only: conditions on rows of some tables, for who needs fewer than the least scale has.
        analyze: whether statistics are taken of all tables, those of Parquet included.

    Returns:
        The namespace of each kind, and of Parquet.
    """
    keys = SUITES[suite].keys
    words = {word.lower() for text in queries for word in re.findall(r"\w+", text)}
    tables = SUITES[suite].generate(folder, scale, [table for table in keys if table in words])
    names = {PARQUET: f"spark_catalog.{suite}"} | {kind: f"pravega.{suite}_{kind}" for kind in kinds}
    for kind, name in names.items():
        spark.sql(f"CREATE NAMESPACE {name}" + (f" LOCATION '{folder}/parquet'" if kind == PARQUET else ""))
    for table, columns in tables.items():
        path = folder / f"{table}.tbl"
        # CSV has no texts of a certain length; INSERT makes them so.
        schema = re.sub(r"(VAR)?CHAR\(\d+\)", "STRING", columns)
        rows = spark.read.csv(str(path), schema=f"{schema}, behind STRING", sep="|", quote="", dateFormat="yyyy-MM-dd")
        # On a small scale TPC-H's generator gives parts a supplier twice.
        rows = (
            rows.drop("behind")
            .where((only or {}).get(table, "true"))
            .dropDuplicates(keys[table].split(", "))
            .coalesce(2)
        )
        spark.sql(f"CREATE TABLE {names[PARQUET]}.{table} ({columns}) USING parquet")
        rows.write.insertInto(f"{names[PARQUET]}.{table}")
        path.unlink()
        rows = spark.table(f"{names[PARQUET]}.{table}")
        segments = 1 if rows.count() < _SMALL_ROWS else 4
        for kind in kinds:
            given = f"{properties(suite, kind, table)}, 'segments' = '{segments}'"
            spark.sql(f"CREATE TABLE {names[kind]}.{table} ({columns}) TBLPROPERTIES ({given})")
            rows.writeTo(f"{names[kind]}.{table}").append()
            if kind == LAKE:
                spark.sql(f"CALL pravega.system.tier(table => '{suite}_{kind}.{table}')")
            if analyze:
                spark.sql(f"CALL pravega.system.analyze(table => '{suite}_{kind}.{table}')")
        if analyze:
            spark.sql(f"ANALYZE TABLE {names[PARQUET]}.{table} COMPUTE STATISTICS FOR ALL COLUMNS")
    return names


def asked(spark: SparkSession, namespace: str, query: str) -> tuple[list[tuple[Any, ...]], DataFrame, float]:
    """A query's answer.

    Args:
        spark: the session.
        namespace: where the tables are.
        query: its text.

    Returns:
        The rows in their order, what has run, and how many seconds that took.
    """
    spark.sql(f"USE {namespace}")
    begin = time.perf_counter()
    frame = spark.sql(query)
    rows = [tuple(row) for row in frame.collect()]
    return rows, frame, time.perf_counter() - begin


@dataclass(kw_only=True)
class Beside:
    """A query over one kind of tables."""

    seconds: list[float]
    shape: Shape
    rows: int
    """How many it has given."""
    is_empty: bool
    """Whether they say nothing."""
    same: bool
    """Whether they are an answer to the query, as Parquet's are."""


def measure(
    spark: SparkSession, names: Mapping[str, str], queries: Mapping[str, str], runs: int, tell: Callable[[str], None]
) -> dict[str, dict[str, Beside]]:
    """Run queries over each kind of tables, by turns.

    Args:
        spark: the session.
        names: as `load` returns.
        queries: their texts.
        runs: how often each is measured; once more before.
        tell: is told how far it is.

    Returns:
        For each query and each kind what came out.
    """
    measured: dict[str, dict[str, Beside]] = {}
    for name, query in queries.items():
        expected = _expected(spark, names[PARQUET], name, query, tell)
        of_query = measured[name] = {}
        for run in range(runs + 1):
            for kind, namespace in names.items():
                if not run and kind == PARQUET:
                    continue
                rows, frame, seconds = asked(spark, namespace, query)
                first = Beside(seconds=[], shape=shape(frame), rows=len(rows), is_empty=says_nothing(rows), same=True)
                beside = of_query.setdefault(kind, first)
                beside.same &= expected.holds(rows)
                if run:
                    beside.seconds.append(seconds)
        spark.conf.unset(_ANSI)
        # A DataFrame that Python still has keeps what its query has broadcast.
        gc.collect()
        tell(f"{name}: " + ", ".join(f"{kind} {_told(of_query[kind])}" for kind in names))
    return measured


def _expected(spark: SparkSession, namespace: str, name: str, query: str, tell: Callable[[str], None]) -> Expected:
    """What a query gives; where it divides by zero, the session is left in the mode in which that is NULL."""
    try:
        rows, frame, _ = asked(spark, namespace, query)
    except ArithmeticException:
        tell(f"{name}: it divides by zero at this scale, and is asked without ANSI mode")
        spark.conf.set(_ANSI, "false")
        rows, frame, _ = asked(spark, namespace, query)
    return Expected(rows, frame)


def _told(beside: Beside) -> str:
    times = f"{statistics.median(beside.seconds):.2f} s" if beside.seconds else ""
    return f"{times} {beside.shape} {beside.rows} rows{'' if beside.same else ' OTHER ROWS'}".strip()


def table(measured: Mapping[str, Mapping[str, Beside]]) -> str:
    """What came out, in Markdown.

    Args:
        measured: as `measure` returns.
    """
    kinds = [kind for kind in next(iter(measured.values())) if kind != PARQUET]
    lines = ["| query | Parquet, s | plan | " + " | ".join(f"{kind}, times | plan" for kind in kinds) + " |"]
    lines.append("|---|--:|---|" + "--:|---|" * len(kinds))
    totals: dict[str, float] = defaultdict(float)
    for name, of_query in measured.items():
        parquet = of_query[PARQUET]
        base = statistics.median(parquet.seconds)
        totals[PARQUET] += base
        cells = [name, f"{base:.2f}", str(parquet.shape)]
        for kind in kinds:
            beside = of_query[kind]
            seconds = statistics.median(beside.seconds)
            totals[kind] += seconds
            plan = "the same" if beside.shape == parquet.shape else str(beside.shape)
            cells += [f"{seconds / base:.2f}", plan if beside.same else "other rows!"]
        lines.append("| " + " | ".join(cells) + " |")
    ends = [f"{totals[kind] / totals[PARQUET]:.2f} | " for kind in kinds]
    lines.append(f"| all | {totals[PARQUET]:.2f} | | " + " | ".join(ends) + " |")
    return "\n".join(lines)


def run(
    suite: str,
    scale: float,
    runs: int,
    kinds: Sequence[str],
    wanted: Sequence[str],
    tell: Callable[[str], None],
    *,
    analyze: bool = False,
) -> str:
    """All of it.

    Args:
        suite: of `SUITES`.
        scale: how many rows; 1 is a gigabyte.
        runs: how often each query is measured.
        kinds: of `KINDS`, `MIXED` or `LAKE`.
        wanted: the queries' names.
        tell: is told how far it is.
        analyze: as of `load`.

    Returns:
        A table in Markdown, with what it says in words.
    """
    texts = {name: text for name, text in SUITES[suite].queries(scale).items() if not wanted or name in wanted}
    with Sandbox(heap=_SERVERS_HEAP) as sandbox, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = session(sandbox, folder, memory=_HEAP)
        spark.conf.set("spark.sql.catalog.pravega.lake.warehouse", str(folder / "lake"))
        names = load(spark, folder, suite, kinds, scale=scale, queries=texts.values(), analyze=analyze)
        tell("the tables are there")
        measured = measure(spark, names, texts, runs, tell)
        spark.stop()
    others = [name for name, of_query in measured.items() if not all(beside.same for beside in of_query.values())]
    empty = [name for name, of_query in measured.items() if of_query[PARQUET].is_empty]
    equal = "All give Parquet's rows" if not others else f"OTHER ROWS THAN PARQUET'S: {', '.join(others)}"
    none = f"; {len(empty)} of {len(measured)} no row, or only NULL and 0: {', '.join(empty)}" if empty else ""
    analyzed = ", tables analysed" if analyze else ""
    words = f"{SUITES[suite].title}, scale {scale}{analyzed}, median of {runs} runs. {equal}{none}."
    return f"{words} plan: scans/exchanges/reused/broadcasts.\n\n{table(measured)}"


def main() -> None:
    """Parse the command line, measure, print; `--record` keeps the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queries", description=__doc__)
    parser.add_argument("queries", nargs="*", help="as q1 or q14a; all where none is named")
    parser.add_argument("--suite", choices=SUITES, default="tpch", help="whose queries (tpch)")
    parser.add_argument("--scale", type=float, default=0.02, help="how many rows; 1 is a gigabyte (0.02)")
    parser.add_argument("--runs", type=int, default=3, help="how often each query is measured (3)")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join([*KINDS, MIXED, LAKE])}")
    parser.add_argument("--analyze", action="store_true", help="take statistics of all tables, Parquet's included")
    parser.add_argument("--record", action="store_true", help="keep the results, and show them in RESULTS.md")
    given = parser.parse_args()
    kinds = [kind for kind in given.kinds.split(",") if kind]
    if unknown := sorted(set(kinds) - {*KINDS, MIXED, LAKE}):
        parser.error(f"--kinds has {', '.join(unknown)}; there are {', '.join([*KINDS, MIXED, LAKE])}")
    if given.runs < 1:
        parser.error("--runs is at least 1")
    if unknown := sorted(set(given.queries) - set(SUITES[given.suite].queries(given.scale))):
        parser.error(f"{SUITES[given.suite].title} has no {', '.join(unknown)}")

    # PySpark tells of a division by zero, which is no surprise here, by all of its trace.
    logging.getLogger("SQLQueryContextLogger").disabled = True

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    report = run(given.suite, given.scale, given.runs, kinds, given.queries, tell, analyze=given.analyze)
    print(report)
    if given.record:
        append(report, "benchmarks.queries", [argument for argument in sys.argv[1:] if argument != "--record"])


if __name__ == "__main__":
    main()
