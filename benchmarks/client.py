"""The client alone, without Spark and without a codec, beside the official Java client:
`python -m benchmarks.client --help`.
"""

from __future__ import annotations

import argparse
import base64
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.harness import Case, measure, process_tree_cpu_seconds, table, tell
from benchmarks.java_client import JavaClient, java_client
from benchmarks.results import append, describe_machine
from pyspark_pravega.client import (
    Client,
    ScalingPolicy,
    SegmentPart,
    SegmentRange,
    Stream,
    StreamConfiguration,
)
from pyspark_pravega.client.events.blocks import Batch, Placed, blocks
from pyspark_pravega.client.events.transaction_writer import await_commit
from pyspark_pravega.client.segments.writing import SegmentWriter
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

SCOPE, SEGMENTS, THREADS = "bench", 4, 2
WORKLOADS = {100: 2_000_000, 1000: 200_000}
"""Bytes of an event, without its frame, to how many there are."""
_ROWS, _KEYS, _BATCH = 50_000, 10_000, 50_000
_WARM_UP = 0.2
_TIMEOUT_S = "120"
_LONG_STREAM_BYTES = 2_000_000_000

_READ_ALL = """
import re, sys
from pathlib import Path
from pyspark_pravega.client import Client
from pyspark_pravega.settings import Settings

def peak():
    # Not getrusage: its peak is also that of the process that started this one.
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

with Client(Settings.resolve({"controller-uri": sys.argv[1], "timeout": "120"})) as client:
    before = peak()
    events = size = 0
    for batch in client.read(sys.argv[2]):
        events += len(batch)
        size += batch.end - batch.start
    print(events, size, before, peak())
"""


class Ours:
    """This package's client, in this process."""

    def __init__(self, client: Client, events: pa.Array, keys: pa.Array) -> None:
        self._client, self._events, self._keys = client, events, keys
        self._blocks: dict[int, list[tuple[SegmentRange, Placed]]] = {}

    def write(self, stream: str, count: int) -> int:
        """Directly, with routing keys."""
        with self._client.writer(f"{SCOPE}/{stream}") as writer:
            for events, keys in self._batches(count):
                writer.write_batch(events, keys)
        return writer.events_written

    def write_transaction(self, stream: str, count: int) -> int:
        """In one transaction, with routing keys."""
        with self._client.transaction(f"{SCOPE}/{stream}") as transaction:
            for events, keys in self._batches(count):
                transaction.write_batch(events, keys)
        return transaction.events_written

    def append_prepared(self, stream: str, count: int) -> int:
        """As `write_transaction`, of blocks that are there already: nothing is left but sending, and the server."""
        client, target = self._client, Stream(SCOPE, stream)
        transaction = client.controller.begin_transaction(target, lease_ms=60_000)
        ranges = transaction.segments.ranges
        writers = {
            id_: SegmentWriter(client.pool, target, id_, segment=transaction.segment_name(id_))
            for id_ in [owner.segment_id for owner in ranges]
        }
        written = 0
        while written < count:
            for owner, block in self._prepared(ranges, min(_BATCH, count - written)):
                writers[owner.segment_id].append(memoryview(block.data), len(block))
                written += len(block)
        for writer in writers.values():
            writer.flush()
            writer.close()
        client.controller.commit_transaction(target, transaction.id)
        await_commit(client, target, transaction.id)
        return written

    def read(self, stream: str, _: int) -> int:
        """All events to Arrow, segments in parallel as Java's batch client reads them."""

        def count(part: SegmentPart) -> int:
            return sum(batch.to_arrow().num_rows for batch in self._client.read_part(part))

        with ThreadPoolExecutor(THREADS) as threads:
            return sum(threads.map(count, self._client.plan(f"{SCOPE}/{stream}")))

    def _prepared(self, ranges: Sequence[SegmentRange], count: int) -> list[tuple[SegmentRange, Placed]]:
        if count not in self._blocks:
            batch = Batch.of(self._events.slice(0, count), self._keys.slice(0, count), 0.0)
            self._blocks[count] = [
                (owner, block)
                for part in batch.parts(len(ranges))
                for owner, placed in part.place(ranges)
                for block in blocks(placed)
            ]
        return self._blocks[count]

    def _batches(self, count: int) -> Iterator[tuple[pa.Array, pa.Array]]:
        for start in range(0, count, _BATCH):
            length = min(_BATCH, count - start)
            yield self._events.slice(0, length), self._keys.slice(0, length)


