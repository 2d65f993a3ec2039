"""Spark's rows as bytes become the columns that they were made of; real ones: tests/spark/test_packed_rows.py."""

from __future__ import annotations

import struct
from decimal import Context
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    VariantType,
    YearMonthIntervalType,
)
from random_tables import decimals, rows_of, scalars, structs, values
from since import is_missing
from unsafe_layout import as_bits, packed, taken_apart

from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.frames.native_module import SWITCH, module
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.types import TimeType
from pyspark_pravega.spark.unsafe_rows import can_unpack, unpack

MANY = settings(max_examples=max(300, settings().max_examples))
BOTH = [pytest.param("1", marks=pytest.mark.skipif(module() is None, reason="the native wheel isn't installed")), "0"]

TIMES = [] if is_missing("4.1") else [TimeType(6)]
leaves = st.one_of(scalars, decimals, st.sampled_from([DayTimeIntervalType(), *TIMES, VariantType()]))
keys = st.sampled_from([StringType(), LongType(), BinaryType(), DecimalType(30, 2), DecimalType(9, 2)])
kinds: st.SearchStrategy[DataType] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(ArrayType, inner, st.booleans()),
        st.builds(MapType, keys, inner, st.booleans()),
        structs(inner),
    ),
    max_leaves=6,
)
TEXTS = StructType([StructField("s", StringType())])


@pytest.mark.parametrize("native", BOTH)
@MANY
@given(data=st.data())
def test_rows_come_back_as_they_were(native: str, data: st.DataObject) -> None:
    schema = data.draw(structs(kinds))
    rows = data.draw(st.lists(values(schema, False), min_size=1, max_size=12))
    assert can_unpack(schema)
    batch = taken_apart(packed(rows, schema), schema, native)
    batch.validate(full=True)
    assert batch.equals(rows_of(to_arrow_schema(schema, timezone="UTC"), rows))


