"""JSON and Protobuf events of the official Java serializers: every field is what `interop/README.md` says."""

from __future__ import annotations

import gzip
from typing import Any

import pyarrow as pa
import pytest
from format_tools import Encodings, fixture_event, fixture_events, fixture_schema

from pyspark_pravega.serde.codec import Codec
from pyspark_pravega.serde.encodings import WriterSchema
from pyspark_pravega.serde.formats import Schema

GZIP, SNAPPY = "application/x-gzip", "application/x-snappy-framed"
NAMES = ["json", "json-noheader", "proto", "proto-noheader"]


def expected(name: str, i: int) -> dict[str, Any]:
    event = fixture_event(i)
    # Java's schema says "array of integer" of a byte[].
    return {**event, "payload": list(event["payload"])} if name.startswith("json") else event


def sorted_maps(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows; the entries of a Protobuf map have no order."""
    return [{**row, "attrs": sorted(row["attrs"])} for row in batch.to_pylist()]


def codec_of(name: str, codec: str = "") -> Codec:
    type_name, data = fixture_schema(name)
    schema = Schema(format="json" if name.startswith("json") else "protobuf", type=type_name, data=data)
    schemas = {0: WriterSchema(type=type_name, schema_data=data, codec=codec)}
    return schema.codec(schema.columns(), Encodings(schemas), write_id=0)


@pytest.mark.parametrize("name", NAMES)
def test_every_field(name: str) -> None:
    payloads = fixture_events(name)
    codec = codec_of(name)
    batch = codec.decode(payloads, codec.schema.names)
    batch.validate(full=True)
    ids = batch.column("id").to_pylist()
    assert sorted(ids) == list(range(len(payloads)))
    assert sorted_maps(batch) == [expected(name, i) for i in ids]


@pytest.mark.parametrize("name", NAMES)
def test_what_we_write_of_them_is_read_the_same(name: str) -> None:
    codec = codec_of(name)
    batch = codec.decode(fixture_events(name), codec.schema.names)
    again = codec.encode(batch)
    assert codec.decode(again, codec.schema.names).equals(batch)
    assert {event[:5] for event in again.to_pylist()} == {b"\x01\0\0\0\0"}


@pytest.mark.parametrize("codec", [GZIP, SNAPPY])
@pytest.mark.parametrize("name", ["json", "proto"])
def test_compressed_bodies_have_zeros_behind_them(name: str, codec: str) -> None:
    """The official serializers compress the whole of a buffer that grows in steps."""
    packed = []
    for event in fixture_events(name).to_pylist():
        body = event[5:].ljust(512, b"\0")
        packed.append(event[:5] + (gzip.compress(body) if codec == GZIP else pa.compress(body, "snappy", asbytes=True)))
    reader = codec_of(name, codec)
    batch = reader.decode(pa.array(packed, pa.binary()), reader.schema.names)
    assert sorted_maps(batch) == [expected(name, i) for i in batch.column("id").to_pylist()]
    # What we write has the codec, and is read again.
    again = reader.encode(batch)
    assert reader.decode(again, reader.schema.names).equals(batch)


@pytest.mark.parametrize("name", ["json", "proto"])
def test_events_with_and_without_headers_may_be_mixed(name: str) -> None:
    with_header, without = fixture_events(name).to_pylist()[:50], fixture_events(f"{name}-noheader").to_pylist()[:50]
    mixed = pa.array([event for pair in zip(with_header, without, strict=True) for event in pair], pa.binary())
    codec = codec_of(name)
    rows = codec.decode(mixed, ["id", "note"]).to_pylist()
    assert rows[0::2] == codec.decode(pa.array(with_header, pa.binary()), ["id", "note"]).to_pylist()
    assert rows[1::2] == codec.decode(pa.array(without, pa.binary()), ["id", "note"]).to_pylist()
