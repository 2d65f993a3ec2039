"""What we write is what the official deserializers read, field by field."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pytest
from interop_tools import insert
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import Bucket
from tests.jars.java_client import JavaPrograms

pytestmark = [pytest.mark.server, pytest.mark.dropped]

ROWS = 1000
COLUMNS = StructType(
    [
        StructField("id", LongType(), nullable=False),
        StructField("name", StringType()),
        StructField("value", DoubleType()),
        StructField("ratio", FloatType()),
        StructField("count", IntegerType()),
        StructField("small", ShortType()),
        StructField("flag", BooleanType()),
        StructField("payload", BinaryType()),
        StructField("tags", ArrayType(StringType())),
        StructField("attrs", MapType(StringType(), LongType())),
        StructField("point", StructType().add("x", IntegerType(), nullable=False).add("label", StringType())),
        StructField("points", ArrayType(StructType().add("x", IntegerType()).add("at", TimestampType()))),
        StructField("day", DateType()),
        StructField("at", TimestampType()),
        StructField("local", TimestampNTZType()),
        StructField("price", DecimalType(12, 2)),
        StructField("huge", DecimalType(38, 10)),
        StructField("nothing", StringType()),
    ]
)
NAMES = ["", "plain", 'quoted "x" \\ /', "né€", "日本語", "🚀 e\u0301", "line\nbreak\ttab", "\0 \u2028"]
EPOCH = datetime.datetime(1970, 1, 1)
DAY_0 = datetime.date(1970, 1, 1)


def row(i: int) -> dict[str, Any]:
    at = datetime.datetime(2023, 11, 14, 22, 13, 20, i) - datetime.timedelta(days=i * 100)
    some: dict[str, Any] = {
        "id": (i - 500) * 10**15,
        "name": NAMES[i % len(NAMES)],
        "value": i / 3 - 100,
        "ratio": i * 0.25,
        "count": -i * 2_000_000,
        "small": i - 500,
        "flag": i % 2 == 0,
        "payload": bytes((i + k) & 0xFF for k in range(i % 300)),
        "tags": [None if k == 2 else f"t{k}é" for k in range(i % 5)],
        "attrs": {f"schlüssel {k}": None if k == 1 else 10 * i + k for k in range(i % 4)},
        "point": {"x": -i, "label": None if i % 3 == 0 else f"p{i}"},
        "points": [{"x": None if k else i, "at": at.replace(tzinfo=datetime.UTC)} for k in range(i % 3)],
        "day": DAY_0 + datetime.timedelta(days=i * 40 - 20_000),
        "at": at.replace(tzinfo=datetime.UTC),
        "local": at,
        "price": decimal.Decimal(i * 12345 - 6_000_000).scaleb(-2),
        "huge": decimal.Decimal((i - 500) * 10**34).scaleb(-10),
        "nothing": None,
    }
    if i % 10 == 9:
        return {name: value if name == "id" else None for name, value in some.items()}
    return some


def as_java_prints(value: Any, kind: str) -> Any:
    """A value of ours as the JSON that Avro's generic records print themselves as."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, decimal.Decimal):
        unscaled = int(value.scaleb(2 if kind == "price" else 10, decimal.Context(prec=60)))
        return signed_bytes(unscaled).decode("latin-1")
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return (value - DAY_0).days
    if isinstance(value, list):
        return [as_java_prints(item, kind) for item in value]
    if isinstance(value, dict):
        return {key: as_java_prints(item, key) for key, item in value.items()}
    return value


def signed_bytes(number: int) -> bytes:
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def test_every_field_of_every_row(catalog: Catalog, scope: str, java: JavaPrograms) -> None:
    bucket = Bucket(columns=("name",), buckets=4)
    table = catalog.tables.create([scope], "many_types", COLUMNS, [bucket], {})
    insert(table, [row(i) for i in range(ROWS)])

    printed = java.run("interop.InteropRead", scope, table.stream.name, "avro", str(ROWS)).splitlines()

    read = {event["id"]: event for event in map(json.loads, printed)}
    assert len(printed) == len(read) == ROWS
    for i in range(ROWS):
        expected = row(i)
        assert read[expected["id"]] == as_java_prints(expected, ""), f"row {i}"
