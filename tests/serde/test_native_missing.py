"""Where the native codec isn't installed a process says so once, in its log, if that makes a table slow."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Iterator

import pytest
from format_tools import Encodings
from pyspark.sql.types import LongType, StructField, StructType, VariantType

from pyspark_pravega.frames.native_module import SWITCH
from pyspark_pravega.serde.formats import Schema, schema_for
from pyspark_pravega.serde.native import native_codec

TABLE = StructType([StructField("a", LongType(), False)])
MANY_FIELDS = StructType([StructField(f"f{i}", LongType(), False) for i in range(300)])


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has said nothing yet, without the wheel."""
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setattr(native_codec, "module", lambda: None)
    native_codec._tell_what_is_missing.cache_clear()
    yield
    native_codec._tell_what_is_missing.cache_clear()


def schema_of(table_format: str, table: StructType) -> Schema:
    return schema_for(table_format, table, name="t", namespace="s")


@pytest.mark.parametrize("table_format", ["avro", "json", "protobuf"])
def test_it_is_told_once(table_format: str, caplog: pytest.LogCaptureFixture) -> None:
    schema = schema_of(table_format, TABLE)
    for _ in range(3):
        schema.codec(TABLE, Encodings())
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "pyspark-pravega-native isn't installed" in record.getMessage()
    assert native_codec.SLOWER in record.getMessage()


def test_it_is_told_where_a_codec_arrives(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    native = native_codec.NativeCodec(schema_of("json", TABLE).plain_codec(TABLE, Encodings()))  # type: ignore[arg-type]
    native_codec._tell_what_is_missing.cache_clear()
    caplog.clear()
    assert not pickle.loads(pickle.dumps(native)).is_native
    assert len(caplog.records) == 1


def test_it_is_not_told_where_it_is_switched_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(SWITCH, "0")
    schema_of("json", TABLE).codec(TABLE, Encodings())
    assert not caplog.records


def test_it_is_not_told_of_tables_that_the_plain_codec_serves_anyway(caplog: pytest.LogCaptureFixture) -> None:
    schema_of("protobuf", MANY_FIELDS).codec(MANY_FIELDS, Encodings())
    tree = {"type": "record", "name": "T", "fields": [{"name": "left", "type": ["null", "T"]}]}
    recursive = Schema(format="avro", type="T", data=json.dumps(tree).encode())
    recursive.codec(recursive.columns(), Encodings())
    document = StructType([StructField("value", VariantType(), True)])
    schema = Schema(format="json", type="s.t", data=b"{}")
    assert not isinstance(schema.codec(document, Encodings()), native_codec.NativeCodec)
    assert not caplog.records
