"""JSON as others write it: whatever order, names and numbers the events before had, both codecs say the same."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import DecimalType, IntegerType, LongType, StringType, StructType
from test_native import answer, twins

from pyspark_pravega.frames.native_module import module
from pyspark_pravega.serde.encodings import header

pytestmark = pytest.mark.skipif(module() is None, reason="the native wheel isn't installed, or switched off")

INNER = StructType().add("n", LongType()).add("text", StringType())
TABLE = (
    StructType()
    .add("id", LongType())
    .add("few", IntegerType())
    .add("price", DecimalType(15, 2))
    .add("large", DecimalType(38, 6))
    .add("text", StringType())
    .add("inner", INNER)
)
SPELLINGS = """
    0 -0 7 -12 1.5 1.50 12.340 1.005 1e2 15E-1 01 1. .5 - +1 1.0.0 0.0000001 1.00000000000000000000
    999999999999999999 9223372036854775807 9223372036854775808 -9223372036854775808 12345678901234567890
    9999999999999.99 10000000000000.00 123456789012345678901234567890.5
"""
NUMBERS = st.sampled_from(SPELLINGS.split())
STRINGS = st.text(max_size=6).map(json.dumps)
ANY = st.one_of(NUMBERS, STRINGS, st.sampled_from(["null", "true", "[1, {}]", '{"a": {"b": []}}', '"12.5"']))
BLANK = st.sampled_from(["", "", "", " ", "\n\t"])


def spelled(name: str) -> st.SearchStrategy[str]:
    """A name, with an escape at times."""
    return st.sampled_from([json.dumps(name)] * 5 + [f'"\\u{ord(name[0]):04x}{name[1:]}"'])


def objects(fields: dict[str, st.SearchStrategy[str]]) -> st.SearchStrategy[str]:
    """Objects with some properties in any order, at times twice, and some that nobody knows."""
    others = dict.fromkeys(("a", "zz", "i", "identity", "x" * 300), ANY)
    names = st.lists(st.sampled_from([*fields, *fields, *others]), max_size=9)

    @st.composite
    def draw_one(draw: Any) -> str:
        parts = [
            "".join(draw(one) for one in (BLANK, spelled(name), BLANK)) + ":" + draw(BLANK) + draw(value) + draw(BLANK)
            for name in draw(names)
            for value in [{**others, **fields}[name]]
        ]
        return "{" + ",".join(parts) + "}"

    return draw_one()


EVENTS = objects(
    {
        "id": NUMBERS,
        "few": NUMBERS,
        "price": NUMBERS,
        "large": NUMBERS,
        "text": STRINGS,
        "inner": objects({"n": NUMBERS, "text": STRINGS}),
    }
)
IN_ORDER = st.integers(-(10**17), 10**17).map(
    lambda n: f'{{"id":{n},"few":{n % 1000},"price":{n % 10**9 / 100:.2f},"large":1.5,"text":"t","inner":{{"n":1}}}}'
)


@pytest.mark.parametrize("columns", [TABLE.names, ["price"], ["inner", "id"]])
@given(st.lists(st.one_of(IN_ORDER, IN_ORDER, EVENTS), max_size=12))
def test_events_of_any_order_are_read_alike(columns: list[str], events: list[str]) -> None:
    plain, native = twins("json", TABLE)
    good = []
    for event in events:
        one = header(7) + event.encode()
        expected = answer(plain, pa.array([one], pa.binary()), columns)
        assert answer(native, pa.array([one], pa.binary()), columns) == expected, event
        good += [one] if isinstance(expected, list) else []
    assert len(good) >= sum(event.startswith('{"id":') and event.endswith('{"n":1}}') for event in events)
    payloads = pa.array(good, pa.binary())
    assert answer(native, payloads, columns) == answer(plain, payloads, columns)
