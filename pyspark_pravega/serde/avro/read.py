"""Readers: each reads one Avro type from all datums of a cursor and makes one Arrow array.

A reader is a function `(Cursor) -> pa.Array` with one element for each datum. Whatever isn't as it should be raises
DatumError; of several bad datums not necessarily the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_pravega.frames.ragged import Ints, ragged_views
from pyspark_pravega.serde.avro import variant as avro_variant
from pyspark_pravega.serde.avro.blocks import ItemSize, read_blocks
from pyspark_pravega.serde.avro.cursor import Cursor, DatumError
from pyspark_pravega.serde.avro.step import StepError, stepper
from pyspark_pravega.serde.one_by_one import UnfitError
from pyspark_pravega.serde.schemas import avro

Read: TypeAlias = Callable[[Cursor], pa.Array]
Skip: TypeAlias = Callable[[Cursor], None]


def primitive_array(kind: pa.DataType, values: npt.NDArray[Any]) -> pa.Array:
    """An Arrow array without nulls that shares numpy's memory.

    Args:
        kind: a type of fixed width.
        values: as many bytes per element.
    """
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def numbers(kind: pa.DataType, *, of_int: bool, factor: int = 1, path: str) -> Read:
    """int and long, as any type whose values are integers, or as floats.

    Args:
        kind: the column's type.
        of_int: whether the writer's type is int.
        factor: what the number is multiplied with (milliseconds in a column of microseconds: 1000).
        path: the column, for messages.
    """
    low, high = _range(kind)
    if of_int:
        low, high = max(low, -(2**31)), min(high, 2**31 - 1)
    low, high = -((-low) // factor), high // factor
    checked = low > -(2**63) or high < 2**63 - 1
    storage = _storage(kind)

    def read(cursor: Cursor) -> pa.Array:
        values = cursor.varint()
        if checked:
            wrong = (values < low) | (values > high)
            if wrong.any():
                raise cursor.fail(wrong, f'the number in "{path}" is out of the range of {kind}')
        if factor != 1:
            values = values * factor
        return primitive_array(kind, values.astype(storage, copy=False))

    return read


def boolean(path: str) -> Read:
    """boolean: a byte that is 0 or 1."""

    def read(cursor: Cursor) -> pa.Array:
        values = cursor.data[cursor.advance(1, f'"{path}"')]
        wrong = values > 1
        if wrong.any():
            raise cursor.fail(wrong, f'the boolean in "{path}" is neither 0 nor 1')
        bits = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])

    return read


def floating(kind: pa.DataType, size: int, path: str) -> Read:
    """float (4 bytes) and double (8), little-endian."""

    def read(cursor: Cursor) -> pa.Array:
        words = cursor.words(cursor.advance(size, f'"{path}"'))
        values: npt.NDArray[Any]
        if size == 4:
            values = words.astype("<u4").view("<f4")
        else:
            values = words.view("<f8")
        return primitive_array(kind, values.astype(_storage(kind), copy=False))

    return read


def _pieces(cursor: Cursor, size: int | None, path: str) -> tuple[Ints, Ints]:
    lengths = cursor.varint() if size is None else size
    start = cursor.advance(lengths, f'"{path}"')
    return start, cursor.position


def binary(size: int | None, path: str) -> Read:
    """bytes, and fixed of a size, as binary."""

    def read(cursor: Cursor) -> pa.Array:
        start, end = _pieces(cursor, size, path)
        return ragged_views(cursor.data, start, end)

    return read


def text(path: str) -> Read:
    """string (and bytes) as string; it must be UTF-8."""
    of_bytes = binary(None, path)

    def read(cursor: Cursor) -> pa.Array:
        values = of_bytes(cursor)
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            for row, value in zip(cursor.rows.tolist(), values, strict=True):
                try:
                    value.as_py().decode()
                except UnicodeDecodeError:
                    raise DatumError(row, f'the string in "{path}" isn\'t UTF-8') from None
            raise

    return read


def decimal(size: int | None, scale: int, kind: pa.Decimal128Type, path: str) -> Read:
    """bytes and fixed as decimals: big-endian two's complement of the unscaled value.

    Args:
        size: the fixed's size, None for bytes.
        scale: the writer's scale.
        kind: the column's type.
        path: the column, for messages.
    """
    bound = 10 ** (kind.precision - kind.scale + scale)

    def read(cursor: Cursor) -> pa.Array:
        start, end = _pieces(cursor, size, path)
        sizes = end - start
        if (sizes == 0).any():
            raise cursor.fail(sizes == 0, f'the decimal in "{path}" has no digits')
        # Of each word around the value's end the bytes before its start are shifted out, with the sign kept.
        unused = (64 - 8 * np.minimum(sizes, 8)).astype(np.int64)
        low = (cursor.words(end - 8).astype("<u8").byteswap().view(np.int64) << unused) >> unused
        high = low >> 63
        if (sizes > 8).any():
            unused = (64 - 8 * np.clip(sizes - 8, 1, 8)).astype(np.int64)
            upper = (cursor.words(np.maximum(end - 16, 0)).byteswap().view(np.int64) << unused) >> unused
            high = np.where(sizes > 8, upper, high)
        fits = (high == low >> 63) & (sizes <= 16)
        small = fits & (low > -bound) & (low < bound) if bound < 2**63 else fits
        for i in np.flatnonzero(~small).tolist():
            value = int.from_bytes(cursor.data[start[i] : end[i]].tobytes(), "big", signed=True)
            if not -bound < value < bound:
                raise DatumError(int(cursor.rows[i]), f'the decimal in "{path}" doesn\'t fit {kind}')
        both = np.empty((len(low), 2), dtype=np.int64)
        both[:, 0] = low
        both[:, 1] = high
        if scale == kind.scale:
            return primitive_array(kind, both)
        written = primitive_array(pa.decimal128(38, scale), both)
        try:
            return written.cast(kind)
        except pa.ArrowInvalid:
            for row, one in zip(cursor.rows.tolist(), written, strict=True):
                try:
                    one.cast(kind)
                except pa.ArrowInvalid:
                    raise DatumError(row, f'the decimal in "{path}" doesn\'t fit {kind}') from None
            raise

    return read


def enum(symbols: Sequence[str], reader_symbols: Sequence[str] | None, default: str | None, path: str) -> Read:
    """enum as string.

    Args:
        symbols: the writer's.
        reader_symbols: the reader's; None when the reader takes all.
        default: what the reader takes for symbols it doesn't know.
        path: the column, for messages.
    """
    names = list(symbols)
    unknown = np.zeros(len(names), dtype=np.bool_)
    if reader_symbols is not None:
        for i, symbol in enumerate(names):
            if symbol not in reader_symbols:
                names[i] = default or symbol
                unknown[i] = default is None
    values = pa.array(names, type=pa.string())

    def read(cursor: Cursor) -> pa.Array:
        index = cursor.varint()
        wrong = (index < 0) | (index >= len(names))
        if wrong.any():
            raise cursor.fail(wrong, f"the symbol in \"{path}\" isn't one of the enum's {len(names)}")
        if unknown.any() and unknown[index].any():
            at = unknown[index]
            symbol = names[int(index[int(np.argmax(at))])]
            raise cursor.fail(at, f'the table\'s enum in "{path}" has no symbol "{symbol}" and no default')
        return values.take(pa.array(index))

    return read


def constant(value: Any, kind: pa.DataType) -> Read:
    """A default: the same value for every datum, and nothing is read."""
    one = pa.array([value], type=kind)

    def read(cursor: Cursor) -> pa.Array:
        return one.take(pa.array(np.zeros(len(cursor), dtype=np.int32)))

    return read


def refused(reason: str) -> Read:
    """A type that the table can't take: an error as soon as a datum has it."""

    def read(cursor: Cursor) -> pa.Array:
        raise DatumError(int(cursor.rows[0]), reason)

    return read


