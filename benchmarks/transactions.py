"""What transactions over tables cost, and one moment for several tables: `python -m benchmarks.transactions --help`.

Two INSERTs of one row in a transaction beside the same two without one, by turns in one session. And the time in which
a query's tables are looked at together, ten of them beside one, by turns; Spark has no part in that.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

import pyspark_pravega
from benchmarks.results import append
from benchmarks.statements import session
from pyspark_pravega.catalog.plans.moments import QueryMoment
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

TABLES = 10
WARM_UPS = 10
MOST_TIMES, MOST_MORE_MS = 1.5, 30
_INSERT = "INSERT INTO pravega.bench.t{} VALUES (1, 'ann', 2.5D)"


def by_turns(cases: Mapping[str, Callable[[], object]], runs: int) -> dict[str, float]:
    """The median of each case's milliseconds.

    Args:
        cases: what to measure, by their names.
        runs: how often each.
    """
    times: dict[str, list[float]] = defaultdict(list)
    for run in range(-WARM_UPS, runs):
        for name, do in cases.items():
            begin = time.perf_counter()
            do()
            if run >= 0:
                times[name].append((time.perf_counter() - begin) * 1000)
    return {name: statistics.median(some) for name, some in times.items()}


def inserts(spark: SparkSession, runs: int) -> list[str]:
    """Two INSERTs, with a transaction and without.

    Args:
        spark: the session.
        runs: how often each.

    Returns:
        Lines of a table in Markdown.
    """

    def alone(*tables: int) -> None:
        for table in tables:
            spark.sql(_INSERT.format(table))

    def together(*tables: int) -> None:
        with pyspark_pravega.transaction(spark, "pravega"):
            alone(*tables)

    cases = {
        "two tables": (lambda: alone(0, 1), lambda: together(0, 1)),
        "one table": (lambda: alone(2, 2), lambda: together(2, 2)),
    }
    flat = {(name, place): case for name, pair in cases.items() for place, case in enumerate(pair)}
    medians = by_turns({f"{name} {place}": case for (name, place), case in flat.items()}, runs)
    lines = ["| two INSERTs of one row into | ms | in a transaction, ms | times | wanted |", "|---|--:|--:|--:|--:|"]
    for name in cases:
        before, now = medians[f"{name} 0"], medians[f"{name} 1"]
        lines.append(f"| {name} | {before:.0f} | {now:.0f} | {now / before:.2f} | <= {MOST_TIMES} |")
    return lines


def moments(client: Client, runs: int) -> list[str]:
    """One moment of ten tables, and of one.

    Args:
        client: the cluster.
        runs: how often each.

    Returns:
        Lines of a table in Markdown.
    """
    first, *others = (Stream("bench", f"t{number}") for number in range(TABLES))

    def look(*beside: Stream) -> None:
        QueryMoment(beside=beside).snapshot(client, first, open_ledger(client, first), keyed=False)

    medians = by_turns({"one": look, "ten": lambda: look(*others)}, runs)
    one, ten = medians["one"], medians["ten"]
    return [
        f"| a query's moment | one table, ms | {TABLES} tables, ms | more, ms | wanted |",
        "|---|--:|--:|--:|--:|",
        f"| | {one:.1f} | {ten:.1f} | {ten - one:.1f} | <= {MOST_MORE_MS} |",
    ]


def run(runs: int, looks: int) -> str:
    """All of it.

    Args:
        runs: how often each pair of INSERTs.
        looks: how often each moment.

    Returns:
        Tables in Markdown.
    """
    with Sandbox() as sandbox, tempfile.TemporaryDirectory() as name:
        spark = session(sandbox, Path(name))
        spark.sql("CREATE NAMESPACE pravega.bench")
        for number in range(TABLES):
            spark.sql(f"CREATE TABLE pravega.bench.t{number} (id BIGINT, customer STRING, amount DOUBLE)")
            spark.sql(_INSERT.format(number))
        parts = [inserts(spark, runs)]
        spark.stop()
        with Client(Settings.resolve(environ=sandbox.environment())) as client:
            parts.append(moments(client, looks))
    return "\n\n".join("\n".join(lines) for lines in parts)


def main() -> None:
    """Parse the command line, measure, print; `--record` keeps the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transactions", description=__doc__)
    parser.add_argument("--runs", type=int, default=30, help="how often each pair of INSERTs is measured")
    parser.add_argument("--looks", type=int, default=200, help="how often each moment is measured")
    parser.add_argument("--record", action="store_true", help="keep the results, and show them in RESULTS.md")
    arguments = parser.parse_args()
    report = run(arguments.runs, arguments.looks)
    print(report)
    if arguments.record:
        append(report, "benchmarks.transactions", [argument for argument in sys.argv[1:] if argument != "--record"])


if __name__ == "__main__":
    main()
