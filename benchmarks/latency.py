"""How long events take from a stream to another one: `python -m benchmarks.streaming latency`."""

from __future__ import annotations

import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.client import SEGMENTS
from benchmarks.harness import tell
from benchmarks.kafka import Broker
from benchmarks.session import Bench, jvm_of, progress_of
from pyspark_pravega.client import Client, Stream

_RATE = 1_000
_STAMP = struct.Struct(">d")
_WARM_UP_S = 30.0
"""How long a query runs before its latency is measured: a JVM compiles for about as long, and batches of a query that
has just begun take twice as long."""
_PARTS = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "commitBatch", "triggerExecution")


def latency(bench: Bench, seconds: float, kafka: Broker | None = None) -> str:
    """At a steady rate: how long after it was written an event is in the second stream.

    Args:
        bench: where to measure.
        seconds: how long each way is measured.
        kafka: a broker, between whose topics the same is measured.

    Returns:
        The delays of each way, and what its batches spent their time on, in Markdown.
    """
    long, short = {"realTime": "5 minutes"}, {"realTime": "5 seconds"}
    micro = {"processingTime": "0 seconds"}
    batches: dict[str, list[dict[str, int]]] = {}

    less = seconds / 3

    def through(mode: str, trigger: dict[str, str], seconds: float = seconds) -> Callable[[str], list[float]]:
        return lambda name: _delays(bench, seconds, (mode, trigger), batches.setdefault(name, []))

    ways: dict[str, Callable[[str], list[float]]] = {
        "real-time, exactly-once, within a batch": through("exactly-once", long),
        "real-time, at-least-once, within a batch": through("at-least-once", long),
        "micro-batches, exactly-once": through("exactly-once", micro),
        "micro-batches, at-least-once": through("at-least-once", micro),
        "Spark alone, real-time, within a batch": lambda _: _delays_in_spark(bench, seconds),
        f"real-time, at-least-once, batches of 5 s, for {less:.0f} s": through("at-least-once", short, less),
        f"no query: a reader of the first stream, for {less:.0f} s": lambda _: _delays(bench, less, None, []),
    }
    if kafka is not None:
        ways |= {
            "Kafka: real-time, at-least-once, within a batch": lambda _: _delays_in_kafka(bench, kafka, seconds, long),
            "Kafka: micro-batches, at-least-once": lambda _: _delays_in_kafka(bench, kafka, seconds, micro),
            f"Kafka: no query, for {less:.0f} s": lambda _: _delays_in_kafka(bench, kafka, less, None),
        }
    lines = [
        f"| Pravega to Pravega, {_RATE:,} events/s for {seconds:.0f} s | median, ms | p99, ms | most, ms |",
        "|---|--:|--:|--:|",
    ]
    for name, measure in ways.items():
        delays = [1000 * delay for delay in measure(name)]
        if not delays:
            raise AssertionError(f"{name}: nothing came through")
        p99 = delays[int(len(delays) * 0.99)]
        lines.append(f"| {name} | {statistics.median(delays):.1f} | {p99:.1f} | {delays[-1]:.0f} |")
        tell(lines[-1])
    lines += ["", f"| a batch's parts, median, ms | {' | '.join(_PARTS)} |", f"|---|{'--:|' * len(_PARTS)}"]
    for name, durations in batches.items():
        if durations:
            parts = (f"{statistics.median(batch.get(part, 0) for batch in durations):.0f}" for part in _PARTS)
            lines.append(f"| {name}, {len(durations)} batches | {' | '.join(parts)} |")
            tell(lines[-1])
    return "\n".join(lines)


def _from_stream_to_stream(
    bench: Bench, source: Stream, sink: Stream, way: tuple[str, dict[str, str]]
) -> StreamingQuery:
    mode, trigger = way
    # By these a real-time query knows its rows that come again.
    places = ["_segment", "_offset"] if mode == "exactly-once" and "realTime" in trigger else []
    rows = bench.read(source, startStreamCut="latest").select("event", *places)
    writer: Any = rows.writeStream.outputMode("update")
    writer = writer.option("checkpointLocation", bench.checkpoint()).option("writer-mode", mode).trigger(**trigger)
    query: StreamingQuery = writer.toTable(f"pravega.{sink.scope}.`{sink.name}`")
    return query


