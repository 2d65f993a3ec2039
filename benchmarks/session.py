"""What benchmarks of streaming queries share: servers' client, session, and what a query tells."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import pyspark_pravega
from benchmarks.client import SCOPE, SEGMENTS
from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.spark.jars import jar

TIMEOUT_S = "120"


class Bench:
    """The servers' client, and a session with two task slots."""

    def __init__(self, client: Client, session: SparkSession, folder: Path) -> None:
        self.client, self.session, self._folder = client, session, folder
        self._numbers = iter(range(1_000_000))

    def stream(self, *, segments: int = SEGMENTS, rollover_bytes: int = 0) -> Stream:
        """A new stream."""
        stream = Stream(SCOPE, f"s{time.time_ns()}")
        scaling = ScalingPolicy(min_segments=segments)
        self.client.controller.create_stream(
            stream, StreamConfiguration(scaling=scaling, rollover_size_bytes=rollover_bytes)
        )
        return stream

    def read(self, stream: Stream, **options: str) -> Any:
        """A streaming DataFrame of a stream's events."""
        return self.session.readStream.options(**options).table(f"pravega.{stream.scope}.`{stream.name}`")

    def checkpoint(self) -> str:
        """A new folder."""
        return str(self._folder / f"checkpoint-{next(self._numbers)}")

    def to_noop(self, frame: Any, *, available_now: bool, mode: str = "append") -> StreamingQuery:
        """Run a query whose rows are thrown away."""
        writer = frame.writeStream.format("noop").outputMode(mode).option("checkpointLocation", self.checkpoint())
        started: StreamingQuery = (
            writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="0 seconds")
        ).start()
        return started


@contextmanager
def session_of(
    sandbox: Sandbox, conf: Sequence[str], *, slots: int = 2, jars: Sequence[Path] = ()
) -> Iterator[SparkSession]:
    """A session whose catalog `pravega` is the sandbox.

    Args:
        sandbox: the servers.
        conf: further configuration, each `KEY=VALUE`.
        slots: how many tasks it runs at a time.
        jars: what it has beside this package's.
    """
    builder: SparkSession.Builder = SparkSession.builder
    builder = pyspark_pravega.configure(
        builder.master(f"local[{slots}]").appName("benchmark"), controller=sandbox.controller_uri
    )
    if jars:
        builder = builder.config("spark.jars", ",".join(map(str, [jar(), *jars])))
    for key, value in {
        "spark.sql.catalog.pravega.timeout": TIMEOUT_S,
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "localhost",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        # Spark's real-time mode lets only sinks that it knows take part, unless it is told otherwise.
        "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
        "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
        **dict(setting.split("=", 1) for setting in conf),
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def jvm_of(session: SparkSession) -> Any:
    """The driver JVM's classes."""
    assert session.sparkContext._jvm is not None
    return session.sparkContext._jvm


def progress_of(progress: Any) -> dict[str, Any]:
    """What a query told of a batch."""
    document: dict[str, Any] = json.loads(progress.json)
    return document
