"""Arrow's types for those of columns, the same with every Spark, and without one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark_pravega.spark.types import DataType, StructField, StructType

_METADATA = b"SPARK::metadata::json"
_SAME: dict[str, pa.DataType] = {
    "NullType": pa.null(),
    "BooleanType": pa.bool_(),
    "ByteType": pa.int8(),
    "ShortType": pa.int16(),
    "IntegerType": pa.int32(),
    "LongType": pa.int64(),
    "FloatType": pa.float32(),
    "DoubleType": pa.float64(),
    "StringType": pa.string(),
    "BinaryType": pa.binary(),
    "DateType": pa.date32(),
    "TimestampNTZType": pa.timestamp("us"),
    "DayTimeIntervalType": pa.duration("us"),
    "TimeType": pa.time64("ns"),
    "VariantType": pa.struct(
        [
            pa.field("value", pa.binary(), nullable=False),
            pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
        ]
    ),
}
"""By the names of classes, which pyspark's and the stand-ins share."""


class NoArrowTypeError(TypeError):
    """A column's type has none in Arrow."""


def to_arrow_schema(schema: StructType, *, timezone: str | None = None) -> pa.Schema:
    """Arrow's schema of columns, as Spark's own function makes it since 4.2.

    Earlier ones take other arguments, and leave the columns' metadata out.

    Args:
        schema: columns, by pyspark's types or the stand-ins.
        timezone: of instants; must be given where there are some.

    Raises:
        NoArrowTypeError: a column's type has none in Arrow.
    """
    return pa.schema([_field(field, timezone) for field in schema])


def _field(field: StructField, timezone: str | None) -> pa.Field:
    metadata: Any = {_METADATA: json.dumps(field.metadata).encode()} if field.metadata else None
    return pa.field(field.name, _type(field.dataType, timezone), nullable=field.nullable, metadata=metadata)


def _type(kind: DataType, timezone: str | None) -> pa.DataType:
    known: Any = kind
    match type(kind).__name__:
        case "DecimalType":
            return pa.decimal128(known.precision, known.scale)
        case "TimestampType":
            assert timezone is not None
            return pa.timestamp("us", tz=timezone)
        case "ArrayType":
            return pa.list_(pa.field("element", _type(known.elementType, timezone), nullable=known.containsNull))
        case "MapType":
            key = pa.field("key", _type(known.keyType, timezone), nullable=False)
            return pa.map_(key, pa.field("value", _type(known.valueType, timezone), nullable=known.valueContainsNull))
        case "StructType":
            return pa.struct([_field(field, timezone) for field in known])
        case name if name in _SAME:
            return _SAME[name]
    if hasattr(kind, "sqlType"):
        # A type that users have defined is stored as another one.
        return _type(kind.sqlType(), timezone)
    raise NoArrowTypeError(f"{kind.simpleString()} has no type in Arrow")
