"""Spark's own rows, as bytes, to Arrow: whole columns at a time.

The JVM side of a write (`PackedWriterFactory`) sends Spark's `UnsafeRow`s as they lie in memory, many in one value,
which costs it a copy; Spark's own way writes each value of each row into an Arrow vector. Their layout
(org.apache.spark.sql.catalyst.expressions.UnsafeRow), in words of 8 bytes, little-endian:

    words of null bits, one bit for each column | a word for each column | values of variable length, each padded

A column's word holds its value, or for texts, bytes and decimals of more than 18 digits: offset << 32 | size, in bytes
from the row's beginning. A row's size is a multiple of 8.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import (
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
    StructType,
    TimestampNTZType,
    TimestampType,
)

_Words = npt.NDArray[np.int64]
_INLINE = 12
"""Values up to this size lie in an Arrow view itself."""
_LOW = np.int64(0xFFFFFFFF)
_LONG_DECIMAL = 18
_PLAIN: dict[type[DataType], tuple[type[np.generic], pa.DataType]] = {
    ByteType: (np.int8, pa.int8()),
    ShortType: (np.int16, pa.int16()),
    IntegerType: (np.int32, pa.int32()),
    LongType: (np.int64, pa.int64()),
    DateType: (np.int32, pa.date32()),
    TimestampType: (np.int64, pa.timestamp("us", tz="UTC")),
    TimestampNTZType: (np.int64, pa.timestamp("us")),
}


def can_unpack(schema: StructType) -> bool:
    """Whether all columns of a schema are of types that `unpack` knows: everything but nested ones and intervals."""
    return len(schema) > 0 and all(
        type(field.dataType) in _PLAIN
        or isinstance(field.dataType, BooleanType | FloatType | DoubleType | StringType | BinaryType | DecimalType)
        for field in schema
    )


def unpack(batches: Iterator[pa.RecordBatch], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Packed rows to batches.

    Args:
        batches: two binary columns: rows one after another, and their sizes in bytes as 32-bit integers.
        schema: the rows' columns; `can_unpack` is true for them.

    Yields:
        The rows as Arrow has them, a batch for each value.
    """
    for batch in batches:
        rows, sizes = batch.columns
        for index in range(batch.num_rows):
            data = rows[index].as_buffer()
            if data.size:
                yield _batch(data, np.frombuffer(sizes[index].as_buffer(), "<i4"), schema)


def _batch(data: pa.Buffer, sizes: npt.NDArray[np.int32], schema: StructType) -> pa.RecordBatch:
    words: _Words = np.frombuffer(data, "<i8") if data.address % 8 == 0 else np.frombuffer(bytes(data), "<i8")
    counts = sizes.astype(np.int64) >> 3
    ends = np.cumsum(counts)
    starts = ends - counts
    null_words = (len(schema) + 63) // 64
    even = bool((counts == counts[0]).all())
    table = words.reshape(len(counts), int(counts[0])) if even else None

    def word(index: int) -> _Words:
        return np.ascontiguousarray(table[:, index]) if table is not None else words[starts + index]

    bits = [word(index) for index in range(null_words)]
    anything_null = [bool(of_word.any()) for of_word in bits]
    arrays = []
    for number, field in enumerate(schema):
        null = None
        if anything_null[number >> 6]:
            null = (bits[number >> 6] >> np.int64(number & 63)) & 1 != 0
            null = null if null.any() else None
        slots = word(null_words + number)
        arrays.append(_column(field.dataType, slots, null, words, starts))
    return pa.RecordBatch.from_arrays(arrays, names=schema.fieldNames())


def _column(
    kind: DataType, slots: _Words, null: npt.NDArray[np.bool_] | None, words: _Words, starts: _Words
) -> pa.Array:
    validity = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))

    def array_of(arrow: pa.DataType, values: npt.NDArray[np.generic]) -> pa.Array:
        return pa.Array.from_buffers(arrow, len(slots), [validity, pa.py_buffer(np.ascontiguousarray(values))])

    plain = _PLAIN.get(type(kind))
    if plain is not None:
        return array_of(plain[1], slots.astype(plain[0]))
    if isinstance(kind, DoubleType):
        return array_of(pa.float64(), slots.view(np.float64))
    if isinstance(kind, FloatType):
        return array_of(pa.float32(), slots.astype(np.int32).view(np.float32))
    if isinstance(kind, BooleanType):
        return array_of(pa.bool_(), np.packbits(slots & 0xFF != 0, bitorder="little"))
    if isinstance(kind, DecimalType):
        unscaled = _long_decimals if kind.precision > _LONG_DECIMAL else _short_decimals
        return array_of(pa.decimal128(kind.precision, kind.scale), unscaled(slots, null, words, starts))
    views = _views(slots, null, words, starts)
    of_views, of_bytes = (pa.string_view(), pa.string()) if isinstance(kind, StringType) else _BINARIES
    views_array = pa.Array.from_buffers(of_views, len(slots), [validity, pa.py_buffer(views), pa.py_buffer(words)])
    return views_array.cast(of_bytes)


_BINARIES = (pa.binary_view(), pa.binary())


def _views(slots: _Words, null: npt.NDArray[np.bool_] | None, words: _Words, starts: _Words) -> _Words:
    """Arrow's views of values that lie in the rows: (size, first 4 bytes, buffer, offset), or (size, 12 bytes)."""
    sizes = slots & _LOW
    if null is not None:
        sizes = np.where(null, 0, sizes)
    places = starts + (slots >> 35)
    if null is not None or not sizes.all():
        places = np.where(sizes == 0, 0, places)
    first = words[places]
    views = np.empty((len(slots), 2), np.int64)
    long = sizes > _INLINE
    if sizes.min() > _INLINE:
        views[:, 1] = places << 35
        views[:, 0] = sizes | first << 32
        return views
    first = np.where(sizes == 0, 0, first)
    second = np.where(sizes > 8, words[np.minimum(places + 1, len(words) - 1)], 0)
    inlined = (first >> 32 & _LOW) | second << 32
    views[:, 0] = sizes | first << 32
    views[:, 1] = np.where(long, places << 35, inlined)
    return views


def _short_decimals(slots: _Words, null: npt.NDArray[np.bool_] | None, words: _Words, starts: _Words) -> _Words:
    del null, words, starts
    return np.stack([slots, slots >> 63], axis=1)


def _long_decimals(
    slots: _Words, null: npt.NDArray[np.bool_] | None, words: _Words, starts: _Words
) -> npt.NDArray[np.uint8]:
    """Big-endian bytes, as few as hold the number, to 16 little-endian ones."""
    data = words.view(np.uint8)
    sizes = slots & _LOW
    if null is not None:
        sizes = np.where(null, 0, sizes)
    last = starts * 8 + (slots >> 32) + sizes - 1
    first = np.where(sizes > 0, data[np.where(sizes > 0, last - sizes + 1, 0)], 0)
    out = np.where(first & 0x80, 0xFF, 0).astype(np.uint8).repeat(16).reshape(len(slots), 16)
    for index in range(int(sizes.max(initial=0))):
        here = sizes > index
        out[here, index] = data[last[here] - index]
    return out
