"""What the official serializers write is what we read: plain, compressed, of two schemas, and in a transaction."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pytest
from interop_tools import select

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import ScalingPolicy, Stream, StreamConfiguration
from tests.jars.java_client import JavaPrograms

pytestmark = [pytest.mark.server, pytest.mark.dropped]

EVENTS, FIRST_OF_V1 = 1000, 600
POINT = {
    "type": "record",
    "name": "Point",
    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": ["null", "int"], "default": None}],
}
V0: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "name", "type": "string"},
    {"name": "value", "type": "double"},
    {"name": "ratio", "type": "float"},
    {"name": "count", "type": "int"},
    {"name": "flag", "type": "boolean"},
    {"name": "payload", "type": "bytes"},
    {"name": "checksum", "type": {"type": "fixed", "name": "Checksum", "size": 4}},
    {"name": "level", "type": {"type": "enum", "name": "Level", "symbols": ["LOW", "HIGH"]}},
    {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
    {"name": "attrs", "type": {"type": "map", "values": "long"}},
    {"name": "points", "type": {"type": "array", "items": POINT}},
    {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "at_ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
]
V1 = [*V0, {"name": "source", "type": "string", "default": "from before"}]
START = datetime.datetime(2023, 11, 14, 22, 13, 20)


def schema(fields: list[dict[str, Any]]) -> str:
    return json.dumps({"type": "record", "name": "Reading", "namespace": "interop", "fields": fields})


def expected(i: int) -> dict[str, Any]:
    """Event i, as InteropWrite.java makes it."""
    return {
        "id": i,
        "name": f"näme 🚀 {i}",
        "value": i / 2,
        "ratio": i / 4,
        "count": -i,
        "flag": i % 2 == 0,
        "payload": bytes((i + k) & 0xFF for k in range(i % 5)),
        "checksum": bytes((i + k) & 0xFF for k in range(4)),
        "level": "LOW" if i % 3 else "HIGH",
        "tags": [None if k == 2 else f"t{k}" for k in range(i % 4)],
        "attrs": [(f"a{k}", 10 * i + k) for k in range(i % 3)],
        "points": [{"x": i, "y": None if k == 1 else -i} for k in range(i % 3)],
        "note": None if i % 7 == 0 else f"note é€ {i}",
        "day": datetime.date(1970, 1, 1) + datetime.timedelta(days=20_000 + i),
        "at": (START + datetime.timedelta(microseconds=i)).replace(tzinfo=datetime.UTC),
        "at_ms": (START + datetime.timedelta(milliseconds=i)).replace(tzinfo=datetime.UTC),
        "local": START - datetime.timedelta(microseconds=i),
        "price": decimal.Decimal(500 - i).scaleb(-2),
        "source": f"source {i}" if i >= FIRST_OF_V1 else "from before",
    }


def test_every_field_of_every_event(catalog: Catalog, scope: str, java: JavaPrograms) -> None:
    stream = Stream(scope, "readings")
    catalog.client.controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy(min_segments=4)))
    java.run("interop.InteropWrite", scope, stream.name, schema(V0), schema(V1))

    table = catalog.load_table([scope], "readings")
    rows = select(table, [*table.schema.fieldNames(), "_encoding_id"])

    assert table.schema.fieldNames() == [field["name"] for field in V1]
    assert len(rows) == EVENTS
    assert {row.pop("_encoding_id") for row in rows} == {0, 1, 2, 3}, "v0, v0 with gzip, v1 with Snappy, v1"
    by_id = {row["id"]: {**row, "attrs": sorted(row["attrs"])} for row in rows}
    for i in range(EVENTS):
        assert by_id[i] == expected(i)


def test_events_of_one_routing_key_come_in_the_order_java_wrote_them(
    catalog: Catalog, scope: str, java: JavaPrograms
) -> None:
    stream = Stream(scope, "readings")
    catalog.client.controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy(min_segments=4)))
    java.run("interop.InteropWrite", scope, stream.name, schema(V0), schema(V1))

    rows = select(catalog.load_table([scope], "readings"), ["id", "_segment"])

    for key in range(8):
        of_key = [row for row in rows if row["id"] % 8 == key]
        assert [row["id"] for row in of_key] == list(range(key, EVENTS, 8))
        assert len({row["_segment"] for row in of_key}) == 1
