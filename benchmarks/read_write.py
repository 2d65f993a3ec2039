"""Writing and reading, this package beside the official Java client: `python -m benchmarks.read_write --help`."""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.events import SCHEMA, as_text, batches, make_rows
from benchmarks.harness import Case, measure, table, tell
from benchmarks.java_client import JavaClient, java_client
from benchmarks.ours import SEGMENTS, THREADS, Ours
from benchmarks.ours_in_spark import OursInSpark, ours_in_spark
from benchmarks.results import append, describe_machine
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

SCOPE = "bench"
SUMMED = "amount"
# A server whose cache is full in spite of that answers tens of seconds late.
TIMEOUT_S = "120"
WARM_UP_EVENTS = 200_000
WARM_UPS = 10
"""How often they are read before anything is measured: so long JVMs compile."""
JAVA_WRITER, JAVA_AVRO, JAVA_RAW = "Java EventStreamWriter", "Java batch client, Avro", "Java batch client, raw bytes"


class Clients:
    """The three clients, all of them running, and what they write."""

    def __init__(self, java: JavaClient, ours: Ours, spark: OursInSpark, rows: pa.RecordBatch) -> None:
        self.java, self.ours, self.spark, self.rows = java, ours, spark, rows

    def write_cases(self) -> list[Case]:
        """Each writes Avro events with a routing key; all but the first in one transaction."""
        java, ours, spark = self.java, self.ours, self.spark
        return [
            self._java(JAVA_WRITER, "write"),
            Case(name="in Spark, INSERT", run=spark.write, cpu_seconds=spark.cpu_seconds, baseline=JAVA_WRITER),
            Case(
                name="Java transaction",
                run=lambda stream, events: java.do("write-transaction", stream, events),
                cpu_seconds=java.cpu_seconds,
                baseline=JAVA_WRITER,
            ),
            Case(
                name="without Spark, Arrow batches",
                run=lambda stream, events: ours.write(stream, self.rows, events),
                cpu_seconds=ours.cpu_seconds,
                baseline=JAVA_WRITER,
            ),
        ]

    def read_cases(self, event_size: float) -> list[Case]:
        """Each reads all of the stream.

        Args:
            event_size: the average event's size in its segment, in bytes.
        """
        ours, spark = self.ours, self.spark

        def in_spark(name: str, run: Callable[[str, int], int]) -> Case:
            return Case(name=f"in Spark, {name}", run=run, cpu_seconds=spark.cpu_seconds, baseline=JAVA_AVRO)

        def without(name: str, baseline: str, run: Callable[[str], int]) -> Case:
            return Case(
                name=f"without Spark, {name}",
                run=lambda stream, _: run(stream),
                cpu_seconds=ours.cpu_seconds,
                baseline=baseline,
            )

        return [
            self._java(JAVA_AVRO, "read-avro"),
            in_spark("count(*)", lambda stream, _: spark.count(stream)),
            self._java(JAVA_RAW, "read-raw"),
            in_spark("sum of a column", self._sum),
            in_spark("all columns to noop", self._all_columns),
            in_spark("a streaming query, start to end", lambda stream, _: spark.catch_up(stream)),
            without("all columns to Arrow", JAVA_AVRO, lambda stream: ours.read_columns(stream, SCHEMA.fieldNames())),
            without("each raw event", JAVA_RAW, ours.read_events),
            without("bytes only", JAVA_RAW, lambda stream: round(ours.read_bytes(stream) / event_size)),
        ]

    def _java(self, name: str, what: str) -> Case:
        return Case(
            name=name,
            run=lambda stream, events: self.java.do(what, stream, events),
            cpu_seconds=self.java.cpu_seconds,
        )

    def _sum(self, stream: str, events: int) -> int:
        expected = math.fsum(pc.sum(batch.column(SUMMED)).as_py() for batch in batches(self.rows, events))
        total = self.spark.sum(stream, SUMMED)
        if not math.isclose(total, expected, rel_tol=1e-9):
            raise AssertionError(f"sum({SUMMED}) is {total} instead of {expected}")
        return events

    def _all_columns(self, stream: str, events: int) -> int:
        self.spark.all_columns(stream)
        return events


def main() -> None:
    """Run the benchmark as the command line says."""
    arguments = _arguments()
    events: int = arguments.events
    started = time.monotonic()
    with running_clients(events, arguments.events_size, arguments.heap) as clients:
        ours, warm = clients.ours, min(events, WARM_UP_EVENTS)
        tell("warming up")
        for case in clients.write_cases():
            with ours.fresh_stream() as stream:
                case.run(stream, warm)
        written = measure(
            clients.write_cases(), runs=arguments.runs, events=events, stage=ours.fresh_checked(events), tell=tell
        )
        with ours.fresh_stream() as stream:
            ours.write(stream, clients.rows, warm)
            for case in clients.read_cases(event_size=ours.read_bytes(stream) / warm) * WARM_UPS:
                case.run(stream, warm)
        with ours.fresh_stream() as stream:
            clients.java.do("write", stream, events)
            event_size = ours.read_bytes(stream) / events
            read = measure(
                clients.read_cases(event_size),
                runs=arguments.runs,
                events=events,
                stage=lambda: nullcontext(stream),
                tell=tell,
            )
    report = "\n\n".join(
        [
            f"{events:,} events of {event_size:.0f} bytes in the segments (frame, encoding id, {len(SCHEMA)} Avro "
            f"columns), {SEGMENTS} segments. Reads and "
            f"Spark's writes use {THREADS} threads, the other writes one. Median of {arguments.runs} runs, "
            f"interleaved; {time.monotonic() - started:.0f} s in all.",
            table("write", written, events),
            table("read", read, events),
        ]
    )
    print(f"\n{describe_machine()}\n\n{report}")
    if arguments.record:
        append(report, "benchmarks.read_write", sys.argv[1:])


@contextmanager
def running_clients(events: int, event_size: int, heap: str) -> Iterator[Clients]:
    """Start servers and clients, and make the rows.

    Args:
        events: how many are cached in Spark.
        event_size: what an event has on average, in bytes.
        heap: the server's.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pravega-bench-")))
        sandbox = stack.enter_context(Sandbox(heap=heap, preallocate=True))
        # Before the first call to the controller: a process with gRPC's threads in it can't always fork.
        spark = stack.enter_context(ours_in_spark(sandbox, SCOPE, TIMEOUT_S))
        settings = Settings.resolve(
            {
                "controller-uri": sandbox.controller_uri,
                "schema-registry-uri": sandbox.schema_registry_uri,
                "timeout": TIMEOUT_S,
            }
        )
        catalog = Catalog(settings)
        catalog.namespaces.create([SCOPE])
        ours = Ours(catalog, SCOPE)
        definition = ours.create_table()
        rows = make_rows(definition.for_writing(), event_size)
        assert definition.registered is not None
        java = stack.enter_context(
            java_client(
                folder,
                "Bench",
                SCOPE,
                {"schema": definition.registered[0].text, "rows": as_text(rows)},
                controller_uri=sandbox.controller_uri,
                schema_registry_uri=sandbox.schema_registry_uri,
            )
        )
        spark.cache_rows(rows, events, folder)
        yield Clients(java, ours, spark, rows)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.read_write", description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000, help="events that each run writes or reads")
    parser.add_argument("--events-size", type=int, default=100, help="bytes of an event without its frame, on average")
    parser.add_argument("--runs", type=int, default=3, help="how often everything is measured")
    parser.add_argument("--heap", default="6g", help="the server's heap; it holds all events")
    parser.add_argument(
        "--record", action="store_true", help="keep the results, and show them in benchmarks/RESULTS.md"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
