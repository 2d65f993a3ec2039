"""Spark's own rows, as bytes, to Arrow: whole columns at a time.

The JVM side of a write (`PackedWriterFactory`) sends Spark's `UnsafeRow`s as they lie in memory, many in one value,
which costs it a copy; Spark's own way writes each value of each row into an Arrow vector. Their layout
(org.apache.spark.sql.catalyst.expressions: UnsafeRow, UnsafeArrayData, UnsafeMapData), in words of 8 bytes,
little-endian:

    row     words of null bits, one bit for each column | a word for each column | values of variable length, padded
    array   how many elements there are | words of null bits | elements, each as wide as its type | values, padded
    map     how many bytes the array of keys has | that array | the array of values

A word of a column, or of an array's element, holds the value, or for what has a variable length (texts, bytes, decimals
of more than 18 digits, VARIANT, and what is nested): offset << 32 | size, in bytes from the beginning of the row or
array that the word lies in. A struct is a row. A VARIANT is: bytes of the value, as 32 bits | value | metadata. Row
sizes and offsets are multiples of 8.

The native codec does it where its wheel is installed (`native/src/rows.rs`). What follows is its plain twin, which also
says what is wrong with a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.frames.native_module import module
from pyspark_pravega.frames.ragged import numbers
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VariantType,
)

_I64 = npt.NDArray[np.int64]
_Nulls = npt.NDArray[np.bool_] | None
_WORD = 8
_INLINE = 12
"""Values up to this size lie in an Arrow view itself."""
_LOW = np.int64(0xFFFFFFFF)
_LONG_DECIMAL, _DECIMAL_BYTES = 18, 16
_FIXED: dict[type[DataType], type[np.generic]] = {
    BooleanType: np.uint8,
    ByteType: np.int8,
    ShortType: np.int16,
    IntegerType: np.int32,
    LongType: np.int64,
    FloatType: np.float32,
    DoubleType: np.float64,
    DateType: np.int32,
    TimestampType: np.int64,
    TimestampNTZType: np.int64,
    DayTimeIntervalType: np.int64,
    TimeType: np.int64,
}
_VARIABLE = (StringType, BinaryType, DecimalType, VariantType)


def can_unpack(schema: StructType) -> bool:
    """Whether all columns of a schema are of types that `unpack` knows: all that a table may have."""
    return len(schema) > 0 and all(_is_known(field.dataType) for field in schema)


def _is_known(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return len(kind) > 0 and all(_is_known(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return _is_known(kind.elementType)
    if isinstance(kind, MapType):
        return _is_known(kind.keyType) and _is_known(kind.valueType)
    return type(kind) in _FIXED or isinstance(kind, _VARIABLE)


def unpack(batches: Iterator[pa.RecordBatch], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Packed rows to batches.

    Args:
        batches: two binary columns: rows one after another, with more behind them perhaps, and their sizes in bytes as
            32-bit integers.
        schema: the rows' columns; `can_unpack` is true for them.

    Yields:
        The rows as Arrow has them, a batch for each value.

    Raises:
        EventEncodeError: a row isn't laid out in this way, or a text isn't UTF-8.
    """
    arrow = to_arrow_schema(schema, timezone="UTC")
    native = module()
    reader = None if native is None else native.RowReader(arrow)
    for batch in batches:
        rows, sizes = batch.columns
        for index in range(batch.num_rows):
            if not _buffer(sizes, index).size:
                continue
            if reader is not None:
                try:
                    yield reader.read(rows.slice(index, 1), sizes.slice(index, 1))
                    continue
                except (ValueError, RuntimeError):
                    # The plain twin says what is wrong.
                    pass
            yield _batch(_buffer(rows, index), numbers(_buffer(sizes, index), "<i4"), schema, arrow)


def _buffer(column: pa.Array, index: int) -> pa.Buffer:
    value = column[index]
    assert isinstance(value, pa.BinaryScalar)
    buffer = value.as_buffer()
    assert buffer is not None
    return buffer


class _Memory:
    """Bytes of rows, as numbers of any width."""

    def __init__(self, data: pa.Buffer) -> None:
        self.bytes = np.frombuffer(memoryview(data) if data.address % _WORD == 0 else bytes(data), np.uint8)
        self.words: _I64 = self.bytes.view("<i8")

    def word(self, at: _I64) -> _I64:
        words: _I64 = self.words[at >> 3]
        return words


