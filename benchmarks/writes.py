"""Spark's writes in their modes, beside the official Java client: `python -m benchmarks.writes --help`."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from benchmarks.events import SCHEMA
from benchmarks.harness import Case, Measured, measure, table, tell
from benchmarks.ours import SEGMENTS, THREADS
from benchmarks.read_write import WARM_UP_EVENTS, Clients, running_clients
from benchmarks.results import append, describe_machine
from pyspark_pravega.connector.option_names import AT_LEAST_ONCE, EXACTLY_ONCE

JAVA_WRITER, JAVA_TRANSACTION = "Java EventStreamWriter", "Java transaction"
OURS_EXACTLY, OURS_AT_LEAST = "in Spark, exactly-once", "in Spark, at-least-once"
EPOCH_ROWS = 20
_EPOCH = StructType([StructField("timestamp", TimestampType()), StructField("value", LongType())])


def main() -> None:
    """Run the benchmark as the command line says."""
    arguments = _arguments()
    events: int = arguments.events
    started = time.monotonic()
    with running_clients(events, arguments.events_size, arguments.heap) as clients:
        cases = _cases(clients)
        tell("warming up")
        for case in cases:
            with clients.ours.fresh_stream() as stream:
                case.run(stream, min(events, WARM_UP_EVENTS))
        stage = clients.ours.fresh_checked(events)
        written = measure(cases, runs=arguments.runs, events=events, stage=stage, tell=tell)
        with clients.ours.fresh_stream() as stream:
            clients.java.do("write", stream, events)
            event_size = clients.ours.read_bytes(stream) / events
        latencies = {mode: _latency(clients, mode, arguments.epochs) for mode in (EXACTLY_ONCE, AT_LEAST_ONCE)}
    report = "\n\n".join(
        [
            f"{events:,} events of {event_size:.0f} bytes in the segments (frame, encoding id, {len(SCHEMA)} Avro "
            f"columns), {SEGMENTS} segments, from a cached DataFrame, local[{THREADS}]; Java writes with one thread. "
            f"Median of {arguments.runs} runs, interleaved; {time.monotonic() - started:.0f} s in all.",
            table("write", written, events),
            _compared(written),
            _latency_table(latencies),
        ]
    )
    print(f"\n{describe_machine()}\n\n{report}")
    if arguments.record:
        append(report, "benchmarks.writes", sys.argv[1:])


def _cases(clients: Clients) -> list[Case]:
    spark, java = clients.spark, clients.java

    def of_java(name: str, what: str, baseline: str | None) -> Case:
        return Case(name=name, run=partial(java.do, what), cpu_seconds=java.cpu_seconds, baseline=baseline)

    def of_spark(name: str, mode: str, baseline: str) -> Case:
        return Case(name=name, run=partial(spark.write, mode=mode), cpu_seconds=spark.cpu_seconds, baseline=baseline)

    return [
        of_java(JAVA_WRITER, "write", None),
        of_spark(OURS_AT_LEAST, AT_LEAST_ONCE, JAVA_WRITER),
        of_java(JAVA_TRANSACTION, "write-transaction", None),
        of_spark(OURS_EXACTLY, EXACTLY_ONCE, JAVA_TRANSACTION),
    ]


def _compared(written: list[Measured]) -> str:
    seconds = {entry.case.name: statistics.median(entry.seconds) for entry in written}
    more = seconds[OURS_EXACTLY] / seconds[OURS_AT_LEAST] - 1
    return f"Exactly-once took {abs(more):.0%} {'more' if more >= 0 else 'less'} time than at-least-once."


def _latency(clients: Clients, mode: str, epochs: int) -> list[float]:
    epoch_table = clients.ours.create_table(_EPOCH, "value")
    with tempfile.TemporaryDirectory(prefix="pravega-bench-") as folder:
        latencies = clients.spark.small_epochs(
            epoch_table.stream.name, mode, epochs=epochs, rows=EPOCH_ROWS, folder=Path(folder) / "checkpoint"
        )
    tell(f"small epochs, {mode}: median {statistics.median(latencies):.0f} ms")
    clients.ours.drop_table(epoch_table.stream.name)
    return latencies


def _latency_table(latencies: dict[str, list[float]]) -> str:
    lines = [f"| a streaming epoch of {EPOCH_ROWS} rows, ms | median | 90 % | least |", "|---|--:|--:|--:|"]
    for mode, times in latencies.items():
        ordered = sorted(times)
        cells = [statistics.median(ordered), ordered[int(len(ordered) * 0.9)], ordered[0]]
        lines.append(f"| {mode} | " + " | ".join(f"{cell:.0f}" for cell in cells) + " |")
    lines.append("")
    lines.append("From the micro-batch's plan to the end of its commit (Spark's queryPlanning and addBatch).")
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.writes", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000, help="events that each run writes")
    parser.add_argument("--events-size", type=int, default=100, help="bytes of an event without its frame, on average")
    parser.add_argument("--runs", type=int, default=3, help="how often everything is measured")
    parser.add_argument("--epochs", type=int, default=60, help="streaming epochs whose latency is measured")
    parser.add_argument("--heap", default="6g", help="the server's heap; it holds all events")
    parser.add_argument(
        "--record", action="store_true", help="keep the results, and show them in benchmarks/RESULTS.md"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
