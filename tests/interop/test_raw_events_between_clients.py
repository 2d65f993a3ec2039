"""Raw events go from one client to the other byte for byte."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from interop_tools import KEYS, events_by_segment, insert, select
from pyspark.sql.types import BinaryType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Stream
from pyspark_pravega.client.segments.writing import SegmentWriter
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.frames import framing
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.dropped]

FIXTURE = Path(__file__).parent / "fixture" / "avro.b64"
PAYLOADS = [
    b"\x00",
    b"\xff" * 8,
    "é 🚀".encode(),
    bytes(range(256)),
    b"\x00\x00\x00\x00\x00\x00\x00\x04" * 3,
    bytes(k % 251 for k in range(1_000_000)),
    *(f"event {i}".encode() for i in range(200)),
]


@pytest.fixture
def raw_table(catalog: Catalog, scope: str) -> TableDefinition:
    columns = StructType([StructField("event", BinaryType(), nullable=False)])
    return catalog.tables.create([scope], "raw_events", columns, [], {"format": "raw", "segments": "2"})


def test_events_of_the_official_serializers_come_back_byte_for_byte(
    catalog: Catalog, raw_table: TableDefinition
) -> None:
    events = [base64.b64decode(line) for line in FIXTURE.read_text().splitlines()]
    halves = events[:400], events[400:]
    segment_ids = catalog.client.controller.current_segments(raw_table.stream).ids
    for segment_id, half in zip(segment_ids, halves, strict=True):
        writer = SegmentWriter(catalog.client.pool, raw_table.stream, segment_id)
        writer.append(memoryview(framing.join(pa.array(half, pa.binary()))), len(half))
        writer.flush()
        writer.close()

    loaded = catalog.load_table([raw_table.stream.scope], "raw_events")
    rows = select(loaded, ["event", "_segment", "_encoding_id"])

    assert loaded.format == "raw"
    for segment_id, half in zip(segment_ids, halves, strict=True):
        assert [row["event"] for row in rows if row["_segment"] == segment_id] == half
    assert {row["_encoding_id"] for row in rows} == {0}


class TestTheRustClient:
    """`pravega` on PyPI is a binding of Pravega's client in Rust, which shares no code with ours or with Java's."""

    @pytest.fixture
    def binding(self, settings: Settings) -> Any:
        """Its StreamManager."""
        module = pytest.importorskip(
            "pravega_client", reason="the binding has wheels for Python up to 3.11 on Linux x86_64 only"
        )
        return module.StreamManager(settings.controller_uri)

    def test_it_reads_what_we_write(self, binding: Any, raw_table: TableDefinition) -> None:
        insert(raw_table, [{"event": payload} for payload in PAYLOADS])
        stream = raw_table.stream
        group = binding.create_reader_group("readers", stream.scope, stream.name)
        reader = group.create_reader("reader")

        read = asyncio.run(read_events(reader, len(PAYLOADS)))

        reader.reader_offline()
        assert read == PAYLOADS

    def test_we_read_what_it_writes(self, binding: Any, catalog: Catalog, settings: Settings, scope: str) -> None:
        stream = Stream(scope, "theirs")
        assert binding.create_stream(scope, stream.name, 3)
        writer = binding.create_writer(scope, stream.name)
        for i, payload in enumerate(PAYLOADS):
            writer.write_event_bytes(payload, routing_key=f"key {i}")
        writer.flush()

        rows = select(catalog.load_table([scope], "theirs"), ["event"])

        assert sorted(row["event"] for row in rows) == sorted(PAYLOADS)
        assert sum(map(len, events_by_segment(settings, stream).values())) == len(PAYLOADS)

    def test_its_keys_lead_where_ours_do(self, binding: Any, catalog: Catalog, settings: Settings, scope: str) -> None:
        # Beyond ASCII it hashes other bytes than Java's client does, with which we agree (test_java_routing).
        keys = [f"{key} {i}" for i, key in enumerate(KEYS) if key.isascii() and "\0" not in key]
        keys += [f"customer {i}" for i in range(10_000 - len(keys))]
        theirs, ours = Stream(scope, "theirs"), Stream(scope, "ours")
        for stream in (theirs, ours):
            assert binding.create_stream(scope, stream.name, 5)
        writer = binding.create_writer(scope, theirs.name)
        for key in keys:
            writer.write_event_bytes(key.encode(), routing_key=key)
        writer.flush()
        with catalog.client.writer(ours) as direct:
            direct.write_batch([key.encode() for key in keys], keys)

        by_them, by_us = events_by_segment(settings, theirs), events_by_segment(settings, ours)

        assert by_us == by_them
        assert sum(map(len, by_us.values())) == len(set(keys)) == 10_000


async def read_events(reader: Any, count: int) -> list[bytes]:
    events: list[bytes] = []
    while len(events) < count:
        piece = await asyncio.wait_for(reader.get_segment_slice_async(), 30)
        events += [event.data() for event in piece]
        reader.release_segment(piece)
    return events
