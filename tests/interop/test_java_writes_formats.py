"""What the official JSON and Protobuf serializers write, compressed too, is what we read, field by field."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest
from interop_tools import events_by_segment, select
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.registry import SchemaInfo
from pyspark_pravega.serde.encodings import HEADER_SIZE, EncodingSource, WriterSchema
from pyspark_pravega.serde.formats import REGISTERED, schema_for
from tests.jars.java_client import JavaPrograms

pytestmark = [pytest.mark.server, pytest.mark.dropped]

COLUMNS = StructType(
    [
        StructField("id", LongType(), nullable=False),
        StructField("name", StringType()),
        StructField("value", DoubleType()),
        StructField("data", BinaryType()),
        StructField("tags", ArrayType(StringType()), nullable=False),
        StructField("attrs", MapType(StringType(), LongType()), nullable=False),
        StructField("point", StructType().add("x", LongType(), nullable=False).add("label", StringType())),
    ]
)
EVENTS = 200


class NoEncodings(EncodingSource):
    def writer_schema(self, encoding_id: int) -> WriterSchema:
        raise AssertionError(encoding_id)


def row(i: int) -> dict[str, Any]:
    return {
        "id": i,
        "name": None if i % 5 == 0 else f"né€ {i} " * (i % 40),
        "value": i / 3,
        "data": bytes(k & 0xFF for k in range(i * 3 % 700)),
        "tags": [f"t{k}" for k in range(i % 4)],
        "attrs": [(f"a{k}", k - i) for k in range(i % 3)],
        "point": None if i % 4 == 0 else {"x": -i, "label": f"p{i}"},
    }


@pytest.mark.parametrize("codec", ["None", "GzipCompressor", "SnappyCompressor"])
@pytest.mark.parametrize("table_format", ["json", "protobuf"])
@pytest.mark.in_turn
def test_every_field(catalog: Catalog, scope: str, java: JavaPrograms, table_format: str, codec: str) -> None:
    stream = Stream(scope, "readings")
    catalog.client.controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy(min_segments=1)))
    schema = schema_for(table_format, COLUMNS, name="readings", namespace=scope)
    writer = schema.codec(schema.columns(), NoEncodings(), header=False)
    bodies = writer.encode(
        pa.RecordBatch.from_pylist([row(i) for i in range(EVENTS)], schema=writer.schema)
    ).to_pylist()
    is_text = table_format == "json"
    lines = [body.decode() if is_text else base64.b64encode(body).decode() for body in bodies]
    schema_text = schema.data.decode() if is_text else base64.b64encode(schema.data).decode()
    arguments = (scope, "readings", REGISTERED[table_format], codec, schema.type, schema_text)
    java.run("interop.FormatWrite", *arguments, stdin="\n".join(lines) + "\n")

    table = catalog.load_table([scope], "readings")
    assert (table.format, table.schema.fieldNames()) == (table_format, COLUMNS.fieldNames())
    rows = select(table, COLUMNS.fieldNames())
    assert [{**one, "attrs": sorted(one["attrs"])} for one in rows] == [row(i) for i in range(EVENTS)]
    assert len(select(table, [])) == EVENTS
    assert isinstance(table.registered, tuple)
    assert isinstance(table.registered[0], SchemaInfo)
    (written,) = events_by_segment(table.settings, stream).values()
    assert all(one[:1] == b"\x01" for one in written)
    begin = {"None": {body[:1] for body in bodies}, "GzipCompressor": {b"\x1f"}, "SnappyCompressor": None}[codec]
    assert begin is None or {one[HEADER_SIZE : HEADER_SIZE + 1] for one in written} == begin
