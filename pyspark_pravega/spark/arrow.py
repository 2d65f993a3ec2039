"""Arrow's types for those of columns: Spark's function, or a stand-in where there is no pyspark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_pravega.spark import plain
from pyspark_pravega.spark.here import IS_IMPORTABLE

_METADATA = b"SPARK::metadata::json"
_SAME: dict[type, pa.DataType] = {
    plain.BooleanType: pa.bool_(),
    plain.ByteType: pa.int8(),
    plain.ShortType: pa.int16(),
    plain.IntegerType: pa.int32(),
    plain.LongType: pa.int64(),
    plain.FloatType: pa.float32(),
    plain.DoubleType: pa.float64(),
    plain.StringType: pa.string(),
    plain.BinaryType: pa.binary(),
    plain.DateType: pa.date32(),
    plain.TimestampNTZType: pa.timestamp("us"),
    plain.DayTimeIntervalType: pa.duration("us"),
    plain.TimeType: pa.time64("ns"),
    plain.VariantType: pa.struct(
        [
            pa.field("value", pa.binary(), nullable=False),
            pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
        ]
    ),
}


class NoArrowTypeError(TypeError):
    """A column's type has none in Arrow."""


def plain_schema(schema: plain.StructType, *, timezone: str | None = None) -> pa.Schema:
    """Arrow's schema of stand-ins, as Spark makes it.

    Args:
        schema: columns.
        timezone: of instants; must be given where there are some.

    Raises:
        NoArrowTypeError: a column's type has none in Arrow.
    """
    return pa.schema([_field(field, timezone) for field in schema])


def _field(field: plain.StructField, timezone: str | None) -> pa.Field:
    metadata: Any = {_METADATA: json.dumps(field.metadata).encode()} if field.metadata else None
    return pa.field(field.name, _type(field.dataType, timezone), nullable=field.nullable, metadata=metadata)


def _type(kind: plain.DataType, timezone: str | None) -> pa.DataType:
    match kind:
        case plain.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case plain.TimestampType():
            assert timezone is not None
            return pa.timestamp("us", tz=timezone)
        case plain.ArrayType():
            return pa.list_(pa.field("element", _type(kind.elementType, timezone), nullable=kind.containsNull))
        case plain.MapType():
            key = pa.field("key", _type(kind.keyType, timezone), nullable=False)
            return pa.map_(key, pa.field("value", _type(kind.valueType, timezone), nullable=kind.valueContainsNull))
        case plain.StructType():
            return pa.struct([_field(field, timezone) for field in kind])
    if type(kind) not in _SAME:
        raise NoArrowTypeError(f"{kind.simpleString()} has no type in Arrow")
    return _SAME[type(kind)]


if TYPE_CHECKING or IS_IMPORTABLE:
    from pyspark.errors import PySparkException, PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_schema
else:
    PySparkException = PySparkTypeError = NoArrowTypeError
    to_arrow_schema = plain_schema

__all__ = ["NoArrowTypeError", "PySparkException", "PySparkTypeError", "plain_schema", "to_arrow_schema"]
