"""Which types hold all values of others: what is copied from table to table must not change on the way."""

from __future__ import annotations

from pyspark_pravega.client import Stream
from pyspark_pravega.errors import InvalidNameError, UnsupportedTypeError, did_you_mean
from pyspark_pravega.spark.types import (
    ArrayType,
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
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

_INTEGERS: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
"""With the digits that a decimal needs for them."""
_EXACT: dict[type[DataType], tuple[type[DataType], ...]] = {
    FloatType: (ByteType, ShortType),
    DoubleType: (ByteType, ShortType, IntegerType, FloatType),
}
_WITH_TEXT = (*_INTEGERS, DecimalType, BooleanType, DateType, TimestampType, TimestampNTZType, CharType, VarcharType)


def check_columns(rows: StructType, source: Stream, columns: StructType, target: Stream) -> None:
    """Refuse rows of which a table can't hold everything.

    Args:
        rows: the columns of what is to be copied.
        source: where it is.
        columns: those of the table.
        target: the table.

    Raises:
        InvalidNameError: a column isn't there.
        UnsupportedTypeError: one is of a type that doesn't hold all values of the other.
    """
    there = {field.name.lower(): field for field in columns}
    for field in rows:
        column = there.get(field.name.lower())
        if column is None:
            raise InvalidNameError(
                f'stream "{target}" has no column "{field.name}" as "{source}" has: add it, ALTER TABLE ... ADD '
                f"COLUMN{did_you_mean(field.name, columns.fieldNames())}"
            )
        if not holds(column.dataType, field.dataType):
            raise UnsupportedTypeError(
                f'column "{field.name}" is {field.dataType.simpleString()} in stream "{source}", and '
                f'{column.dataType.simpleString()} in "{target}", which doesn\'t hold all its values: ALTER COLUMN ... '
                "TYPE gives that table a wider type, and INSERT INTO ... SELECT can CAST"
            )


def holds(kind: DataType, other: DataType) -> bool:
    """Whether a type has all values of another one.

    Args:
        kind: the type.
        other: the other one.
    """
    if isinstance(kind, ArrayType) and isinstance(other, ArrayType):
        return holds(kind.elementType, other.elementType)
    if isinstance(kind, MapType) and isinstance(other, MapType):
        return holds(kind.keyType, other.keyType) and holds(kind.valueType, other.valueType)
    if isinstance(kind, StructType) and isinstance(other, StructType):
        there = {field.name.lower(): field.dataType for field in kind}
        return all(f.name.lower() in there and holds(there[f.name.lower()], f.dataType) for f in other)
    digits = _INTEGERS.get(type(other))
    if isinstance(kind, DecimalType):
        if isinstance(other, DecimalType):
            return kind.scale >= other.scale and kind.precision - kind.scale >= other.precision - other.scale
        return digits is not None and kind.precision - kind.scale >= digits
    if type(kind) in _INTEGERS and digits is not None:
        return _INTEGERS[type(kind)] >= digits
    if type(kind) is StringType and isinstance(other, _WITH_TEXT):
        return True
    if isinstance(kind, VarcharType) and isinstance(other, VarcharType):
        return kind.length >= other.length
    return kind == other or isinstance(other, _EXACT.get(type(kind), ()))
