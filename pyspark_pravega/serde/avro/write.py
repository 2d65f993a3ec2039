"""Writers: each turns one Arrow column into the Avro bytes of all rows at once.

A writer is a function from an array without nulls of n values to parts: Arrow binary arrays of n elements, or scalars
that stand for n times the same. The bytes of a row are its elements of all parts, one after another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.errors import EventEncodeError, UnsupportedTypeError
from pyspark_pravega.frames.ragged import Bytes, Ints, binary_array, numbers, ragged, ragged_views
from pyspark_pravega.serde.schemas import avro
from pyspark_pravega.serde.types import cast, mismatch

Parts: TypeAlias = list[Any]
Write: TypeAlias = Callable[[pa.Array], Parts]
Encode: TypeAlias = Callable[[pa.RecordBatch], pa.Array]

_NULL = avro.Primitive("null")
_U = np.uint64
_UNITS = {"millis": "ms", "micros": "us"}


def record_writer(schema: avro.AvroType, columns: pa.Schema, head: bytes = b"") -> Encode:
    """The writer of a table's rows.

    Args:
        schema: the Avro schema to write, a record.
        columns: the table's columns.
        head: bytes before each datum.

    Returns:
        A function from a batch to a binary array of heads and datums; it raises EventEncodeError.

    Raises:
        UnsupportedTypeError: a column can't be written as its field's type.
        EventEncodeError: the record has a field that the table has no column for.
    """
    if not isinstance(schema, avro.Record):
        raise UnsupportedTypeError(f"rows can't be written as {avro.describe(schema)}; only as records")
    kinds = {field.name: field.type for field in columns}
    writers = _fields(schema, kinds, "")

    def encode(batch: pa.RecordBatch) -> pa.Array:
        names = batch.schema.names
        if sorted(names) != sorted(kinds):
            raise EventEncodeError(f"the rows have the columns {', '.join(names)}; the table has {', '.join(kinds)}")
        parts: Parts = [pa.scalar(head, pa.binary())] if head else []
        for name, write in writers:
            parts += write(batch.column(name))
        return joined(parts, batch.num_rows)

    return encode


def joined(parts: Parts, rows: int) -> pa.Array:
    """Put parts together.

    Args:
        parts: binary arrays of `rows` elements, or scalars.
        rows: the number of rows.

    Returns:
        A binary array of `rows` elements.
    """
    arrays = [part for part in parts if isinstance(part, pa.Array)]
    if len(parts) == 1 and arrays:
        return arrays[0]
    if not arrays:
        return _repeated(b"".join(part.as_py() for part in parts), rows)
    if sum(part.nbytes for part in arrays) > 2**31 - 2**16 or any(p.type != pa.binary() for p in arrays):
        kind = pa.large_binary()
        parts = [part.cast(kind) for part in parts]
    else:
        kind = pa.binary()
    first, *others = parts
    whole: pa.Array = pc.binary_join_element_wise(first, *others, pa.scalar(b"", kind))
    return whole


def _fields(schema: avro.Record, kinds: dict[str, pa.DataType], path: str) -> list[tuple[str, Write]]:
    writers: list[tuple[str, Write]] = []
    for field in schema.fields:
        where = f"{path}{field.name}"
        if field.name not in kinds:
            raise EventEncodeError(f'the stream\'s Avro schema has a field "{where}" for which the table has no column')
        writers.append((field.name, _writer(field.type, kinds[field.name], where)))
    extra = kinds.keys() - {field.name for field in schema.fields}
    if extra:
        raise EventEncodeError(
            f"the stream's Avro schema has no field for {', '.join(sorted(path + name for name in extra))}"
        )
    return writers


def _writer(schema: avro.AvroType, kind: pa.DataType, path: str) -> Write:
    """The writer of a column that may hold nulls."""
    if not isinstance(schema, avro.Union):
        write = _value(schema, kind, path)

        def without_null(column: pa.Array) -> Parts:
            if column.null_count:
                raise EventEncodeError(f'column "{path}" holds null, and is NOT NULL')
            return write(column)

        return without_null
    branches = [branch for branch in schema.branches if branch != _NULL]
    if len(branches) != 1:
        raise UnsupportedTypeError(
            f'field "{path}" is a union of several types, {avro.describe(schema)}, which can be read, but not written'
        )
    write = _value(branches[0], kind, path)
    value_mark = _zigzag(schema.branches.index(branches[0]))
    null_mark = _zigzag(schema.branches.index(_NULL)) if _NULL in schema.branches else None

    def with_null(column: pa.Array) -> Parts:
        if not column.null_count:
            return [pa.scalar(bytes([value_mark]), pa.binary()), *write(column)]
        if null_mark is None:
            raise EventEncodeError(f'column "{path}" holds null, and is NOT NULL')
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        marks = np.where(valid, np.uint8(value_mark), np.uint8(null_mark))
        dense = column.drop_null()
        before = np.zeros(len(valid) + 1, dtype=np.int64)
        np.cumsum(valid, out=before[1:])
        return [_fixed(marks, 1), *(_spread(part, before) for part in write(dense))]

    return with_null


def _spread(part: Any, before: Ints) -> pa.Array:
    """A part of the values that aren't null as one of all rows; `before[i]` of them lie before row i."""
    if isinstance(part, pa.Scalar):
        part = _repeated(part.as_py(), int(before[-1]))
    data, offsets = binary_array(part)
    return ragged(data, offsets[before])


