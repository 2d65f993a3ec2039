"""JSON and Protobuf that we write is what the official deserializers read, field by field, and back."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from typing import Any

import pytest
from google.protobuf import json_format, message_factory, text_format
from interop_tools import insert, select
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import Bucket
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.serde.schemas import protobuf as protobuf_schema
from tests.jars.java_client import JavaPrograms

pytestmark = [pytest.mark.server, pytest.mark.dropped]

ROWS = 300
COLUMNS = StructType(
    [
        StructField("id", LongType(), nullable=False),
        StructField("name", StringType()),
        StructField("value", DoubleType()),
        StructField("ratio", FloatType()),
        StructField("count", IntegerType()),
        StructField("tiny", ByteType()),
        StructField("flag", BooleanType()),
        StructField("payload", BinaryType()),
        StructField("tags", ArrayType(StringType()), nullable=False),
        StructField("attrs", MapType(StringType(), LongType()), nullable=False),
        StructField("point", StructType().add("x", IntegerType(), nullable=False).add("label", StringType())),
        StructField(
            "points", ArrayType(StructType().add("x", IntegerType()).add("at", TimestampType())), nullable=False
        ),
        StructField("day", DateType()),
        StructField("at", TimestampType()),
        StructField("local", TimestampNTZType()),
        StructField("price", DecimalType(12, 2)),
    ]
)
NAMES = ["", "plain", 'quoted "x" \\ /', "né€", "日本語", "🚀", "line\nbreak\ttab", "\0 \u2028"]
EPOCH = datetime.datetime(1970, 1, 1)
DAY_0 = datetime.date(1970, 1, 1)


def row(i: int) -> dict[str, Any]:
    at = datetime.datetime(2023, 11, 14, 22, 13, 20, i) - datetime.timedelta(days=i * 100)
    some: dict[str, Any] = {
        "id": (i - 150) * 10**13,
        "name": NAMES[i % len(NAMES)],
        "value": i / 3 - 100,
        "ratio": i * 0.25,
        "count": -i * 7_000_000,
        "tiny": i % 256 - 128,
        "flag": i % 2 == 0,
        "payload": bytes((i + k) & 0xFF for k in range(i % 100)),
        "tags": [f"t{k}é" for k in range(i % 5)],
        "attrs": [(f"schlüssel {k}", 10 * i + k) for k in range(i % 4)],
        "point": {"x": -i, "label": None if i % 3 == 0 else f"p{i}"},
        "points": [{"x": None if k else i, "at": at.replace(tzinfo=datetime.UTC)} for k in range(i % 3)],
        "day": DAY_0 + datetime.timedelta(days=i * 40 - 6000),
        "at": at.replace(tzinfo=datetime.UTC),
        "local": at,
        "price": decimal.Decimal(i * 12345 - 2_000_000).scaleb(-2),
    }
    if i % 10 == 9:
        return {name: value if name in ("id", "tags", "attrs", "points") else None for name, value in some.items()}
    return some


def expected_micros(value: datetime.datetime) -> int:
    return (value.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1)


def make(catalog: Catalog, scope: str, **properties: str) -> TableDefinition:
    bucket = Bucket(columns=("name",), buckets=3)
    table = catalog.tables.create([scope], "many_types", COLUMNS, [bucket], properties)
    insert(table, [row(i) for i in range(ROWS)])
    return table


def read_by_java(java: JavaPrograms, table: TableDefinition) -> list[str]:
    stream = table.stream
    printed = java.run("interop.InteropRead", stream.scope, stream.name, table.format, str(ROWS))
    # Not splitlines(), which also parts lines at the U+2028 that one of the names holds.
    lines = printed.split("\n")[:-1]
    assert len(lines) == ROWS
    return lines


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy"])
def test_java_reads_our_json(catalog: Catalog, scope: str, java: JavaPrograms, compression: str) -> None:
    table = make(catalog, scope, format="json", compression=compression)

    def expected(value: Any) -> Any:
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, decimal.Decimal):
            return float(value)
        if isinstance(value, datetime.datetime):
            return value.isoformat().replace("+00:00", "Z")
        if isinstance(value, datetime.date):
            return value.isoformat()
        if isinstance(value, list):
            pairs = value and isinstance(value[0], tuple)
            return {key: expected(one) for key, one in value} if pairs else [expected(one) for one in value]
        return {key: expected(one) for key, one in value.items()} if isinstance(value, dict) else value

    read = {event["id"]: event for event in map(json.loads, read_by_java(java, table))}
    for i in range(ROWS):
        wanted = expected(row(i))
        row_read = read[wanted["id"]]
        row_read["attrs"] = row_read["attrs"] or []
        assert row_read == wanted, f"row {i}"


# Java can't read what is Protobuf and compressed, not even its own: it stumbles over the zeros behind a message.
def test_java_reads_our_protobuf(catalog: Catalog, scope: str, java: JavaPrograms) -> None:
    table = make(catalog, scope, format="protobuf")
    assert table.registered is not None
    schema = table.registered[0]
    make_message = message_factory.GetMessageClass(protobuf_schema.descriptor(schema.schema_data, schema.type))

    def expected(value: Any) -> Any:
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, decimal.Decimal):
            return format(value, "f")
        if isinstance(value, datetime.datetime) and value.tzinfo is None:
            return str(expected_micros(value))
        if isinstance(value, datetime.datetime):
            seconds, micros = divmod(expected_micros(value), 10**6)
            return {"seconds": str(seconds), "nanos": micros * 1000}
        if isinstance(value, datetime.date):
            return (value - DAY_0).days
        if isinstance(value, list):
            pairs = value and isinstance(value[0], tuple)
            return {key: str(one) for key, one in value} if pairs else [expected(one) for one in value]
        return (
            {key: expected(one) for key, one in value.items() if one is not None} if isinstance(value, dict) else value
        )

    read = {}
    for line in read_by_java(java, table):
        event = json_format.MessageToDict(
            text_format.Parse(line, make_message()),
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
        )
        read[int(event["id"])] = event
    for i in range(ROWS):
        wanted = {**expected(row(i)), "id": str(row(i)["id"])}
        row_read = read[row(i)["id"]]
        row_read["attrs"] = row_read["attrs"] or []
        assert row_read == wanted, f"row {i}"


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy"])
@pytest.mark.parametrize("table_format", ["avro", "json", "protobuf"])
def test_we_read_what_we_write(catalog: Catalog, scope: str, table_format: str, compression: str) -> None:
    table = make(catalog, scope, format=table_format, compression=compression)
    loaded = catalog.load_table([scope], "many_types")
    rows = select(loaded, COLUMNS.fieldNames())
    assert loaded.format == table.format == table_format
    by_id = {one["id"]: {**one, "attrs": sorted(one["attrs"])} for one in rows}
    assert len(by_id) == len(rows) == ROWS
    for i in range(ROWS):
        assert by_id[row(i)["id"]] == row(i)


@pytest.mark.parametrize("table_format", ["json", "protobuf"])
def test_without_headers_too(catalog: Catalog, scope: str, table_format: str) -> None:
    make(catalog, scope, **{"format": table_format, "encoding-header": "false"})
    loaded = catalog.load_table([scope], "many_types")
    rows = select(loaded, ["id", "name", "_encoding_id"])
    assert {one["_encoding_id"] for one in rows} == {None}
    assert sorted(one["id"] for one in rows) == [row(i)["id"] for i in range(ROWS)]


def test_text_events(catalog: Catalog, scope: str) -> None:
    columns = StructType([StructField("event", StringType(), nullable=False)])
    table = catalog.tables.create([scope], "lines", columns, [], {"format": "string"})
    insert(table, [{"event": name} for name in NAMES])
    loaded = catalog.load_table([scope], "lines")
    assert (loaded.format, loaded.schema) == ("string", columns)
    assert [one["event"] for one in select(loaded, ["event"])] == NAMES
