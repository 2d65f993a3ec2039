"""Whatever bytes a stream holds: an event is decoded, or named as the first that can't be."""

from __future__ import annotations

import pickle
import struct
from typing import Any

import pytest
from avro_tools import codec, column, datum, event, events, record
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.frames.bad_events import BadEventError

WIDE = record(
    column("id", "long"),
    column("s", ["null", "string"]),
    column("d", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}),
    column("l", {"type": "array", "items": ["null", "string"]}),
    column("n", {"type": "array", "items": "int"}),
    column("m", {"type": "map", "values": {"type": "array", "items": "double"}}),
    column("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
    column("b", "boolean"),
    column("r", ["null", {"type": "record", "name": "N", "fields": [column("x", "float"), column("y", "int")]}]),
)
VALUE = {
    "id": -1234567890123,
    "s": "text é",
    "d": b"\x01\x00\x00",
    "l": ["a", None, "bcd"],
    "n": list(range(-20, 20)),
    "m": {"k": [1.5, -2.5], "": []},
    "e": "B",
    "b": True,
    "r": {"x": 0.5, "y": 7},
}
PLAIN = WIDE.replace('"logicalType": "decimal", ', "")
GOOD = event(0, datum(PLAIN, VALUE))
CODEC = codec(WIDE)


def test_the_good_one_is_good() -> None:
    assert CODEC.decode(events(GOOD), ["id", "s"]).to_pylist() == [{"id": VALUE["id"], "s": VALUE["s"]}]


@given(st.integers(0, 4), st.integers(0, len(GOOD) - 1))
def test_a_truncated_event_is_the_one_that_is_named(before: int, size: int) -> None:
    with pytest.raises(BadEventError) as caught:
        CODEC.decode(events(*[GOOD] * before, GOOD[:size], GOOD), CODEC.schema.names)
    assert caught.value.index == before
    assert caught.value.encoding_id == (0 if size >= 5 else None)


@given(st.integers(0, 4), st.binary(min_size=1, max_size=20))
def test_bytes_behind_the_last_field_make_an_event_bad(before: int, more: bytes) -> None:
    with pytest.raises(BadEventError, match="behind its last field") as caught:
        CODEC.decode(events(*[GOOD] * before, GOOD + more, GOOD), ["id"])
    assert caught.value.index == before