def null(kind: pa.DataType) -> Read:
    """null: no bytes."""

    def read(cursor: Cursor) -> pa.Array:
        return pa.nulls(len(cursor), kind)

    return read


def union(branches: Sequence[Read], path: str) -> Read:
    """A union: the branch's index, and its value.

    Args:
        branches: a reader for each of the writer's branches, all of one Arrow type.
        path: the column, for messages.
    """

    def read(cursor: Cursor) -> pa.Array:
        index = _branch(cursor, len(branches), path)
        parts: list[pa.Array] = []
        order: list[Ints] = []
        for number, branch in enumerate(branches):
            which = np.flatnonzero(index == number)
            if len(which) == len(cursor):
                return branch(cursor)
            if len(which):
                part = cursor.some(which)
                parts.append(branch(part))
                cursor.rejoin(which, part)
                order.append(which)
        return _interleaved(parts, order)

    return read


def member(kind: pa.StructType, index: int, read_value: Read) -> Read:
    """A value of a union of several types: a struct of which one field has it, and the others are null.

    Args:
        kind: the struct.
        index: the field.
        read_value: reads the value.
    """
    fields = [kind.field(i) for i in range(kind.num_fields)]

    def read(cursor: Cursor) -> pa.Array:
        value = read_value(cursor)
        arrays = [value if i == index else pa.nulls(len(cursor), field.type) for i, field in enumerate(fields)]
        return pa.StructArray.from_arrays(arrays, fields=fields)

    return read


