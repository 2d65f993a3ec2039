"""Received events decoded where they lie, beside copies of them, by turns: `python -m benchmarks.in_place --help`.

One thread, without servers: a segment's bytes are put into fresh buffers of a megabyte, as a connection receives them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.events import SCHEMA, make_rows
from benchmarks.results import append, describe_machine
from benchmarks.serde import Encodings
from pyspark_pravega.client import Stream
from pyspark_pravega.client.events import event_batches
from pyspark_pravega.connector.memory import keep_freed_memory
from pyspark_pravega.frames import framing
from pyspark_pravega.serde.codec import Codec
from pyspark_pravega.serde.formats import AVRO, schema_for
from pyspark_pravega.serde.raw import RawCodec

STREAM = Stream("bench", "events")
BUFFER_BYTES = 1 << 20
READ_BYTES = 200 << 20
"""What a run goes through."""


def main() -> None:
    """Run the benchmark as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.in_place", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000], help="bytes of an event without its frame")
    parser.add_argument("--runs", type=int, default=7, help="how often everything is measured")
    parser.add_argument(
        "--record", action="store_true", help="keep the results, and show them in benchmarks/RESULTS.md"
    )
    arguments = parser.parse_args()
    keep_freed_memory()
    report = "\n\n".join(_table(size, arguments.runs) for size in arguments.sizes)
    print(f"\n{describe_machine()}\n\n{report}")
    if arguments.record:
        append(report, "benchmarks.in_place", sys.argv[1:])


def _table(size: int, runs: int) -> str:
    schema = schema_for(AVRO, SCHEMA, name="rows", namespace="benchmark")
    codec = schema.codec(SCHEMA, Encodings(schema=schema), write_id=0)
    payloads = codec.encode(make_rows(codec, size))
    data = memoryview(framing.join(payloads))
    events = len(payloads) * max(1, READ_BYTES // len(data))
    names = codec.schema.names
    subjects: list[tuple[str, Codec, Sequence[str]]] = [
        ("Avro, all columns", codec, names),
        ("Avro, two columns", codec, names[:2]),
        ("raw", RawCodec(), ["event"]),
        ("counted", codec, []),
    ]
    lines = ["| us of CPU an event | in place | copies | times |", "|---|--:|--:|--:|"]
    receiving = [_seconds(lambda: sum(map(len, _received(data))), data) for _ in range(runs)]
    lines.append(f"| received only, {size} bytes | {statistics.median(receiving) / events * 1e6:.3f} | | |")
    for name, subject, columns in subjects:
        ways = [_in_place(data, subject, columns), _with_copies(data, subject, columns)]
        seconds: list[list[float]] = [[], []]
        for _ in range(runs):
            for taken, way in zip(seconds, ways, strict=True):
                taken.append(_seconds(way, data))
        new, old = (statistics.median(taken) / events * 1e6 for taken in seconds)
        lines.append(f"| {name} | {new:.3f} | {old:.3f} | {new / old:.2f} |")
    return "\n".join(lines)


def _seconds(run: Callable[[], object], data: memoryview) -> float:
    before = time.process_time()
    for _ in range(max(1, READ_BYTES // len(data))):
        run()
    return time.process_time() - before


def _received(data: memoryview) -> Iterator[memoryview]:
    for at in range(0, len(data), BUFFER_BYTES):
        piece = np.frombuffer(data[at : at + BUFFER_BYTES], np.uint8)
        buffer = np.empty(len(piece), np.uint8)
        buffer[:] = piece
        yield buffer.data


def _in_place(data: memoryview, codec: Codec, columns: Sequence[str]) -> Callable[[], None]:
    def run() -> None:
        for batch in event_batches(_received(data), STREAM, 0, 0, end=len(data)):
            codec.decode(batch.frames.events, columns)

    return run


def _with_copies(data: memoryview, codec: Codec, columns: Sequence[str]) -> Callable[[], None]:
    """As before there were views: a buffer is joined with the rest of the one before, and payloads are put together."""

    def run() -> None:
        rest = b""
        for buffer in _received(data):
            chunk = memoryview(b"".join([rest, buffer])) if rest else buffer
            frames = framing.split(chunk)
            codec.decode(frames.payloads, columns)
            rest = bytes(chunk[frames.consumed :])

    return run


if __name__ == "__main__":
    main()
