"""How soon statements answer: `python -m benchmarks.statements --help`.

Each beside the same one on Parquet, by turns in one session: a table is made, gets a row, is read, gets another row in
its place, is emptied and dropped, again and again. Then the first statements of new sessions, and commands from their
start to their end.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import pyspark_pravega
from benchmarks.harness import driver_pid, process_tree_cpu_seconds
from benchmarks.results import append
from pyspark_pravega.sandbox import Sandbox

WARM_UPS = 15
COLUMNS = "id BIGINT, customer STRING, amount DOUBLE"
STATEMENTS = {
    "CREATE TABLE": "CREATE TABLE {table} (" + COLUMNS + ") {using}",
    "INSERT of one row": "INSERT INTO {table} VALUES (1, 'ann', 2.5D)",
    "SELECT * LIMIT 10": "SELECT * FROM {table} LIMIT 10",
    "SELECT with a sum": "SELECT sum(amount) FROM {table} WHERE id < 10",
    "INSERT OVERWRITE of one row": "INSERT OVERWRITE {table} VALUES (2, 'bob', 3.5D)",
    "TRUNCATE TABLE": "TRUNCATE TABLE {table}",
    "DROP TABLE": "DROP TABLE {table}",
}
WANTED = {"CREATE TABLE": 200, "INSERT of one row": 130, "SELECT * LIMIT 10": 100, "DROP TABLE": 250}


def session(sandbox: Sandbox, folder: Path, *, memory: str = "1g") -> SparkSession:
    """A session with two task slots; Parquet tables lie in a folder.

    Args:
        sandbox: the servers.
        folder: the folder.
        memory: the JVM's heap.
    """
    return _session(sandbox.controller_uri, sandbox.schema_registry_uri, str(folder / "warehouse"), memory)


def _session(controller: str, registry: str, warehouse: str, memory: str = "1g") -> SparkSession:
    builder: SparkSession.Builder = SparkSession.builder
    builder = builder.master("local[2]").appName("benchmark")
    builder = pyspark_pravega.configure(builder, controller=controller, schema_registry=registry)
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": memory,
        "spark.driver.host": "localhost",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": warehouse,
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _cpu(spark: SparkSession) -> float:
    return process_tree_cpu_seconds(driver_pid(spark))


def warm(spark: SparkSession, runs: int, tell: Callable[[str], object] = str) -> list[str]:
    """Each statement in a session that is warm.

    Args:
        spark: the session; there is a namespace `pravega.bench`.
        runs: how often each is measured.
        tell: is told each statement's name before it is made and after it.

    Returns:
        Lines of a table in Markdown.
    """
    kinds = {"ours": ("pravega.bench.t{}", ""), "parquet": ("spark_catalog.default.t{}", "USING parquet")}
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    cpu: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in range(-WARM_UPS, runs):
        for kind, (name, using) in kinds.items():
            for what, statement in STATEMENTS.items():
                text = statement.format(table=name.format(run + WARM_UPS), using=using)
                tell(f"{run} {kind} {what}")
                used, begin = _cpu(spark), time.perf_counter()
                spark.sql(text).collect()
                if run >= 0:
                    seconds[what, kind].append(time.perf_counter() - begin)
                    cpu[what, kind].append(_cpu(spark) - used)
    lines = ["| warm | ms | 90 % | CPU, ms | Parquet, ms | CPU, ms | ratio | wanted, ms |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|--:|")
    for what in STATEMENTS:
        ours, theirs = (statistics.median(seconds[what, kind]) * 1000 for kind in kinds)
        used_here, used_there = (statistics.mean(cpu[what, kind]) * 1000 for kind in kinds)
        slow = statistics.quantiles(seconds[what, "ours"], n=10)[-1] * 1000
        wanted = f"<= {WANTED[what]}" if what in WANTED else ""
        lines.append(
            f"| {what} | {ours:.0f} | {slow:.0f} | {used_here:.0f} | {theirs:.0f} | {used_there:.0f} "
            f"| {ours / theirs:.1f} | {wanted} |"
        )
    return lines


def first(sandbox: Sandbox, folder: Path, turns: int) -> list[str]:
    """The first statements of a session, each session in a program of its own.

    Args:
        sandbox: the servers; there are tables `pravega.bench.first` and, in Parquet, in the folder.
        folder: the folder.
        turns: how many sessions of each kind.

    Returns:
        Lines of a table in Markdown.
    """
    tables = {"ours": "pravega.bench.first", "parquet": f"parquet.`{folder}/first`"}
    measured: dict[str, list[list[float]]] = defaultdict(list)
    for _ in range(turns):
        for kind, table in tables.items():
            given = [sandbox.controller_uri, sandbox.schema_registry_uri, str(folder / "warehouse"), table]
            command = [sys.executable, "-m", "benchmarks.statements", "--first", json.dumps(given)]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            measured[kind].append(json.loads(output.splitlines()[-1]))
    columns = {
        kind: [statistics.median(figures) for figures in zip(*rows, strict=True)] for kind, rows in measured.items()
    }
    names = ("session made", "first SELECT, two tasks", "second SELECT", "CPU of both", "CPU from start to end")
    lines = ["| a session's first | s | Parquet, s | ratio |", "|---|--:|--:|--:|"]
    for name, ours, theirs in zip(names, columns["ours"], columns["parquet"], strict=True):
        lines.append(f"| {name} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.1f} |")
    return lines


def measure_first(controller: str, registry: str, warehouse: str, table: str) -> list[float]:
    """What `first` starts: seconds of making a session and of two SELECTs, CPU seconds of these and of all."""
    begin = time.perf_counter()
    spark = _session(controller, registry, warehouse)
    made_at, used = time.perf_counter(), _cpu(spark)
    times = [made_at - begin]
    for _ in range(2):
        before = time.perf_counter()
        spark.sql(f"SELECT max(id), count(customer) FROM {table}").collect()
        times.append(time.perf_counter() - before)
    cpu = _cpu(spark)
    spark.stop()
    return [*times, cpu - used, cpu]


def commands(sandbox: Sandbox, turns: int) -> list[str]:
    """Commands from start to end.

    Args:
        sandbox: the servers.
        turns: how often each.

    Returns:
        Lines of a table in Markdown.
    """
    folder = Path(sys.executable).parent
    environment = os.environ | {
        "PRAVEGA_CONTROLLER_URI": sandbox.controller_uri,
        "PRAVEGA_SCHEMA_REGISTRY_URI": sandbox.schema_registry_uri,
    }
    ours, theirs = [str(folder / "pravega-spark"), "sql"], [str(folder / "spark-sql")]
    cases = {
        '`pravega-spark sql -e "SELECT 1"`': [*ours, "-e", "SELECT 1"],
        '`spark-sql -e "SELECT 1"`': [*theirs, "-e", "SELECT 1"],
    }
    figures: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as work:
        for turn in range(-1, turns):
            for name, command in cases.items():
                before, used = time.perf_counter(), os.times()
                subprocess.run(command, capture_output=True, check=True, env=environment, cwd=work)
                seconds, after = time.perf_counter() - before, os.times()
                if turn >= 0:
                    cpu = after.children_user + after.children_system - used.children_user - used.children_system
                    figures[name].append((seconds, cpu))
    lines = ["| command | s | CPU, s |", "|---|--:|--:|"]
    for name, pairs in figures.items():
        seconds, cpu = (statistics.median(column) for column in zip(*pairs, strict=True))
        lines.append(f"| {name} | {seconds:.2f} | {cpu:.2f} |")
    return lines


def run(what: list[str], runs: int, turns: int, tell: Callable[[str], None]) -> str:
    """All of it.

    Args:
        what: of `warm`, `first`, `commands`.
        runs: how often each warm statement is measured.
        turns: how many sessions and commands of each kind.
        tell: is told each table as soon as it is measured.

    Returns:
        Tables in Markdown.
    """
    parts: list[list[str]] = []
    with Sandbox() as sandbox, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = session(sandbox, folder)
        spark.sql("CREATE NAMESPACE pravega.bench")
        if "warm" in what:
            parts.append(warm(spark, runs))
            tell("\n".join(parts[-1]))
        if "first" in what:
            columns = "id, concat('customer-', id % 100) AS customer, id * 0.5D AS amount"
            rows = f"SELECT {columns} FROM range(0, 10000, 1, 2)"
            spark.sql(f"CREATE TABLE pravega.bench.first CLUSTERED BY (customer) INTO 2 BUCKETS AS {rows}")
            spark.sql(rows).write.parquet(f"{folder}/first")
        spark.stop()
        if "first" in what:
            parts.append(first(sandbox, folder, turns))
            tell("\n".join(parts[-1]))
        if "commands" in what:
            parts.append(commands(sandbox, turns))
            tell("\n".join(parts[-1]))
    return "\n\n".join("\n".join(lines) for lines in parts)


def main() -> None:
    """Parse the command line, measure, print; `--record` keeps the tables."""
    parts = ["warm", "first", "commands"]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.statements", description=__doc__)
    parser.add_argument("what", nargs="*", default=parts, help=f"what to measure, of {', '.join(parts)}; all of it")
    parser.add_argument("--runs", type=int, default=30, help="how often each warm statement is measured")
    parser.add_argument("--turns", type=int, default=3, help="how many sessions and commands of each kind")
    parser.add_argument("--record", action="store_true", help="keep the results, and show them in RESULTS.md")
    parser.add_argument("--first", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.first:
        print(json.dumps(measure_first(*json.loads(arguments.first))))
        return
    report = run(arguments.what, arguments.runs, arguments.turns, lambda text: print(text + "\n", flush=True))
    if arguments.record:
        append(report, "benchmarks.statements", [argument for argument in sys.argv[1:] if argument != "--record"])


if __name__ == "__main__":
    main()
