"""Which columns go to the lake, and as which types."""

from __future__ import annotations

import pyarrow as pa

from pyspark_pravega.errors import UnsupportedOperationError, UnsupportedTypeError
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.types import ArrayType, DataType, MapType, StructField, StructType

POSITIONS = ("_segment", "_offset")
"""Columns of the lake: where a row's event lies in the stream."""
VERSION = "_version"
"""The column of the lake that says with which version a row came."""
_OWN = (*POSITIONS, VERSION)

_SAME = frozenset(
    {
        "BooleanType",
        "IntegerType",
        "LongType",
        "FloatType",
        "DoubleType",
        "DecimalType",
        "StringType",
        "CharType",
        "VarcharType",
        "BinaryType",
        "DateType",
        "TimestampType",
        "TimestampNTZType",
    }
)
"""Types that Iceberg has, too."""
_SMALL = frozenset({"ByteType", "ShortType"})
"""Types that are INT there."""


def lake_schema(columns: StructType) -> pa.Schema:
    """What a table's columns are in the lake, with those of the lake behind them.

    Args:
        columns: the table's.

    Raises:
        UnsupportedOperationError: one is called as one of the lake's, or has a dot in its name.
        UnsupportedTypeError: one has a type that Iceberg hasn't.
    """
    check_lake_columns(columns)
    plain = StructType([StructField(field.name, field.dataType, True) for field in columns])
    fields = [
        field.with_type(pa.int32()) if _is_small(field) else field for field in to_arrow_schema(plain, timezone="UTC")
    ]
    return pa.schema([*fields, *(pa.field(name, pa.int64()) for name in _OWN)])


def check_lake_columns(columns: StructType) -> None:
    """Refuse columns that can't go to the lake.

    Args:
        columns: a table's, as they are declared.

    Raises:
        UnsupportedOperationError: one is called as one of the lake's, or has a dot in its name.
        UnsupportedTypeError: one has a type that Iceberg hasn't.
    """
    for field in columns:
        if field.name.lower() in _OWN:
            raise UnsupportedOperationError(
                f'column "{field.name}" can\'t go to the lake, which has a column of this name of its own: rename it '
                "first"
            )
        _check(field.name, field.dataType)


def _is_small(field: pa.Field) -> bool:
    return bool(pa.types.is_int8(field.type) or pa.types.is_int16(field.type))


def _check(name: str, kind: DataType, *, within: bool = False) -> None:
    if not within and "." in name:
        raise UnsupportedOperationError(f'column "{name}" can\'t go to the lake: there a dot stands before fields')
    match kind:
        case ArrayType():
            _check(name, kind.elementType, within=True)
        case MapType():
            _check(name, kind.keyType, within=True)
            _check(name, kind.valueType, within=True)
        case StructType():
            for field in kind:
                if "." in field.name:
                    _check(field.name, field.dataType)
                _check(f"{name}.{field.name}", field.dataType, within=True)
        case _ if hasattr(kind, "sqlType"):
            # A type that users have defined is stored as another one.
            _check(name, kind.sqlType(), within=within)
        case _:
            known = type(kind).__name__
            if known not in _SAME and (within or known not in _SMALL):
                raise UnsupportedTypeError(
                    f'column "{name}" can\'t go to the lake: Iceberg has no type for {kind.simpleString()}'
                    + (" within another one" if known in _SMALL else "")
                    + ": leave it out, or the property lake"
                )