def _value(schema: avro.AvroType, kind: pa.DataType, path: str) -> Write:
    """The writer of a column without nulls."""
    write: Write | None = None
    if isinstance(schema, avro.Record) and pa.types.is_struct(kind):
        write = _struct(schema, kind, path)
    elif isinstance(schema, avro.Array) and pa.types.is_list(kind):
        write = _array(schema, kind, path)
    elif isinstance(schema, avro.Map) and pa.types.is_map(kind):
        write = _map(schema, kind, path)
    elif isinstance(schema, avro.Enum) and pa.types.is_string(kind):
        write = _enum(schema, path)
    elif isinstance(schema, avro.Fixed):
        write = _fixed_bytes(schema, kind, path)
    elif isinstance(schema, avro.Primitive):
        write = _primitive(schema, kind, path)
    if isinstance(schema, avro.Recursive):
        raise UnsupportedTypeError(
            f'field "{path}" holds the record {schema.name} within itself, which can be read, but not written'
        )
    if write is None:
        raise UnsupportedTypeError(f'column "{path}" ({kind}) can\'t be written as {avro.describe(schema)}')
    return write


def _primitive(schema: avro.Primitive, kind: pa.DataType, path: str) -> Write | None:
    if schema.kind in ("int", "long"):
        return _integer(schema, kind, path)
    if schema.logical == "decimal" and pa.types.is_decimal128(kind):
        exact = pa.decimal128(schema.precision, schema.scale)
        return lambda column: _with_length(*_decimal_bytes(cast(column, exact, path), None, path))
    if schema.kind == "boolean" and pa.types.is_boolean(kind):
        return lambda column: [_fixed(cast(column, kind, path).to_numpy(zero_copy_only=False).view(np.uint8), 1)]
    if schema.kind in ("float", "double") and pa.types.is_floating(kind):
        stored, size = (pa.float32(), 4) if schema.kind == "float" else (pa.float64(), 8)
        if kind == stored or schema.kind == "double":
            return lambda column: [
                _fixed(cast(column, stored, path).to_numpy(zero_copy_only=False).astype(f"<f{size}"), size)
            ]
    if (schema.kind == "string" and pa.types.is_string(kind)) or (schema.kind == "bytes" and pa.types.is_binary(kind)):

        def write(column: pa.Array) -> Parts:
            values = cast(column, kind, path).cast(pa.binary())
            _, offsets = binary_array(values)
            return [_varints(np.diff(offsets)), values]

        return write
    return None