def _delays_in_spark(bench: Bench, seconds: float) -> list[float]:
    """How long rows take from a real-time source of Spark's own, in memory, to the end of a task, in s, ascending.

    Spark's source "rate" has no real-time mode. The one in memory is what Spark's own tests use. No Python worker and
    no server takes part: what is left is Spark's share. The sink in memory has rows when their batch is over, so one
    batch lasts a little longer than the measurement.
    """
    session, jvm = bench.session, jvm_of(bench.session)
    memory = jvm.org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
    source = memory.apply(session._jsparkSession, 1, jvm.org.apache.spark.sql.Encoders.LONG())
    # Not now(), which is one time for a whole batch.
    now = "CAST(reflect('java.lang.System', 'currentTimeMillis') AS BIGINT)"
    delays = DataFrame(source.toDF(), session).selectExpr("value", f"{now} - value AS delay")
    name = f"alone{time.time_ns()}"
    writer: Any = delays.writeStream.format("memory").queryName(name).outputMode("update")
    writer = writer.trigger(realTime=f"{_WARM_UP_S + seconds + 2:.0f} seconds")
    query: StreamingQuery = writer.option("checkpointLocation", bench.checkpoint()).start()
    begun = due = time.time()
    while due < begun + _WARM_UP_S + seconds:
        due += 0.01
        values = jvm.java.util.ArrayList([int(1000 * time.time())] * (_RATE // 100))
        source.addData(jvm.scala.jdk.javaapi.CollectionConverters.asScala(values))
        time.sleep(max(0.0, due - time.time()))
    since = int(1000 * (begun + _WARM_UP_S))
    while query.isActive and query.lastProgress is None:
        time.sleep(0.1)
    query.stop()
    rows = session.table(name).where(f"value >= {since}").select("delay").collect()
    return sorted(row.delay / 1000 for row in rows)


def _delays_in_kafka(bench: Bench, kafka: Broker, seconds: float, trigger: dict[str, str] | None) -> list[float]:
    """How long events take from a topic to another one by Spark's source and sink, in s, ascending.

    Args:
        bench: where to measure.
        kafka: the broker.
        seconds: how long.
        trigger: the query's; None for no query.
    """
    source = sink = f"t{time.time_ns()}"
    kafka.create(source, SEGMENTS)
    query: StreamingQuery | None = None
    if trigger is not None:
        sink = f"{source}-sink"
        kafka.create(sink, SEGMENTS)
        there = {"kafka.bootstrap.servers": kafka.address}
        rows = bench.session.readStream.format("kafka").options(**there, subscribe=source, startingOffsets="latest")
        writer: Any = rows.load().select("key", "value").writeStream.outputMode("update").format("kafka")
        writer = writer.options(**there, topic=sink, checkpointLocation=bench.checkpoint()).trigger(**trigger)
        query = writer.start()
    delays = kafka.pulse(
        source,
        sink,
        partitions=SEGMENTS,
        events=_RATE,
        warm_up=_WARM_UP_S if query else 1,
        seconds=seconds,
    )
    if query is not None:
        query.stop()
    return delays


def _delays(
    bench: Bench, seconds: float, way: tuple[str, dict[str, str]] | None, batches: list[dict[str, int]]
) -> list[float]:
    """How long events take through a query, in s, ascending; the first seconds don't count.

    Args:
        bench: where to measure.
        seconds: how long.
        way: the query's writer mode and trigger; None for no query.
        batches: gets what the query's batches that are over spent their time on, in ms.
    """
    source = sink = bench.stream()
    query: StreamingQuery | None = None
    if way is not None:
        sink = bench.stream()
        query = _from_stream_to_stream(bench, source, sink, way)
    delays: list[float] = []
    over = threading.Event()

    def follow() -> None:
        with bench.client.follow(sink, start=bench.client.controller.head(sink)) as tail:
            while not over.is_set():
                batch = tail.poll(0.5)
                now = time.time()
                if batch is not None:
                    delays.extend(now - _STAMP.unpack_from(event)[0] for event in batch.payloads.to_pylist())

    following = threading.Thread(target=follow, daemon=True)
    following.start()
    with rate_of(bench.client, source, _RATE):
        time.sleep(_WARM_UP_S if query else 1)
        delays.clear()
        time.sleep(seconds)
        measured = sorted(delays)
    over.set()
    if query is not None:
        batches += [progress["durationMs"] for progress in map(progress_of, query.recentProgress)]
        query.stop()
    following.join(10)
    return measured


@contextmanager
def rate_of(client: Client, stream: Stream, events_per_second: int) -> Iterator[None]:
    """Write events that hold the time of their writing, at a steady rate."""
    over = threading.Event()

    def write() -> None:
        with client.writer(stream) as writer:
            due, number = time.monotonic(), 0
            while not over.is_set():
                due += 0.01
                stamp = _STAMP.pack(time.time()).ljust(100, b".")
                count = events_per_second // 100
                writer.write_batch([stamp] * count, [str(number + i) for i in range(count)])
                writer.flush()
                number += count
                time.sleep(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(10)