@given(st.lists(st.tuples(st.integers(5, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_changed_bytes_are_another_event_or_a_named_error(changes: list[tuple[int, int]]) -> None:
    changed = bytearray(GOOD)
    for position, byte in changes:
        changed[position] = byte
    payloads = events(GOOD, bytes(changed), GOOD)
    try:
        batch = CODEC.decode(payloads, CODEC.schema.names)
    except BadEventError as error:
        bad_event = error.index, error.encoding_id
    else:
        bad_event = 1, 0
        batch.validate(full=True)
        alone = CODEC.decode(events(GOOD), CODEC.schema.names)
        assert batch.slice(0, 1).equals(alone), "its neighbours are untouched"
        assert batch.slice(2, 1).equals(alone), "its neighbours are untouched"
    assert bad_event == (1, 0)


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_arbitrary_bytes_raise_nothing_else(bodies: list[bytes]) -> None:
    try:
        CODEC.decode(events(*(event(0, body) for body in bodies)), CODEC.schema.names).validate(full=True)
    except BadEventError:
        pass


@given(st.lists(st.booleans(), max_size=12), st.data())
def test_it_is_the_first_bad_event_that_is_named(good: list[bool], data: st.DataObject) -> None:
    # Each fault shows in another column, and columns are decoded one after another.
    faults = [GOOD[:5], GOOD[:20], GOOD[:-3], GOOD + b"!", b"\x02" + GOOD, event(5, b"")]
    payloads = [GOOD if fine else data.draw(st.sampled_from(faults)) for fine in good]
    if all(good):
        CODEC.decode(events(*payloads), CODEC.schema.names)
        return
    with pytest.raises(BadEventError) as caught:
        CODEC.decode(events(*payloads), CODEC.schema.names)
    assert caught.value.index == good.index(False)


def zigzag(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        ("int", zigzag(2**31), "out of the range"),
        ("long", b"\xff" * 9 + b"\x02", "more than 64 bits"),
        ("long", b"\xff" * 20, "more than 64 bits"),
        ("long", b"\x80", "ends within a number"),
        ("boolean", b"\x02", "neither 0 nor 1"),
        ("string", zigzag(-1), "longer than the rest"),
        ("string", zigzag(2**62) + b"abc", "longer than the rest"),
        ("string", zigzag(-(2**63)) + b"abc", "longer than the rest"),
        ("string", zigzag(2) + b"\xc3\x28", "UTF-8"),
        (["null", "int"], zigzag(2), "no branch"),
        (["null", "int"], zigzag(-1), "no branch"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, zigzag(1), "isn't one of"),
        ({"type": "array", "items": "int"}, zigzag(2**40), "more items"),
        ({"type": "array", "items": "int"}, zigzag(40) + b"\0" * 30, "more items"),
        ({"type": "array", "items": "int"}, zigzag(20) + b"\x80" * 30, "more items"),
        ({"type": "array", "items": "string"}, zigzag(20) + b"\2a" * 9 + zigzag(99) + b"a" * 9, "longer than the rest"),
        ({"type": "array", "items": "string"}, zigzag(20) + zigzag(-3) * 30, "negative"),
        ({"type": "array", "items": "string"}, zigzag(9) + b"\0" * 8 + b"\x80", "longer than the rest"),
        ({"type": "array", "items": ["null", "int"]}, zigzag(10) + zigzag(2) * 30, "no branch"),
        ({"type": "map", "values": "string"}, zigzag(10) + b"\2k" * 14, "longer than the rest"),
        ({"type": "array", "items": "double"}, zigzag(-(2**63)) + b"\0", "more items"),
        (
            {"type": "array", "items": {"type": "record", "name": "Z", "fields": []}},
            zigzag(2**50) + b"\0",
            "more items",
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, zigzag(0), "no digits"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            zigzag(2) + b"\x27\x10",
            "doesn't fit",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2},
            zigzag(17) + b"\x01" + b"\0" * 16,
            "doesn't fit",
        ),
        ({"type": "long", "logicalType": "timestamp-millis"}, zigzag(2**60), "out of the range"),
        ({"type": "int", "spark.type": "tinyint"}, zigzag(128), "out of the range"),
    ],
)
def test_what_is_wrong_is_said(kind: Any, body: bytes, reason: str) -> None:
    table_codec = codec(record(column("a", kind)))
    with pytest.raises(BadEventError, match=reason) as caught:
        table_codec.decode(events(event(0, body)), ["a"])
    assert caught.value.index == 0
    assert reason in caught.value.reason
    # What nobody wants is looked at as closely, apart from ranges, symbols and text.
    if reason not in ("UTF-8", "out of the range", "isn't one of", "no digits", "doesn't fit", "neither 0 nor 1"):
        unwanted = codec(record(column("b", "int", default=0)), record(column("a", kind)))
        with pytest.raises(BadEventError, match=reason):
            unwanted.decode(events(event(0, body)), ["b"])


@pytest.mark.parametrize("size", [2, 7, 8, 9, 15, 16, 17, 30])
@pytest.mark.parametrize("value", [0, 1, -1, 127, 128, -128, -129])
def test_decimals_may_have_more_bytes_than_they_need(size: int, value: int) -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}
    body = zigzag(size) + value.to_bytes(size, "big", signed=True)
    assert codec(record(column("a", kind))).decode(events(event(0, body)), ["a"]).to_pylist() == [{"a": value}]


def test_blocks_may_be_many_and_carry_their_size() -> None:
    strings = b"".join(zigzag(1) + letter for letter in (b"a", b"b"))
    body = zigzag(-2) + zigzag(len(strings)) + strings + zigzag(1) + zigzag(1) + b"c" + zigzag(0)
    table_codec = codec(record(column("a", {"type": "array", "items": "string"})))
    assert table_codec.decode(events(event(0, body), event(0, b"\0")), ["a"]).to_pylist() == [
        {"a": ["a", "b", "c"]},
        {"a": []},
    ]
    numbers = b"".join(zigzag(10**i) for i in range(12))
    body = zigzag(-12) + zigzag(len(numbers)) + numbers + zigzag(1) + zigzag(5) + zigzag(0)
    table_codec = codec(record(column("a", {"type": "array", "items": "long"})))
    assert table_codec.decode(events(event(0, body)), ["a"]).to_pylist() == [{"a": [*(10**i for i in range(12)), 5]}]


def test_an_event_without_a_header_is_bad_and_says_so() -> None:
    with pytest.raises(BadEventError, match="without the schema registry") as caught:
        CODEC.decode(events(GOOD, b"{}", GOOD), ["id"])
    assert (caught.value.index, caught.value.encoding_id) == (1, None)


def test_the_error_survives_the_way_back_from_an_executor() -> None:
    error = BadEventError("broken", index=3, encoding_id=4)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.index, again.encoding_id, again.reason) == (str(error), 3, 4, "broken")
    assert "event 3" in str(error)


def test_no_columns_no_look_at_the_events() -> None:
    batch = CODEC.decode(events(b"", b"\xff\xff", struct.pack(">i", 1)), [])
    assert (batch.num_rows, batch.num_columns) == (3, 0)
