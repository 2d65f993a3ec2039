"""Stream events as they lie in a segment: `int32 0 | int32 length | payload`."""

import struct
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.errors import EventDecodeError, EventEncodeError
from pyspark_pravega.frames import framing
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.frames.native_module import SWITCH, module

payloads_ = st.one_of(
    st.lists(st.binary(max_size=40), max_size=60),
    # Runs of one size are found by another way than single events.
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 700)), max_size=4).map(
        lambda runs: [bytes([size]) * size for size, count in runs for _ in range(count)]
    ),
)


def in_python(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function says without the native module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SWITCH, "0")
        return function(*arguments)


def frames_of(payloads: list[bytes]) -> bytes:
    return b"".join(struct.pack(">ii", 0, len(payload)) + payload for payload in payloads)


@given(payloads_)
def test_joined_payloads_are_frames_and_split_gives_them_back(payloads: list[bytes]) -> None:
    joined = framing.join(pa.array(payloads, type=pa.binary()))
    assert joined.to_pybytes() == frames_of(payloads)
    frames = framing.split(joined)
    frames.payloads.validate(full=True)
    assert frames.payloads.to_pylist() == payloads
    assert frames.sizes.tolist() == [len(payload) for payload in payloads]
    assert frames.consumed == len(joined.to_pybytes())