def record(
    fields: Sequence[tuple[str | None, Read | Skip]], defaults: Sequence[tuple[str, Read]]
) -> Callable[[Cursor], dict[str, pa.Array]]:
    """A record's fields by name.

    Args:
        fields: in the writer's order: the name in the table and a reader, or None and a skipper.
        defaults: readers that read nothing, for what the writer doesn't have.

    Returns:
        A function from a cursor to the arrays.
    """

    def read(cursor: Cursor) -> dict[str, pa.Array]:
        arrays: dict[str, pa.Array] = {}
        for name, of_field in fields:
            value = of_field(cursor)
            if name is not None:
                assert value is not None
                arrays[name] = value
        for field_name, of_default in defaults:
            arrays[field_name] = of_default(cursor)
        return arrays

    return read


def struct(kind: pa.StructType, read_fields: Callable[[Cursor], dict[str, pa.Array]]) -> Read:
    """A record as a struct."""
    fields = [kind.field(i) for i in range(kind.num_fields)]

    def read(cursor: Cursor) -> pa.Array:
        arrays = read_fields(cursor)
        if not fields:
            return pa.Array.from_buffers(kind, len(cursor), [None])
        return pa.StructArray.from_arrays([arrays[field.name] for field in fields], fields=fields)

    return read


def array(kind: pa.ListType, item: Read, size: ItemSize, path: str) -> Read:
    """An array.

    Args:
        kind: the column's type.
        item: the items' reader.
        size: how large an item is.
        path: the column, for messages.
    """

    def read(cursor: Cursor) -> pa.Array:
        offsets, arrays = read_blocks(cursor, lambda part: (item(part),), size, path)
        values = arrays[0] if arrays else pa.array([], type=kind.value_type)
        return pa.ListArray.from_arrays(offsets, values, type=kind)

    return read


def mapping(kind: pa.MapType, key: Read, value: Read, size: ItemSize, path: str) -> Read:
    """A map; arguments as `array`, `size` that of an entry."""

    def read(cursor: Cursor) -> pa.Array:
        offsets, arrays = read_blocks(cursor, lambda part: (key(part), value(part)), size, path)
        keys, values = arrays or (pa.array([], type=kind.key_type), pa.array([], type=kind.item_type))
        return pa.MapArray.from_arrays(offsets, keys, values, type=kind)

    return read


