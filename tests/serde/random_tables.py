"""Random columns, and random values for them."""

from __future__ import annotations

import decimal
import json
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
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
    VariantType,
)

from pyspark_pravega.serde import variant
from pyspark_pravega.serde.json import read as json_read
from pyspark_pravega.spark.types import TimeType

scalars = st.sampled_from(
    [
        BooleanType(),
        ByteType(),
        ShortType(),
        IntegerType(),
        LongType(),
        FloatType(),
        DoubleType(),
        StringType(),
        BinaryType(),
        DateType(),
        TimestampType(),
        TimestampNTZType(),
    ]
)
decimals = st.integers(1, 38).flatmap(
    lambda precision: st.integers(0, precision).map(lambda scale: DecimalType(precision, scale))
)


def structs(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[StructType]:
    return st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=4).map(
        lambda kinds: StructType([StructField(f"f{i}", kind, null) for i, (kind, null) in enumerate(kinds)])
    )


types: st.SearchStrategy[DataType] = st.recursive(
    st.one_of(scalars, decimals),
    lambda inner: st.one_of(
        st.builds(ArrayType, inner, st.booleans()),
        st.builds(lambda value, null: MapType(StringType(), value, null), inner, st.booleans()),
        structs(inner),
    ),
    max_leaves=5,
)

MICROS = st.integers(-(10**16), 10**17)


documents = st.recursive(
    st.one_of(st.booleans(), st.integers(-(10**30), 10**30), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(st.none() | inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=3,
)


def of_document(value: Any) -> dict[str, bytes]:
    value_bytes, names = variant.of_json(json_read.parse(json.dumps(value).encode()))
    return {"value": value_bytes, "metadata": names}


def values(kind: DataType, nullable: bool) -> st.SearchStrategy[Any]:
    """Values of a type as Arrow takes them."""
    strategy: st.SearchStrategy[Any]
    widths: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
    bits = widths.get(type(kind))
    if bits:
        strategy = st.one_of(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), st.integers(-100, 100))
    elif isinstance(kind, BooleanType):
        strategy = st.booleans()
    elif isinstance(kind, FloatType):
        strategy = st.floats(width=32, allow_nan=False)
    elif isinstance(kind, DoubleType):
        strategy = st.floats(allow_nan=False)
    elif isinstance(kind, StringType):
        strategy = st.text(max_size=12)
    elif isinstance(kind, BinaryType):
        strategy = st.binary(max_size=12)
    elif isinstance(kind, DateType):
        strategy = st.one_of(st.integers(-720_000, 2_940_000), st.integers(-(2**31), 2**31 - 1))
    elif isinstance(kind, (TimestampType, TimestampNTZType)):
        strategy = MICROS
    elif isinstance(kind, DecimalType):
        scale = kind.scale
        top = 10**kind.precision - 1
        strategy = st.one_of(st.integers(-top, top), st.integers(-min(top, 300), min(top, 300))).map(
            lambda unscaled: decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=60))
        )
    elif isinstance(kind, ArrayType):
        strategy = st.lists(values(kind.elementType, kind.containsNull), max_size=4)
    elif isinstance(kind, MapType):
        keys = st.text(max_size=4) if kind.keyType == StringType() else values(kind.keyType, False)
        strategy = st.dictionaries(keys, values(kind.valueType, kind.valueContainsNull), max_size=3).map(
            lambda entries: list(entries.items())
        )
    elif isinstance(kind, DayTimeIntervalType):
        strategy = MICROS
    elif isinstance(kind, TimeType):
        strategy = st.integers(0, 86_399_999_999).map(lambda micros: micros * 1000)
    elif isinstance(kind, VariantType):
        strategy = documents.map(of_document)
    else:
        assert isinstance(kind, StructType)
        strategy = st.fixed_dictionaries({f.name: values(f.dataType, f.nullable) for f in kind.fields})
    return st.one_of(st.none(), strategy) if nullable else strategy


def rows_of(schema: pa.Schema, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Rows as a batch."""
    arrays = [pa.array([row[field.name] for row in rows], type=field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