@given(payloads_, st.integers(1, 5), st.data())
def test_frames_go_to_their_owners_in_their_order(payloads: list[bytes], count: int, data: st.DataObject) -> None:
    owners = data.draw(st.lists(st.integers(0, count - 1), min_size=len(payloads), max_size=len(payloads)))
    theirs = [[p for p, mine in zip(payloads, owners, strict=True) if mine == owner] for owner in range(count)]
    column, numbers = pa.array([b"before", *payloads], pa.binary()).slice(1), np.array(owners, np.uint32)
    for parts in framing.by_owner(column, numbers, count), in_python(framing.by_owner, column, numbers, count):
        assert [framing.frames_bytes(frames).to_pybytes() for frames in parts] == [frames_of(part) for part in theirs]
        for frames, part in zip(parts, theirs, strict=True):
            frames.validate(full=True)
            assert frames.to_pylist() == [frames_of([payload]) for payload in part]
            behind = frames.slice(len(frames) // 2)
            assert framing.frames_bytes(behind).to_pybytes() == frames_of(part[len(part) // 2 :])
            ends = np.cumsum([len(payload) + framing.HEADER_SIZE for payload in part[len(part) // 2 :]])
            assert framing.frame_ends(behind).tolist() == ends.tolist()


@given(payloads_, st.data())
def test_an_event_cut_off_by_the_buffers_end_is_left_for_the_next(payloads: list[bytes], data: st.DataObject) -> None:
    whole = frames_of(payloads)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    results: list[bytes] = []
    rest = b""
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        buffer = rest + whole[start:end]
        frames = framing.split(buffer)
        results += frames.payloads.to_pylist()
        rest = buffer[frames.consumed :]
    assert results == payloads
    assert rest == b""


@given(payloads_, st.integers(0, 100))
def test_the_limit_counts_events(payloads: list[bytes], limit: int) -> None:
    frames = framing.split(frames_of(payloads), limit=limit)
    assert frames.payloads.to_pylist() == payloads[:limit]
    assert frames.consumed == len(frames_of(payloads[:limit]))


def test_starts_are_where_the_headers_are() -> None:
    buffer = frames_of([b"abc", b"", b"de"])
    assert framing.split(buffer).starts.tolist() == [0, 11, 19]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, pa.py_buffer])
def test_any_buffer_will_do(kind: type) -> None:
    assert framing.split(kind(frames_of([b"a", b"bc"]))).payloads.to_pylist() == [b"a", b"bc"]


@pytest.mark.parametrize("before", [0, 1, 15, 16, 40, 5000])
@pytest.mark.parametrize(
    "junk",
    [
        struct.pack(">ii", 1, 3) + b"abc",
        struct.pack(">ii", -1, 3) + b"abc",
        struct.pack(">ii", 0, -1) + b"abc",
        b"\xff" * 8,
    ],
)
def test_what_is_no_event_is_named_by_how_many_precede_it(before: int, junk: bytes) -> None:
    with pytest.raises(BadEventError, match="no event at byte") as caught:
        framing.split(frames_of([b"x" * (i % 3) for i in range(before)]) + junk)
    assert caught.value.index == before
    assert isinstance(caught.value, EventDecodeError)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_events_or_a_decode_error(buffer: bytes) -> None:
    try:
        frames = framing.split(buffer)
    except BadEventError:
        return
    assert frames_of(frames.payloads.to_pylist()) == buffer[: frames.consumed]


def split_into(split: Callable[[npt.NDArray[np.uint8], int], framing.Frames], data: bytes, limit: int) -> object:
    return outcome(partial(split, np.frombuffer(data, np.uint8), limit))


def outcome(split: Callable[[], framing.Frames]) -> object:
    try:
        frames = split()
    except BadEventError as error:
        return str(error), error.index
    frames.payloads.validate(full=True)
    return frames.payloads.to_pylist(), frames.starts.tolist(), frames.sizes.tolist(), frames.consumed


@pytest.mark.skipif(module() is None, reason="the native wheel isn't installed, or switched off")
@given(st.lists(st.binary(max_size=6)), st.binary(max_size=30), st.integers(0, 300), st.integers(0, 40))
def test_events_are_found_natively_as_they_are_by_the_plain_way(
    payloads: list[bytes], junk: bytes, same: int, limit: int
) -> None:
    data = frames_of([*payloads, *[b"same"] * same]) + junk
    native = module()
    assert native is not None
    for most in (limit, len(data)):
        natively = partial(framing._split_natively, native, np.empty(0, np.uint8))
        assert split_into(natively, data, most) == split_into(framing._split_in_python, data, most)


@given(st.lists(st.binary(max_size=30), min_size=1), st.binary(max_size=9), st.integers(0, 40))
def test_an_event_that_began_in_another_buffer_comes_first(payloads: list[bytes], junk: bytes, limit: int) -> None:
    whole = frames_of(payloads) + junk
    first = whole[: 8 + len(payloads[0])]
    for most in (limit, None):
        apart = partial(framing.split, whole[len(first) :], first=first, limit=most)
        expected = outcome(partial(framing.split, whole, limit=most))
        assert outcome(apart) == outcome(partial(in_python, apart)) == expected


@given(st.lists(st.binary(max_size=30)), st.integers(0, 5))
def test_views_are_what_their_copies_are(payloads: list[bytes], skipped: int) -> None:
    payloads = [b"\x01" + payload for payload in payloads[::2]] + payloads[1::2]
    frames = framing.split(frames_of(payloads))
    events = frames.events.slice(skipped)
    events.validate(full=True)
    assert events.to_pylist() == framing.compact(events).to_pylist() == payloads[skipped:]
    assert in_python(framing.compact, events) == framing.compact(events)
    assert framing.encoding_ids(events) == in_python(framing.encoding_ids, events)
    assert framing.compact(frames.payloads) is frames.payloads


def test_frames_that_let_go_keep_nothing_of_what_was_received() -> None:
    received = np.frombuffer(bytearray(framing.join(pa.array([b"long" * 25] * 100, pa.binary()))), np.uint8)
    is_there = weakref.ref(received)
    frames = framing.split(received.data)
    del received
    # Only views need it longer: the plain codec copies at once.
    assert (is_there() is not None) == (frames.events.type == pa.binary_view())
    frames.let_go()
    assert is_there() is None
    assert frames.sizes.tolist() == [100] * 100


def test_an_event_of_any_size_is_found() -> None:
    large = bytes(20 << 20)
    frames = framing.split(frames_of([b"a", large, b"b"]))
    assert [len(payload) for payload in frames.payloads.to_pylist()] == [1, 20 << 20, 1]


def test_slices_and_large_arrays_are_framed_like_others() -> None:
    payloads = pa.array([b"a", b"bc", b"", b"def"], type=pa.large_binary()).slice(1, 3)
    assert framing.join(payloads).to_pybytes() == frames_of([b"bc", b"", b"def"])


def test_an_event_larger_than_pravega_takes_is_refused() -> None:
    with pytest.raises(EventEncodeError, match=r"row 1 .* 8,388,609 bytes"):
        framing.join(pa.array([b"a", bytes(framing.MAX_WRITE_SIZE + 1)]))
    framing.join(pa.array([bytes(framing.MAX_WRITE_SIZE)]))


@given(st.lists(st.one_of(st.binary(max_size=8), st.binary(min_size=4, max_size=6).map(lambda b: b"\x01" + b))))
def test_encoding_ids_are_what_follows_a_one(payloads: list[bytes]) -> None:
    expected = [
        struct.unpack(">i", payload[1:5])[0] if len(payload) >= 5 and payload[0] == 1 else None for payload in payloads
    ]
    assert framing.encoding_ids(pa.array(payloads, type=pa.binary())).to_pylist() == expected
