"""Events are read by the schema they were written with, as the table's schema says now."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from avro_tools import Encodings, codec, column, datum, event, events, read, record

from pyspark_pravega.errors import (
    GroupNotFoundError,
    IncompatibleSchemaError,
    RegistryUnavailableError,
    SchemaError,
)
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.serde.avro.avro_codec import AvroCodec
from pyspark_pravega.serde.encodings import WriterSchema
from pyspark_pravega.serde.types import avro_to_spark

LONG = column("a", "long")
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def decimal_type(precision: int, scale: int, **more: Any) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale, **more}


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("long", 7, 7),
        ("double", 1.5, 1.5),
        ("double", 2, 2.0),
        ("string", "é", "é"),
        ("bytes", "\u00ff\u0001", b"\xff\x01"),
        ("boolean", True, True),
        (["null", "string"], None, None),
        (["string", "null"], "x", "x"),
        (["null", "string"], "x", "x"),
        ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
        ({"type": "map", "values": "int"}, {"k": 1}, [("k", 1)]),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u0000\u00fe", b"\0\xfe"),
        (decimal_type(6, 2), "\u0000\u00c8", decimal.Decimal("2.00")),
        (decimal_type(6, 2), "\u00ff", decimal.Decimal("-0.01")),
        ({"type": "int", "logicalType": "date"}, 1, datetime.date(1970, 1, 2)),
        (MILLIS, 1500, EPOCH + datetime.timedelta(seconds=1.5)),
        (
            {"type": "record", "name": "N", "fields": [column("x", "int", default=3), column("y", "int")]},
            {"y": 4},
            {"x": 3, "y": 4},
        ),
    ],
)
def test_an_added_field_has_its_default(kind: Any, default: Any, expected: Any) -> None:
    rows = read(record(LONG, column("b", kind, default=default)), record(LONG), {"a": 1}, {"a": 2})
    assert rows == [{"a": 1, "b": expected}, {"a": 2, "b": expected}]


def test_fields_are_resolved_by_their_own_names_whatever_their_columns_are_called() -> None:
    inner = {"type": "record", "name": "N", "fields": [{**column("x_y", "int"), "spark.name": "x-y"}, LONG]}
    ours = record({**column("a_b", "long"), "spark.name": "a b"}, column("st", inner, default={"x_y": 3, "a": 4}))
    plain = {"type": "record", "name": "N", "fields": [column("x_y", "int"), LONG]}
    theirs = record(column("a_b", "long"), column("st", plain))
    value = {"a_b": 1, "st": {"x_y": 2, "a": 5}}
    named, legal = {"a b": 1, "st": {"x-y": 2, "a": 5}}, value
    assert (read(ours, ours, value), read(ours, theirs, value)) == ([named], [named])
    assert read(theirs, ours, value) == [legal]
    assert read(ours, record(column("a_b", "long")), {"a_b": 1}) == [{"a b": 1, "st": {"x-y": 3, "a": 4}}]
    table_codec = codec(ours)
    rows = pa.Table.from_pylist([named], schema=table_codec.schema).to_batches()[0]
    assert table_codec.decode(table_codec.encode(rows), table_codec.schema.names).to_pylist() == [named]


def test_a_removed_field_is_passed_over_whatever_its_type() -> None:
    nested = {"type": "record", "name": "N", "fields": [column("x", "string"), column("y", ["null", "float"])]}
    kinds: list[tuple[Any, Any]] = [
        ("null", None),
        ("boolean", True),
        ("int", -5),
        ("long", 2**40),
        ("float", 1.5),
        ("double", 2.5),
        ("bytes", b"xyz"),
        ("string", "text"),
        ({"type": "fixed", "name": "F", "size": 3}, b"abc"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
        ({"type": "array", "items": nested}, [{"x": "a", "y": None}, {"x": "", "y": 1.0}]),
        ({"type": "array", "items": "double"}, [0.5] * 30),
        ({"type": "array", "items": "long"}, [3**i for i in range(35)]),
        ({"type": "map", "values": ["null", "int", "string"]}, {"k": 1, "l": "s", "m": None}),
        (["int", "string", "null"], "s"),
    ]
    writer = record(*(column(f"gone{i}", kind) for i, (kind, _) in enumerate(kinds)), LONG)
    value = {f"gone{i}": example for i, (_, example) in enumerate(kinds)}
    assert read(record(LONG), writer, {**value, "a": 1}, {**value, "a": -1}) == [{"a": 1}, {"a": -1}]


@pytest.mark.parametrize(
    ("written", "now", "value", "expected"),
    [
        ("int", "long", -3, -3),
        ("int", "float", 3, 3.0),
        ("int", "double", 3, 3.0),
        ("long", "float", 2**33, float(2**33)),
        ("long", "double", -(2**40), -float(2**40)),
        ("float", "double", 1.5, 1.5),
        ("string", "bytes", "é", "é".encode()),
        ("bytes", "string", "é".encode(), "é"),
        ("int", ["null", "long"], 5, 5),
        (["null", "int"], "int", 5, 5),
        (["null", "int"], ["null", "double"], 5, 5.0),
        (["null", "int"], ["double", "null"], None, None),
        (["int", "string"], "string", "x", "x"),
        (MILLIS, MICROS, 1500, EPOCH + datetime.timedelta(seconds=1.5)),
        (MICROS, MILLIS, 1_500_001, EPOCH + datetime.timedelta(microseconds=1_500_001)),
        ("long", MICROS, -1, EPOCH - datetime.timedelta(microseconds=1)),
        (decimal_type(6, 2), decimal_type(9, 4), b"\x00\xc8", decimal.Decimal("2.0000")),
        (decimal_type(6, 4), decimal_type(6, 2), b"\x4e\x20", decimal.Decimal("2.00")),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            {"type": "enum", "name": "E", "symbols": ["B", "C"], "default": "C"},
            "A",
            "C",
        ),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "double"}, [1, 2], [1.0, 2.0]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": ["null", "long"]}, {"k": 1}, [("k", 1)]),
    ],
)
def test_a_changed_type_is_promoted(written: Any, now: Any, value: Any, expected: Any) -> None:
    plain = {key: v for key, v in written.items() if key != "logicalType"} if isinstance(written, dict) else written
    table_codec = codec(record(column("a", now)), record(column("a", written)))
    payload = event(0, datum(record(column("a", plain)), {"a": value}))
    assert table_codec.decode(events(payload), ["a"]).to_pylist() == [{"a": expected}]


@pytest.mark.parametrize(
    ("written", "now"),
    [
        ("string", "int"),
        ("long", "int"),
        ("double", "float"),
        ("boolean", "string"),
        ("int", "boolean"),
        ("int", {"type": "array", "items": "int"}),
        ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}),
        ({"type": "fixed", "name": "F", "size": 2}, "bytes"),
        ({"type": "int", "logicalType": "time-millis"}, {"type": "long", "logicalType": "time-micros"}),
    ],
)
def test_types_that_do_not_resolve_are_named(written: Any, now: Any) -> None:
    table_codec = codec(record(column("a", now)), record(column("a", written)))
    with pytest.raises(BadEventError, match='"a"') as caught:
        table_codec.decode(events(event(0, b"\0\0\0\0")), ["a"])
    assert isinstance(caught.value.__cause__, IncompatibleSchemaError)


def test_only_an_event_with_the_wrong_branch_of_a_union_is_bad() -> None:
    writer = record(column("a", ["int", "string"]))
    table_codec = codec(record(column("a", "long")), writer)
    good, bad = (event(0, datum(writer, {"a": value})) for value in (1, "x"))
    assert table_codec.decode(events(good, good), ["a"]).to_pylist() == [{"a": 1}, {"a": 1}]
    with pytest.raises(BadEventError) as caught:
        table_codec.decode(events(good, good, bad, good, bad), ["a"])
    assert caught.value.index == 2


def test_fields_are_matched_by_name_and_alias_in_any_order() -> None:
    writer = record(column("b", "string"), column("old", "int"), column("a", "long"))
    reader = record(column("a", "long"), column("new", "int", aliases=["older", "old"]), column("b", "string"))
    assert read(reader, writer, {"a": 1, "old": 2, "b": "x"}) == [{"a": 1, "new": 2, "b": "x"}]


def test_nested_records_evolve_like_the_table() -> None:
    def inner(*fields: Any) -> Any:
        return {"type": "array", "items": {"type": "record", "name": "N", "fields": list(fields)}}

    writer = record(column("n", inner(column("x", "int"), column("y", "string"))))
    reader = record(column("n", inner(column("z", "int", default=9), column("x", "long"))))
    values = [{"n": [{"x": i, "y": "?"} for i in range(k)]} for k in (3, 0, 11)]
    expected = [{"n": [{"z": 9, "x": i} for i in range(k)]} for k in (3, 0, 11)]
    assert read(reader, writer, *values) == expected


@pytest.mark.parametrize(
    ("items", "value"),
    [
        ("string", lambda i: "x" * (i % 70)),
        ("double", lambda i: i / 2),
        ("long", lambda i: (-7) ** (i % 22)),
        (["null", "int"], lambda i: i if i % 3 else None),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, lambda i: "AB"[i % 2]),
        ({"type": "array", "items": "int"}, lambda i: list(range(i % 5))),
        (
            {"type": "record", "name": "N", "fields": [column("x", ["null", "string"]), column("y", "float")]},
            lambda i: {"x": str(i) if i % 2 else None, "y": i / 4},
        ),
    ],
)
@pytest.mark.parametrize("lengths", [[1000], [0, 300, 2, 0, 40], [i % 30 for i in range(200)]])
def test_arrays_and_maps_may_be_long_in_a_few_events_and_short_in_many(
    items: Any, value: Callable[[int], Any], lengths: list[int]
) -> None:
    kind = {"type": "array", "items": items}
    again = {"type": "array", "items": items.get("name", items) if isinstance(items, dict) else items}
    schema = record(column("a", kind), column("m", {"type": "map", "values": again}), column("z", "int"))
    rows: list[dict[str, Any]] = [
        {"a": [value(i) for i in range(n)], "m": {str(i): [value(i)] for i in range(n)}, "z": n} for n in lengths
    ]
    expected = [{**row, "m": list(row["m"].items())} for row in rows]
    assert read(schema, schema, *rows) == expected
    assert read(record(column("z", "int")), schema, *rows) == [{"z": row["z"]} for row in rows]


def test_an_added_field_without_a_default_makes_older_events_bad_only_where_it_is_wanted() -> None:
    table_codec = codec(record(LONG, column("b", "long")), record(LONG))
    payloads = events(event(0, datum(record(LONG), {"a": 1})))
    assert table_codec.decode(payloads, ["a"]).to_pylist() == [{"a": 1}]
    with pytest.raises(BadEventError, match='"b" isn\'t in the schema'):
        table_codec.decode(payloads, ["b"])


def test_encoding_ids_may_change_from_event_to_event() -> None:
    schemas = [record(LONG), record(LONG, column("b", ["null", "string"], default=None)), record(column("a", "int"))]
    table_codec = codec(schemas[1], *schemas)
    rows = [{"a": i, "b": f"b{i}" if i % 3 == 1 else None} for i in range(100)]
    payloads = [event(i % 3, datum(schemas[i % 3], {k: v for k, v in rows[i].items() if v})) for i in range(1, 100)]
    assert table_codec.decode(events(*payloads), ["a", "b"]).to_pylist() == rows[1:]


def test_an_encoding_is_looked_up_once() -> None:
    ids: list[int] = []

    class Counting:
        def writer_schema(self, encoding_id: int) -> WriterSchema:
            ids.append(encoding_id)
            return WriterSchema(schema_text=record(LONG))

    table_codec = AvroCodec(record(LONG), avro_to_spark(record(LONG)), Counting())
    payloads = [event(i % 2, datum(record(LONG), {"a": i})) for i in range(10)]
    for _ in range(2):
        table_codec.decode(events(*payloads), ["a"])
    assert sorted(ids) == [0, 1]


def test_an_unknown_encoding_makes_the_event_bad() -> None:
    table_codec = codec(record(LONG))
    good = event(0, datum(record(LONG), {"a": 1}))
    with pytest.raises(BadEventError, match="no encoding 9") as caught:
        table_codec.decode(events(good, event(9, b"\2"), good), ["a"])
    assert (caught.value.index, caught.value.encoding_id) == (1, 9)


@pytest.mark.parametrize("fault", [RegistryUnavailableError, GroupNotFoundError])
def test_a_registry_that_is_away_is_not_the_events_fault(fault: type[Exception]) -> None:
    class Away:
        def writer_schema(self, encoding_id: int) -> WriterSchema:
            raise fault("away")

    table_codec = AvroCodec(record(LONG), avro_to_spark(record(LONG)), Away())
    with pytest.raises(fault):
        table_codec.decode(events(event(0, b"\2")), ["a"])


def test_columns_that_are_not_the_schemas_are_refused_at_once() -> None:
    with pytest.raises(SchemaError, match="no field b"):
        AvroCodec(record(LONG), avro_to_spark(record(LONG, column("b", "int"))), Encodings())


NESTED = {"type": "record", "name": "N", "fields": [column("x", "int")]}
SEVERAL = ["null", "long", "string", NESTED, {"type": "array", "items": ["int", "string"]}]


def members(*values: Any) -> dict[str, Any]:
    return {f"member{i}": value for i, value in enumerate((*values, *[None] * (4 - len(values))))}


def test_a_union_of_several_types_is_a_struct_of_its_members() -> None:
    schema = record(column("a", SEVERAL))
    values = [7, None, "x", {"x": 3}, [1, "y"], -(2**40)]
    assert read(schema, schema, *({"a": value} for value in values)) == [
        {"a": members(7)},
        {"a": None},
        {"a": members(None, "x")},
        {"a": members(None, None, {"x": 3})},
        {"a": members(None, None, None, [{"member0": 1, "member1": None}, {"member0": None, "member1": "y"}])},
        {"a": members(-(2**40))},
    ]
    assert read(record(column("z", "int", default=0)), schema, *({"a": value} for value in values)) == [{"z": 0}] * 6


@pytest.mark.parametrize(
    ("written", "value", "expected"),
    [
        ("int", 5, members(5)),
        ("string", "s", members(None, "s")),
        (["null", "int"], 6, members(6)),
        (["string", "null"], None, None),
        (NESTED, {"x": 1}, members(None, None, {"x": 1})),
    ],
)
def test_a_type_becomes_a_member_of_a_union(written: Any, value: Any, expected: Any) -> None:
    assert read(record(column("a", SEVERAL)), record(column("a", written)), {"a": value}) == [{"a": expected}]


def test_a_value_that_no_member_takes_is_bad() -> None:
    writer = record(column("a", ["boolean", "string"]))
    table_codec = codec(record(column("a", ["int", "string"])), writer, write=None)
    good, bad = (event(0, datum(writer, {"a": value})) for value in ("x", True))
    with pytest.raises(BadEventError, match="boolean, which is none of int, string") as caught:
        table_codec.decode(events(good, bad), ["a"])
    assert caught.value.index == 1


@pytest.mark.parametrize(("default", "expected"), [(None, None), (4, members(4)), ("d", members(None, "d"))])
def test_a_union_of_several_types_has_a_default_of_any_of_them(default: Any, expected: Any) -> None:
    reader = record(LONG, column("b", SEVERAL, default=default))
    assert read(reader, record(LONG), {"a": 1}) == [{"a": 1, "b": expected}]
