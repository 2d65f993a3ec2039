"""Routing keys to segments: the same as the reference hash, for any key."""

from __future__ import annotations

from itertools import pairwise

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.client import SegmentRange
from pyspark_pravega.client.routing import SEED, key_fractions, segment_indexes
from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.frames.native_module import SWITCH


def reference(key: str) -> float:
    h1, _ = mmh3.hash64(key.encode("utf-16-le"), SEED, x64arch=True, signed=False)
    return float((h1 >> 12) * 2.0**-52)


def fractions(keys: list[str | None], kind: pa.DataType | None = None) -> list[float]:
    """The same with the native module and without."""
    column = pa.array(keys, kind or pa.string())
    places = list(key_fractions(column))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SWITCH, "0")
        assert list(key_fractions(column)) == places
    return places


@pytest.mark.parametrize(
    ("key", "fraction"), [("", 0.24117842791623523), ("a", 0.9433912753816884), ("k1", 0.43630594707939774)]
)
def test_known_keys_lie_where_the_java_client_puts_them(key: str, fraction: float) -> None:
    assert fractions([key]) == [fraction]


def test_the_seed_is_the_java_hash_code_of_the_routers_name() -> None:
    code = 0
    for character in "EventRouter":
        code = (31 * code + ord(character)) % 2**32
    assert code == SEED


@given(st.lists(st.text()))
def test_any_keys_lie_where_the_reference_hash_puts_them(keys: list[str]) -> None:
    assert fractions(list(keys)) == [reference(key) for key in keys]


@given(st.lists(st.text(st.characters(max_codepoint=127)), min_size=1))
def test_keys_of_ascii_characters_lie_where_the_reference_hash_puts_them(keys: list[str]) -> None:
    assert fractions(list(keys)) == [reference(key) for key in keys]


@given(st.text(min_size=1, max_size=3), st.integers(0, 100))
def test_keys_of_any_length_lie_where_the_reference_hash_puts_them(text: str, times: int) -> None:
    assert fractions([text * times]) == [reference(text * times)]


def test_every_length_of_the_hash_s_tail_is_right() -> None:
    keys = ["0123456789abcdefghijklmnopqrstuvwxyz"[:length] for length in range(37)]
    assert fractions(list(keys)) == [reference(key) for key in keys]


@given(st.lists(st.none() | st.text(max_size=5)))
def test_a_null_counts_as_an_empty_key(keys: list[str | None]) -> None:
    assert fractions(keys) == [reference(key or "") for key in keys]


@given(st.lists(st.none() | st.text(max_size=8), max_size=20), st.integers(0, 20), st.integers(0, 20))
def test_a_slice_of_a_column_gives_the_slice_of_its_fractions(keys: list[str | None], start: int, length: int) -> None:
    part = pa.array(keys, pa.string()).slice(start, length)
    assert list(key_fractions(part)) == fractions(keys)[start : start + length]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_columns_without_rows_have_no_fractions(kind: pa.DataType) -> None:
    assert fractions([], kind) == []
    assert list(key_fractions(pa.array(["a", "b"], kind).slice(1, 0))) == []


def test_large_strings_are_keys_too() -> None:
    assert fractions(["a", "ü", "a"], pa.large_string()) == [reference(key) for key in ("a", "ü", "a")]


def ranges(*borders: float) -> list[SegmentRange]:
    return [SegmentRange(segment_id=i, min_key=low, max_key=high) for i, (low, high) in enumerate(pairwise(borders))]


def test_a_range_owns_its_lower_border_and_not_its_upper_one() -> None:
    below = float(np.nextafter(0.25, 0))
    indexes = segment_indexes(np.array([0.0, below, 0.25, 0.5, 1 - 2.0**-52]), ranges(0.0, 0.25, 0.5, 1.0))
    assert list(indexes) == [0, 0, 1, 2, 2]


def test_one_segment_takes_every_key() -> None:
    assert list(segment_indexes(np.array([0.0, 0.5, 1 - 2.0**-52]), ranges(0.0, 1.0))) == [0, 0, 0]


@given(
    st.lists(st.floats(0, 1, exclude_max=True)),
    st.sets(st.floats(0, 1, exclude_min=True, exclude_max=True), max_size=40),
)
def test_each_key_goes_to_the_one_range_that_holds_it(keys: list[float], borders: set[float]) -> None:
    owners = ranges(0.0, *sorted(borders), 1.0)
    for key, index in zip(keys, segment_indexes(np.array(keys, np.float64), owners), strict=True):
        assert owners[index].min_key <= key < owners[index].max_key


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("key", [b"\xf0", b"a\xc3", b"\xed\xa0\x80"])
def test_a_key_that_isn_t_utf8_is_refused(monkeypatch: pytest.MonkeyPatch, native: str, key: bytes) -> None:
    """Spark's STRING may hold such bytes, and Arrow takes them unseen."""
    monkeypatch.setenv(SWITCH, native)
    offsets = pa.py_buffer(np.array([0, 1, 1 + len(key)], np.int32))
    keys = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"k" + key)])
    with pytest.raises(EventEncodeError, match="a routing key isn't a text in UTF-8"):
        key_fractions(keys)
