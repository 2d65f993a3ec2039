"""The one form in which a table keeps a value, whichever way it came: Spark brings rows into it in SQL's statements and
with `writeTo`, and not in streaming queries and in writes without the catalog.

What SQL takes for equal is then equal as bytes: decimals have their column's scale, instants are in UTC, and values of
CHAR(n) are filled up with blanks, as Spark does it (`CharVarcharCodegenUtils`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.serde.types.common import CHAR_VARCHAR, arrow_safe
from pyspark_pravega.serde.types.fitting import cast
from pyspark_pravega.serde.types.nesting import same_names, with_children
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.types import ArrayType, CharType, DataType, MapType, StringType, StructType, VarcharType

_LENGTH = re.compile(r"(char|varchar)\((\d+)\)", re.IGNORECASE)
_SHOWN = 40
"""Letters of a text that a message shows."""


@dataclass(frozen=True)
class Length:
    """How many letters a text may have."""

    letters: int
    is_filled: bool
    """Whether shorter ones are filled up with blanks: CHAR."""

    def of(self, texts: pa.Array, path: str) -> pa.Array:
        """Texts as they are kept.

        Args:
            texts: a column of texts.
            path: its name, for messages.

        Raises:
            EventEncodeError: one has too many letters, not counting blanks behind them.
        """
        counts = pc.min_max(pc.utf8_length(texts)).as_py()
        if counts["max"] is not None and counts["max"] > self.letters:
            too_long = pc.greater(pc.utf8_length(pc.utf8_rtrim(texts, characters=" ")), self.letters)
            if pc.any(too_long).as_py():
                text = texts.filter(too_long)[0].as_py()
                shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
                raise EventEncodeError(
                    f'column "{path}" is {self}, and the value "{shown}" has {len(text)} letters: take some away, or '
                    "make the column longer, ALTER TABLE ... ALTER COLUMN ... TYPE"
                )
            texts = pc.utf8_slice_codeunits(texts, 0, self.letters)
        if self.is_filled and counts["min"] is not None and counts["min"] < self.letters:
            texts = pc.utf8_rpad(texts, self.letters, padding=" ")
        return texts

    def __str__(self) -> str:
        return f"{'CHAR' if self.is_filled else 'VARCHAR'}({self.letters})"


Lengths: TypeAlias = "Length | tuple[Lengths, ...] | None"
"""Those within a type: of a struct's fields, an array's elements, a map's keys and values; None where it has none."""


class StoredForm:
    """How a table keeps the values of its columns. It can be pickled."""

    def __init__(self, schema: StructType) -> None:
        """Prepare.

        Args:
            schema: the table's columns.
        """
        self._schema = to_arrow_schema(arrow_safe(schema), timezone="UTC")
        texts = [(field.metadata or {}).get(CHAR_VARCHAR) for field in schema]
        self._lengths = {f.name: _lengths(f.dataType, text) for f, text in zip(schema, texts, strict=True)}

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows as they are kept.

        Args:
            rows: their columns are found by name, whatever its case. Others are left as they are.

        Raises:
            EventEncodeError: a value doesn't fit its column.
        """
        columns = same_names(rows.schema.names, self._schema.names)
        arrays = [
            values if name is None else self.column(name, values)
            for name, values in zip(columns, rows.columns, strict=True)
        ]
        names = [name or given for name, given in zip(columns, rows.schema.names, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=names) if arrays else rows

    def column(self, name: str, values: pa.Array) -> pa.Array:
        """A column's values as they are kept.

        Args:
            name: the column.
            values: its values.

        Raises:
            EventEncodeError: one doesn't fit.
        """
        return _bounded(cast(values, self._schema.field(name).type, name), self._lengths[name], name)


def _bounded(values: pa.Array, lengths: Lengths, path: str) -> pa.Array:
    if lengths is None:
        return values
    if isinstance(lengths, Length):
        return lengths.of(values, path)
    left = iter(lengths)
    return with_children(values, values.type, path, lambda child, _, where: _bounded(child, next(left), where))


def _lengths(kind: DataType, text: str | None) -> Lengths:
    """The lengths within a type.

    Args:
        kind: the type, with STRING in place of CHAR and VARCHAR, or with them.
        text: the same as Spark's metadata has it, with them; None where it has nothing.
    """
    if isinstance(kind, CharType | VarcharType):
        return Length(int(kind.length), isinstance(kind, CharType))
    if isinstance(kind, StringType):
        match = _LENGTH.fullmatch(text or "")
        return Length(int(match[2]), match[1].lower() == "char") if match else None
    parts: Sequence[str | None]
    if isinstance(kind, ArrayType):
        parts = _parts(text, 1)
        return _any([_lengths(kind.elementType, parts[0])])
    if isinstance(kind, MapType):
        parts = _parts(text, 2)
        return _any([_lengths(kind.keyType, parts[0]), _lengths(kind.valueType, parts[1])])
    if isinstance(kind, StructType):
        parts = _parts(text, len(kind))
        own = [(field.metadata or {}).get(CHAR_VARCHAR) for field in kind]
        fields = zip(kind, own, parts, strict=True)
        return _any([_lengths(field.dataType, of_field or _without_name(part)) for field, of_field, part in fields])
    return None


def _any(lengths: list[Lengths]) -> Lengths:
    return tuple(lengths) if any(one is not None for one in lengths) else None


def _parts(text: str | None, count: int) -> list[str | None]:
    """What stands between the outer brackets of a type, `array<...>`, `map<..., ...>`, `struct<..., ...>`."""
    parts, depth, start, is_quoted = [], 0, 0, False
    for index, letter in enumerate(text or ""):
        if letter == "`":
            is_quoted = not is_quoted
        elif is_quoted:
            continue
        elif letter in "<(":
            depth += 1
            start = index + 1 if depth == 1 else start
        elif letter in ",>" and depth == 1:
            parts.append((text or "")[start:index])
            start = index + 1
        if not is_quoted and letter in ">)":
            depth -= 1
    return list(parts) if len(parts) == count else [None] * count


def _without_name(part: str | None) -> str | None:
    """The type of a field, `name:type`."""
    match = re.fullmatch(r"\s*(?:`(?:[^`]|``)*`|[^`:]*)\s*:\s*(.*)", part or "", re.DOTALL)
    return match[1] if match else None
