"""Values laid out as Spark's UnsafeRowWriter and UnsafeArrayWriter do it, and taken apart in either way."""

from __future__ import annotations

import decimal
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    MapType,
    ShortType,
    StringType,
    StructType,
    VariantType,
)

from pyspark_pravega.frames.native_module import SWITCH, module
from pyspark_pravega.serde.types import with_children
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.unsafe_rows import unpack

_WIDTHS: dict[type[DataType], str] = {
    BooleanType: "?",
    ByteType: "b",
    ShortType: "h",
    IntegerType: "i",
    DateType: "i",
    FloatType: "f",
    DoubleType: "d",
}


def packed(rows: Sequence[dict[str, Any]], schema: StructType) -> pa.RecordBatch:
    """Rows as the JVM hands them over: one value."""
    return pack_of([row_bytes(row, schema) for row in rows])


def pack_of(rows: Sequence[bytes]) -> pa.RecordBatch:
    """Rows that are laid out already, as the JVM hands them over."""
    sizes = struct.pack(f"<{len(rows)}i", *map(len, rows))
    return pa.record_batch([pa.array([b"".join(rows)]), pa.array([sizes])], names=["rows", "sizes"])


def taken_apart(pack: pa.RecordBatch, schema: StructType, native: str) -> pa.RecordBatch:
    """One pack's rows, by the native codec alone or by the plain twin alone."""
    if native == "1":
        rows, sizes = pack.columns
        reader = module().RowReader(to_arrow_schema(schema, timezone="UTC"))  # type: ignore[union-attr]
        batch: pa.RecordBatch = reader.read(rows, sizes)
    else:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv(SWITCH, "0")
            (batch,) = unpack(iter([pack]), schema)
    return batch


def as_bits(array: pa.Array) -> pa.Array:
    """A column with whole numbers in place of all that is as wide as one: broken rows have values that Python lacks."""
    if pa.types.is_nested(array.type):
        return with_children(array, bits_of(array.type), "", lambda child, _kind, _path: as_bits(child))
    return array.view(bits_of(array.type))


def bits_of(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([kind.field(i).with_type(bits_of(kind.field(i).type)) for i in range(kind.num_fields)])
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(bits_of(key.type)), item.with_type(bits_of(item.type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(bits_of(kind.value_type)))
    if pa.types.is_decimal(kind):
        return pa.binary(16)
    if pa.types.is_temporal(kind) or pa.types.is_floating(kind):
        return pa.int64() if kind.bit_width == 64 else pa.int32()
    return kind


def row_bytes(row: dict[str, Any], schema: StructType) -> bytes:
    values = [row[field.name] for field in schema]
    return _nulls(values) + _places(values, [field.dataType for field in schema], _nulls(values), [8] * len(schema))


def _array_bytes(values: Sequence[Any], kind: DataType) -> bytes:
    head = struct.pack("<q", len(values)) + _nulls(values)
    width = struct.calcsize(_WIDTHS.get(type(kind), "q"))
    return head + _places(values, [kind] * len(values), head, [width] * len(values))


def _nulls(values: Sequence[Any]) -> bytes:
    words = [0] * ((len(values) + 63) // 64)
    for number, value in enumerate(values):
        if value is None:
            words[number >> 6] |= 1 << (number & 63)
    return struct.pack(f"<{len(words)}Q", *words)


def _places(values: Sequence[Any], kinds: Sequence[DataType], head: bytes, widths: Sequence[int]) -> bytes:
    """The places of values, and behind them those of variable length."""
    start = len(head) + (sum(widths) + 7) // 8 * 8
    places, tail = b"", b""
    for value, kind, width in zip(values, kinds, widths, strict=True):
        long_decimal = isinstance(kind, DecimalType) and kind.precision > 18
        if value is None:
            # Of a null of variable length Spark may leave an offset behind.
            places += struct.pack("<q", (start + len(tail)) << 32) if long_decimal else bytes(width)
            tail += bytes(16) if long_decimal else b""
            continue
        data = _of_variable_length(value, kind)
        if data is None:
            places += struct.pack("<" + _WIDTHS.get(type(kind), "q"), _number(value, kind)).ljust(width, b"\0")
        else:
            places += struct.pack("<q", (start + len(tail)) << 32 | len(data))
            tail += data.ljust(16 if long_decimal else (len(data) + 7) // 8 * 8, b"\0")
    return places.ljust(start - len(head), b"\0") + tail


def _of_variable_length(value: Any, kind: DataType) -> bytes | None:
    if isinstance(kind, StringType):
        return value if isinstance(value, bytes) else str(value).encode()
    if isinstance(kind, DecimalType) and kind.precision > 18:
        unscaled: int = _number(value, kind)
        return unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    if isinstance(kind, VariantType):
        document, metadata = bytes(value["value"]), bytes(value["metadata"])
        return struct.pack("<i", len(document)) + document + metadata
    if isinstance(kind, StructType):
        return row_bytes(value, kind)
    if isinstance(kind, ArrayType):
        return _array_bytes(value, kind.elementType)
    if isinstance(kind, MapType):
        keys = _array_bytes([key for key, _ in value], kind.keyType)
        return struct.pack("<q", len(keys)) + keys + _array_bytes([entry for _, entry in value], kind.valueType)
    return value if isinstance(value, bytes) else None


def _number(value: Any, kind: DataType) -> Any:
    if isinstance(kind, DecimalType):
        return int(value.scaleb(kind.scale, decimal.Context(prec=60)))
    return value
