"""Avro schemas that Spark has no columns for as they are: records within themselves, and events that aren't records."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from format_tools import Encodings
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
    VariantVal,
)

from pyspark_pravega.errors import UnsupportedTypeError
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.serde import variant
from pyspark_pravega.serde.codec import Codec
from pyspark_pravega.serde.encodings import WriterSchema, header
from pyspark_pravega.serde.formats import Schema
from pyspark_pravega.serde.native.native_codec import describe
from pyspark_pravega.serde.types import avro_to_spark

NODE: dict[str, Any] = {
    "type": "record",
    "name": "shop.Node",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "left", "type": ["null", "Node"], "default": None},
        {"name": "more", "type": {"type": "array", "items": "Node"}},
        {"name": "named", "type": {"type": "map", "values": "Node"}},
        {"name": "last", "type": "string"},
    ],
}
TREE: dict[str, Any] = {
    "id": 1,
    "left": {"id": 2, "left": None, "more": [], "named": {}, "last": "é"},
    "more": [
        {
            "id": 3,
            "left": None,
            "more": [{"id": 4, "left": None, "more": [], "named": {}, "last": ""}] * 2,
            "named": {},
            "last": "x" * 70,
        }
    ],
    "named": {"k": {"id": -5, "left": None, "more": [], "named": {}, "last": "k"}},
    "last": "end",
}
LEAF: dict[str, Any] = {"id": 9, "left": None, "more": [], "named": {}, "last": "leaf"}


def datum(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def codec(reader: Any, *writers: Any, write_id: int | None = None) -> Codec:
    schema = Schema(format="avro", type="x", data=json.dumps(reader).encode())
    schemas = {i: WriterSchema(schema_text=json.dumps(one)) for i, one in enumerate(writers or (reader,))}
    return schema.codec(schema.columns(), Encodings(schemas), write_id=write_id)


def events(*payloads: bytes, encoding_id: int = 0) -> pa.Array:
    return pa.array([header(encoding_id) + one for one in payloads], pa.binary())


def plain(value: Any) -> Any:
    """VARIANTs as what they hold."""
    if isinstance(value, dict) and value.keys() == {"value", "metadata"}:
        json.loads(variant.to_json(value["value"], value["metadata"]))
        return VariantVal(value["value"], value["metadata"]).toPython()
    if isinstance(value, list):
        return [(one[0], plain(one[1])) if isinstance(one, tuple) else plain(one) for one in value]
    return value


def rows(table_codec: Codec, payloads: pa.Array, *columns: str) -> list[dict[str, Any]]:
    batch = table_codec.decode(payloads, list(columns))
    batch.validate(full=True)
    return [{name: plain(value) for name, value in row.items()} for row in batch.to_pylist()]


class TestRecordsWithinThemselves:
    def test_the_inner_ones_are_variants(self) -> None:
        table = avro_to_spark(json.dumps(NODE))
        assert table == StructType(
            [
                StructField("id", IntegerType(), False),
                StructField("left", VariantType(), True),
                StructField("more", ArrayType(VariantType(), False), False),
                StructField("named", MapType(StringType(), VariantType(), False), False),
                StructField("last", StringType(), False),
            ]
        )
        table_codec = codec(NODE)
        assert describe(table_codec) == "avro, plain"
        payloads = events(datum(NODE, TREE), datum(NODE, LEAF))
        expected = [{**one, "named": list(one["named"].items())} for one in (TREE, LEAF)]
        assert rows(table_codec, payloads, "id", "left", "more", "named", "last") == expected
        assert rows(table_codec, payloads, "last", "left") == [
            {"last": one["last"], "left": one["left"]} for one in (TREE, LEAF)
        ]
        # Nobody wants the recursive fields: they are passed over.
        assert rows(table_codec, payloads, "last") == [{"last": "end"}, {"last": "leaf"}]

    def test_events_of_schemas_before_and_after(self) -> None:
        older = {**NODE, "fields": [NODE["fields"][0], NODE["fields"][4]]}
        newer = {**NODE, "fields": [*NODE["fields"], {"name": "new", "type": "Node"}]}
        flat = {**NODE, "fields": [NODE["fields"][4], {"name": "x", "type": "int", "default": 7}]}
        table_codec = codec(NODE, older, newer, flat)
        batch = table_codec.decode(events(datum(older, {"id": 1, "last": "a"})), ["left"])
        assert batch.to_pylist() == [{"left": None}]
        with pytest.raises(BadEventError, match='"more" isn\'t in the schema'):
            table_codec.decode(events(datum(older, {"id": 1, "last": "a"})), ["more"])
        reads_flat = codec(flat, NODE)
        assert rows(reads_flat, events(datum(NODE, TREE)), "last", "x") == [{"last": "end", "x": 7}]

    def test_a_recursive_writer_and_a_reader_that_ends(self) -> None:
        leaf = {"type": "record", "name": "shop.Leaf", "fields": [NODE["fields"][4], NODE["fields"][0]]}
        ends = {**NODE, "fields": [NODE["fields"][0], {"name": "left", "type": ["null", leaf]}]}
        table_codec = codec(ends, NODE)
        assert rows(table_codec, events(datum(NODE, TREE)), "left") == [{"left": {"last": "é", "id": 2}}]

    def test_all_types_keep_theirs(self) -> None:
        kinds: list[tuple[Any, Any, Any]] = [
            ("null", None, None),
            ("boolean", True, True),
            ("int", -(2**31), -(2**31)),
            ("long", 2**62, 2**62),
            ("float", 0.5, 0.5),
            ("double", 0.1, 0.1),
            ("bytes", b"\0\xff", b"\0\xff"),
            ("string", "é", "é"),
            ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
            ({"type": "fixed", "name": "F", "size": 2}, b"ab", b"ab"),
            ({"type": "int", "logicalType": "date"}, datetime.date(1969, 12, 31), datetime.date(1969, 12, 31)),
            (
                {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
                Decimal("-1.25"),
                Decimal("-1.25"),
            ),
            (
                {"type": "long", "logicalType": "timestamp-millis"},
                datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC),
                datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC),
            ),
            (
                {"type": "long", "logicalType": "local-timestamp-micros"},
                datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
                datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
            ),
            ({"type": "map", "values": ["long", "string"]}, {"a": 1, "b": "x"}, {"a": 1, "b": "x"}),
        ]
        fields = [{"name": f"f{i}", "type": kind} for i, (kind, _, _) in enumerate(kinds)]
        schema = {"type": "record", "name": "R", "fields": [*fields[1:], {"name": "next", "type": ["null", "R"]}]}
        value = {f"f{i}": one for i, (_, one, _) in enumerate(kinds) if i}
        (row,) = rows(codec(schema), events(datum(schema, {**value, "next": {**value, "next": None}})), "next")
        assert row["next"] == {**{f"f{i}": back for i, (_, _, back) in enumerate(kinds) if i}, "next": None}

    def test_lists_as_deep_as_may_be(self) -> None:
        chain = {
            "type": "record",
            "name": "C",
            "fields": [{"name": "n", "type": "int"}, {"name": "next", "type": ["null", "C"]}],
        }
        table_codec = codec(chain)
        deep = b"".join(b"\2\2" for _ in range(200)) + b"\2\0"
        (row,) = rows(table_codec, events(deep), "next")
        for _ in range(199):
            row = row["next"]
        assert row["next"] == {"n": 1, "next": None}
        deeper = b"\2\2" * 100_000 + b"\2\0"
        with pytest.raises(BadEventError, match="nested more than 200 levels deep") as error:
            table_codec.decode(events(deep, deeper), ["next"])
        assert error.value.index == 1
        with pytest.raises(BadEventError, match="nested too deeply"):
            table_codec.decode(events(deeper), ["n"])

    @given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=4), st.integers(0, 60))
    def test_broken_events_are_bad_ones(self, changes: list[tuple[int, int]], cut: int) -> None:
        table_codec = codec(NODE)
        good = datum(NODE, TREE)
        broken = bytearray(good)
        for at, byte in changes:
            broken[at % len(broken)] = byte
        broken = broken[: len(broken) - cut]
        for columns in (["left", "more", "named"], ["last"]):
            try:
                batch = table_codec.decode(events(good, bytes(broken), good), columns)
            except BadEventError as error:
                if error.index != 1:
                    raise
            else:
                batch.validate(full=True)

    def test_they_can_not_be_written(self) -> None:
        with pytest.raises(
            UnsupportedTypeError, match=r'"left" holds the record shop.Node within itself, .* not written'
        ):
            codec(NODE, write_id=0)


@pytest.mark.parametrize(
    ("schema", "value", "column", "back"),
    [
        ("long", 17, LongType(), 17),
        ({"type": "array", "items": "int"}, [1, 2], ArrayType(IntegerType(), False), [1, 2]),
        ({"type": "map", "values": "string"}, {"a": "b"}, MapType(StringType(), StringType(), False), [("a", "b")]),
        (["null", "string"], None, StringType(), None),
        (
            ["int", "string"],
            "x",
            StructType([StructField("member0", IntegerType()), StructField("member1", StringType())]),
            {"member0": None, "member1": "x"},
        ),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", StringType(), "B"),
        (["null", {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}], {"a": 1}, None, {"a": 1}),
        (
            {"type": "array", "items": NODE},
            [LEAF],
            None,
            [{**LEAF, "named": []}],
        ),
    ],
)
def test_events_that_are_no_records_are_one_column(schema: Any, value: Any, column: Any, back: Any) -> None:
    table = avro_to_spark(json.dumps(schema))
    assert table.fieldNames() == ["value"]
    assert column is None or table[0].dataType == column
    assert table[0].nullable is (isinstance(schema, list) and "null" in schema)
    table_codec = codec(schema)
    assert rows(table_codec, events(datum(schema, value)), "value") == [{"value": back}]


def test_a_long_alone_is_read_and_written_natively() -> None:
    table_codec = codec("long", write_id=0)
    batch = pa.RecordBatch.from_pylist([{"value": 1}, {"value": -(2**63)}], schema=table_codec.schema)
    written = table_codec.encode(batch)
    assert written.to_pylist()[0] == header(0) + b"\2"
    assert table_codec.decode(written, ["value"]).equals(batch)
    assert codec("int", "int").decode(events(b"\2"), ["value"]).to_pylist() == [{"value": 1}]
    assert codec("double", "int").decode(events(b"\2"), ["value"]).to_pylist() == [{"value": 1.0}]


@pytest.mark.parametrize(("reader", "writer"), [("string", True), (None, False)])
def test_records_and_others_are_not_taken_for_each_other(reader: Any, writer: bool) -> None:
    record = {"type": "record", "name": "R", "fields": [{"name": "value", "type": "string"}]}
    table_codec = codec("string", record) if writer else codec(record, "string")
    with pytest.raises(BadEventError, match="can't be read as"):
        table_codec.decode(events(b"\2a"), ["value"])


def test_one_short_name_in_two_namespaces() -> None:
    inner = {"type": "record", "name": "b.Point", "fields": [{"name": "x", "type": "string"}]}
    outer = {
        "type": "record",
        "name": "a.Line",
        "fields": [
            {"name": "from", "type": {"type": "record", "name": "a.Point", "fields": [{"name": "x", "type": "int"}]}},
            {"name": "to", "type": inner},
            {"name": "again", "type": "Point"},
            {"name": "other", "type": "b.Point"},
        ],
    }
    value = {"from": {"x": 1}, "to": {"x": "b"}, "again": {"x": 2}, "other": {"x": "c"}}
    table_codec = codec(outer, write_id=0)
    payloads = events(datum(outer, value))
    assert rows(table_codec, payloads, "from", "to", "again", "other") == [value]
    assert table_codec.encode(table_codec.decode(payloads, ["from", "to", "again", "other"])).equals(payloads)
