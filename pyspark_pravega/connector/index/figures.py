"""Figures of a column among some rows: between which values all of them lie, and how many are null.

Values are compared as Spark compares them: texts and bytes by their bytes, NaN behind all other numbers, -0.0 as 0.0.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.errors import UnsupportedTypeError
from pyspark_pravega.spark.types import (
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

PREFIX_BYTES = 32
"""How much of a long text, or of long bytes, is kept of a bound."""
_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
_TIMES = (TimestampType, TimestampNTZType)
_FLOATS = (FloatType, DoubleType)
_TEXTS = (CharType, VarcharType)
_MILLISECOND = 1000

Value: TypeAlias = "int | bytes | Decimal | tuple[bool, float]"
"""A value in the form in which those of a column are compared: numbers, days, microseconds, bytes; of FLOAT and DOUBLE
whether it is NaN, and the number."""


@dataclass(frozen=True, kw_only=True)
class IndexedColumn:
    """A column of which figures are kept."""

    name: str
    """In the table."""
    id: str
    """By what events know it: a column that was dropped and comes back has another one."""
    type: DataType
    shape: str = ""
    """How events hold it, its default and aliases included: where it is equal, events have equal values in it."""

    @property
    def key(self) -> tuple[str, str]:
        """What figures of rows are kept under that are written: they mean nothing for a column of another type."""
        return self.id, self.type.simpleString()

    @property
    def read_key(self) -> tuple[str, str, str]:
        """What figures are kept under of events that were read: the schema decides which values these have."""
        return (*self.key, self.shape)


@dataclass(frozen=True)
class Figures:
    """Between which values a column's values lie among some rows."""

    rows: int
    nulls: int
    least: Value | None
    """No value is less; None where no row has one."""
    greatest: Value | None
    """No value is greater; None where nothing is known, or no row has one."""

    @property
    def values(self) -> int:
        """How many rows have a value."""
        return self.rows - self.nulls

    def __add__(self, other: Figures) -> Figures:
        """Those of both together."""
        rows, nulls = self.rows + other.rows, self.nulls + other.nulls
        if not self.values or not other.values:
            some = self if self.values else other
            return Figures(rows, nulls, some.least, some.greatest)
        assert self.least is not None
        assert other.least is not None
        greatest = None
        if self.greatest is not None and other.greatest is not None:
            greatest = max(self.greatest, other.greatest)
        return Figures(rows, nulls, min(self.least, other.least), greatest)

    def content(self) -> list[Any]:
        """As JSON has it: nulls, and both bounds; `rows` is kept elsewhere."""
        return [self.nulls, _shown(self.least), _shown(self.greatest)]

    @classmethod
    def of_content(cls, rows: int, content: Sequence[Any], kind: str) -> Figures:
        """Figures that are kept.

        Args:
            rows: of how many rows.
            content: as `content` gives it.
            kind: the column's type, as `IndexedColumn.key` has it.
        """
        nulls, least, greatest = content
        return cls(rows, nulls, _value(least, kind), _value(greatest, kind))


def check_indexed(name: str, kind: DataType) -> None:
    """Refuse a column of whose values there are no bounds.

    Args:
        name: the column.
        kind: its type.

    Raises:
        UnsupportedTypeError: there are none.
    """
    if not is_ordered(kind):
        raise UnsupportedTypeError(
            f'"index-columns": column "{name}" of type {kind.simpleString()} has no order that an index could keep: '
            "take columns of numbers, texts, bytes, booleans, dates and timestamps"
        )


def is_ordered(kind: DataType) -> bool:
    """Whether an index can keep bounds of a type's values.

    Args:
        kind: the type.
    """
    known = (*_INTEGERS, *_TIMES, *_FLOATS, *_TEXTS, BooleanType, DateType, DecimalType, BinaryType)
    return isinstance(kind, known) or kind == StringType()


def figures_of(values: pa.Array) -> Figures | None:
    """The figures of some rows.

    Args:
        values: the column's, in the form that the table keeps.

    Returns:
        None where Arrow can't compare them.
    """
    rows, nulls, kind = len(values), values.null_count, values.type
    if rows == nulls:
        return Figures(rows, nulls, None, None)
    is_time = pa.types.is_timestamp(kind)
    if is_time or pa.types.is_date32(kind):
        values = values.view(pa.int64() if is_time else pa.int32())
    try:
        both = pc.min_max(values)
    except pa.ArrowNotImplementedError:
        return None
    least, greatest = both.as_py().values()
    if is_time:
        # Some schemas keep milliseconds only.
        if kind not in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
            return None
        least = least // _MILLISECOND * _MILLISECOND
        return Figures(rows, nulls, least, -(-greatest // _MILLISECOND) * _MILLISECOND)
    if pa.types.is_floating(kind):
        # Arrow passes NaN over.
        has_nan = pc.any(pc.not_equal(values, values)).as_py()
        lower = (True, 0.0) if math.isnan(least) else (False, least + 0.0)
        return Figures(rows, nulls, lower, (True, 0.0) if has_nan else (False, greatest + 0.0))
    if isinstance(least, str):
        least, greatest = least.encode(), greatest.encode()
    if isinstance(least, bytes):
        return Figures(rows, nulls, least[:PREFIX_BYTES], upper_prefix(greatest))
    return Figures(rows, nulls, least, greatest)


def upper_prefix(value: bytes) -> bytes | None:
    """A short value that isn't less than a long one.

    Args:
        value: the long one.

    Returns:
        None where there is none.
    """
    return value if len(value) <= PREFIX_BYTES else behind_prefix(value[:PREFIX_BYTES])


def behind_prefix(prefix: bytes) -> bytes | None:
    """The least value that is greater than all that begin with a prefix; None where there is none.

    Args:
        prefix: the prefix.
    """
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def literal(value: Any, kind: DataType) -> Value | None:
    """A value that a query compares a column with.

    Args:
        value: as of `Predicate.values`.
        kind: the column's type.

    Returns:
        None where it isn't one of that type.
    """
    try:
        if isinstance(kind, _FLOATS):
            number = float(value)
            if isinstance(kind, FloatType):
                number = float(np.float32(number))
            return (True, 0.0) if math.isnan(number) else (False, number + 0.0)
        if isinstance(kind, DecimalType):
            return Decimal(value)
        if isinstance(kind, BinaryType):
            return bytes.fromhex(value)
        if isinstance(kind, StringType | CharType | VarcharType):
            return str(value).encode() if isinstance(value, str) else None
        return int(value) if isinstance(value, int) else None
    except (ValueError, TypeError, ArithmeticError):
        return None


def _shown(value: Value | None) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, tuple):
        return "NaN" if value[0] else str(value[1])
    return str(value) if isinstance(value, Decimal) else value


def _value(content: Any, kind: str) -> Value | None:
    if content is None:
        return None
    if kind in ("float", "double"):
        number = float(content)
        return (True, 0.0) if math.isnan(number) else (False, number)
    if kind.startswith("decimal"):
        return Decimal(content)
    if isinstance(content, str):
        return base64.b64decode(content)
    return int(content)
