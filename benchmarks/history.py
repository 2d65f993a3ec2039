"""How fast a long commit log answers: `python -m benchmarks.history --help`.

One run: a table whose commit log has 10,000 versions and one whose log has many more, asked the same by turns.
"""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from dataclasses import asdict
from functools import partial

from pyspark.sql import Row, SparkSession

from benchmarks.catalog import by_turns, session
from benchmarks.results import append
from pyspark_pravega.client import Client, KeyValueTable, Stream
from pyspark_pravega.client.key_value import ANY_VERSION
from pyspark_pravega.connector.log.entries import Commit, State, state_content
from pyspark_pravega.connector.log.entry_keys import STATE, commit_key, ledger_name
from pyspark_pravega.connector.log.json_table import FORMAT
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

FEW = 10_000
_AT_ONCE = 5_000
_FIRST_TIME_MS = 1_767_225_600_000
QUERIES = {
    "the last 10": "SELECT * FROM {} ORDER BY version DESC LIMIT 10",
    "any 10": "SELECT * FROM {} LIMIT 10",
    "`WHERE version BETWEEN`, 100 of them": "SELECT * FROM {} WHERE version BETWEEN 5000 AND 5099",
    "`WHERE committed_at BETWEEN`, 100 of them": (
        "SELECT * FROM {} WHERE committed_at BETWEEN timestamp_millis(1767225605000) "
        "AND timestamp_millis(1767225605099)"
    ),
    "`count(*)`": "SELECT count(*) FROM {}",
}


def fill(client: Client, stream: Stream, versions: int) -> None:
    """Put versions into a commit log as if they had been committed, one each millisecond.

    Args:
        client: the cluster.
        stream: the stream, which has a log.
        versions: how many.
    """
    table = KeyValueTable(client.pool, stream.scope, ledger_name(stream))

    def entry(key: bytes, content: object) -> tuple[bytes, int, bytes]:
        assert isinstance(content, dict)
        return key, ANY_VERSION, json.dumps({"format": FORMAT, **content}, separators=(",", ":")).encode()

    def commit(version: int) -> Commit:
        return Commit(
            version=version,
            job=str(uuid.uuid4()),
            transactions=(str(uuid.uuid4()),),
            rows=1,
            bytes=100,
            committed_at=_FIRST_TIME_MS + version,
            cut={0: version * 50, 1: version * 50},
        )

    for begin in range(1, versions + 1, _AT_ONCE):
        some = range(begin, min(versions, begin + _AT_ONCE - 1) + 1)
        table.put([entry(commit_key(version), asdict(commit(version))) for version in some])
    state = State(version=versions, rows=versions, bytes=versions * 100, committed_at=_FIRST_TIME_MS + versions)
    table.put([entry(STATE, state_content(state))])


def collected(spark: SparkSession, query: str) -> list[Row]:
    """The rows of a query."""
    return spark.sql(query).collect()


def run(versions: int, runs: int) -> str:
    """All of it.

    Args:
        versions: how many the long log has.
        runs: how often each query is measured.

    Returns:
        A table in Markdown.
    """
    lines = [f"| `$commits` | {versions:,} versions | {FEW:,} versions | ratio |", "|---|--:|--:|--:|"]
    with Sandbox(heap="4g") as sandbox:
        controller, registry = sandbox.controller_uri, sandbox.schema_registry_uri
        spark = session(controller, registry)
        spark.sql("CREATE NAMESPACE pravega.bench")
        with Client(Settings.resolve({"controller-uri": controller})) as client:
            for name, count in (("few", FEW), ("many", versions)):
                spark.sql(f"CREATE TABLE pravega.bench.{name} (id BIGINT) TBLPROPERTIES ('segments' = '2')")
                fill(client, Stream("bench", name), count)
        for what, query in QUERIES.items():
            asked = [query.format(f"pravega.bench.`{name}$commits`") for name in ("many", "few")]
            many, few = by_turns(runs, *(partial(collected, spark, one) for one in asked))
            lines.append(f"| {what} | {many:.3f} s | {few:.3f} s | {many / few:.1f} |")
            print(lines[-1], flush=True)
        spark.stop()
    return "\n".join(lines)


def main() -> None:
    """Parse the command line, measure, print; `--record` keeps the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history", description=__doc__)
    parser.add_argument("--versions", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--record", action="store_true", help="keep the results, and show them in RESULTS.md")
    arguments = parser.parse_args()
    report = run(arguments.versions, arguments.runs)
    print(report)
    if arguments.record:
        append(report, "benchmarks.history", [argument for argument in sys.argv[1:] if argument != "--record"])


if __name__ == "__main__":
    main()