@dataclass(frozen=True, kw_only=True)
class _Slots:
    """The slots of a column's values: a word of each row or array, or less, with the value or where it lies."""

    memory: _Memory
    at: Callable[[], _I64]
    """Where each slot is, in bytes from the beginning of all; anywhere for nulls."""
    start: _I64
    """Where the row or array begins that it lies in."""
    end: _I64
    """Where that ends."""
    null: _Nulls
    path: str
    """The column, for messages."""
    first: int = 0
    """Where the first slot is."""
    stride: int = 0
    """Bytes from each slot to the next one, where that is the same everywhere, else 0."""

    def __len__(self) -> int:
        return len(self.start)

    def values(self, kind: type[np.generic]) -> npt.NDArray[np.generic]:
        """What lies in the slots, as numbers."""
        size = np.dtype(kind).itemsize
        numbers = self.memory.bytes.view(kind)
        if self.stride:
            first, step = self.first // size, self.stride // size
            return np.ascontiguousarray(numbers[first : first + step * len(self) : step])
        return numbers[self.at() // size]

    def wrong(self, reason: str) -> EventEncodeError:
        return _wrong(f'column "{self.path}": {reason}')

    def regions(self) -> tuple[_I64, _I64]:
        """Where values of variable length begin and how many bytes they have; 0 and 0 for nulls."""
        words: _I64 = self.values(np.int64)  # type: ignore[assignment]
        offsets, sizes = words >> 32 & _LOW, words & _LOW
        outside = (self.start + offsets + sizes > self.end) | (offsets & 7 != 0)
        if self.null is not None:
            outside &= ~self.null
        if outside.any():
            raise self.wrong("a value doesn't lie within its row")
        begins = self.start + offsets
        if self.null is not None:
            begins, sizes = np.where(self.null, 0, begins), np.where(self.null, 0, sizes)
        return begins, sizes

    @property
    def validity(self) -> pa.Buffer | None:
        """Arrow's bits of what isn't null."""
        return None if self.null is None else pa.py_buffer(np.packbits(~self.null, bitorder="little"))


def _wrong(reason: str) -> EventEncodeError:
    return EventEncodeError(
        f"rows don't lie in Spark's memory as expected: {reason}. If it isn't the data, start Spark with "
        "spark.driver.extraJavaOptions=-Dpyspark.pravega.columnar=false, and report it"
    )


def _batch(data: pa.Buffer, sizes: npt.NDArray[np.int32], schema: StructType, arrow: pa.Schema) -> pa.RecordBatch:
    counts = sizes.astype(np.int64)
    ends = np.cumsum(counts)
    least = int(counts.min(initial=data.size))
    if int(counts.sum()) > data.size or (counts & 7).any() or least < _fixed_size(len(schema)):
        raise _wrong(f"{len(counts)} rows of {least} bytes and more have {data.size} bytes")
    starts = ends - counts
    even = int(counts[0]) if bool((counts == counts[0]).all()) else 0
    arrays = _fields(_Memory(data.slice(0, int(counts.sum()))), starts, ends, None, schema, arrow, "", even)
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)


