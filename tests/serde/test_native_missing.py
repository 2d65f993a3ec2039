"""Where the native codec isn't installed a process says so once, in its log, if it has much to do by the plain one."""

from __future__ import annotations

import json
import logging
import pickle
from typing import cast

import pyarrow as pa
import pytest
from format_tools import Encodings
from pyspark.sql.types import LongType, StructField, StructType, VariantType

from pyspark_pravega.frames.native_module import SWITCH
from pyspark_pravega.serde.codec import Codec
from pyspark_pravega.serde.encodings import WriterSchema
from pyspark_pravega.serde.formats import Schema, schema_for
from pyspark_pravega.serde.native import native_codec

TABLE = StructType([StructField("a", LongType(), False)])
MANY_FIELDS = StructType([StructField(f"f{i}", LongType(), False) for i in range(300)])


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has done nothing yet, without the wheel."""
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setattr(native_codec, "module", lambda: None)
    monkeypatch.setattr(native_codec._Missing, "events", 0)


def schema_of(table_format: str, table: StructType) -> Schema:
    return schema_for(table_format, table, name="t", namespace="s")


def encodings_of(schema: Schema) -> Encodings:
    text = "" if schema.format == "protobuf" else schema.data.decode()
    return Encodings({0: WriterSchema(schema_text=text, schema_data=schema.data, type=schema.type)})


def codec_of(schema: Schema, table: StructType, way: str) -> Codec:
    codec = schema.codec(table, encodings_of(schema), write_id=0)
    return codec if way == "made" else cast(Codec, pickle.loads(pickle.dumps(codec)))


@pytest.mark.parametrize("table_format", ["avro", "json", "protobuf"])
@pytest.mark.parametrize("way", ["made", "arrived"])
@pytest.mark.parametrize("task", ["decode", "encode"])
@pytest.mark.parametrize("switched_off", [False, True])
def test_it_is_told_once_where_much_is_done(
    table_format: str,
    way: str,
    task: str,
    switched_off: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(native_codec, "TOLD_FROM", 10)
    schema = schema_of(table_format, TABLE)
    rows = pa.record_batch({"a": pa.array(range(3), pa.int64())}, schema=pa.schema([pa.field("a", pa.int64(), False)]))
    events = schema.plain_codec(TABLE, encodings_of(schema), write_id=0).encode(rows)
    if switched_off:
        monkeypatch.setenv(SWITCH, "0")
    told = []
    for done in range(1, 9):
        codec = codec_of(schema, TABLE, way)
        if task == "encode":
            codec.encode(rows)
        else:
            codec.decode(events, ["a"])
        told.append(len(caplog.records))
        assert told[-1] == (1 if done * 3 >= 10 and not switched_off else 0), told
    for record in caplog.records:
        assert record.levelno == logging.WARNING
        assert "pyspark-pravega-native isn't installed" in record.getMessage()
        assert native_codec.SLOWER in record.getMessage()


def test_it_is_not_told_of_tables_that_the_plain_codec_serves_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_codec, "TOLD_FROM", 1)
    many = schema_of("protobuf", MANY_FIELDS).codec(MANY_FIELDS, Encodings())
    assert not isinstance(many, native_codec.NativeCodec)
    tree = {"type": "record", "name": "T", "fields": [{"name": "left", "type": ["null", "T"]}]}
    recursive = Schema(format="avro", type="T", data=json.dumps(tree).encode())
    assert not isinstance(recursive.codec(recursive.columns(), Encodings()), native_codec.NativeCodec)
    document = StructType([StructField("value", VariantType(), True)])
    schema = Schema(format="json", type="s.t", data=b"{}")
    assert not isinstance(schema.codec(document, Encodings()), native_codec.NativeCodec)
