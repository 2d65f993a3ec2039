"""Formats of somebody's own: what a class gets, what it may give, and what is said when it can't be used."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from format_tools import Encodings
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType, YearMonthIntervalType

from pyspark_pravega.errors import (
    ConfigurationError,
    EventDecodeError,
    EventEncodeError,
    UnsupportedTypeError,
)
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.serde import lenient
from pyspark_pravega.serde.compression import GZIP
from pyspark_pravega.serde.custom import CustomCodec, is_custom
from pyspark_pravega.serde.encodings import WriterSchema
from pyspark_pravega.serde.native.native_codec import describe

COLUMNS = StructType([StructField("id", LongType(), False), StructField("name", StringType())])
ROWS: list[dict[str, Any]] = [{"id": 1, "name": "one"}, {"id": 2, "name": None}]


def events(*payloads: bytes) -> pa.Array:
    return pa.array(payloads, pa.binary())


def test_event_by_event() -> None:
    codec = pickle.loads(pickle.dumps(CustomCodec("ini_format:Ini", COLUMNS, {"ini.separator": "|"})))
    payloads = codec.encode(pa.RecordBatch.from_pylist(ROWS, schema=codec.schema))
    assert payloads.to_pylist() == [b"id=1|name=one", b"id=2"]
    assert codec.decode(payloads, ["name", "id"]).to_pylist() == ROWS
    assert codec.decode(payloads, []).num_rows == 2
    assert codec.decode(payloads, ["id"]).schema == pa.schema([pa.field("id", pa.int64(), nullable=False)])
    with pytest.raises(EventEncodeError, match=r'"ini_format:Ini" can\'t write these rows: a value holds "\|"'):
        codec.encode(pa.RecordBatch.from_pylist([{"id": 1, "name": "|"}], schema=codec.schema))
    assert describe(codec) == "ini_format:Ini"


def test_batch_by_batch() -> None:
    codec = CustomCodec("ini_format:Doubles", StructType([StructField("x", DoubleType())]), {})
    payloads = codec.encode(pa.RecordBatch.from_pylist([{"x": 1.5}, {"x": -0.0}], schema=codec.schema))
    assert codec.decode(payloads, ["x"]).to_pylist() == [{"x": 1.5}, {"x": -0.0}]
    with pytest.raises(BadEventError, match=r"event 1 .* it has 1 bytes, not 8"):
        codec.decode(events(payloads[0].as_py(), b"x", b""), ["x"])


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (b"id=x", "invalid literal"),
        (b"name=a", '"id" is missing or null'),
        (b"\xff", "utf-8"),
        (b"id=" + b"9" * 20, "id"),
    ],
)
def test_bad_events_are_those_of_every_format(event: bytes, reason: str) -> None:
    codec = CustomCodec("ini_format:Ini", COLUMNS, {})
    payloads = events(b"id=1", event, b"id=3")
    with pytest.raises(BadEventError, match=reason) as error:
        codec.decode(payloads, ["id", "name"])
    assert error.value.index == 1
    dropped = lenient.decode(codec, payloads, ["id"], lenient.DROP_MALFORMED)
    assert dropped.batch.to_pylist() == [{"id": 1}, {"id": 3}]


def test_headers_and_compression_are_the_registry_s_matter() -> None:
    encodings = Encodings({7: WriterSchema(codec=GZIP, type="t"), 8: WriterSchema(type="t")})
    codec = CustomCodec("ini_format:Ini", COLUMNS, {}, encodings, header=True).writing(7)
    events_of_7 = codec.encode(pa.RecordBatch.from_pylist(ROWS, schema=codec.schema)).to_pylist()
    assert all(event.startswith(b"\x01\0\0\0\x07\x1f\x8b") for event in events_of_7)
    mixed = events(*events_of_7, b"\x01\0\0\0\x08id=3")
    assert codec.decode(mixed, ["id"]).to_pylist() == [{"id": 1}, {"id": 2}, {"id": 3}]
    with pytest.raises(BadEventError, match="encoding 8") as error:
        codec.decode(events(events_of_7[0], b"\x01\0\0\0\x08id=x"), ["id"])
    assert (error.value.index, error.value.encoding_id) == (1, 8)
    with pytest.raises(BadEventError, match="doesn't begin with 0x01"):
        codec.decode(events(b"id=1"), ["id"])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raises", "failed to decode events: KeyError: 'nothing there'"),
        ("too few", "of 2 rows of as many events; it made 0 rows"),
        ("no batch", "it made a NoneType"),
        ("other type", 'has no place for: column "a" is int64 in the table, and string'),
        ("other name", 'made no column "a"'),
    ],
)
def test_a_class_that_breaks_its_word_is_named(how: str, message: str) -> None:
    table = StructType([StructField("a", LongType(), False)])
    codec = CustomCodec("ini_format:Careless", table, {"careless.how": how})
    with pytest.raises(EventDecodeError, match="ini_format:Careless") as error:
        codec.decode(events(b"", b""), ["a"])
    assert message in str(error.value)


def test_nulls_that_a_class_makes_are_not_let_through() -> None:
    codec = CustomCodec(
        "ini_format:Careless", StructType([StructField("a", LongType(), False)]), {"careless.how": "nulls"}
    )
    with pytest.raises(BadEventError, match='"a" is null, and the table\'s column is NOT NULL'):
        codec.decode(events(b"", b""), ["a"])
    with pytest.raises(EventEncodeError, match="2 events without nulls"):
        codec.encode(pa.RecordBatch.from_pylist([{"a": 1}, {"a": 2}], schema=codec.schema))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_package.x:Y", r'"no_such_package.x:Y" can\'t be imported by .*: ModuleNotFoundError.*PYTHONPATH'),
        ("ini_format:Nothing", "AttributeError"),
        ("ini_format:NoFormat", "must be a subclass of pyspark_pravega.serde.custom.EventFormat or RowFormat"),
        ("ini_format:Doubles", 'format "ini_format:Doubles" refuses the table: it has one column, a DOUBLE'),
        ("ini_format:EventFormat", "abstract"),
    ],
)
def test_a_class_that_can_not_be_used_is_named(name: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        CustomCodec(name, COLUMNS, {})


def test_a_type_that_python_can_not_be_given_is_refused() -> None:
    with pytest.raises(UnsupportedTypeError, match="interval year to month"):
        CustomCodec("ini_format:Ini", StructType([StructField("a", YearMonthIntervalType())]), {})


def test_a_package_registers_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_custom("ini")
    info = tmp_path / "ini-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ini\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pyspark_pravega.formats]\nini = ini_format:Ini\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert is_custom("ini")
    assert CustomCodec("ini", COLUMNS, {}).decode(events(b"id=1"), ["id"]).to_pylist() == [{"id": 1}]