@pytest.mark.skipif(module() is None, reason="the native wheel isn't installed, or switched off")
@settings(max_examples=max(600, settings().max_examples))
@given(data=st.data())
@pytest.mark.in_turn
def test_broken_rows_are_refused_by_both_or_taken_for_the_same(data: st.DataObject) -> None:
    schema = data.draw(structs(kinds))
    pack = packed(data.draw(st.lists(values(schema, False), min_size=1, max_size=4)), schema)
    broken, sizes = bytearray(pack[0][0].as_py()), bytearray(pack[1][0].as_py())
    words = st.one_of(st.integers(0, 40), st.integers(0, 2**64 - 1), st.integers(0, 80).map(lambda n: n << 32 | n))
    for _ in range(data.draw(st.integers(1, 3))):
        struct.pack_into("<Q", broken, data.draw(st.integers(0, len(broken) // 8 - 1)) * 8, data.draw(words))
    if data.draw(st.integers(0, 9)) == 0:
        struct.pack_into("<i", sizes, 0, data.draw(st.sampled_from([0, 8, 12, -8, len(broken) + 8, 2**31 - 1])))
    pack = pa.record_batch([pa.array([bytes(broken)]), pa.array([bytes(sizes)])], names=["rows", "sizes"])
    answers: list[pa.RecordBatch | None] = []
    for native, refusal in (("1", ValueError), ("0", EventEncodeError)):
        try:
            answers.append(taken_apart(pack, schema, native))
        except refusal:
            answers.append(None)
    assert [answer is None for answer in answers] in ([True, True], [False, False]), answers
    if answers[0] is not None and answers[1] is not None:
        for one, other in zip(answers[0].columns, answers[1].columns, strict=True):
            assert as_bits(one).equals(as_bits(other))


@pytest.mark.parametrize("native", BOTH)
@pytest.mark.parametrize("count", [63, 64, 65, 130])
def test_null_bits_of_more_than_a_word_has(native: str, count: int) -> None:
    inner = StructType([StructField(f"c{number}", IntegerType()) for number in range(count)])
    schema = StructType([*inner.fields, StructField("s", inner), StructField("a", ArrayType(IntegerType()))])
    rows = []
    for row in range(7):
        ints = [None if (row + column) % 3 == 0 else row * column for column in range(count)]
        flat = dict(zip(inner.names, ints, strict=True))
        rows.append({**flat, "s": None if row == 3 else flat, "a": None if row == 4 else ints})
    batch = taken_apart(packed(rows, schema), schema, native)
    assert batch.to_pylist() == rows


@pytest.mark.parametrize("native", BOTH)
@pytest.mark.parametrize("precision", range(1, 39))
def test_decimals_of_each_precision(native: str, precision: int) -> None:
    kind = DecimalType(precision, precision // 2)
    schema = StructType([StructField("d", kind), StructField("a", ArrayType(kind))])
    arrow = to_arrow_schema(schema, timezone="UTC")
    top = 10**precision - 1
    numbers = pa.array([top, -top, 0, 1, -1, -(top // 2), None], pa.decimal256(60, 0))
    scaled = [None if one is None else one.scaleb(-kind.scale, Context(prec=60)) for one in numbers.to_pylist()]
    rows: list[dict[str, Any]] = [{"d": one, "a": scaled[number:]} for number, one in enumerate(scaled)]
    assert taken_apart(packed(rows, schema), schema, native).equals(rows_of(arrow, rows))


@pytest.mark.parametrize("native", BOTH)
def test_texts_of_each_size(native: str) -> None:
    rows = [{"s": "ü€x"[size % 3] * (size // 2) + "a" * (size % 2)} for size in (*range(100), 70_000)]
    assert taken_apart(packed(rows, TEXTS), TEXTS, native).to_pylist() == rows


@pytest.mark.parametrize("native", BOTH)
def test_what_lies_behind_the_rows_is_nothing(native: str) -> None:
    """A pack that is about full is handed over with the room that it has."""
    rows, sizes = packed([{"s": "a"}, {"s": "b" * 13}], TEXTS).columns
    pack = pa.record_batch([pa.array([rows[0].as_py() + b"\xff" * 21]), sizes], names=["rows", "sizes"])
    assert taken_apart(pack, TEXTS, native).to_pylist() == [{"s": "a"}, {"s": "b" * 13}]


def test_batches_of_several_packs_and_of_none() -> None:
    one = packed([{"s": "a"}, {"s": "b" * 13}], TEXTS)
    columns = [batch.column("s").to_pylist() for batch in unpack(iter([one, packed([], TEXTS), one]), TEXTS)]
    assert columns == [["a", "b" * 13]] * 2


@pytest.mark.parametrize("native", BOTH)
@pytest.mark.parametrize("text", [[b"\xff"], [b"a" * 30 + b"\xc3"], ["ü".encode()[:1], "ü".encode()[1:]]])
def test_a_text_that_isn_t_utf8_is_refused(monkeypatch: pytest.MonkeyPatch, native: str, text: list[bytes]) -> None:
    monkeypatch.setenv(SWITCH, native)
    with pytest.raises(EventEncodeError, match=r'column "s" holds a text that isn\'t UTF-8: make_valid_utf8'):
        list(unpack(iter([packed([{"s": one} for one in text], TEXTS)]), TEXTS))


@pytest.mark.parametrize("native", BOTH)
def test_a_row_that_is_no_row_is_refused(monkeypatch: pytest.MonkeyPatch, native: str) -> None:
    monkeypatch.setenv(SWITCH, native)
    pack = packed([{"s": "a"}], TEXTS)
    outside = struct.pack("<qqq", 0, 16 << 32 | 9, 0)
    pack = pa.record_batch([pa.array([outside]), pack.column(1)], names=["rows", "sizes"])
    with pytest.raises(EventEncodeError, match=r'column "s": a value doesn\'t lie within its row'):
        list(unpack(iter([pack]), TEXTS))


def test_what_no_table_has_goes_spark_s_own_way() -> None:
    for kind in (NullType(), YearMonthIntervalType(), ArrayType(NullType()), MapType(StringType(), StructType([]))):
        assert not can_unpack(StructType([StructField("a", kind)])), kind
    assert not can_unpack(StructType([]))
