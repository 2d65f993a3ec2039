"""Keys of tables, flat: of a struct in a key its fields, because Arrow neither groups, joins nor sorts by structs."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

_WITHIN = "\x1f"
"""Between the names of a struct and of its field; in no name of a column."""


def flat_key(name: str, values: pa.Array) -> list[tuple[str, pa.Array]]:
    """A column of a key as columns that aren't structs; where a struct is null, its fields are.

    Args:
        name: the column's name.
        values: its values.

    Returns:
        Their names and values; of a column that is no struct itself.
    """
    if not pa.types.is_struct(values.type):
        return [(name, values)]
    return [
        flat
        for index in range(values.type.num_fields)
        for flat in flat_key(f"{name}{_WITHIN}{values.type.field(index).name}", pc.struct_field(values, index))
    ]


def flat_fields(name: str, kind: pa.DataType) -> list[pa.Field]:
    """The names and types that `flat_key` gives.

    Args:
        name: the column's name.
        kind: its type.
    """
    return [pa.field(flat, values.type) for flat, values in flat_key(name, pa.array([], kind))]


def whole_key(name: str, kind: pa.DataType, flat: pa.RecordBatch) -> pa.Array:
    """A column of a key, of the columns that `flat_key` has made of it, none of which has nulls.

    Args:
        name: the column's name.
        kind: its type.
        flat: the flat columns, and perhaps others.
    """
    if not pa.types.is_struct(kind):
        return flat.column(name).cast(kind)
    fields = [kind.field(index) for index in range(kind.num_fields)]
    arrays = [whole_key(f"{name}{_WITHIN}{field.name}", field.type, flat) for field in fields]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def shown_key(name: str) -> str:
    """The name of a flat column, as SQL has it."""
    return name.replace(_WITHIN, ".")


def other_keys(rows: pa.RecordBatch, columns: Sequence[str]) -> pa.Array:
    """For each row but the first one, whether its key is another one than that of the row before.

    Args:
        rows: some rows, at least one.
        columns: those of the key.
    """
    other = pa.repeat(pa.scalar(False), rows.num_rows - 1)
    for column in columns:
        for _, values in flat_key(column, rows.column(column)):
            differs = pc.not_equal(values.slice(1), values.slice(0, rows.num_rows - 1))
            other = pc.or_(other, pc.fill_null(differs, True))
    return other
