"""The types of columns: Spark's classes, or stand-ins where there is no pyspark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.spark.here import IS_IMPORTABLE, package_version

if TYPE_CHECKING or IS_IMPORTABLE:
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        BooleanType,
        ByteType,
        CharType,
        DataType,
        DateType,
        DayTimeIntervalType,
        DecimalType,
        DoubleType,
        FloatType,
        IntegerType,
        LongType,
        MapType,
        ShortType,
        StringType,
        StructField,
        StructType,
        TimestampNTZType,
        TimestampType,
        VarcharType,
        VariantType,
    )
else:
    from pyspark_pravega.spark.plain import (
        ArrayType,
        BinaryType,
        BooleanType,
        ByteType,
        CharType,
        DataType,
        DateType,
        DayTimeIntervalType,
        DecimalType,
        DoubleType,
        FloatType,
        IntegerType,
        LongType,
        MapType,
        ShortType,
        StringType,
        StructField,
        StructType,
        TimestampNTZType,
        TimestampType,
        VarcharType,
        VariantType,
    )

if TYPE_CHECKING:
    from pyspark.sql.types import TimeType
elif not IS_IMPORTABLE:
    from pyspark_pravega.spark.plain import TimeType
else:
    from pyspark.sql import types

    if hasattr(types, "TimeType"):
        TimeType = types.TimeType
    else:

        class TimeType(types.AtomicType):
            """Stands for the type that Spark has since 4.1: no column has it."""

            def __init__(self, precision: int = 6) -> None:
                """Refuse a column that would have it."""
                raise UnsupportedOperationError(
                    f"TIME({precision}) is a type since Spark 4.1, and this is Spark {package_version()}"
                )


__all__ = [
    "ArrayType",
    "BinaryType",
    "BooleanType",
    "ByteType",
    "CharType",
    "DataType",
    "DateType",
    "DayTimeIntervalType",
    "DecimalType",
    "DoubleType",
    "FloatType",
    "IntegerType",
    "LongType",
    "MapType",
    "ShortType",
    "StringType",
    "StructField",
    "StructType",
    "TimeType",
    "TimestampNTZType",
    "TimestampType",
    "VarcharType",
    "VariantType",
]