def variant(writer: avro.AvroType, kind: pa.StructType, path: str) -> Read:
    """A value of any type as VARIANT."""
    read_value = avro_variant.reader(writer)
    names = [kind.field(i).name for i in range(kind.num_fields)]

    def read(cursor: Cursor) -> pa.Array:
        parts: dict[str, list[bytes]] = {"value": [], "metadata": []}
        for i, data in _each(cursor):
            try:
                value, metadata, cursor.position[i] = avro_variant.of_value(read_value, data, int(cursor.position[i]))
            except (StepError, IndexError, UnicodeDecodeError, UnfitError) as error:
                reason = "the event ends within it" if isinstance(error, IndexError) else str(error)
                raise DatumError(int(cursor.rows[i]), f'"{path}" can\'t be read: {reason}') from None
            parts["value"].append(value)
            parts["metadata"].append(metadata)
        children = [pa.array(parts[name], pa.binary()) for name in names]
        return pa.StructArray.from_arrays(children, fields=[kind.field(i) for i in range(kind.num_fields)])

    return read


def skip_recursive(writer: avro.Recursive, path: str) -> Skip:
    """Pass over a record within itself."""
    step = stepper(writer)

    def skip(cursor: Cursor) -> None:
        for i, data in _each(cursor):
            try:
                position = step(data, int(cursor.position[i]))
                if position > len(data):
                    raise IndexError
            except (StepError, IndexError) as error:
                reason = "the event ends within it" if isinstance(error, IndexError) else str(error)
                raise DatumError(int(cursor.rows[i]), f'"{path}" can\'t be passed over: {reason}') from None
            cursor.position[i] = position

    return skip


def _each(cursor: Cursor) -> Iterator[tuple[int, memoryview]]:
    """The datums one by one: their number, and the data up to the datum's end."""
    # Others may hold the array of positions, too.
    cursor.position = cursor.position.copy()
    data = cursor.data.data
    for i, end in enumerate(cursor.end.tolist()):
        yield i, data[:end]


def skip_bytes(size: int | None, path: str) -> Skip:
    """Pass over bytes, a string or a fixed."""

    def skip(cursor: Cursor) -> None:
        _pieces(cursor, size, path)

    return skip


def skip_number(cursor: Cursor) -> None:
    """Pass over an int, a long or an enum."""
    cursor.varint()


def skip_nothing(cursor: Cursor) -> None:
    """Pass over null."""


def skip_record(fields: Sequence[Skip]) -> Skip:
    """Pass over a record."""

    def skip(cursor: Cursor) -> None:
        for field in fields:
            field(cursor)

    return skip


def skip_union(branches: Sequence[Skip], path: str) -> Skip:
    """Pass over a union."""

    def skip(cursor: Cursor) -> None:
        index = _branch(cursor, len(branches), path)
        for number, branch in enumerate(branches):
            which = np.flatnonzero(index == number)
            if len(which) == len(cursor):
                branch(cursor)
            elif len(which):
                part = cursor.some(which)
                branch(part)
                cursor.rejoin(which, part)

    return skip


def skip_blocks(items: Sequence[Skip], size: ItemSize, path: str) -> Skip:
    """Pass over an array (of one skipper) or a map (of two)."""

    def passed(part: Cursor) -> tuple[()]:
        for item in items:
            item(part)
        return ()

    def skip(cursor: Cursor) -> None:
        read_blocks(cursor, passed, size, path)

    return skip


def _branch(cursor: Cursor, count: int, path: str) -> Ints:
    index = cursor.varint()
    wrong = (index < 0) | (index >= count)
    if wrong.any():
        raise cursor.fail(wrong, f'the union in "{path}" has no branch of that number')
    return index


def _interleaved(parts: Sequence[pa.Array], order: Sequence[Ints]) -> pa.Array:
    """Put elements back where they belong: element k of part i to index `order[i][k]`."""
    indexes = np.concatenate(order)
    inverse = np.empty(len(indexes), dtype=np.int64)
    inverse[indexes] = np.arange(len(indexes))
    return pa.concat_arrays(parts).take(pa.array(inverse))


def _range(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_signed_integer(kind):
        return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    if pa.types.is_date32(kind):
        return -(2**31), 2**31 - 1
    return -(2**63), 2**63 - 1


def _storage(kind: pa.DataType) -> Any:
    if pa.types.is_float32(kind):
        return np.float32
    if pa.types.is_float64(kind):
        return np.float64
    return {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}[kind.bit_width]