def _integer(schema: avro.Primitive, kind: pa.DataType, path: str) -> Write | None:
    low, high = (-(2**31), 2**31 - 1) if schema.kind == "int" else (-(2**63), 2**63 - 1)
    if pa.types.is_timestamp(kind):
        unit = _UNITS.get(schema.logical.rpartition("-")[2]) if schema.logical else None
        if unit is None:
            return None
        exact: pa.DataType = pa.timestamp(unit, tz=kind.tz)
    elif pa.types.is_signed_integer(kind) or (pa.types.is_date32(kind) and schema.logical == "date"):
        exact = kind
    else:
        return None

    def write(column: pa.Array) -> Parts:
        stored = cast(cast(column, kind, path), exact, path)
        width = pa.int32() if pa.types.is_date32(exact) else pa.int64()
        values = stored.cast(width).to_numpy(zero_copy_only=False).astype(np.int64)
        if len(values) and (values.min() < low or values.max() > high):
            raise EventEncodeError(f'a value in column "{path}" is out of the range of {schema.kind}')
        return [_varints(values)]

    return write


def _struct(schema: avro.Record, kind: pa.StructType, path: str) -> Write:
    fields = [kind.field(i) for i in range(kind.num_fields)]
    writers = _fields(schema, {field.name: field.type for field in fields}, f"{path}.")

    def write(column: pa.Array) -> Parts:
        if not isinstance(column, pa.StructArray):
            raise mismatch(column.type, kind, path)
        positions = {column.type.field(i).name: i for i in range(column.type.num_fields)}
        if positions.keys() != {name for name, _ in writers}:
            raise mismatch(column.type, kind, path)
        parts: Parts = []
        for name, of_field in writers:
            parts += of_field(column.field(positions[name]))
        return parts or [pa.scalar(b"", pa.binary())]

    return write


def _array(schema: avro.Array, kind: pa.ListType, path: str) -> Write:
    of_item = _writer(schema.items, kind.value_type, f"{path}.element")

    def write(column: pa.Array) -> Parts:
        if isinstance(column, pa.MapArray) or not isinstance(column, pa.ListArray | pa.LargeListArray):
            raise mismatch(column.type, kind, path)
        offsets = column.offsets.to_numpy().astype(np.int64)
        items = column.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        return _block(joined(of_item(items), len(items)), offsets - offsets[0])

    return write


def _map(schema: avro.Map, kind: pa.MapType, path: str) -> Write:
    of_key = _writer(avro.Primitive("string"), kind.key_type, f"{path}.key")
    of_value = _writer(schema.values, kind.item_type, f"{path}.value")

    def write(column: pa.Array) -> Parts:
        if not isinstance(column, pa.MapArray):
            raise mismatch(column.type, kind, path)
        offsets = column.offsets.to_numpy().astype(np.int64)
        start, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        keys, values = column.keys.slice(start, count), column.items.slice(start, count)
        return _block(joined([*of_key(keys), *of_value(values)], count), offsets - start)

    return write


def _block(items: pa.Array, offsets: Ints) -> Parts:
    """One block of items for each list, and the block without items that ends it."""
    data, item_offsets = binary_array(items)
    counts = np.diff(offsets)
    # A list without items is the ending block alone: its zero is the count.
    ends = np.zeros(len(offsets), dtype=np.int64)
    np.cumsum(counts > 0, out=ends[1:])
    tail = np.zeros(int(ends[-1]), dtype=np.uint8)
    return [_varints(counts), ragged(data, item_offsets[offsets]), ragged(tail, ends)]


def _enum(schema: avro.Enum, path: str) -> Write:
    symbols = pa.array(schema.symbols, type=pa.string())

    def write(column: pa.Array) -> Parts:
        values = cast(column, pa.string(), path)
        index = pc.index_in(values, symbols)
        if index.null_count:
            wrong = values.filter(index.is_null())[0].as_py()
            raise EventEncodeError(
                f'the value "{wrong}" in column "{path}" is none of the enum\'s symbols: {", ".join(schema.symbols)}'
            )
        return [_varints(index.to_numpy().astype(np.int64))]

    return write


