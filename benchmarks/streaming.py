"""Streaming queries: latency, catching up, planning, and soaks: `python -m benchmarks.streaming --help`."""

from __future__ import annotations

import argparse
import base64
import json
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.client import SCOPE, SEGMENTS, make_events
from benchmarks.harness import driver_pid, tell
from benchmarks.java_client import JavaClient, java_client
from benchmarks.kafka import broker, spark_jars
from benchmarks.latency import latency
from benchmarks.results import append, describe_machine
from benchmarks.session import TIMEOUT_S, Bench, progress_of, session_of
from benchmarks.standing import committed_heap, live_heap, memory_of, stand
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.plans.scans import ScanRequest, plan_scan
from pyspark_pravega.client import Client
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.stream.offsets import SourceOffset
from pyspark_pravega.connector.stream.source import StreamSource
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

_MANY_SEGMENTS = 1_000
_WARM_UPS = 20
"""How often everything is read before it is measured: so long the JVMs still compile."""
_AHEAD = 2_000_000
"""How many events a soak's writer may be ahead of the query."""


def catch_up(bench: Bench, java: JavaClient, events: int, runs: int) -> str:
    """A stream with history: Java's batch client reads it, and a query with Trigger.AvailableNow."""
    payloads, keys = make_events(100)
    stream = bench.stream()
    with bench.client.writer(stream) as writer:
        for start in range(0, events, len(payloads)):
            count = min(len(payloads), events - start)
            writer.write_batch(payloads.slice(0, count), keys.slice(0, count))
    frame = bench.read(stream)
    queries = {"counts them": (frame.groupBy().count(), "complete"), "throws them away as rows": (frame, "append")}
    times: dict[str, list[float]] = defaultdict(list)
    for run in range(-_WARM_UPS, runs):
        before = time.perf_counter()
        assert java.do("read", stream.name, 0) == events
        seconds_of = {"Java batch client": time.perf_counter() - before}
        for name, (query_frame, mode) in queries.items():
            before = time.perf_counter()
            query = bench.to_noop(query_frame, available_now=True, mode=mode)
            query.awaitTermination()
            seconds_of[f"query that {name}, from start() to its end"] = time.perf_counter() - before
            progress = [progress_of(p) for p in query.recentProgress]
            assert sum(p["numInputRows"] for p in progress) == events
            longest = max(p["durationMs"]["triggerExecution"] for p in progress)
            seconds_of[f"query that {name}, its micro-batch"] = longest / 1000
        for name, seconds in seconds_of.items() if run >= 0 else ():
            times[name].append(seconds)
        tell("catch-up: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in seconds_of.items()))

    def rate(seconds: list[float]) -> str:
        return f"{events / statistics.median(seconds):,.0f}"

    return "\n".join(
        [
            f"| catching up with {events:,} events of 100 bytes, {SEGMENTS} segments | events/s |",
            "|---|--:|",
            *(f"| {name} | {rate(seconds)} |" for name, seconds in times.items()),
        ]
    )


def planning(bench: Bench) -> str:
    """Plan reads of a stream of many segments with an event in each."""
    stream = bench.stream(segments=_MANY_SEGMENTS)
    with bench.client.writer(stream) as writer:
        writer.write_batch([b"event"] * 20_000, [str(number) for number in range(20_000)])
    # Nothing is known of the stream in a new client.
    with Client(bench.client.settings) as client:
        source = StreamSource(client, [stream], ReadOptions())
        times = []
        for _ in range(3):
            before = time.perf_counter()
            start = source.initial_offset()
            begin = time.perf_counter()
            end = source.latest_offset(start)
            partitions = source.partitions(start, end)
            times.append((begin - before, time.perf_counter() - begin))
    catalog = Catalog(bench.client.settings)
    definition = catalog.load_table([stream.scope], stream.name)
    before = time.perf_counter()
    scan = plan_scan(definition, ScanRequest(columns=["event"]))
    batch = time.perf_counter() - before
    return (
        f"Planning over {_MANY_SEGMENTS:,} segments: a micro-batch {times[0][1]:.2f} s the first time and "
        f"{times[-1][1]:.2f} s later ({len(partitions)} partitions), the "
        f"initial offset {times[0][0]:.2f} s; a batch read {batch:.2f} s "
        f"({len(scan.reader.partitions())} partitions)."
    )


def soak(bench: Bench, seconds: float, rate: float) -> str:
    """A steady rate, or as much as the query takes: memory of all processes, and the lag."""
    # The sandbox's storage is its heap, and a truncation frees whole chunks of a segment only.
    source = bench.stream(rollover_bytes=16 << 20)
    payloads, keys = make_events(100)
    query = bench.to_noop(bench.read(source), available_now=False)
    lines = [
        "| s | driver JVM, MiB | of it heap, MiB | catalog process, MiB | workers, MiB | events behind | events/s |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    over = threading.Event()
    written, read, last_batch = 0, 0, -1

    def write() -> None:
        nonlocal written
        begin = time.monotonic()
        with bench.client.writer(source) as writer:
            while not over.is_set():
                if written - read > _AHEAD or written > rate * (time.monotonic() - begin):
                    time.sleep(0.01)
                    continue
                writer.write_batch(payloads, keys)
                writer.flush()
                written += len(payloads)

    def keep_count() -> None:
        nonlocal read, last_batch
        truncated = 0
        while not over.is_set():
            for progress in query.recentProgress:
                if progress.batchId > last_batch:
                    last_batch = progress.batchId
                    read += progress.numInputRows
            last = query.lastProgress
            if last is not None and read - truncated > _AHEAD:
                # The sandbox holds all events in its memory: those that were read go.
                end = progress_of(last)["sources"][0]["endOffset"]
                position = json.loads(end) if isinstance(end, str) else end
                bench.client.truncate(SourceOffset.from_dict(position)[source].cut)
                truncated = read
            time.sleep(0.1)

    with ThreadPoolExecutor(2) as threads:
        running = [threads.submit(run) for run in (write, keep_count)]
        try:
            lines += _watch_soak(bench, query, seconds, running, lambda: (written, read))
        finally:
            over.set()
    for ended in running:
        ended.result()
    live = live_heap(bench.session)
    query.stop()
    return (
        f"A soak of {seconds:.0f} s, {written:,} events written; at its end {live:.0f} MiB of the driver's heap were "
        "in use after a collection:\n\n" + "\n".join(lines)
    )


def _watch_soak(
    bench: Bench,
    query: StreamingQuery,
    seconds: float,
    running: Sequence[Future[None]],
    counts: Callable[[], tuple[int, int]],
) -> Iterator[str]:
    jvm = driver_pid(bench.session)
    begin, interval, before = time.monotonic(), max(5.0, seconds / 20), 0
    while time.monotonic() - begin < seconds:
        wait(running, timeout=interval, return_when=FIRST_EXCEPTION)
        if query.exception() is not None:
            raise AssertionError(f"the query failed: {query.exception()}")
        if any(ended.done() for ended in running):
            return
        memory, (written, read) = memory_of(jvm), counts()
        line = (
            f"| {time.monotonic() - begin:.0f} | {memory['jvm']:.0f} | {committed_heap(bench.session):.0f} "
            f"| {memory['catalog']:.0f} | {memory['workers']:.0f} | {written - read:,} "
            f"| {(read - before) / interval:,.0f} |"
        )
        before = read
        tell(line)
        yield line


def main() -> None:
    """Run the benchmark as the command line says."""
    arguments = _arguments()
    parts: list[str] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pravega-bench-")))
        sandbox = stack.enter_context(Sandbox(heap=arguments.heap, preallocate=True))
        settings = Settings.resolve({"controller-uri": sandbox.controller_uri, "timeout": TIMEOUT_S}, environ={})
        client = stack.enter_context(Client(settings))
        client.controller.create_scope(SCOPE)
        jars = spark_jars() if arguments.kafka else []
        session = stack.enter_context(session_of(sandbox, arguments.conf, slots=arguments.slots, jars=jars))
        bench = Bench(client, session, folder)
        kafka = stack.enter_context(broker(folder / "kafka")) if arguments.kafka else None
        if "catch-up" in arguments.what:
            payloads, keys = make_events(100)
            pairs = zip(keys.to_pylist(), payloads.to_pylist(), strict=True)
            java = stack.enter_context(
                java_client(
                    folder,
                    "ClientBench",
                    SCOPE,
                    {"events": "".join(f"{key}\t{_base64(event)}\n" for key, event in pairs)},
                    controller_uri=sandbox.controller_uri,
                    schema_registry_uri=sandbox.schema_registry_uri,
                )
            )
            parts.append(catch_up(bench, java, int(2_000_000 * arguments.scale), arguments.runs))
        others: dict[str, Callable[[], str]] = {
            "planning": lambda: planning(bench),
            "latency": lambda: latency(bench, 60 * arguments.scale, kafka),
            "real-time": lambda: stand(bench, 600 * arguments.scale),
            "soak": lambda: soak(bench, 600 * arguments.scale, arguments.rate),
        }
        parts += [run() for name, run in others.items() if name in arguments.what]
    report = "\n\n".join(parts)
    print(f"\n{describe_machine()}\n\n{report}")
    if arguments.record:
        append(report, "benchmarks.streaming", sys.argv[1:])


def _base64(event: bytes) -> str:
    return base64.b64encode(event).decode()


def _arguments() -> argparse.Namespace:
    parts = ["catch-up", "planning", "latency", "real-time", "soak"]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streaming", description=__doc__)
    parser.add_argument("what", nargs="*", default=parts, help=f"what to measure, of {', '.join(parts)}; all of it")
    parser.add_argument("--runs", type=int, default=5, help="how often the catch-up is measured")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the events and times, for a quick look")
    parser.add_argument("--rate", type=float, default=float("inf"), help="events/s that a soak writes at most")
    parser.add_argument("--slots", type=int, default=2, help="how many tasks Spark runs at a time")
    parser.add_argument(
        "--kafka",
        action="store_true",
        help="measure latency between topics of Kafka, too, by Spark's source and sink, whose real-time queries need a "
        "task slot for each of 4 partitions (--slots 4); 60 MB are fetched once",
    )
    parser.add_argument("--heap", default="8g", help="the server's heap; it holds all events")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="of Spark; several times")
    parser.add_argument(
        "--record", action="store_true", help="keep the results, and show them in benchmarks/RESULTS.md"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