def make_events(size: int) -> tuple[pa.Array, pa.Array]:
    """What is written over and over, the same in each run.

    Args:
        size: bytes of an event; they vary by a tenth of that around it.

    Returns:
        Events, and a routing key for each.
    """
    random = np.random.default_rng(20261121)
    sizes = random.integers(size - size // 10, size + size // 10 + 1, _ROWS)
    data = random.bytes(int(sizes.sum()))
    ends = np.cumsum(sizes)
    events = [data[end - length : end] for end, length in zip(ends, sizes, strict=True)]
    keys = [f"customer {number:06d}" for number in random.integers(0, _KEYS, _ROWS)]
    return pa.array(events, pa.binary()), pa.array(keys)


@contextmanager
def fresh_stream(client: Client) -> Iterator[str]:
    """A new stream's name; the stream is deleted afterwards: the sandbox keeps all events in its memory."""
    stream = Stream(SCOPE, f"s{time.time_ns()}")
    client.controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy(min_segments=SEGMENTS)))
    yield stream.name
    client.controller.seal_stream(stream)
    client.controller.delete_stream(stream)


def compare(
    client: Client, java: JavaClient, size: int, count: int, *, runs: int, server_cpu_seconds: Callable[[], float]
) -> str:
    """Measure one workload; returns its table."""
    ours = Ours(client, *make_events(size))

    def with_java(name: str, what: str) -> Case:
        return Case(name=name, run=lambda stream, events: java.do(what, stream, events), cpu_seconds=java.cpu_seconds)

    def with_ours(name: str, baseline: str, run: Callable[[str, int], int]) -> Case:
        return Case(name=name, run=run, cpu_seconds=_cpu_seconds, baseline=baseline)

    writes = [
        with_java("Java EventStreamWriter", "write"),
        with_ours("EventWriter, batches", "Java EventStreamWriter", ours.write),
        with_java("Java transaction", "write-transaction"),
        with_ours("transaction, batches", "Java transaction", ours.write_transaction),
        with_ours("transaction, prepared blocks: the server's limit", "Java transaction", ours.append_prepared),
    ]
    reads = [with_java("Java batch client", "read"), with_ours("read to Arrow", "Java batch client", ours.read)]
    for case in writes:
        with fresh_stream(client) as stream:
            case.run(stream, int(count * _WARM_UP))
            for read in reads:
                read.run(stream, 0)

    @contextmanager
    def checked() -> Iterator[str]:
        with fresh_stream(client) as stream:
            yield stream
            if (count_read := ours.read(stream, 0)) != count:
                raise AssertionError(f"there are {count_read:,} events instead of {count:,}")

    measured_alike = partial(measure, runs=runs, events=count, tell=tell, server_cpu_seconds=server_cpu_seconds)
    measured = measured_alike(writes, stage=checked)
    with fresh_stream(client) as stream:
        ours.write(stream, count)
        measured += measured_alike(reads, stage=lambda: nullcontext(stream))
    return table(f"{count:,} events of {size} bytes", measured, count)


