"""About how much a read gives. By this Spark chooses, say, which side of a join it broadcasts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from pyspark_pravega.connector.log import Ledger
from pyspark_pravega.spark.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    VarcharType,
    VariantType,
)

_ROW = 8
"""What Spark counts for a row beside its values."""
_FIXED: dict[type[DataType], int] = {
    BooleanType: 1,
    ByteType: 1,
    ShortType: 2,
    IntegerType: 4,
    FloatType: 4,
    DateType: 4,
}
_VARYING = (StringType, CharType, VarcharType, BinaryType, ArrayType, MapType, StructType, VariantType)
_TEXT = 20
"""What Spark counts for a text of which nothing is known."""
_AROUND_NAME = 4
"""Quotes, colon and comma."""
_AROUND_TEXT = 12
"""What Spark counts for a text beside its bytes."""
_UNKNOWN: Mapping[str, float] = MappingProxyType({})


def estimated_rows(size: int, ledger: Ledger | None, counted: tuple[int, int] | None = None) -> int | None:
    """How many rows some bytes of a stream are, by the size of all that was committed, or by the last commit's.

    Of a table with a key these are its events: a row may have several.

    Args:
        size: bytes of events, frames included.
        ledger: the stream's commit log, if it has one.
        counted: the rows and the bytes that were committed, where that is known.

    Returns:
        None when there's nothing to tell by.
    """
    if size == 0:
        return 0
    if counted is None and ledger is not None:
        last = ledger.commits([ledger.state().version])
        counted = (last[0].rows, last[0].bytes) if last else None
    if counted is None or not all(counted):
        return None
    rows, written = counted
    return max(1, round(size * rows / written))


def estimated_memory(
    columns: StructType,
    wanted: StructType,
    size: int,
    rows: int | None,
    *,
    has_names: bool = False,
    lengths: Mapping[str, float] = _UNKNOWN,
) -> int:
    """How many bytes the wanted columns of some events are as Spark's rows, in whatever format the events are.

    Args:
        columns: the table's own, all of them.
        wanted: those that are read, metadata columns among them.
        size: of the events in bytes, frames included.
        rows: how many they are; None where that isn't known.
        has_names: whether each event has the columns' names.
        lengths: of texts and bytes of some columns, in bytes, on average, where that is known.
    """
    of_text = _TEXT
    if rows is not None:
        # What columns of other types don't take of an event is shared by those whose width differs.
        others = [field for field in columns if width(field.dataType) is None and field.name not in lengths]
        names = sum(len(field.name) + _AROUND_NAME for field in columns) if has_names else 0
        left = size // max(1, rows) - _ROW - names - _row(columns, 0, lengths)
        of_text = max(_TEXT, left // max(1, len(others)))
        return rows * (_ROW + _row(wanted, of_text, lengths))
    whole, part = (_ROW + _row(fields, of_text, lengths) for fields in (columns, wanted))
    return size * min(part, whole) // whole


def _row(fields: Iterable[StructField], of_text: int, lengths: Mapping[str, float]) -> int:
    row = 0
    for field in fields:
        fixed = width(field.dataType)
        if fixed is not None:
            row += fixed
        else:
            row += round(lengths[field.name]) + _AROUND_TEXT if field.name in lengths else of_text
    return row


def width(kind: DataType) -> int | None:
    """How many bytes a value of a type has; None where each has another width.

    Args:
        kind: the type.
    """
    if isinstance(kind, DecimalType):
        return 8 if kind.precision <= 18 else 16
    if type(kind) in _FIXED:
        return _FIXED[type(kind)]
    return None if isinstance(kind, _VARYING) else 8
