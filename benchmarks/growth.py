"""How time grows with rows, segments and versions of a table: `python -m benchmarks.growth --help`."""

from __future__ import annotations

import argparse
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from benchmarks.catalog import session
from benchmarks.history import put
from benchmarks.results import append
from pyspark_pravega.client import Client, KeyValueTable, Stream
from pyspark_pravega.connector.log import Ledger
from pyspark_pravega.connector.log.entries import Commit
from pyspark_pravega.connector.log.entry_keys import ledger_name
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

SCOPE = "bench"
ROWS = (10_000, 100_000, 1_000_000)
SEGMENTS = (1, 4, 16, 64)
VERSIONS = (100, 1_000, 10_000, 100_000)
FEW_ROWS, FEW_SEGMENTS = 100_000, 4
COUNT, SUM = "SELECT count(*) FROM {}", "SELECT sum(amount) FROM {}"
KEY = "SELECT * FROM {} WHERE id = 7"
TEN, LAST = "SELECT * FROM {} LIMIT 10", "SELECT * FROM {}$commits ORDER BY version DESC LIMIT 10"
OLD = "SELECT * FROM {} VERSION AS OF 1 LIMIT 10"
ONE = "INSERT INTO {} VALUES (7, 'seven', 7.0D)"


def make(spark: SparkSession, name: str, *, rows: int, segments: int, key: str = "") -> None:
    """A table with so many rows, inserted at once."""
    spark.sql(
        f"CREATE TABLE pravega.{SCOPE}.{name} (id BIGINT NOT NULL, name STRING, amount DOUBLE{key}) "
        f"CLUSTERED BY (id) INTO {segments} BUCKETS TBLPROPERTIES ('history' = '{10 * max(VERSIONS)}')"
    )
    some = f"SELECT id, concat('name ', id % 1000), id / 7D FROM range(0, {rows}, 1, 2)"
    spark.sql(f"INSERT INTO pravega.{SCOPE}.{name} {some}")


def lengthen(client: Client, stream: Stream, versions: int) -> None:
    """Let a commit log have versions as if there had been commits of no rows behind its first.

    Args:
        client: the cluster.
        stream: a table's, with one version.
        versions: how many it has then.
    """
    log = Ledger(KeyValueTable(client.pool, stream.scope, ledger_name(stream)), stream)
    (first,) = log.commits([1])

    def commit(version: int) -> Commit:
        job, transaction = str(uuid.uuid4()), str(uuid.uuid4())
        committed_at = first.committed_at + version
        return replace(
            first, version=version, job=job, transactions=(transaction,), rows=0, bytes=0, committed_at=committed_at
        )

    state = replace(log.state(), version=versions, committed_at=first.committed_at + versions)
    put(client, stream, range(2, versions + 1), commit, state)


def collected(spark: SparkSession, query: str, name: str) -> object:
    """Run a statement over a table, and have its rows."""
    path = f"pravega.{SCOPE}.{name}"
    return spark.sql(query.format(path).replace(f"{path}$commits", f"pravega.{SCOPE}.`{name}$commits`")).collect()


def quickest(runs: int, cases: Sequence[Callable[[], object]], *, warm_ups: int = 3) -> list[float]:
    """The least seconds of some things that are done by turns: on a busy machine other work only adds to them.

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
    return [min(seconds) for seconds in times]


def measured(
    spark: SparkSession, runs: int, what: str, queries: dict[str, str], tables: Sequence[tuple[int, str]]
) -> str:
    """A table in Markdown: a row for each query, a column for each table, milliseconds.

    Args:
        spark: the session.
        runs: how often each is measured.
        what: what grows.
        queries: what is asked, by its name.
        tables: how much of it each has, and its name.
    """
    lines = [
        f"| {what} | {' | '.join(f'{size:,}' for size, _ in tables)} |",
        f"|---|{'--:|' * len(tables)}",
    ]
    for name, query in queries.items():
        cases: list[Callable[[], object]] = [partial(collected, spark, query, table) for _, table in tables]
        cells = " | ".join(f"{1000 * seconds:,.0f}" for seconds in quickest(runs, cases))
        lines.append(f"| {name} | {cells} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def run(runs: int) -> str:
    """All of it.

    Args:
        runs: how often each query is measured.

    Returns:
        Three tables in Markdown.
    """
    with Sandbox(heap="6g") as sandbox:
        controller, registry = sandbox.controller_uri, sandbox.schema_registry_uri
        spark = session(controller, registry)
        spark.sql(f"CREATE NAMESPACE pravega.{SCOPE}")
        for size in ROWS:
            make(spark, f"rows{size}", rows=size, segments=FEW_SEGMENTS)
        many_rows = measured(
            spark,
            runs,
            "ms, by rows",
            {"count(*)": COUNT, "SELECT of 10 rows": TEN, "INSERT of 1 row": ONE, "sum of a column": SUM},
            [(size, f"rows{size}") for size in ROWS],
        )
        for size in SEGMENTS:
            make(spark, f"segments{size}", rows=FEW_ROWS, segments=size, key=", PRIMARY KEY (id) NOT ENFORCED")
        many_segments = measured(
            spark,
            runs,
            "ms, by segments",
            {"SELECT of 10 rows": TEN, "SELECT by key": KEY, "INSERT of 1 row": ONE, "sum of a column": SUM},
            [(size, f"segments{size}") for size in SEGMENTS],
        )
        with Client(Settings.resolve({"controller-uri": controller})) as client:
            for size in VERSIONS:
                make(spark, f"versions{size}", rows=FEW_ROWS, segments=FEW_SEGMENTS)
                lengthen(client, Stream(SCOPE, f"versions{size}"), size)
        many_versions = measured(
            spark,
            runs,
            "ms, by versions",
            {"the last 10 of `$commits`": LAST, "SELECT of 10 rows": TEN, "VERSION AS OF 1": OLD, "INSERT": ONE},
            [(size, f"versions{size}") for size in VERSIONS],
        )
        spark.stop()
    return "\n\n".join([
        f"Milliseconds, the quickest of {runs} runs by turns. Rows of 3 Avro columns; where segments grow "
        f"{FEW_ROWS:,} rows with a key, where versions grow {FEW_ROWS:,} without one, {FEW_SEGMENTS} segments else.",
        many_rows, many_segments, many_versions,
    ])  # fmt: skip


def main() -> None:
    """Parse the command line, measure, print; `--record` keeps the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--record", action="store_true", help="keep the results, and show them in RESULTS.md")
    arguments = parser.parse_args()
    report = run(arguments.runs)
    print(report)
    if arguments.record:
        append(report, "benchmarks.growth", [argument for argument in sys.argv[1:] if argument != "--record"])


if __name__ == "__main__":
    main()
