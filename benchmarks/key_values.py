"""Key-value tables beside tables with a key on a stream: `python -m benchmarks.key_values --help`.

One run: INSERT, a read of all rows, count(*), one key, and a MERGE, of the same rows in either kind of table. What is
compared runs by turns in one session.
"""

from __future__ import annotations

import argparse
import sys
import time

from pyspark.sql import SparkSession

from benchmarks.catalog import by_turns, session
from benchmarks.keyed import COLUMNS, ROW, SCOPE
from benchmarks.results import append
from pyspark_pravega.sandbox import Sandbox

PARTS = 4
"""Partitions of the one, segments of the other."""


def main() -> None:
    """Run the benchmark as the command line says."""
    arguments = _arguments()
    keys, runs = arguments.keys, arguments.runs
    started = time.monotonic()
    with Sandbox(heap=arguments.heap, preallocate=True) as sandbox:
        spark = session(sandbox.controller_uri, sandbox.schema_registry_uri)
        try:
            spark.sql(f"CREATE NAMESPACE {SCOPE}")
            rows = _compared(spark, keys, arguments.merged, runs)
        finally:
            spark.stop()
    report = "\n".join(
        [
            f"{keys:,} rows of 6 Avro columns, {PARTS} partitions or segments. Median of {runs} runs by turns; "
            f"{time.monotonic() - started:.0f} s in all.",
            "",
            "| | key-value table | table with a key | ratio |",
            "|---|--:|--:|--:|",
            *rows,
        ]
    )
    print(f"\n{report}")
    if arguments.record:
        append(report, "benchmarks.key_values", sys.argv[1:])


def _compared(spark: SparkSession, keys: int, merged: int, runs: int) -> list[str]:
    tables = f"{SCOPE}.entries", f"{SCOPE}.events"
    for table, properties in zip(
        tables, (f"'table-type' = 'key-value', 'partitions' = '{PARTS}'", f"'segments' = '{PARTS}'"), strict=True
    ):
        spark.sql(f"CREATE TABLE {table} ({COLUMNS}, PRIMARY KEY (id) NOT ENFORCED) TBLPROPERTIES ({properties})")
    merge = (
        "MERGE INTO {table} t USING (SELECT id * 2 AS id, " + ROW + f" FROM range({merged})) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    statements = {
        f"INSERT of {keys:,} rows": f"INSERT INTO {{table}} SELECT id, {ROW} FROM range({keys})",
        "all rows, all columns to noop": "SELECT * FROM {table}",
        "`count(*)`": "SELECT count(*) FROM {table}",
        "`WHERE id = x`": "SELECT * FROM {table} WHERE id = 77",
        f"MERGE of {merged:,} rows": merge,
    }
    report = []
    for name, statement in statements.items():
        one, other = by_turns(runs, *(_Run(spark, statement.replace("{table}", table)) for table in tables))
        report.append(f"| {name} | {one:.3f} s | {other:.3f} s | {one / other:.2f} |")
    return report


class _Run:
    """A statement that is run when it is called."""

    def __init__(self, spark: SparkSession, statement: str) -> None:
        self._spark, self._statement = spark, statement

    def __call__(self) -> None:
        if self._statement.startswith("SELECT"):
            self._spark.sql(self._statement).write.format("noop").mode("overwrite").save()
        else:
            self._spark.sql(self._statement)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.key_values", description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000, help="rows of either table")
    parser.add_argument("--merged", type=int, default=5_000, help="rows of the MERGE")
    parser.add_argument("--runs", type=int, default=5, help="how often each is measured")
    parser.add_argument("--heap", default="4g", help="heap of the servers")
    parser.add_argument("--record", action="store_true", help="append the report to benchmarks/RESULTS.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
