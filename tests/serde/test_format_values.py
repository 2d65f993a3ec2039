"""What values of JSON and Protobuf events become, and which events are bad."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest
from format_tools import Encodings, file_set, json_codec, protobuf_codec, texts
from google.protobuf import message_factory

from pyspark_pravega.errors import EventEncodeError, IncompatibleSchemaError
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.serde.encodings import WriterSchema, header
from pyspark_pravega.serde.schemas import protobuf as protobuf_schema

UTC = datetime.UTC
TIME = {"type": "string", "format": "date-time"}
MAP = {"type": "object", "additionalProperties": {"type": "integer"}}


def moment(*parts: int, tz: datetime.tzinfo | None = UTC) -> datetime.datetime:
    return datetime.datetime(*parts, tzinfo=tz)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, "1.0", 1),
        ({"type": "integer"}, "-12e2", -1200),
        ({"type": "integer"}, "-9223372036854775808", -(2**63)),
        ({"type": "number"}, '"NaN"', "nan"),
        ({"type": "number"}, '"-Infinity"', float("-inf")),
        ({"type": "number"}, "-0", -0.0),
        ({"type": "number", "spark.type": "decimal(10,2)"}, "12.500", decimal.Decimal("12.50")),
        ({"type": "number", "spark.type": "decimal(10,2)"}, '"-1e3"', decimal.Decimal("-1000.00")),
        ({"type": "string"}, r'"\u00e9\ud83d\ude80\n\/"', "é🚀\n/"),
        ({"type": "string", "contentEncoding": "base64"}, '"AP8="', b"\0\xff"),
        ({"type": "string", "format": "date"}, '"2024-02-29"', datetime.date(2024, 2, 29)),
        (
            {"type": "string", "format": "date-time"},
            '"2024-02-29T23:30:00.1234567-01:30"',
            moment(2024, 3, 1, 1, 0, 0, 123456),
        ),
        (TIME, '"0001-01-01 00:00z"', moment(1, 1, 1)),
        (
            {"type": "string", "spark.type": "timestamp_ntz"},
            '"2024-02-29T23:30:00"',
            moment(2024, 2, 29, 23, 30, tz=None),
        ),
        ({"type": "integer", "format": "utc-millisec"}, "1500", moment(1970, 1, 1, 0, 0, 1, 500_000)),
        ({}, '{"b": [1, 2.50, "x\\n"], "a": null}', '{"b":[1,2.50,"x\\n"],"a":null}'),
        ({"type": "array", "items": {"type": "integer"}}, '"AP8="', [0, 255]),
        ({"type": "array", "items": {"type": "integer"}}, "[null, 1]", [None, 1]),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            '{"a": 1, "b": 2, "a": 3}',
            [("a", 3), ("b", 2)],
        ),
    ],
)
def test_json_values(schema: Any, text: str, value: Any) -> None:
    codec = json_codec({"a": schema})
    rows = codec.decode(texts(f' {{ "x": [{{}}], "a" : {text} }} \0\0'.encode(), {}, {"a": None}), ["a"]).to_pylist()
    assert repr(rows[0]["a"]) == repr(value) or str(rows[0]["a"]) == value or rows[0]["a"] == value
    assert rows[1:] == [{"a": None}, {"a": None}]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer"}, "1.5"),
        ({"type": "integer"}, "9223372036854775808"),
        ({"type": "integer"}, "1e400"),
        ({"type": "integer"}, "01"),
        ({"type": "integer"}, '"1"'),
        ({"type": "integer", "spark.type": "tinyint"}, "128"),
        ({"type": "number"}, "1e400"),
        ({"type": "number"}, "NaN"),
        ({"type": "number", "spark.type": "float"}, "3.5e38"),
        ({"type": "number", "spark.type": "decimal(4,2)"}, "100"),
        ({"type": "number", "spark.type": "decimal(4,2)"}, "1.005"),
        ({"type": "boolean"}, "1"),
        ({"type": "string"}, "1"),
        ({"type": "string"}, r'"\ud800"'),
        ({"type": "string"}, '"\t"'),
        ({"type": "string", "contentEncoding": "base64"}, '"AP8"'),
        ({"type": "string", "format": "date"}, '"2023-02-29"'),
        ({"type": "string", "format": "date-time"}, '"2024-02-29T23:30:00"'),
        ({"type": "string", "format": "date-time"}, '"2024-02-29T24:00:00Z"'),
        ({"type": "string", "spark.type": "timestamp_ntz"}, '"2024-02-29T23:30:00Z"'),
        ({}, "[1, 2"),
        ({"type": "array", "items": {"type": "integer"}}, "{}"),
    ],
)
def test_json_events_that_are_bad(schema: Any, text: str) -> None:
    codec = json_codec({"a": schema})
    with pytest.raises(BadEventError) as caught:
        codec.decode(texts({}, f'{{"a": {text}}}'.encode(), {}), ["a"])
    assert caught.value.index == 1
    assert caught.value.reason


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}x", b"{} {}", b'{"a": 1,}', b"\xff", b'{"b":' + b"[" * 300 + b"]" * 300 + b"}"]
)
def test_texts_that_are_no_events(body: bytes) -> None:
    codec = json_codec({"a": {"type": "integer"}})
    with pytest.raises(BadEventError) as caught:
        codec.decode(texts({"a": 1}, body), ["a"])
    assert caught.value.index == 1


def test_a_required_property_that_is_missing_makes_an_event_bad_where_it_is_wanted() -> None:
    codec = json_codec({"a": {"type": "integer"}, "b": {"type": "integer"}}, "a")
    assert codec.decode(texts({"b": 1}), ["b"]).to_pylist() == [{"b": 1}]
    for event in ({"b": 1}, {"a": None}):
        with pytest.raises(BadEventError, match='"a" is null or missing'):
            codec.decode(texts(event), ["a"])


@pytest.mark.parametrize("native", [True, False])
def test_json_tells_every_day_and_time_that_a_column_can_hold(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not native:
        monkeypatch.setenv("PYSPARK_PRAVEGA_NATIVE", "0")
    days = [-(2**31), -719_893, -719_529, -719_528, -719_162, -1, 0, 2_932_896, 2_932_897, 2**31 - 1, None]
    day = 86_400_000_000
    micros: list[int | None] = [-(2**63), -719_893 * day, -719_528 * day - 1, -719_162 * day, -1, 0]
    micros += [2_932_897 * day - 1, 2_932_897 * day]
    micros += [2**63 - 1, None, 5]
    kinds: dict[str, Any] = {
        "d": {"type": "string", "format": "date"},
        "t": {"type": "string", "format": "date-time"},
        "ds": {"type": "array", "items": {"type": "string", "format": "date"}},
        "ts": {"type": "object", "additionalProperties": {"type": "string", "format": "date-time"}},
        "st": {"type": "object", "properties": {"t": {"type": "string", "format": "date-time"}}},
    }
    codec = json_codec(kinds)
    times = pa.array(micros, pa.timestamp("us", "UTC"))
    arrays = {
        "d": pa.array(days, pa.date32()),
        "t": times,
        "ds": pa.array([[day, None] if day is not None else None for day in days], pa.list_(pa.date32())),
        "ts": pa.array([[("k", one)] for one in micros], pa.map_(pa.string(), times.type)),
        "st": pa.array([{"t": one} for one in micros], pa.struct([("t", times.type)])),
    }
    batch = pa.RecordBatch.from_arrays(
        [arrays[name].cast(codec.schema.field(name).type) for name in kinds], schema=codec.schema
    )
    events = codec.encode(batch.slice(1))
    assert codec.decode(events, list(kinds)).equals(batch.slice(1))
    documents = [json.loads(event.as_py().partition(b"{")[2].join((b"{", b""))) for event in events]
    assert [one["d"] for one in documents[:9]] == [
        "-0001-01-01", "-0001-12-31", "0000-01-01", "0001-01-01", "1969-12-31", "1970-01-01", "9999-12-31",
        "+10000-01-01", "+5881580-07-11",
    ]  # fmt: skip
    assert documents[7]["t"] == "+294247-01-10T04:00:54.775807Z"
    for text in ("+2024-01-01", "-0000-01-01", "+10000-02-30", "2024-1-01", "+5881580-07-12", "-5877641-06-22"):
        for name in ("d", "t"):
            body = json.dumps({name: text if name == "d" else text + "T00:00:00Z"}).encode()
            with pytest.raises(BadEventError):
                codec.decode(texts(body), [name])


def test_what_json_can_not_tell_is_not_written() -> None:
    codec = json_codec({"m": {"type": "object", "additionalProperties": {"type": "integer"}}})
    twice = pa.array([[("k", 1), ("k", 2)]], codec.schema.field("m").type)
    with pytest.raises(EventEncodeError, match='has the key "k" twice'):
        codec.encode(pa.RecordBatch.from_arrays([twice], names=["m"]))


PROTO3 = """
name: "x.proto" package: "p" syntax: "proto3" dependency: "google/protobuf/timestamp.proto"
dependency: "google/protobuf/wrappers.proto"
message_type {
  name: "M"
  field { name: "i" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "s" number: 2 type: TYPE_SINT64 label: LABEL_OPTIONAL proto3_optional: true oneof_index: 1 }
  field { name: "e" number: 3 type: TYPE_ENUM type_name: ".p.E" label: LABEL_OPTIONAL }
  field { name: "x" number: 4 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "y" number: 5 type: TYPE_MESSAGE type_name: ".p.N" label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "r" number: 6 type: TYPE_INT32 label: LABEL_REPEATED }
  field { name: "m" number: 7 type: TYPE_MESSAGE type_name: ".p.M.MEntry" label: LABEL_REPEATED }
  field { name: "n" number: 8 type: TYPE_MESSAGE type_name: ".p.N" label: LABEL_OPTIONAL }
  field { name: "t" number: 9 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" label: LABEL_OPTIONAL }
  field { name: "w" number: 10 type: TYPE_MESSAGE type_name: ".google.protobuf.StringValue" label: LABEL_OPTIONAL }
  field { name: "u" number: 11 type: TYPE_UINT64 label: LABEL_OPTIONAL }
  oneof_decl { name: "one" } oneof_decl { name: "_s" }
  nested_type {
    name: "MEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".p.N" label: LABEL_OPTIONAL }
  }
}
message_type {
  name: "N"
  field { name: "a" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL proto3_optional: true oneof_index: 0 }
  field { name: "b" number: 2 type: TYPE_BYTES label: LABEL_REPEATED }
  oneof_decl { name: "_a" }
}
enum_type { name: "E" value { name: "NONE" number: 0 } value { name: "SOME" number: 5 } }
"""
DATA = file_set(PROTO3)
EMPTY: dict[str, Any] = {
    "i": 0, "s": None, "e": "NONE", "x": None, "y": None, "r": [], "m": [], "n": None, "t": None, "w": None,
    "u": decimal.Decimal(0),
}  # fmt: skip


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", {}),
        (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x03", {"i": -1, "s": -2}),
        (b"\x08\x01\x08\x02", {"i": 2}),
        (b"\x18\x05", {"e": "SOME"}),
        (b"\x18\x07", {"e": "7"}),
        (b"\x22\x01x\x2a\x02\x08\x01", {"y": {"a": 1, "b": []}}),
        (b"\x2a\x02\x08\x01\x22\x01x", {"x": "x"}),
        (b"\x30\x01\x32\x02\x02\x03\x30\x04", {"r": [1, 2, 3, 4]}),
        (
            b"\x3a\x06\x08\x01\x12\x02\x08\x09\x3a\x02\x08\x02",
            {"m": [(1, {"a": 9, "b": []}), (2, {"a": None, "b": []})]},
        ),
        (b"\x3a\x06\x08\x01\x12\x02\x08\x09\x3a\x06\x08\x01\x12\x02\x08\x08", {"m": [(1, {"a": 8, "b": []})]}),
        (b"\x42\x03\x12\x01A\x42\x05\x08\x07\x12\x01B", {"n": {"a": 7, "b": [b"A", b"B"]}}),
        (b"\x4a\x06\x08\x01\x10\xe8\xfb\x3d", {"t": moment(1970, 1, 1, 0, 0, 1, 1015)}),
        (b"\x52\x00", {"w": ""}),
        (b"\x58\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", {"u": decimal.Decimal(2**64 - 1)}),
        # Fields that nobody knows, and a known number of another wire type.
        (b"\xa0\x06\x01\xa3\x06\x08\x01\xa4\x06\x0d\0\0\0\0\x08\x03", {"i": 3}),
    ],
)
def test_protobuf_values(body: bytes, expected: dict[str, Any]) -> None:
    codec = protobuf_codec(DATA, "p.M")
    (row,) = codec.decode(pa.array([body], pa.binary()), codec.schema.names).to_pylist()
    row["m"] = sorted(row["m"])
    assert row == {**EMPTY, **expected}
    # What is written of it reads the same, also by the official runtime.
    again = codec.encode(pa.RecordBatch.from_pylist([row], schema=codec.schema)) if "7" not in str(row["e"]) else None
    if again is not None:
        assert codec.decode(again, ["i", "n", "r"]).to_pylist() == [{name: row[name] for name in ("i", "n", "r")}]
        official: Any = message_factory.GetMessageClass(protobuf_schema.descriptor(DATA, "p.M"))()
        official.ParseFromString(again[0].as_py())
        assert (official.i, list(official.r)) == (row["i"], row["r"])


@pytest.mark.parametrize(
    "body",
    [
        b"\x08",
        b"\x08" + b"\xff" * 11,
        b"\0",
        b"\x22\x05ab",
        b"\x22\x01\xff",
        b"\x42\x01\x08",
        b"\x0c",
        b"\x0f",
        b"\x32\x01\x80",
    ],
)
@pytest.mark.parametrize("columns", [["i"], ["x", "n", "r"]])
def test_protobuf_events_that_are_bad(body: bytes, columns: list[str]) -> None:
    codec = protobuf_codec(DATA, "p.M")
    with pytest.raises(BadEventError) as caught:
        codec.decode(pa.array([b"\x08\x01", body, b""], pa.binary()), columns)
    assert caught.value.index == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"e": "OTHER"}, "none of the enum's names: NONE, SOME"),
        ({"x": "a", "y": {"a": 1, "b": []}}, 'share the place "one"'),
        ({"r": [1, None]}, "no nulls in arrays"),
        ({"m": [(1, {"a": 1, "b": []}), (1, {"a": 2, "b": []})]}, "twice"),
        ({"u": decimal.Decimal(-1)}, "out of the range of an unsigned 64 bit number"),
        ({"i": None}, "NOT NULL"),
    ],
)
def test_what_protobuf_can_not_hold_is_not_written(changes: dict[str, Any], words: str) -> None:
    codec = protobuf_codec(DATA, "p.M")
    rows = pa.RecordBatch.from_pylist(
        [EMPTY, {**EMPTY, **changes}], schema=pa.schema([f.with_nullable(True) for f in codec.schema])
    )
    with pytest.raises(EventEncodeError, match=words):
        codec.encode(rows)


def test_events_of_a_message_that_can_not_be_read_as_the_tables_are_bad() -> None:
    def one(kind: str) -> bytes:
        field = f'name: "a" number: 1 type: TYPE_{kind} label: LABEL_OPTIONAL'
        return file_set(f'name: "x" syntax: "proto3" message_type {{ name: "M" field {{ {field} }} }}')

    schemas = {0: WriterSchema(schema_data=one("INT32")), 1: WriterSchema(schema_data=one("STRING"))}
    codec = protobuf_codec(one("INT64"), "M", schemas=schemas)
    good, bad = header(0) + b"\x08\x05", header(1) + b"\x0a\x01x"
    assert codec.decode(pa.array([good, b"\x08\x06"], pa.binary()), ["a"]).to_pylist() == [{"a": 5}, {"a": 6}]
    with pytest.raises(BadEventError, match='was written as string "a", which can\'t be read as int64') as caught:
        codec.decode(pa.array([good, bad], pa.binary()), ["a"])
    assert (caught.value.index, caught.value.encoding_id) == (1, 1)
    assert isinstance(caught.value.__cause__, IncompatibleSchemaError)


def test_proto2_has_defaults_required_fields_and_closed_enums() -> None:
    data = file_set("""
        name: "x" syntax: "proto2"
        message_type {
          name: "M"
          field { name: "q" number: 1 type: TYPE_INT32 label: LABEL_REQUIRED }
          field { name: "o" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL default_value: "7" }
          field { name: "e" number: 3 type: TYPE_ENUM type_name: ".E" label: LABEL_REPEATED }
        }
        enum_type { name: "E" value { name: "ONE" number: 1 } }
    """)
    codec = protobuf_codec(data, "M")
    bodies = pa.array([b"\x08\x01\x18\x01\x18\x09\x18\x01", b"\x08\x02\x10\x03"], pa.binary())
    assert codec.decode(bodies, ["q", "o", "e"]).to_pylist() == [
        {"q": 1, "o": None, "e": ["ONE", "ONE"]},
        {"q": 2, "o": 3, "e": []},
    ]
    with pytest.raises(BadEventError, match='"q" is missing'):
        codec.decode(pa.array([b"\x10\x03"], pa.binary()), ["q"])


def test_encodings_that_are_unknown_are_named() -> None:
    assert Encodings().schemas.keys() == {0}
    codec = json_codec({"a": {"type": "integer"}})
    with pytest.raises(BadEventError, match="no encoding 4") as caught:
        codec.decode(texts({"a": 1}, header(4) + b"{}"), ["a"])
    assert (caught.value.index, caught.value.encoding_id) == (1, 4)
