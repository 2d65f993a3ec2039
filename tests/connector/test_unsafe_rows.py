"""Spark's rows as bytes become the columns that they were made of; real ones: tests/spark/test_packed_rows.py."""

from __future__ import annotations

import datetime
import decimal
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_pravega.connector.write.unsafe_rows import can_unpack, unpack

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
SHORT, LONG = DecimalType(12, 3), DecimalType(38, 6)


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def decimals(kind: DecimalType) -> st.SearchStrategy[decimal.Decimal]:
    largest = 10**kind.precision - 1
    return st.integers(-largest, largest).map(
        lambda unscaled: decimal.Decimal(unscaled).scaleb(-kind.scale, decimal.Context(prec=40))
    )


VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    BooleanType(): st.booleans(),
    ByteType(): integers(8),
    ShortType(): integers(16),
    IntegerType(): integers(32),
    LongType(): integers(64),
    FloatType(): st.floats(width=32, allow_nan=False),
    DoubleType(): st.floats(allow_nan=False),
    StringType(): st.text(max_size=30),
    BinaryType(): st.binary(max_size=30),
    DateType(): st.dates(),
    TimestampType(): st.datetimes(timezones=st.just(datetime.UTC)),
    TimestampNTZType(): st.datetimes(),
    SHORT: decimals(SHORT),
    LONG: decimals(LONG),
}


def row_bytes(values: list[Any], kinds: list[DataType]) -> bytes:
    """A row as Spark's UnsafeRowWriter lays it out."""
    null_words = (len(values) + 63) // 64
    nulls, slots, tail = [0] * null_words, [], b""
    start = 8 * (null_words + len(values))
    for number, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        if value is None:
            nulls[number >> 6] |= 1 << (number & 63)
            # Of a null of variable length Spark may leave an offset behind.
            slots.append(struct.pack("<q", (start + len(tail)) << 32 if kind == LONG else 0))
            tail += bytes(16) if kind == LONG else b""
            continue
        data = value.encode() if isinstance(value, str) else value
        if kind == LONG:
            unscaled = int(value.scaleb(LONG.scale, decimal.Context(prec=60)))
            data = unscaled.to_bytes((unscaled.bit_length() // 8) + 1, "big", signed=True)
        if isinstance(data, bytes):
            slots.append(struct.pack("<q", (start + len(tail)) << 32 | len(data)))
            tail += data + bytes((16 if kind == LONG else (len(data) + 7) // 8 * 8) - len(data))
        else:
            slots.append(slot(value, kind))
    return b"".join([struct.pack(f"<{null_words}Q", *nulls), *slots, tail])


def slot(value: Any, kind: DataType) -> bytes:
    if isinstance(kind, FloatType | DoubleType):
        return struct.pack("<f4x" if isinstance(kind, FloatType) else "<d", value)
    if kind == SHORT:
        return struct.pack("<q", int(value.scaleb(SHORT.scale)))
    if isinstance(value, datetime.datetime):
        since = (value if value.tzinfo else value.replace(tzinfo=datetime.UTC)) - EPOCH
        return struct.pack("<q", since // datetime.timedelta(microseconds=1))
    if isinstance(value, datetime.date):
        return struct.pack("<i4x", (value - EPOCH.date()).days)
    widths: dict[DataType, str] = {ByteType(): "b7x", ShortType(): "h6x", IntegerType(): "i4x"}
    return struct.pack("<" + widths.get(kind, "q"), value)


def packed(rows: list[bytes]) -> pa.RecordBatch:
    sizes = struct.pack(f"<{len(rows)}i", *map(len, rows))
    return pa.record_batch([pa.array([b"".join(rows)]), pa.array([sizes])], names=["rows", "sizes"])


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_rows_come_back_as_they_were(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=9))
    rows = data.draw(st.lists(st.tuples(*[st.none() | VALUES[kind] for kind in kinds]), min_size=1, max_size=20))
    schema = StructType([StructField(f"c{number}", kind) for number, kind in enumerate(kinds)])
    assert can_unpack(schema)
    (batch,) = unpack(iter([packed([row_bytes(list(row), kinds) for row in rows])]), schema)
    batch.validate(full=True)
    assert [tuple(row.values()) for row in batch.to_pylist()] == [tuple(row) for row in rows]


@pytest.mark.parametrize("columns", [63, 64, 65, 130])
def test_null_bits_of_many_columns(columns: int) -> None:
    kinds: list[DataType] = [IntegerType()] * columns
    rows = [[None if (row + column) % 3 == 0 else row * column for column in range(columns)] for row in range(7)]
    schema = StructType([StructField(f"c{number}", kind) for number, kind in enumerate(kinds)])
    (batch,) = unpack(iter([packed([row_bytes(row, kinds) for row in rows])]), schema)
    assert [list(row.values()) for row in batch.to_pylist()] == rows


def test_batches_of_several_packs_and_of_none() -> None:
    schema = StructType([StructField("s", StringType())])
    one = packed([row_bytes(["a"], [StringType()]), row_bytes(["b" * 13], [StringType()])])
    columns = [batch.column("s").to_pylist() for batch in unpack(iter([one, packed([]), one]), schema)]
    assert columns == [["a", "b" * 13]] * 2


def test_nested_columns_are_not_unpacked() -> None:
    assert not can_unpack(StructType([StructField("a", ArrayType(StringType()))]))
    assert not can_unpack(StructType([]))