def _fixed_size(fields: int) -> int:
    """Bytes of a row's null bits and words."""
    return ((fields + 63) // 64 + fields) * _WORD


def _fields(
    memory: _Memory,
    starts: _I64,
    ends: _I64,
    null: _Nulls,
    schema: StructType,
    arrow: pa.Schema | pa.StructType,
    path: str,
    stride: int = 0,
) -> list[pa.Array]:
    """The columns of rows or structs that lie from `starts` to `ends`; where these are null all columns are."""
    null_words = (len(schema) + 63) // 64

    def slots(word: int, of_column: _Nulls, name: str) -> _Slots:
        first = word * _WORD

        def at() -> _I64:
            return starts + first if null is None else np.where(null, 0, starts + first)

        return _Slots(
            memory=memory, at=at, start=starts, end=ends, null=of_column, path=name, first=first, stride=stride
        )

    bits: list[_I64] = [slots(word, None, path).values(np.int64) for word in range(null_words)]  # type: ignore[misc]
    anything_null = [null is not None or bool(of_word.any()) for of_word in bits]
    arrays = []
    for number, field in enumerate(schema):
        of_column = None
        if anything_null[number >> 6]:
            of_column = (bits[number >> 6] >> np.int64(number & 63)) & 1 != 0
            if null is not None:
                of_column |= null
            of_column = of_column if of_column.any() else None
        name = f"{path}.{field.name}" if path else field.name
        arrays.append(_column(field.dataType, slots(null_words + number, of_column, name), arrow.field(number).type))
    return arrays


def _column(kind: DataType, slots: _Slots, arrow: pa.DataType) -> pa.Array:
    fixed = _FIXED.get(type(kind))
    if fixed is not None:
        values = slots.values(fixed)
        if isinstance(kind, BooleanType):
            values = np.packbits(values != 0, bitorder="little")
        return _array(arrow, slots, [pa.py_buffer(values)])
    if isinstance(kind, DecimalType):
        unscaled = _long_decimals(slots) if kind.precision > _LONG_DECIMAL else _short_decimals(slots)
        return _array(arrow, slots, [pa.py_buffer(unscaled)])
    begins, sizes = slots.regions()
    if isinstance(kind, StringType | BinaryType):
        return _texts(slots, begins, sizes, arrow)
    if isinstance(kind, VariantType):
        assert pa.types.is_struct(arrow)
        return _variants(slots, begins, sizes, arrow)
    if isinstance(kind, StructType):
        assert pa.types.is_struct(arrow)
        if (sizes if slots.null is None else sizes[~slots.null]).min(initial=2**40) < _fixed_size(len(kind)):
            raise slots.wrong("a struct has no place for its fields")
        children = _fields(slots.memory, begins, begins + sizes, slots.null, kind, arrow, slots.path)
        return _array(arrow, slots, [], children)
    if isinstance(kind, ArrayType):
        assert pa.types.is_list(arrow)
        offsets, elements = _elements(slots, begins, begins + sizes, kind.elementType, f"{slots.path}.element")
        return _array(arrow, slots, [offsets], [_column(kind.elementType, elements, arrow.value_type)])
    assert isinstance(kind, MapType)
    assert pa.types.is_map(arrow)
    return _maps(kind, slots, begins, begins + sizes, arrow)


def _array(
    arrow: pa.DataType, slots: _Slots, buffers: list[pa.Buffer], children: list[pa.Array] | None = None
) -> pa.Array:
    return pa.Array.from_buffers(arrow, len(slots), [slots.validity, *buffers], children=children)


def _elements(slots: _Slots, starts: _I64, ends: _I64, kind: DataType, path: str) -> tuple[pa.Buffer, _Slots]:
    """Where each array's elements end among all, after a 0; and the slots of these elements."""
    memory, here = slots.memory, starts < ends
    counts = np.where(here, memory.word(np.where(here, starts, 0)), 0)
    width = np.dtype(_FIXED.get(type(kind), np.int64)).itemsize
    null_bytes = (counts + 63 >> 6) * _WORD
    empty = ~here if slots.null is None else ~here & ~slots.null
    if (
        empty.any()
        or (counts < 0).any()
        or (counts > ends - starts).any()
        or (here & (starts + _WORD + null_bytes + counts * width > ends)).any()
    ):
        raise slots.wrong("an array has no place for its elements")
    offsets = np.zeros(len(slots) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    if offsets[-1] > len(memory.bytes):
        raise slots.wrong("values lie in one another")
    index = np.arange(offsets[-1]) - offsets[:-1].repeat(counts)
    start = starts.repeat(counts)
    bits = memory.word(start + _WORD + (index >> 6) * _WORD)
    null = bits >> (index & 63) & 1 != 0
    at = start + _WORD + null_bytes.repeat(counts) + index * width
    elements = _Slots(
        memory=memory,
        at=lambda: at,
        start=start,
        end=ends.repeat(counts),
        null=null if null.any() else None,
        path=path,
    )
    return pa.py_buffer(offsets.astype(np.int32)), elements


def _maps(kind: MapType, slots: _Slots, starts: _I64, ends: _I64, arrow: pa.MapType) -> pa.Array:
    here = starts < ends
    key_bytes = np.where(here, slots.memory.word(np.where(here, starts, 0)), 0)
    begins = starts + _WORD
    if (key_bytes < 0).any() or (key_bytes & 7).any() or (here & (key_bytes > ends - begins)).any():
        raise slots.wrong("a value doesn't lie within its row")
    middles = np.where(here, begins + key_bytes, 0)
    begins = np.where(here, begins, 0)
    offsets, keys = _elements(slots, begins, middles, kind.keyType, f"{slots.path}.key")
    value_offsets, values = _elements(slots, middles, ends, kind.valueType, f"{slots.path}.value")
    if not offsets.equals(value_offsets):
        raise slots.wrong("a map has more keys than values, or fewer")
    if keys.null is not None:
        raise slots.wrong("a key of a map is null")
    pairs = pa.Array.from_buffers(
        arrow.field(0).type,
        len(keys),
        [None],
        children=[_column(kind.keyType, keys, arrow.key_type), _column(kind.valueType, values, arrow.item_type)],
    )
    return _array(arrow, slots, [offsets], [pairs])


def _texts(slots: _Slots, begins: _I64, sizes: _I64, arrow: pa.DataType) -> pa.Array:
    """Texts or bytes: views of the rows, which one cast copies together."""
    if int(sizes.sum()) > len(slots.memory.bytes):
        raise slots.wrong("values lie in one another")
    views = pa.py_buffer(_views(begins >> 3, sizes, slots.memory.words))
    array = _array(pa.binary_view(), slots, [views, pa.py_buffer(slots.memory.bytes)])
    try:
        return array.cast(arrow)
    except pa.ArrowInvalid:
        raise EventEncodeError(
            f'column "{slots.path}" holds a text that isn\'t UTF-8: make_valid_utf8 makes it one, '
            "BINARY keeps it as it is"
        ) from None


def _views(words_at: _I64, sizes: _I64, words: _I64) -> _I64:
    """Arrow's views of values that lie in the rows: (size, first 4 bytes, buffer, offset), or (size, 12 bytes).

    Args:
        words_at: the word where each begins.
        sizes: in bytes.
        words: all words of the rows.
    """
    if not sizes.all():
        words_at = np.where(sizes == 0, 0, words_at)
    first = words[words_at]
    views = np.empty((len(sizes), 2), np.int64)
    if sizes.min(initial=0) > _INLINE:
        views[:, 1] = words_at << 35
        views[:, 0] = sizes | first << 32
        return views
    second = np.where(sizes > _WORD, words[np.minimum(words_at + 1, len(words) - 1)], 0)
    inlined = (first >> 32 & _LOW) | second << 32
    views[:, 0] = sizes | first << 32
    views[:, 1] = np.where(sizes > _INLINE, words_at << 35, inlined)
    return views


def _variants(slots: _Slots, begins: _I64, sizes: _I64, arrow: pa.StructType) -> pa.Array:
    here = sizes > 0
    heads = slots.memory.bytes.view("<u4")
    value_sizes = np.where(here, heads[np.where(here, begins, 0) >> 2], 0).astype(np.int64)
    if (~here if slots.null is None else ~here & ~slots.null).any() or (here & (value_sizes + 4 > sizes)).any():
        raise slots.wrong("a VARIANT has no place for its value")
    values = _copied(slots, begins + 4, value_sizes)
    metadata = _copied(slots, begins + 4 + value_sizes, np.where(here, sizes - 4 - value_sizes, 0))
    return _array(arrow, slots, [], [values, metadata])


def _copied(slots: _Slots, begins: _I64, sizes: _I64) -> pa.Array:
    """Bytes from anywhere, one after another."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if offsets[-1] > len(slots.memory.bytes):
        raise slots.wrong("values lie in one another")
    data = slots.memory.bytes[(begins - offsets[:-1]).repeat(sizes) + np.arange(offsets[-1])]
    return pa.Array.from_buffers(
        pa.binary(), len(sizes), [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    )


def _short_decimals(slots: _Slots) -> _I64:
    words: _I64 = slots.values(np.int64)  # type: ignore[assignment]
    return np.stack([words, words >> 63], axis=1)


def _long_decimals(slots: _Slots) -> npt.NDArray[np.uint8]:
    """Big-endian bytes, as few as hold the number, to 16 little-endian ones."""
    data = slots.memory.bytes
    begins, sizes = slots.regions()
    here = sizes > 0
    if (~here if slots.null is None else ~here & ~slots.null).any() or (sizes > _DECIMAL_BYTES).any():
        raise slots.wrong("a decimal has no digits, or too many")
    last = begins + sizes - 1
    first = np.where(here, data[np.where(here, begins, 0)], 0)
    out = np.where(first & 0x80, 0xFF, 0).astype(np.uint8).repeat(_DECIMAL_BYTES).reshape(len(slots), _DECIMAL_BYTES)
    for index in range(int(sizes.max(initial=0))):
        in_it = sizes > index
        out[in_it, index] = data[last[in_it] - index]
    return out
