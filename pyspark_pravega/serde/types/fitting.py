"""Rows as a table's columns: what would change a value on the way is refused."""

from __future__ import annotations

from typing import TypeGuard

import pyarrow as pa

from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.serde.types.nesting import same_names, with_children


def fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with exactly the table's columns.

    Args:
        batch: rows; columns are matched by name and may be in another time zone or a narrower type.
        schema: the table's columns.

    Returns:
        A batch of that schema.

    Raises:
        EventEncodeError: columns are missing or unknown, a value doesn't fit its column, or null stands in a column
            that isn't nullable.
    """
    names = set(batch.schema.names)
    missing = [name for name in schema.names if name not in names]
    extra = [name for name in batch.schema.names if name not in schema.names]
    if missing or extra:
        raise EventEncodeError(
            "the rows don't have the table's columns: "
            + "; ".join([f"{name} is missing" for name in missing] + [f"{name} is unknown" for name in extra])
        )
    arrays = []
    for field in schema:
        array = cast(batch.column(field.name), field.type, field.name)
        check_nulls(array, field, field.name)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def cast(column: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    """A column as a type that holds the same values.

    Args:
        column: the column.
        kind: the type.
        path: the column's name, for messages.

    Raises:
        EventEncodeError: the types are of different families, or a value doesn't fit.
    """
    source = column.type
    if source == kind:
        return column
    if pa.types.is_null(source):
        # A NULL without a type: Spark gives it one in batch writes, and leaves it as it is in streaming ones.
        return pa.nulls(len(column), kind)
    if isinstance(column, pa.DictionaryArray):
        return cast(column.dictionary_decode(), kind, path)
    if not alike(source, kind):
        raise mismatch(source, kind, path)
    if pa.types.is_nested(kind):
        return with_children(column, kind, path, cast)
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise EventEncodeError(
            f'a value in column "{path}" doesn\'t fit {kind}: {error}; cast or round it in the query'
        ) from None


def mismatch(source: pa.DataType, kind: pa.DataType, path: str) -> EventEncodeError:
    """The error for rows of a type that isn't the column's.

    Args:
        source: the rows' type.
        kind: the column's.
        path: its name.
    """
    return EventEncodeError(f'column "{path}" is {kind} in the table, and {source} in the rows; cast it')


def alike(source: pa.DataType, kind: pa.DataType) -> bool:
    """Whether values of one type are values of another one, as far as they fit."""
    types = pa.types
    if types.is_null(source):
        return True
    if _is_list(source) and _is_list(kind):
        return alike(source.value_type, kind.value_type)
    if types.is_map(source) and types.is_map(kind):
        return alike(source.key_type, kind.key_type) and alike(source.item_type, kind.item_type)
    if types.is_struct(source) and types.is_struct(kind):
        others = {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)}
        meant = same_names([source.field(i).name for i in range(source.num_fields)], list(others))
        return len(meant) == len(others) and all(
            name is not None and alike(source.field(i).type, others[name]) for i, name in enumerate(meant)
        )
    if types.is_timestamp(source) and types.is_timestamp(kind):
        # A time zone is a way to show an instant; to have none is to be no instant.
        return (source.tz is None) == (kind.tz is None)
    if types.is_floating(source) and types.is_floating(kind):
        return bool(source.bit_width <= kind.bit_width)
    families = (
        types.is_integer,
        types.is_decimal,
        types.is_date,
        types.is_duration,
        types.is_time,
        lambda t: types.is_string(t) or types.is_large_string(t) or types.is_string_view(t),
        lambda t: types.is_binary(t) or types.is_large_binary(t) or types.is_binary_view(t),
        types.is_boolean,
    )
    return any(family(source) and family(kind) for family in families)


def check_nulls(array: pa.Array, field: pa.Field, path: str) -> None:
    """Refuse nulls where there may be none, at any depth.

    Args:
        array: the values.
        field: what they are values of.
        path: its name, for messages.

    Raises:
        EventEncodeError: there is one.
    """
    if array.null_count:
        if not field.nullable:
            raise EventEncodeError(f'column "{path}" holds null, and is NOT NULL')
        if pa.types.is_nested(field.type):
            array = array.drop_null()
    kind = field.type
    if pa.types.is_struct(kind):
        assert isinstance(array, pa.StructArray)
        for i in range(kind.num_fields):
            inner = kind.field(i)
            check_nulls(array.field(i), inner, f"{path}.{inner.name}")
    elif _is_list(kind):
        assert isinstance(array, pa.ListArray | pa.LargeListArray)
        check_nulls(array.flatten(), kind.value_field, f"{path}.element")
    elif pa.types.is_map(kind):
        assert isinstance(array, pa.MapArray)
        start, end = (array.offsets[0].as_py(), array.offsets[-1].as_py()) if len(array) else (0, 0)
        check_nulls(array.items.slice(start, end - start), kind.item_field, f"{path}.value")


def _is_list(kind: pa.DataType) -> TypeGuard[pa.ListType | pa.LargeListType]:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