def memory_of_a_long_read(client: Client, controller_uri: str) -> str:
    """Read a long stream in a process of its own; returns a sentence about its memory."""
    stream = Stream(SCOPE, "long")
    client.controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy(min_segments=SEGMENTS)))
    events, keys = make_events(1000)
    count = 0
    with client.writer(stream) as writer:
        while count * 1008 < _LONG_STREAM_BYTES:
            writer.write_batch(events, keys)
            count += len(events)
    process = subprocess.run(
        [sys.executable, "-c", _READ_ALL, controller_uri, str(stream)], capture_output=True, text=True, check=True
    )
    count_read, size, before, peak = map(int, process.stdout.split())
    if count_read != count:
        raise AssertionError(f"{count_read:,} events were read instead of {count:,}")
    return (
        f"Reading a stream of {size / 1e9:.2f} GB ({count_read:,} events) to its end: {peak / 1024:.0f} MiB resident "
        f"at most, {before / 1024:.0f} MiB of it before the first event."
    )


def main() -> None:
    """Run the benchmark as the command line says."""
    arguments = _arguments()
    started = time.monotonic()
    parts = []
    # Each workload has servers of its own: the sandbox keeps what was written for long after a stream's deletion.
    for size, count in () if arguments.only_memory else WORKLOADS.items():
        if size not in arguments.sizes:
            continue
        with _servers(arguments.heap) as (sandbox, client), _java(sandbox, size) as java:
            parts.append(
                compare(
                    client,
                    java,
                    size,
                    int(count * arguments.scale),
                    runs=arguments.runs,
                    server_cpu_seconds=partial(process_tree_cpu_seconds, sandbox.pravega_pid),
                )
            )
    if arguments.memory:
        with _servers(arguments.heap) as (sandbox, client):
            parts.append(memory_of_a_long_read(client, sandbox.controller_uri))
    report = "\n\n".join(
        [
            f"Plain bytes with {_KEYS:,} routing keys, sizes varying by a tenth, {SEGMENTS} segments. Writers use one "
            f"thread, readers {THREADS}. Median of {arguments.runs} runs, interleaved; "
            f"{time.monotonic() - started:.0f} s in all.",
            *parts,
        ]
    )
    print(f"\n{describe_machine()}\n\n{report}")
    if arguments.record:
        append(report, "benchmarks.client", sys.argv[1:])


@contextmanager
def _servers(heap: str) -> Iterator[tuple[Sandbox, Client]]:
    with Sandbox(heap=heap, preallocate=True) as sandbox:
        settings = Settings.resolve({"controller-uri": sandbox.controller_uri, "timeout": _TIMEOUT_S}, environ={})
        with Client(settings) as client:
            client.controller.create_scope(SCOPE)
            yield sandbox, client


@contextmanager
def _java(sandbox: Sandbox, size: int) -> Iterator[JavaClient]:
    with (
        tempfile.TemporaryDirectory(prefix="pravega-bench-") as folder,
        java_client(
            Path(folder),
            "ClientBench",
            SCOPE,
            {"events": _as_text(*make_events(size))},
            controller_uri=sandbox.controller_uri,
            schema_registry_uri=sandbox.schema_registry_uri,
        ) as java,
    ):
        yield java


def _as_text(events: pa.Array, keys: pa.Array) -> str:
    pairs = zip(keys.to_pylist(), events.to_pylist(), strict=True)
    return "".join(f"{key}\t{base64.b64encode(event).decode()}\n" for key, event in pairs)


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.client", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="how often everything is measured")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the events to use, for a quick look")
    parser.add_argument(
        "--sizes", type=int, nargs="+", choices=WORKLOADS, default=list(WORKLOADS), help="of events, in bytes"
    )
    parser.add_argument("--heap", default="13g", help="the server's heap; it holds all events of a workload")
    parser.add_argument("--no-memory", dest="memory", action="store_false", help="without the read of a 2 GB stream")
    parser.add_argument("--only-memory", action="store_true", help="nothing but the read of a 2 GB stream")
    parser.add_argument(
        "--record", action="store_true", help="keep the results, and show them in benchmarks/RESULTS.md"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
