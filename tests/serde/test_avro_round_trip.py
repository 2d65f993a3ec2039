"""Whatever a table can hold is the same after encoding and decoding, and fastavro reads the same from the bytes."""

from __future__ import annotations

import datetime
import decimal
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
from avro_tools import Encodings
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
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
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_pravega.serde.avro import AvroCodec
from pyspark_pravega.serde.encodings import WriterSchema
from pyspark_pravega.serde.types import avro_to_spark, spark_to_avro

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
EPOCH = datetime.datetime(1970, 1, 1)


def values(kind: DataType, nullable: bool) -> st.SearchStrategy[Any]:
    """Values of a type as Arrow takes them."""
    made: st.SearchStrategy[Any]
    bits = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}.get(type(kind))
    if bits:
        made = st.one_of(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), st.integers(-100, 100))
    elif isinstance(kind, BooleanType):
        made = st.booleans()
    elif isinstance(kind, FloatType):
        made = st.floats(width=32, allow_nan=False)
    elif isinstance(kind, DoubleType):
        made = st.floats(allow_nan=False)
    elif isinstance(kind, StringType):
        made = st.text(max_size=12)
    elif isinstance(kind, BinaryType):
        made = st.binary(max_size=12)
    elif isinstance(kind, DateType):
        made = st.integers(-700_000, 2_900_000)
    elif isinstance(kind, (TimestampType, TimestampNTZType)):
        made = MICROS
    elif isinstance(kind, DecimalType):
        scale = kind.scale
        top = 10**kind.precision - 1
        made = st.one_of(st.integers(-top, top), st.integers(-min(top, 300), min(top, 300))).map(
            lambda unscaled: decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=60))
        )
    elif isinstance(kind, ArrayType):
        made = st.lists(values(kind.elementType, kind.containsNull), max_size=4)
    elif isinstance(kind, MapType):
        made = st.dictionaries(st.text(max_size=4), values(kind.valueType, kind.valueContainsNull), max_size=3).map(
            lambda entries: list(entries.items())
        )
    else:
        assert isinstance(kind, StructType)
        made = st.fixed_dictionaries({f.name: values(f.dataType, f.nullable) for f in kind.fields})
    return st.one_of(st.none(), made) if nullable else made


@given(structs(types), st.data())
def test_rows_are_the_same_after_encoding_and_decoding(table: StructType, data: st.DataObject) -> None:
    text = spark_to_avro(table, name="t", namespace="s")
    assert avro_to_spark(text) == table
    codec = AvroCodec(text, table, Encodings({7: WriterSchema(schema_text=text)}), 7)
    rows = data.draw(st.lists(values(table, False), max_size=8))
    batch = pa.RecordBatch.from_arrays(
        [pa.array([row[field.name] for row in rows], type=field.type) for field in codec.schema],
        schema=codec.schema,
    )
    payloads = codec.encode(batch)
    payloads.validate(full=True)
    decoded = codec.decode(payloads, table.names)
    decoded.validate(full=True)
    assert decoded.schema.equals(codec.schema, check_metadata=True)
    assert decoded.equals(batch)

    # A slice is written as if it were an array of its own.
    assert codec.encode(batch.slice(len(rows) // 2)).equals(payloads.slice(len(rows) // 2))

    # Any selection of columns, in any order, holds the same.
    some = data.draw(st.lists(st.sampled_from(table.names), unique=True))
    chosen = codec.decode(payloads, some)
    assert chosen.num_rows == len(rows)
    assert [column.to_pylist() for column in chosen.columns] == [batch.column(n).to_pylist() for n in some]


@given(structs(types), st.data())
def test_fastavro_reads_and_writes_the_same_bytes(table: StructType, data: st.DataObject) -> None:
    text = spark_to_avro(table, name="t", namespace="s")
    # Without logical types both sides deal in plain numbers and bytes.
    plain = fastavro.parse_schema(without_logical_types(json.loads(text)))
    codec = AvroCodec(text, table, Encodings(), None, header=False)
    rows = data.draw(st.lists(values(table, False), max_size=5))
    batch = pa.RecordBatch.from_arrays(
        [pa.array([row[field.name] for row in rows], type=field.type) for field in codec.schema],
        schema=codec.schema,
    )
    for body in codec.encode(batch).to_pylist():
        read = io.BytesIO(body)
        value = fastavro.schemaless_reader(read, plain, None)
        assert read.read() == b""
        again = io.BytesIO()
        fastavro.schemaless_writer(again, plain, value)
        assert again.getvalue() == body


def without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_logical_types(one) for one in schema]
    if isinstance(schema, dict):
        return {key: without_logical_types(one) for key, one in schema.items() if key != "logicalType"}
    return schema