def _fixed_bytes(schema: avro.Fixed, kind: pa.DataType, path: str) -> Write | None:
    if schema.logical == "decimal" and pa.types.is_decimal128(kind):
        exact = pa.decimal128(schema.precision, schema.scale)
        return lambda column: [_decimal_bytes(cast(column, exact, path), schema.size, path)[1]]
    if not pa.types.is_binary(kind):
        return None

    def write(column: pa.Array) -> Parts:
        values = cast(column, kind, path)
        _, offsets = binary_array(values)
        if (np.diff(offsets) != schema.size).any():
            raise EventEncodeError(f'a value in column "{path}" isn\'t of {schema.size} bytes, as it must be')
        return [values]

    return write


def _decimal_bytes(column: pa.Array, size: int | None, path: str) -> tuple[Ints, pa.Array]:
    """The unscaled values, big-endian: as many bytes as each needs, or `size`."""
    n = len(column)
    if not n:
        # Arrow doesn't say how long the buffer of no values is.
        return np.zeros(0, dtype=np.int64), pa.array([], pa.binary())
    both = numbers(column.buffers()[1], "<i8")[2 * column.offset :][: 2 * n]
    low, high = both[0::2], both[1::2]
    sign = high >> 63
    low_bits, high_bits = (low ^ sign).view(np.uint64), (high ^ sign).view(np.uint64)
    sizes = np.ones(n, dtype=np.int64)
    for count in range(1, 16):
        bit = 8 * count - 1
        more = (high_bits > 0) | (low_bits >> _U(bit) > 0) if bit < 64 else high_bits >> _U(bit - 64) > 0
        if not more.any():
            break
        sizes += more
    wide = 16 if size is None else max(size, 16)
    words = np.empty((n, wide), dtype=np.uint8)
    words[:, : wide - 16] = sign.astype(np.uint8)[:, None]
    words[:, wide - 16 :] = both.reshape(n, 2)[:, ::-1].astype(">i8").view(np.uint8).reshape(n, 16)
    if size is not None:
        if (sizes > size).any():
            raise EventEncodeError(f'a value in column "{path}" doesn\'t fit {size} bytes')
        sizes = np.full(n, size, dtype=np.int64)
    ends = np.arange(1, n + 1, dtype=np.int64) * wide
    return sizes, ragged_views(words.reshape(-1), ends - sizes, ends)


def _with_length(sizes: Ints, values: pa.Array) -> Parts:
    return [_varints(sizes), values]


def _zigzag(index: int) -> int:
    if index > 63:
        raise UnsupportedTypeError("a union of more than 64 types")
    return 2 * index


def _varints(values: Ints) -> pa.Array:
    """Numbers in zigzag, seven bits a byte, the lowest first."""
    left = ((values << 1) ^ (values >> 63)).view(np.uint64)
    n = len(left)
    if not n or int(left.max()) < 0x80:
        return _fixed(left.astype(np.uint8), 1)
    sizes = np.ones(n, dtype=np.int64)
    for count in range(1, 10):
        more = left >= _U(1 << (7 * count))
        if not more.any():
            break
        sizes += more
    offsets = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    data = np.empty(int(offsets[-1]), dtype=np.uint8)
    at = offsets[:-1]
    for count in range(int(sizes.max())):
        byte = (left & _U(0x7F)).astype(np.uint8)
        going_on = sizes > count + 1
        byte |= going_on.astype(np.uint8) << 7
        data[at] = byte
        if going_on.all():
            at, left = at + 1, left >> _U(7)
        else:
            at, left, sizes = at[going_on] + 1, left[going_on] >> _U(7), sizes[going_on]
    return ragged(data, offsets)


def _fixed(values: npt.NDArray[Any], size: int) -> pa.Array:
    """A binary array of elements of one size."""
    data: Bytes = np.ascontiguousarray(values).view(np.uint8)
    return ragged(data, np.arange(len(values) + 1, dtype=np.int64) * size)


def _repeated(value: bytes, rows: int) -> pa.Array:
    data = np.frombuffer(value * rows, dtype=np.uint8)
    return ragged(data, np.arange(rows + 1, dtype=np.int64) * len(value))
