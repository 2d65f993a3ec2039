"""Events in a segment's bytes, wherever the buffers end in which these come."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.client import Stream
from pyspark_pravega.client.events import EventBatch, event_batches
from pyspark_pravega.errors import EventDecodeError, WireError
from pyspark_pravega.frames.native_module import SWITCH

STREAM = Stream("scope", "stream")
START = 1000

payloads_ = st.lists(st.one_of(st.binary(max_size=30), st.integers(200, 900).map(bytes)), max_size=30)
sizes_ = st.lists(st.integers(1, 400), min_size=1, max_size=40)
"""Of buffers, over and over."""


def frames_of(payloads: list[bytes]) -> bytes:
    return b"".join(struct.pack(">ii", 0, len(payload)) + payload for payload in payloads)


def cut(data: bytes, sizes: list[int]) -> Iterator[memoryview]:
    at = number = 0
    while at < len(data):
        size = sizes[number % len(sizes)]
        # Memory of its own for each, as bytes are received.
        yield memoryview(bytearray(data[at : at + size]))
        at, number = at + size, number + 1


def found(data: bytes, sizes: list[int], *, native: bool, end: int | None = None) -> list[EventBatch]:
    with pytest.MonkeyPatch.context() as patch:
        if not native:
            patch.setenv(SWITCH, "0")
        return list(event_batches(cut(data, sizes), STREAM, 7, START, end=end))


@pytest.mark.parametrize("native", [True, False])
@given(payloads_, sizes_)
def test_events_come_whole_and_in_order(native: bool, payloads: list[bytes], sizes: list[int]) -> None:
    data = frames_of(payloads)
    batches = found(data, sizes, native=native, end=START + len(data))
    assert [event for batch in batches for event in batch.frames.events.to_pylist()] == payloads
    assert [event for batch in batches for event in batch.payloads.to_pylist()] == payloads
    expected, at = [], START
    for payload in payloads:
        expected.append(at)
        at += 8 + len(payload)
    assert [offset for batch in batches for offset in batch.offsets.to_pylist()] == expected
    assert [batch.start for batch in batches[1:]] == [batch.end for batch in batches[:-1]]
    assert not batches or batches[-1].end == START + len(data)


@pytest.mark.parametrize("native", [True, False])
@given(payloads_, st.integers(0, 400), sizes_)
def test_an_event_that_is_cut_is_none(native: bool, payloads: list[bytes], there: int, sizes: list[int]) -> None:
    whole = frames_of(payloads)
    data = whole + frames_of([bytes(400)])[: there + 7]
    batches = found(data, sizes, native=native)
    assert [event for batch in batches for event in batch.payloads.to_pylist()] == payloads
    with pytest.raises(WireError, match=f"holds {there + 7} bytes before offset {START + len(data)} that are"):
        found(data, sizes, native=native, end=START + len(data))


@pytest.mark.parametrize("native", [True, False])
@given(payloads_, st.sampled_from([(1, 5), (0, -1), (-1, -1)]), sizes_)
def test_what_is_no_event_is_said(native: bool, payloads: list[bytes], head: tuple[int, int], sizes: list[int]) -> None:
    data = frames_of(payloads) + struct.pack(">ii", *head) + b"more"
    with pytest.raises(EventDecodeError, match=f"type {head[0]}, length {head[1]}"):
        found(data, sizes, native=native)
