"""This package beside Pravega's own Spark connector, and beside Spark's source and sink of Kafka, in one run:
`python -m benchmarks.peers --help`.

Each side is a program of its own with two task slots. They do one thing after the other, never two at a time. All read
the same events, and write the same rows as Avro; who has no registry writes the encoding's header itself.

The official connector's last release is for Spark 3.1; this compiles its sources. Its head needs a client that isn't
released for one thing, a limit of micro-batches (`getNextStreamCut`): take the commit before that.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import official
from benchmarks.checkouts import side_of
from benchmarks.events import SCHEMA
from benchmarks.harness import Case, measure, process_tree_cpu_seconds, table, tell
from benchmarks.kafka import Broker, broker, spark_jars
from benchmarks.ours import SEGMENTS, THREADS, TwoTables, make_two_tables
from benchmarks.results import append, describe_machine
from benchmarks.serde import SPARK_AVRO
from benchmarks.sides import Side
from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.sandbox import Sandbox, fetch
from pyspark_pravega.serde.formats import AVRO, schema_for
from pyspark_pravega.settings import Settings

SCOPE, TOPIC = "bench", "rows"
OURS, OFFICIAL, KAFKA = "this", "official", "Kafka"
_READS = ("raw", "decoded", "two columns", "sum")
_SIDE = Path(__file__).with_name("peer_side.py")
_SCHEMA = schema_for(AVRO, SCHEMA, name="rows", namespace="benchmark").data.decode()


def main() -> None:
    """Run the benchmark as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--official", type=Path, help="the official connector's sources; without it, it isn't measured")
    parser.add_argument("--official-python", type=Path, help="a Python with PySpark 3.5")
    parser.add_argument("--events", type=int, default=300_000, help="how many are read, and written")
    parser.add_argument("--events-size", type=int, default=1000, help="bytes of an event without its frame, on average")
    parser.add_argument("--runs", type=int, default=5, help="how often everything is measured")
    parser.add_argument("--warm-ups", type=int, default=5, help="how often each case runs before: so long JVMs compile")
    parser.add_argument("--heap", default="8g", help="the server's heap; it holds all events")
    parser.add_argument(
        "--record", action="store_true", help="keep the results, and show them in benchmarks/RESULTS.md"
    )
    arguments = parser.parse_args()
    report = _report(arguments)
    print(f"\n{describe_machine()}\n\n{report}")
    if arguments.record:
        append(report, "benchmarks.peers", sys.argv[1:])


class _Peers:
    """All sides, with the servers."""

    def __init__(self, arguments: argparse.Namespace, stack: ExitStack) -> None:
        self._events, self._stack = arguments.events, stack
        self.sandbox = stack.enter_context(Sandbox(heap=arguments.heap, preallocate=True))
        self.tables: TwoTables = make_two_tables(self.sandbox, SCOPE, arguments.events_size, arguments.events)
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pravega-bench-")))
        self._rows = self._folder / "rows.parquet"
        pq.write_table(pa.Table.from_batches([self.tables.rows]), self._rows)
        self.client = stack.enter_context(Client(Settings.resolve(environ=self.sandbox.environment())))
        self.broker: Broker = stack.enter_context(broker(self._folder / "kafka"))
        here = Path(__file__).parents[1]
        self.sides: dict[str, Side] = {
            OURS: stack.enter_context(closing(side_of(here, self.sandbox, self._rows, self._events)))
        }
        if arguments.official:
            python = arguments.official_python.absolute()
            compiled = self._folder / "official"
            compiled.mkdir()
            class_path = official.connector(arguments.official, python, compiled)
            options = {"controller": self.sandbox.controller_uri, "scope": SCOPE, "exactly_once": "true"}
            self._add(OFFICIAL, python, class_path, format="pravega", options=options)
        jars = [*spark_jars(), *sorted(fetch(SPARK_AVRO).glob("*.jar"))]
        options = {"kafka.bootstrap.servers": self.broker.address}
        self._add(KAFKA, Path(sys.executable), jars, format="kafka", options=options)
        self.broker.create(TOPIC, SEGMENTS)
        self.sides[KAFKA].do("write", TOPIC, self._events, {})

    def server_cpu_seconds(self) -> float:
        """User and system time of the servers so far; those that nobody asks take next to nothing."""
        return process_tree_cpu_seconds(self.sandbox.pravega_pid) + process_tree_cpu_seconds(self.broker.pid)

    def _add(self, side: str, python: Path, class_path: list[Path], **given: Any) -> None:
        settings = self._folder / f"{side}.json"
        given |= {"class_path": ":".join(map(str, class_path)), "schema": _SCHEMA, "threads": THREADS}
        settings.write_text(json.dumps(given | {"rows": str(self._rows), "events": self._events}))
        program = Side([str(python), "-P", str(_SIDE), str(settings)], self._folder)
        self.sides[side] = self._stack.enter_context(closing(program))


def _report(arguments: argparse.Namespace) -> str:
    events = arguments.events
    with ExitStack() as stack:
        peers = _Peers(arguments, stack)
        alike: Callable[..., Any] = partial(
            measure, runs=arguments.runs, events=events, tell=tell, server_cpu_seconds=peers.server_cpu_seconds
        )
        reads = [case for what in _READS for case in _cases(peers, what)]
        for case in reads * arguments.warm_ups:
            case.run("", events)
        report = table(
            f"{events:,} events of {arguments.events_size} bytes", alike(reads, stage=lambda: nullcontext("")), events
        )
        writes = _cases(peers, "write")
        fresh = partial(_fresh, peers)
        for case in writes * arguments.warm_ups:
            with fresh() as name:
                case.run(name, events)
        return f"{report}\n\n{table('written', alike(writes, stage=fresh), events)}"


@contextmanager
def _fresh(peers: _Peers) -> Iterator[str]:
    """A table, and a stream and a topic of its name, dropped afterwards but for the topic."""
    with peers.tables.ours.fresh_stream() as name:
        stream = Stream(SCOPE, f"{name}-official")
        peers.client.controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy(min_segments=SEGMENTS)))
        peers.broker.create(name, SEGMENTS)
        yield name
        peers.client.controller.seal_stream(stream)
        peers.client.controller.delete_stream(stream)


def _cases(peers: _Peers, what: str) -> list[Case]:
    ours = {"raw": peers.tables.raw}
    cases = []
    for name, side in peers.sides.items():

        def run(fresh: str, events: int, name: str = name, side: Side = side) -> int:
            if name == OURS:
                place = f"pravega.`{SCOPE}`.`{fresh or ours.get(what, peers.tables.decoded)}`"
            elif name == KAFKA:
                place = fresh or TOPIC
            else:
                place = f"{fresh}-official" if fresh else peers.tables.raw
            return side.do(what, place, events, {})

        baseline = None if name == OURS else f"{what}, {OURS}"
        cases.append(Case(name=f"{what}, {name}", run=run, cpu_seconds=side.cpu_seconds, baseline=baseline))
    return cases


if __name__ == "__main__":
    main()
