"""The types of columns: Spark's classes, or stand-ins where there is no pyspark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_pravega.spark.here import IS_IMPORTABLE

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
        TimeType,
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
        TimeType,
        VarcharType,
        VariantType,
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
