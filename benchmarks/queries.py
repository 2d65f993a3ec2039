"""TPC-H's queries beside the same ones on Parquet: `python -m benchmarks.queries --help`.

Each query runs over streams of Avro, of JSON, over tables with keys, and over Parquet, by turns in one session, and has
to give the same rows everywhere. The table tells how the times compare, and where Spark has planned something else: how
often it scans a table, takes an exchange again that is there already, and broadcasts one side of a join.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks import tpch
from benchmarks.results import append
from benchmarks.statements import session
from pyspark_pravega.sandbox import Sandbox

PARQUET = "parquet"
KINDS = ("avro", "json", "keyed")
"""Streams of a format, and tables with keys."""
MIXED = "mixed"
"""Some of each."""
_SMALL_ROWS = 10_000
"""Tables with fewer rows have one segment."""


@dataclass(frozen=True)
class Shape:
    """What a query's plan has."""

    scans: int
    exchanges: int
    reused: int
    """Exchanges that are taken again."""
    broadcasts: int
    """Joins of which one side is broadcast."""

    def __str__(self) -> str:
        return "/".join(str(number) for number in astuple(self))


def shape(frame: DataFrame) -> Shape:
    """How Spark has run a query.

    Args:
        frame: it has been run.
    """
    counts: Counter[str] = Counter()
    _count(frame._jdf.queryExecution().executedPlan(), counts)
    return Shape(
        scans=counts["BatchScanExec"] + counts["FileSourceScanExec"],
        exchanges=counts["ShuffleExchangeExec"] + counts["BroadcastExchangeExec"],
        reused=counts["ReusedExchangeExec"],
        broadcasts=counts["BroadcastHashJoinExec"] + counts["BroadcastNestedLoopJoinExec"],
    )


def _count(node: Any, counts: Counter[str]) -> None:
    """Count the operators of a plan by their classes; what is taken again once."""
    kind = str(node.getClass().getSimpleName())
    counts[kind] += 1
    if kind.startswith("Reused"):
        return
    below = [node.subqueries(), node.children()]
    inner = [of_list.apply(at) for of_list in below for at in range(of_list.size())]
    if kind == "AdaptiveSparkPlanExec":
        inner = [node.executedPlan()]
    elif kind.endswith("QueryStageExec"):
        inner = [node.plan()]
    for one in inner:
        _count(one, counts)


def properties(kind: str, table: str) -> str:
    """The properties of a table.

    Args:
        kind: of `KINDS`, or `MIXED`.
        table: its name in TPC-H.
    """
    if kind == MIXED:
        kind = KINDS[list(tpch.TABLES).index(table) % len(KINDS)]
    return f"'primary-key' = '{tpch.KEYS[table]}'" if kind == "keyed" else f"'format' = '{kind}'"


def load(spark: SparkSession, folder: Path, kinds: Iterable[str], *, scale: float) -> dict[str, str]:
    """Make the tables of TPC-H.

    Args:
        spark: the session, whose catalog is `pravega`.
        folder: where the rows lie meanwhile; it is there.
        kinds: of `KINDS` or `MIXED`, beside Parquet.
        scale: how many rows; 1 is a gigabyte.

    Returns:
        The namespace of each kind, and of Parquet.
    """
    tpch.generate(folder, scale)
    names = {PARQUET: "spark_catalog.tpch"} | {kind: f"pravega.tpch_{kind}" for kind in kinds}
    for kind, name in names.items():
        spark.sql(f"CREATE NAMESPACE {name}" + (f" LOCATION '{folder}/parquet'" if kind == PARQUET else ""))
    for table, columns in tpch.TABLES.items():
        path = str(folder / f"{table}.tbl")
        rows = spark.read.csv(path, schema=f"{columns}, behind STRING", sep="|", dateFormat="yyyy-MM-dd").drop("behind")
        # On a small scale the generator gives parts a supplier twice.
        rows = rows.dropDuplicates(tpch.KEYS[table].split(", ")).coalesce(2)
        rows.write.format("parquet").saveAsTable(f"{names[PARQUET]}.{table}")
        rows = spark.table(f"{names[PARQUET]}.{table}")
        segments = 1 if rows.count() < _SMALL_ROWS else 4
        for kind in kinds:
            given = f"{properties(kind, table)}, 'segments' = '{segments}'"
            spark.sql(f"CREATE TABLE {names[kind]}.{table} ({columns}) TBLPROPERTIES ({given})")
            rows.writeTo(f"{names[kind]}.{table}").append()
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
    same: bool
    """Whether it gives Parquet's rows."""


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
    found: dict[str, dict[str, Beside]] = {}
    for name, query in queries.items():
        wanted: list[tuple[Any, ...]] | None = None
        of_query = found[name] = {}
        for run in range(runs + 1):
            for kind, namespace in names.items():
                rows, frame, seconds = asked(spark, namespace, query)
                wanted = rows if wanted is None else wanted
                beside = of_query.setdefault(kind, Beside(seconds=[], shape=shape(frame), same=True))
                beside.same &= rows == wanted
                if run:
                    beside.seconds.append(seconds)
        tell(f"{name}: " + ", ".join(f"{kind} {_told(beside)}" for kind, beside in of_query.items()))
    return found


