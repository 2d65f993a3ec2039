"""What the streaming tests share: streams of numbered events, and queries whose batches are kept."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from entry_tools import descendants
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from spark_tools import MEASURED

from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration

TIMEOUT_S = 120
OWN_DAEMON = "pyspark_pravega.spark.daemon"
"""Its workers run this package's tasks."""


def workers_of(spark: SparkSession) -> set[int]:
    """The processes of all Python workers of this package's tasks: neither those of others' tasks nor the daemons that
    have forked them."""
    jvm = spark.sparkContext._gateway
    assert jvm is not None
    daemon = "coverage_daemon" if MEASURED else OWN_DAEMON
    commands = {pid: command for pid, command in descendants(jvm.proc.pid).items() if daemon in command}
    return {pid for pid in commands if parent_of(pid) in commands}


def idle(spark: SparkSession) -> bool:
    """Whether no task runs: a query that was stopped doesn't wait for those that Spark has told to end."""
    assert spark.sparkContext._jsc is not None
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    return not any(executor.numRunningTasks() for executor in tracker.getExecutorInfos())


def kill_workers(spark: SparkSession) -> int:
    """End all Python workers of this package's tasks; returns how many there were.

    Spark tells a daemon when an idle worker of its has ended, and the statement that asks for a worker fails when the
    daemon is gone, too ("Stream closed").
    """
    workers = workers_of(spark)
    for pid in workers:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(workers)


@contextmanager
def real_time_batches(spark: SparkSession, batch_ms: int) -> Iterator[None]:
    """As a user has to set it: Spark lets only sinks that it knows take part. And short batches, not five seconds."""
    conf = {
        "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
        "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
        "spark.sql.streaming.realTimeMode.minBatchDuration": str(batch_ms),
    }
    for key, value in conf.items():
        spark.conf.set(key, value)
    yield
    for key in conf:
        spark.conf.unset(key)


def parent_of(pid: int) -> int:
    """The process that has started one; 0 when that has just ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def scope_of(namespace: str) -> str:
    return namespace.removeprefix("pravega.").replace("_", "-")


def make_stream(client: Client, namespace: str, name: str, *, segments: int = 1) -> Stream:
    stream = Stream(scope_of(namespace), name)
    client.controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy(min_segments=segments)))
    return stream


def write(client: Client, stream: Stream, events: Iterable[str]) -> None:
    """Text events; what stands before a `:` is the routing key."""
    found = list(events)
    with client.writer(stream) as writer:
        writer.write_batch([event.encode() for event in found], [event.split(":")[0] for event in found])


def numbered(keys: int, count: int, *, first: int = 0) -> list[str]:
    return [f"k{key}:{number}" for number in range(first, first + count) for key in range(keys)]


def check_order(events: list[str], *, again: bool = False) -> None:
    """Each key's events are in their order; where a query was killed, it may have begun again at an earlier one."""
    last: dict[str, int] = {}
    for event in events:
        key, number = event.split(":")
        expected = last.get(key, -1) + 1
        assert int(number) <= expected if again else int(number) == expected, f"{key}: {number} came after {last[key]}"
        last[key] = int(number)


class Batches:
    """The rows of a query's micro-batches, in their order; of one that is run again the last time counts."""

    def __init__(self) -> None:
        self.rows: dict[int, list[Any]] = {}

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.rows[batch] = frame.collect()

    @property
    def events(self) -> list[list[str]]:
        """Each batch's raw events."""
        return [[bytes(row.event).decode() for row in self.rows[batch]] for batch in sorted(self.rows)]

    @property
    def all_events(self) -> list[str]:
        return [event for batch in self.events for event in batch]


def run_available(frame: DataFrame, checkpoint: Path, sink: Batches | None = None) -> Batches:
    """Run a query over all that is there."""
    found = Batches() if sink is None else sink
    query = start(frame, checkpoint, found, available_now=True)
    assert query.awaitTermination(TIMEOUT_S), "the query doesn't come to its end"
    return found


def start(frame: DataFrame, checkpoint: Path, sink: Batches, *, available_now: bool = False) -> StreamingQuery:
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    return (writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="0 seconds")).start()


def read_stream(spark: SparkSession, table: str, **options: Any) -> DataFrame:
    return spark.readStream.options(**options).table(table)
