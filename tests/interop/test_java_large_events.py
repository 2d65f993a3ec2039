"""Events of more than 8 MiB, written by each and read by the other."""

from __future__ import annotations

import random
import struct
import zlib

import pytest

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Stream, StreamConfiguration
from pyspark_pravega.client.segments.large_events import append_large
from pyspark_pravega.client.segments.reading import read_range, segment_state
from tests.jars.java_client import JavaPrograms
from tests.jars.kept_java import KeptPrograms

pytestmark = [pytest.mark.server, pytest.mark.dropped]

SIZES = (100, (8 << 20) + 1, 5, 20_000_003, 9_000_000, 1)


@pytest.fixture
def alone(java: KeptPrograms) -> JavaPrograms:
    """In a JVM of their own: in the one that programs share, such a program once gave no answer for 120 s."""
    return java.alone()


@pytest.fixture
def stream(catalog: Catalog, scope: str) -> Stream:
    stream = Stream(scope, "large")
    catalog.client.controller.create_stream(stream, StreamConfiguration())
    return stream


def test_what_java_writes_is_read(catalog: Catalog, stream: Stream, alone: JavaPrograms) -> None:
    written = alone.run("interop.LargeTool", "write", stream.scope, stream.name, *map(str, SIZES)).splitlines()
    pool = catalog.client.pool
    data = b"".join(read_range(pool, stream, 0, 0, segment_state(pool, stream, 0).write_offset))
    sums, at = [], 0
    while at < len(data):
        kind, length = struct.unpack_from(">ii", data, at)
        assert kind == 0
        sums.append(f"{length} {zlib.crc32(data[at + 8 : at + 8 + length])}")
        at += 8 + length
    assert sums == written
    assert len(written) == len(SIZES)


def test_what_is_written_java_reads(catalog: Catalog, stream: Stream, alone: JavaPrograms) -> None:
    events = [random.Random(size).randbytes(size) for size in SIZES]
    for event in events:
        append_large(catalog.client.pool, stream, 0, [event])
    append_large(catalog.client.pool, stream, 0, events)
    read = alone.run("interop.LargeTool", "read", stream.scope, stream.name, str(2 * len(events))).splitlines()
    assert read == [f"{len(event)} {zlib.crc32(event)}" for event in events] * 2
