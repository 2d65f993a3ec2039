"""Events of more than 8 MiB, written by each and read by the other."""

from __future__ import annotations

import random
import struct
import subprocess
import zlib
from contextlib import suppress

import pytest

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Stream, StreamConfiguration
from pyspark_pravega.client.segments.large_events import append_large
from pyspark_pravega.client.segments.reading import read_range, segment_state
from tests.jars.java_client import JavaPrograms
from tests.jars.kept_java import KeptPrograms

pytestmark = [pytest.mark.server, pytest.mark.dropped, pytest.mark.in_turn]

SIZES = (100, (8 << 20) + 1, 5, 20_000_003, 9_000_000, 1)


@pytest.fixture
def alone(java: KeptPrograms) -> JavaPrograms:
    """In a JVM of their own, which ends when a program waits for ever."""
    return java.alone()


@pytest.fixture
def stream(catalog: Catalog, scope: str) -> Stream:
    return make_stream(catalog, scope, "large")


def make_stream(catalog: Catalog, scope: str, name: str) -> Stream:
    stream = Stream(scope, name)
    catalog.client.controller.create_stream(stream, StreamConfiguration())
    return stream


def written_by_java(catalog: Catalog, scope: str, alone: JavaPrograms) -> tuple[Stream, list[str]]:
    """Java's client may wait for ever for an answer (docs/internals/controller-facts.md): then it writes anew.

    Returns:
        The stream, and what the program says of its events.
    """
    for number in range(3):
        stream = make_stream(catalog, scope, f"written{number}")
        with suppress(subprocess.TimeoutExpired):
            output = alone.run("interop.LargeTool", "write", scope, stream.name, *map(str, SIZES), timeout_s=40)
            return stream, output.splitlines()
    pytest.fail("Java's client has waited for an answer for ever, three times")


def test_what_java_writes_is_read(catalog: Catalog, scope: str, alone: JavaPrograms) -> None:
    stream, written = written_by_java(catalog, scope, alone)
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
