"""A real-time query that stands for minutes, and what it takes: `python -m benchmarks.streaming real-time`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.harness import driver_pid, process_tree, tell
from benchmarks.latency import rate_of
from benchmarks.session import Bench, jvm_of, progress_of
from pyspark_pravega.client import Stream

KINDS = ("jvm", "catalog", "workers")
_RATE = 1_000
_SEGMENTS = 16
_SETTLED_S = 60.0
"""How long a query runs without an event before its CPU is measured: a JVM compiles what has just begun."""
_LINES = 10
_TICKS = os.sysconf("SC_CLK_TCK")


def stand(bench: Bench, seconds: float) -> str:
    """A real-time query that follows 16 segments: for a part of the time nothing arrives, then 1,000 events/s.

    Args:
        bench: where to measure.
        seconds: how long, in all.

    Returns:
        What its processes take, in Markdown.
    """
    idle_s, lines = seconds / 5, ["| nothing arrives, % of a core | driver JVM | catalog process | workers | all |"]
    lines.append("|---|--:|--:|--:|--:|")
    tell(lines[0])
    for batches in ("5 minutes", "5 seconds"):
        source, query = _query(bench, batches)
        time.sleep(_SETTLED_S)
        lines.append(_idle(bench, f"batches of {batches}, for {idle_s:.0f} s", idle_s))
        if batches != "5 seconds":
            query.stop()
    lines += ["", f"| {_RATE:,} events/s, s | JVM, MiB | of it heap | catalog process | workers | % of a core | rows |"]
    lines.append("|--:|--:|--:|--:|--:|--:|--:|")
    busy_s = seconds - 2 * idle_s
    with rate_of(bench.client, source, _RATE):
        lines += _watched(bench, query, busy_s)
    live = live_heap(bench.session)
    lines += ["", f"In use in the driver's heap after a collection: {live:.0f} MiB."]
    query.stop()
    return "\n".join(lines)


def _query(bench: Bench, batches: str) -> tuple[Stream, StreamingQuery]:
    """A query from one stream to another; it has come so far that it follows the first one."""
    source, sink = bench.stream(segments=_SEGMENTS), bench.stream()
    writer: Any = bench.read(source, startStreamCut="latest").select("event").writeStream.outputMode("update")
    writer = writer.option("checkpointLocation", bench.checkpoint()).option("writer-mode", "at-least-once")
    query: StreamingQuery = writer.trigger(realTime=batches).toTable(f"pravega.{sink.scope}.`{sink.name}`")
    with bench.client.follow(sink, start=bench.client.controller.head(sink)) as tail, bench.client.writer(source) as to:
        while True:
            # What came before the query knew its start isn't its own.
            to.write_batch([b"begin"] * _SEGMENTS, [str(number) for number in range(_SEGMENTS)])
            to.flush()
            if tail.poll(1.0) is not None:
                return source, query
            if query.exception() is not None:
                raise AssertionError(f"the query failed: {query.exception()}")


def _idle(bench: Bench, what: str, seconds: float) -> str:
    before, begin = cpu_of(driver_pid(bench.session)), time.monotonic()
    time.sleep(seconds)
    after, passed = cpu_of(driver_pid(bench.session)), time.monotonic() - begin
    shares = [100 * (after[kind] - before[kind]) / passed for kind in KINDS]
    line = f"| {what} | {' | '.join(f'{share:.2f}' for share in [*shares, sum(shares)])} |"
    tell(line)
    return line


def _watched(bench: Bench, query: StreamingQuery, seconds: float) -> list[str]:
    lines, begin = [], time.monotonic()
    before, interval = sum(cpu_of(driver_pid(bench.session)).values()), seconds / _LINES
    rows, last_batch = 0, -1
    for number in range(1, _LINES + 1):
        while time.monotonic() < begin + number * interval:
            time.sleep(min(1.0, interval))
            for progress in map(progress_of, query.recentProgress):
                if progress["batchId"] > last_batch:
                    last_batch = progress["batchId"]
                    rows += progress["numInputRows"]
            if query.exception() is not None:
                raise AssertionError(f"the query failed: {query.exception()}")
        memory, cpu = memory_of(driver_pid(bench.session)), sum(cpu_of(driver_pid(bench.session)).values())
        lines.append(
            f"| {time.monotonic() - begin:.0f} | {memory['jvm']:.0f} | {committed_heap(bench.session):.0f} "
            f"| {memory['catalog']:.0f} | {memory['workers']:.0f} | {100 * (cpu - before) / interval:.1f} | {rows:,} |"
        )
        before = cpu
        tell(lines[-1])
    return lines


def memory_of(jvm: int) -> dict[str, float]:
    """Resident memory of a driver JVM, its catalog process and its workers, in MiB."""
    memory = dict.fromkeys(KINDS, 0.0)
    for pid in process_tree(jvm):
        try:
            kind = _kind(pid, jvm)
            memory[kind] += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20
        except (FileNotFoundError, ProcessLookupError):
            continue
    return memory


def cpu_of(jvm: int) -> dict[str, float]:
    """Seconds of CPU that a driver JVM, its catalog process and its workers have taken, ended children included."""
    seconds = dict.fromkeys(KINDS, 0.0)
    for pid in process_tree(jvm):
        try:
            kind = _kind(pid, jvm)
            # Behind the command's name: user and system time, of itself and of its children.
            times = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:15]
        except (FileNotFoundError, ProcessLookupError):
            continue
        seconds[kind] += sum(map(int, times)) / _TICKS
    return seconds


def _kind(pid: int, jvm: int) -> str:
    command = Path(f"/proc/{pid}/cmdline").read_bytes()
    return "jvm" if pid == jvm else "catalog" if b"process.service" in command else "workers"


def committed_heap(session: SparkSession) -> float:
    """What the driver's JVM has taken for its heap, used or not, in MiB."""
    return float(_heap(session).getCommitted() / 2**20)


def live_heap(session: SparkSession) -> float:
    """What is left in the driver's heap after a whole collection, in MiB."""
    jvm_of(session).java.lang.System.gc()
    return float(_heap(session).getUsed() / 2**20)


def _heap(session: SparkSession) -> Any:
    return jvm_of(session).java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage()