def _told(beside: Beside) -> str:
    times = f"{statistics.median(beside.seconds):.2f} s" if beside.seconds else ""
    return f"{times} {beside.shape}{'' if beside.same else ' OTHER ROWS'}".strip()


def table(found: Mapping[str, Mapping[str, Beside]]) -> str:
    """What came out, in Markdown.

    Args:
        found: as `measure` returns.
    """
    kinds = [kind for kind in next(iter(found.values())) if kind != PARQUET]
    lines = ["| query | Parquet, s | plan | " + " | ".join(f"{kind}, times | plan" for kind in kinds) + " |"]
    lines.append("|---|--:|---|" + "--:|---|" * len(kinds))
    totals: dict[str, float] = defaultdict(float)
    for name, of_query in found.items():
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


def run(scale: float, runs: int, kinds: Sequence[str], wanted: Sequence[str], tell: Callable[[str], None]) -> str:
    """All of it.

    Args:
        scale: how many rows; 1 is a gigabyte.
        runs: how often each query is measured.
        kinds: of `KINDS`.
        wanted: the queries' names.
        tell: is told how far it is.

    Returns:
        A table in Markdown, with what it says in words.
    """
    texts = {name: text for name, text in tpch.queries(scale).items() if not wanted or name in wanted}
    with Sandbox() as sandbox, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = session(sandbox, folder)
        names = load(spark, folder, kinds, scale=scale)
        tell("the tables are there")
        found = measure(spark, names, texts, runs, tell)
        spark.stop()
    others = [name for name, of_query in found.items() if not all(beside.same for beside in of_query.values())]
    equal = "All give Parquet's rows." if not others else f"OTHER ROWS THAN PARQUET'S: {', '.join(others)}."
    words = f"TPC-H, scale {scale}, median of {runs} runs. {equal} plan: scans/exchanges/reused/broadcasts."
    return f"{words}\n\n{table(found)}"


def main() -> None:
    """Parse the command line, measure, print; `--record` keeps the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queries", description=__doc__)
    parser.add_argument("queries", nargs="*", help="q1 to q22; all where none is named")
    parser.add_argument("--scale", type=float, default=0.02, help="how many rows; 1 is a gigabyte (0.02)")
    parser.add_argument("--runs", type=int, default=3, help="how often each query is measured (3)")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join([*KINDS, MIXED])}")
    parser.add_argument("--record", action="store_true", help="keep the results, and show them in RESULTS.md")
    given = parser.parse_args()
    kinds = [kind for kind in given.kinds.split(",") if kind]
    report = run(given.scale, given.runs, kinds, given.queries, lambda line: print(line, file=sys.stderr, flush=True))
    print(report)
    if given.record:
        append(report, "benchmarks.queries", [argument for argument in sys.argv[1:] if argument != "--record"])


if __name__ == "__main__":
    main()
