"""Nested Arrow columns made anew around changed children."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Change = Callable[[pa.Array, pa.DataType, str], pa.Array]
"""Makes a column of a type from another column; the text is its path, for messages."""


def same_names(given: Sequence[str], names: Sequence[str]) -> list[str | None]:
    """Which of some names others mean: the same one, else one that differs in case.

    Args:
        given: the others; where two of them mean one name, it is the first one's.
        names: no two of them differ in case only.

    Returns:
        For each a name, or None.
    """
    exact, folded = set(names), {name.lower(): name for name in names}
    meant: list[str | None] = [name if name in exact else None for name in given]
    for index, name in enumerate(given):
        other = folded.get(name.lower())
        if meant[index] is None and other not in meant:
            meant[index] = other
    return meant


def with_children(array: pa.Array, kind: pa.DataType, path: str, change: Change) -> pa.Array:
    """A struct, list or map with each child changed, and with the nulls that it has.

    Arrow's own cast refuses a field that isn't nullable and holds nulls, also where the struct around it is null.

    Args:
        array: the column: a struct, list or map.
        kind: the type to make: a struct of fields with the same names, whatever their case, or a list or map. Lists of
            structs of two fields and maps can be made of each other.
        path: the column's name, for messages.
        change: makes each child.

    Returns:
        A column of that type, as long as the given one.
    """
    if pa.types.is_struct(kind):
        # Flattened, what lies under a null is null, too.
        assert isinstance(array, pa.StructArray)
        assert pa.types.is_struct(array.type)
        names = [field.name for field in _fields(kind)]
        parts = dict(
            zip(same_names([field.name for field in _fields(array.type)], names), array.flatten(), strict=True)
        )
        children = [change(parts[field.name], field.type, f"{path}.{field.name}") for field in _fields(kind)]
        # Not StructArray.from_arrays: a field that isn't nullable may hold nulls where its struct is null.
        valid = array.is_valid().buffers()[1] if array.null_count else None
        return pa.Array.from_buffers(kind, len(array), [valid], array.null_count, 0, children)
    return _entries(array, kind, path, change)


def as_numbers(array: pa.Array) -> pa.Array:
    """A column with numbers in place of days and times, also in what is nested: Python's own know the years 1 to 9999.

    Args:
        array: a column; its days are in days since 1970, its times in any unit since 1970.
    """
    kind = _number_type(array.type)
    if kind == array.type:
        return array
    if pa.types.is_nested(kind):
        return with_children(array, kind, "", lambda child, _kind, _path: as_numbers(child))
    return array.view(kind)


def _number_type(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_timestamp(kind):
        return pa.int64()
    if types.is_date32(kind):
        return pa.int32()
    if types.is_struct(kind):
        return pa.struct([_number_field(field) for field in _fields(kind)])
    if types.is_map(kind):
        return pa.map_(_number_field(kind.key_field), _number_field(kind.item_field))
    if types.is_list(kind):
        return pa.list_(_number_field(kind.value_field))
    return kind


def _number_field(field: pa.Field) -> pa.Field:
    return field.with_type(_number_type(field.type))


def _fields(kind: pa.StructType) -> list[pa.Field]:
    return [kind.field(i) for i in range(kind.num_fields)]


def _entries(array: pa.Array, kind: pa.DataType, path: str, change: Change) -> pa.Array:
    types = pa.types
    # Flattened and counted anew, so that what lies outside a slice or under a null isn't looked at.
    plain = _as_list(array) if isinstance(array, pa.MapArray) else array
    assert isinstance(plain, pa.ListArray | pa.LargeListArray)
    items = plain.flatten()
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(pc.fill_null(pc.list_value_length(plain), 0).to_numpy(zero_copy_only=False), out=offsets[1:])
    mask = array.is_null()
    if types.is_list(kind):
        elements = change(items, kind.value_type, f"{path}.element")
        return pa.ListArray.from_arrays(pa.array(offsets), elements, type=kind, mask=mask)
    assert types.is_map(kind)
    assert isinstance(items, pa.StructArray)
    key, value = items.flatten()
    return pa.MapArray.from_arrays(
        pa.array(offsets),
        change(key, kind.key_type, f"{path}.key"),
        change(value, kind.item_type, f"{path}.value"),
        type=kind,
        mask=mask,
    )


def _as_list(array: pa.MapArray) -> pa.Array:
    entries = pa.Array.from_buffers(array.type.field(0).type, len(array.keys), [None], 0, 0, [array.keys, array.items])
    kind = pa.list_(pa.field("element", entries.type, nullable=False))
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [entries])
