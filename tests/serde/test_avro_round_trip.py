"""Whatever a table can hold is the same after encoding and decoding, and fastavro reads the same from the bytes."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
from avro_tools import Encodings
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    StructType,
)
from random_tables import structs, types, values

from pyspark_pravega.serde.avro.avro_codec import AvroCodec
from pyspark_pravega.serde.encodings import WriterSchema
from pyspark_pravega.serde.types import avro_to_spark, spark_to_avro


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
    # As Arrow's arrays: Python's dates have no years before 1.
    assert all(column.equals(batch.column(name)) for name, column in zip(some, chosen.columns, strict=True))


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
