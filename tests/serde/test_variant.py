"""VARIANT's binary form: what Spark's own Python code makes and reads is the oracle."""

from __future__ import annotations

import datetime
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import VariantVal

from pyspark_pravega.serde import variant
from pyspark_pravega.serde.json.read import parse
from pyspark_pravega.serde.one_by_one import UnfitError
from pyspark_pravega.serde.variant import MalformedVariantError, Names, to_json

numbers = st.one_of(
    st.integers(-(10**37), 10**37),
    st.integers(-300, 300),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(-(10**9), 10**9, allow_nan=False, places=3).map(float),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=80)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=40)),
    max_leaves=12,
)


def of_text(text: str) -> tuple[bytes, bytes]:
    return variant.of_json(parse(text.encode()))


@given(values)
def test_spark_reads_what_is_made(value: Any) -> None:
    text = json.dumps(value)
    value_bytes, metadata = of_text(text)
    expected = VariantVal.parseJson(text)
    assert VariantVal(value_bytes, metadata).toPython() == expected.toPython()
    assert json.loads(to_json(value_bytes, metadata)) == json.loads(to_json(expected.value, expected.metadata))


@given(values)
def test_what_is_read_is_what_was_made(value: Any) -> None:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items()}
        if isinstance(value, list):
            return [plain(one) for one in value]
        return value

    back = json.loads(to_json(*of_text(json.dumps(value))))
    assert back == plain(value)
    assert json.dumps(back, sort_keys=True, allow_nan=False).count("\x00") == 0


@pytest.mark.parametrize(
    ("text", "value", "back"),
    [
        ("0", b"\x0c\x00", "0"),
        ("-129", b"\x10\x7f\xff", "-129"),
        ("9223372036854775807", b"\x18" + b"\xff" * 7 + b"\x7f", "9223372036854775807"),
        ("9223372036854775808", b"\x28\x00" + (2**63).to_bytes(16, "little"), "9223372036854775808"),
        ("1.50", b"\x20\x02\x96\x00\x00\x00", "1.5"),
        ("1e3", b"\x1c\x00\x00\x00\x00\x00\x40\x8f\x40", "1000.0"),
        ("true", b"\x04", "true"),
        ('""', b"\x01", '""'),
        ("[]", b"\x03\x00\x00", "[]"),
        ("{}", b"\x02\x00\x00", "{}"),
        ('{"b":1,"a":2,"a":3}', b"\x02\x02\x01\x00\x02\x00\x04\x0c\x01\x0c\x03", '{"a":3,"b":1}'),
        (f'"{"x" * 64}"', b"\x40\x40\0\0\0" + b"x" * 64, f'"{"x" * 64}"'),
    ],
)
def test_bytes_by_hand(text: str, value: bytes, back: str) -> None:
    value_bytes, metadata = of_text(text)
    assert value_bytes == value
    assert to_json(value_bytes, metadata) == back
    assert VariantVal(value_bytes, metadata).toPython() == VariantVal.parseJson(text).toPython()


def test_names_are_in_the_order_of_java_s_strings() -> None:
    value_bytes, metadata = of_text('{"\U0001f600": 1, "\uff5e": 2}')
    # Java compares UTF-16: half of a surrogate pair comes before U+FF5E.
    assert to_json(value_bytes, metadata) == '{"\U0001f600":1,"\uff5e":2}'
    many = {f"k{i}": i for i in range(300)}
    assert json.loads(to_json(*of_text(json.dumps(many)))) == many


@pytest.mark.parametrize("text", ["1e400", "-1e999", '"\\ud800"', '{"\\udc00": 1}', f'["{"x" * 2**24}"]'])
def test_what_is_no_variant(text: str) -> None:
    with pytest.raises(UnfitError):
        of_text(text)


def test_types_that_json_has_not() -> None:
    out = bytearray()
    days = (datetime.date(2024, 2, 29) - datetime.date(1970, 1, 1)).days
    puts = [
        lambda out, _: variant.put_date(out, days),
        lambda out, _: variant.put_timestamp(out, 1_500_000, zoned=True),
        lambda out, _: variant.put_timestamp(out, -1_000_000, zoned=False),
        lambda out, _: variant.put_binary(out, b"\x00\xff"),
        lambda out, _: variant.put_float(out, 0.1),
        lambda out, _: variant.put_double(out, math.nan),
        lambda out, _: variant.put_double(out, -math.inf),
        lambda out, _: variant.put_decimal(out, -(10**37) - 1, 37),
        lambda out, _: variant.put_boolean(out, False),
    ]
    names = Names()
    variant.put_array(out, names, puts)
    assert json.loads(to_json(bytes(out), names.metadata())) == [
        *("2024-02-29", "1970-01-01 00:00:01.5+00:00", "1969-12-31 23:59:59", "AP8="),
        *(0.1, "NaN", "-Infinity", -1.0, False),
    ]
    assert "-1.0000000000000000000000000000000000001" in to_json(bytes(out), names.metadata())
    back = VariantVal(bytes(out), names.metadata()).toPython()
    assert back[0] == datetime.date(2024, 2, 29)
    assert back[3] == b"\x00\xff"


@given(st.binary(max_size=40), st.binary(max_size=20))
def test_any_bytes_are_json_or_refused(value: bytes, metadata: bytes) -> None:
    for names in (metadata, b"\x01\x01\x00\x01a"):
        try:
            json.loads(to_json(value, names))
        except MalformedVariantError:
            continue
