"""Stream cuts: as values and texts, and on a real cluster over scales, truncation and the end of a stream."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from client_tools import append, content, framed, make_stream
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.client import Client, Stream, TransactionState
from pyspark_pravega.client.names import segment_id_of
from pyspark_pravega.client.positions.cuts import CutOrder, check_cut, compare_cuts, tail_cut, truncate_stream
from pyspark_pravega.client.segments.writing import SegmentWriter
from pyspark_pravega.client.stream_cut import NOT_REACHED, UNBOUNDED, StreamCut
from pyspark_pravega.errors import (
    ConfigurationError,
    InvalidStreamCutError,
    SegmentTruncatedError,
    StreamNotFoundError,
    StreamSealedError,
)

server = pytest.mark.server
T = Stream("shop", "orders")
EVENT = framed(b"event")

parts = st.integers(0, 2**31 - 1)
segment_ids = st.builds(lambda epoch, number: segment_id_of(epoch=epoch, number=number), parts, parts)
offset_maps = st.dictionaries(segment_ids, st.integers(NOT_REACHED, 2**63 - 1), min_size=1, max_size=20)
names = st.text("abcXYZ019.-", min_size=1, max_size=12)
cuts = st.builds(StreamCut, st.builds(Stream, names, names), offset_maps)


# Values


@given(offset_maps)
def test_a_cut_is_a_mapping_in_the_order_of_its_segments(offsets: dict[int, int]) -> None:
    cut = StreamCut(T, offsets)
    assert list(cut) == sorted(offsets)
    assert dict(cut) == offsets
    assert cut == offsets
    assert cut == StreamCut(T, dict(reversed(list(offsets.items()))))
    assert hash(cut) == hash(StreamCut(T, dict(reversed(list(offsets.items())))))
    assert cut != StreamCut(Stream("shop", "other"), offsets)
    assert pickle.loads(pickle.dumps(cut)) == cut
    assert cut.epochs == tuple(sorted({segment_id >> 32 for segment_id in offsets}))


def test_a_cut_does_not_change() -> None:
    offsets = {0: 1}
    cut = StreamCut(T, offsets)
    offsets[0] = 2
    assert cut == {0: 1}
    changes: list[Callable[[Any], Any]] = [
        lambda c: setattr(c, "stream", Stream("s", "t")),
        lambda c: setattr(c, "other", 1),
        lambda c: c.__setitem__(0, 5),
        lambda c: c.update({0: 5}),
    ]
    for change in changes:
        with pytest.raises((AttributeError, TypeError)):
            change(cut)
    assert repr(cut) == "StreamCut('shop/orders', {0: 1})"
    assert cut != "shop/orders"


@pytest.mark.parametrize(
    ("offsets", "why"),
    [
        ({}, 'a cut of stream "shop/orders" needs at least one segment'),
        ({-1: 0}, "names segment -1, which can't be"),
        ({1 << 63: 0}, "which can't be"),
        ({1 << 31: 0}, "which can't be"),
        ({0: -2}, "has offset -2 in segment 0"),
        ({0: 2**63}, "has offset 9223372036854775808"),
    ],
)
def test_what_can_not_cut_any_stream_is_no_cut(offsets: dict[int, int], why: str) -> None:
    with pytest.raises(InvalidStreamCutError, match=why):
        StreamCut(T, offsets)


# Texts


@given(cuts)
def test_a_cut_survives_its_texts(cut: StreamCut) -> None:
    assert StreamCut.from_text(cut.to_text()) == cut
    assert StreamCut.from_json(cut.stream, cut.to_json()) == cut
    assert cut.to_text() == StreamCut(cut.stream, dict(reversed(list(cut.items())))).to_text()
    assert json.loads(cut.to_json()) == {str(segment_id): offset for segment_id, offset in cut.items()}


def test_a_cut_s_json_is_short_and_ordered() -> None:
    assert StreamCut(T, {1 << 32: 0, 2: 33}).to_json() == '{"2":33,"4294967296":0}'


def test_unbounded_is_a_word_of_its_own() -> None:
    assert StreamCut.from_text("UNBOUNDED") is UNBOUNDED
    assert pickle.loads(pickle.dumps(UNBOUNDED)) is UNBOUNDED


def packed(plain: str | bytes) -> str:
    data = plain.encode() if isinstance(plain, str) else plain
    return base64.b64encode(gzip.compress(data, mtime=0)).decode()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "its gzip is cut short"),
        ("unbounded!", 'it must be base64, or "UNBOUNDED"'),
        ("ü", "it must be base64"),
        ("AAAA", "its base64 holds no gzip"),
        (packed("0:s/t:0:0:0")[:20], "its gzip is cut short"),
        (base64.b64encode(gzip.compress(b"0:s/t:0:0:0", mtime=0) + b"x").decode(), "1 bytes follow its gzip"),
        (packed(b"\0" * (65 << 20)), "its gzip holds more than 64 MiB"),
        (packed("0:s/t:0:0"), "it has 4 parts instead of"),
        (packed("0:s/t:0:0:0:0"), "it has 6 parts instead of"),
        (packed(""), "it has 1 parts instead of"),
        (packed("1:s/t:0:0:0"), 'its version is "1", only 0 is known'),
        (packed("0:st:0:0:0"), '"st" is no stream'),
        (packed("0:s/t/u:0:0:0"), '"s/t/u" is no stream'),
        (packed("0:s/ü:0:0:0"), "is no stream"),
        (packed("0:s/t:::"), "it names no segment of stream s/t; the Java client makes such a tail"),
        (packed("0:s/t:0:0:"), '"" is no number'),
        (packed("0:s/t:0:0:1.5"), '"1.5" is no number'),
        (packed("0:s/t:٣:0:1"), "is no number"),
        (packed("0:s/t:0:0:" + "9" * 20), "is no number"),
        (packed("0:s/t:0:0:" + "9" * 19), "has offset 9999999999999999999"),
        (packed("0:s/t:0,1:0,0:5"), "it has 2 segment numbers, 2 epochs and 1 offsets"),
        (packed("0:s/t:0,0:1,1:5,6"), "a segment is named twice"),
        (packed("0:s/t:-1:0:5"), "there can be no segment -1 of epoch 0"),
        (packed("0:s/t:0:2147483648:5"), "there can be no segment 0 of epoch 2147483648"),
        (packed("0:s/t:0:0:-2"), "has offset -2"),
        (packed(b"0:s/t:0:0:\xff"), "is no number"),
    ],
)
def test_a_text_that_is_no_cut_is_told_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as refused:
        StreamCut.from_text(text)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it isn't JSON"),
        ("{", "it isn't JSON"),
        ("[" * 100_000, "it isn't JSON"),
        ("[]", "it must be an object"),
        ("12", "it must be an object"),
        ("{}", "needs at least one segment"),
        ('{"a":1}', '"a" is no segment id'),
        ('{"01":1}', '"01" is no segment id'),
        ('{"-1":1}', '"-1" is no segment id'),
        ('{"٣":1}', "is no segment id"),
        ('{"' + "9" * 5000 + '":1}', "is no segment id"),
        ('{"0":1,"0":1}', "a segment is named twice"),
        ('{"0":true}', "the offset of segment 0 must be a whole number"),
        ('{"0":1.0}', "the offset of segment 0 must be a whole number"),
        ('{"0":"1"}', "the offset of segment 0 must be a whole number"),
        ('{"0":NaN}', "the offset of segment 0 must be a whole number"),
        ('{"0":-2}', "has offset -2"),
        ('{"0":' + "9" * 30 + "}", "has offset 9"),
        ('{"0":' + "9" * 5000 + "}", "it isn't JSON"),
        ('{"2147483648":0}', "which can't be"),
    ],
)
def test_json_that_is_no_cut_is_told_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as refused:
        StreamCut.from_json(T, text)
    assert 'no cut of stream "shop/orders"' in str(refused.value)


@given(st.binary(max_size=60), st.booleans())
def test_no_bytes_break_the_reader_of_texts(data: bytes, pack: bool) -> None:
    text = packed(data) if pack else base64.b64encode(data).decode()
    with pytest.raises(ConfigurationError):
        StreamCut.from_text(text)


# Heads and tails


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "t", segments=2)


@server
def test_the_tail_follows_the_events_over_scales_to_the_end_of_the_stream(client: Client, stream: Stream) -> None:
    controller, pool = client.controller, client.pool
    assert tail_cut(pool, stream) == controller.head(stream) == StreamCut(stream, {0: 0, 1: 0})
    append(client, stream, 1, EVENT, EVENT)
    assert tail_cut(pool, stream) == {0: 0, 1: 2 * len(EVENT)}
    a, b = controller.split_segment(stream, 1).ids[1:]
    append(client, stream, b, EVENT)
    tail = tail_cut(pool, stream)
    assert tail == {0: 0, a: 0, b: len(EVENT)}
    check_cut(pool, tail)
    controller.seal_stream(stream)
    assert tail_cut(pool, stream) == tail
    check_cut(pool, tail)
    assert controller.head(stream) == {0: 0, 1: 0}
    check_cut(pool, controller.head(stream))
    assert controller.segments_between(stream, tail) == (0, a, b)
    controller.delete_stream(stream)
    for call in (lambda: tail_cut(pool, stream), lambda: check_cut(pool, tail)):
        with pytest.raises(StreamNotFoundError, match=f'stream "{stream}" does not exist'):
            call()


@server
def test_the_tail_is_taken_whole_while_the_stream_is_scaled(client: Client, stream: Stream) -> None:
    with ThreadPoolExecutor(1) as threads:
        scales = threads.submit(lambda: [client.controller.scale_to(stream, n) for n in (3, 2, 5, 1)])
        cuts = [tail_cut(client.pool, stream)]
        while not scales.done():
            cuts.append(tail_cut(client.pool, stream))
        scales.result()
    for cut in set(cuts):
        check_cut(client.pool, cut)
    assert len({cut.epochs for cut in cuts}) > 1


@server
def test_a_transaction_committed_over_a_scale_moves_the_tail_two_epochs_on(client: Client, stream: Stream) -> None:
    controller = client.controller
    transaction = controller.begin_transaction(stream, lease_ms=60_000)
    for segment_id in transaction.segments.ids:
        writer = SegmentWriter(client.pool, stream, segment_id, segment=transaction.segment_name(segment_id))
        writer.append(EVENT, 1)
        writer.flush()
        writer.close()
    before = tail_cut(client.pool, controller.split_segment(stream, 1).stream)
    controller.commit_transaction(stream, transaction.id)
    while controller.transaction_state(stream, transaction.id) is not TransactionState.COMMITTED:
        pass
    after = tail_cut(client.pool, stream)
    check_cut(client.pool, before)
    check_cut(client.pool, after)
    assert (max(before.epochs), max(after.epochs)) == (1, 3)
    assert compare_cuts(controller, before, after) is CutOrder.BEFORE
    # The events are in segments of the epoch in between, as many as there were when the transaction began.
    assert [len(controller.epoch_segments(stream, epoch).ids) for epoch in range(4)] == [2, 3, 2, 3]
    between = set(controller.segments_between(stream, before, after)) - set(before) - set(after)
    assert between == set(controller.epoch_segments(stream, 2).ids)
    assert sum(len(content(client.pool, stream, segment_id)) for segment_id in between) == 2 * len(EVENT)


# Checks


@server
def test_a_cut_that_does_not_fit_its_stream_is_told_what_is_wrong(client: Client, stream: Stream) -> None:
    controller = client.controller
    append(client, stream, 0, EVENT)
    append(client, stream, 1, EVENT)
    a, b = controller.split_segment(stream, 1).ids[1:]
    sound: list[dict[int, int]] = [
        {0: 0, 1: 0},
        {0: len(EVENT), 1: len(EVENT)},
        {0: 3, a: 0, b: 0},
        # Read up to somewhere in one half, and to nowhere in its successors.
        {0: 0, 1: 5, a: NOT_REACHED, b: NOT_REACHED},
        {0: 0, a: 0, b: NOT_REACHED},
        {0: 0, 1: NOT_REACHED},
    ]
    for offsets in sound:
        check_cut(client.pool, StreamCut(stream, offsets))
        assert controller.is_stream_cut_valid(stream, offsets)
    unsound: list[tuple[dict[int, int], str]] = [
        ({0: 0}, "no segment owns keys from 0.5 to 1"),
        ({1: 0}, "no segment owns keys from 0 to 0.5"),
        ({0: 0, b: 0}, "no segment owns keys from 0.5 to 0.75"),
        ({0: 0, 1: 0, a: 0, b: 0}, f"segments 1 and {a} both own keys from 0.5"),
        ({0: 0, 1: 0, 2: 0}, f'stream "{stream}" has no segment 2'),
        ({0: 0, 9 << 32: 0}, f'stream "{stream}" has no epoch 9'),
        ({0: 0, 1: NOT_REACHED, a: 0, b: 0}, "nobody can have read just up to it"),
    ]
    for offsets, why in unsound:
        with pytest.raises(InvalidStreamCutError, match=why):
            check_cut(client.pool, StreamCut(stream, offsets))
        assert not controller.is_stream_cut_valid(stream, offsets)
    # What the controller doesn't see.
    beyond = {0: 0, a: 1, b: 0}
    assert controller.is_stream_cut_valid(stream, beyond)
    with pytest.raises(InvalidStreamCutError, match=f'offset 1 of segment "{stream.segment_name(a)}" lies beyond its'):
        check_cut(client.pool, StreamCut(stream, beyond))


@server
def test_cuts_are_compared_wherever_their_epochs_are(client: Client, stream: Stream) -> None:
    controller = client.controller
    a, b = controller.split_segment(stream, 1).ids[1:]
    (c,) = controller.merge_segments(stream, [0, a]).ids[:1]

    def order(one: dict[int, int], other: dict[int, int]) -> CutOrder:
        return compare_cuts(controller, StreamCut(stream, one), StreamCut(stream, other))

    assert order({0: 5, 1: 5}, {0: 5, 1: 5}) is CutOrder.SAME
    assert order({0: 5, 1: 5}, {0: 5, 1: 6}) is CutOrder.BEFORE
    assert order({0: 5, 1: 5}, {0: 4, 1: 5}) is CutOrder.AFTER
    assert order({0: 5, 1: 5}, {0: 4, 1: 6}) is CutOrder.MIXED
    assert order({0: 5, 1: 5}, {0: 5, a: 0, b: 0}) is CutOrder.BEFORE
    assert order({0: 5, a: 0, b: 0}, {0: 5, 1: 99}) is CutOrder.AFTER
    assert order({0: 5, 1: 5}, {0: 4, a: 0, b: 0}) is CutOrder.MIXED
    assert order({0: 5, 1: 5}, {c: 0, b: 0}) is CutOrder.BEFORE
    assert order({c: 0, b: 3}, {0: 9, a: 9, b: 9}) is CutOrder.MIXED
    assert order({c: 0, b: 9}, {0: 9, a: 9, b: 9}) is CutOrder.AFTER
    assert order({0: 5, 1: 5}, {0: 5, 1: 5, a: NOT_REACHED, b: NOT_REACHED}) is not CutOrder.AFTER
    with pytest.raises(InvalidStreamCutError, match=f'stream "{stream}" has no segment 77'):
        order({0: 5, 1: 5}, {77: 5})
    with pytest.raises(InvalidStreamCutError, match="can't be compared"):
        compare_cuts(controller, StreamCut(stream, {0: 0}), StreamCut(Stream("s", "t"), {0: 0}))


# Truncation


@server
def test_a_stream_is_truncated_at_a_cut_in_an_older_epoch_then_in_a_newer_one(client: Client, stream: Stream) -> None:
    controller, pool = client.controller, client.pool
    for segment_id in (0, 1):
        append(client, stream, segment_id, EVENT, EVENT)
    a, b = controller.split_segment(stream, 1).ids[1:]
    append(client, stream, b, EVENT)
    start = controller.head(stream)
    older = StreamCut(stream, {0: 0, 1: len(EVENT)})
    truncate_stream(pool, older)
    assert controller.head(stream) == older
    assert content(pool, stream, 1) == EVENT
    for gone in (start, StreamCut(stream, {0: 0, 1: 0, a: NOT_REACHED, b: NOT_REACHED})):
        with pytest.raises(SegmentTruncatedError, match="was truncated away: it begins at 13"):
            check_cut(pool, gone)
    newer = StreamCut(stream, {0: 2 * len(EVENT), a: 0, b: len(EVENT)})
    truncate_stream(pool, newer)
    assert controller.head(stream) == newer == tail_cut(pool, stream)
    with pytest.raises(SegmentTruncatedError, match="was truncated away: it is gone"):
        truncate_stream(pool, StreamCut(stream, {0: 2 * len(EVENT), 1: 2 * len(EVENT)}))
    with pytest.raises(InvalidStreamCutError, match="not lie before its head"):
        controller.truncate_stream(stream, older)
    assert controller.head(stream) == newer


@server
def test_a_stream_is_not_truncated_where_there_is_nothing_yet(client: Client, stream: Stream) -> None:
    append(client, stream, 0, EVENT)
    for offsets, why in (({0: 14, 1: 0}, "lies beyond its end, 13"), ({0: 13}, "no segment owns")):
        with pytest.raises(InvalidStreamCutError, match=why):
            truncate_stream(client.pool, StreamCut(stream, offsets))
    with pytest.raises(InvalidStreamCutError, match='a cut of stream "s/t" can\'t be used for stream'):
        client.controller.truncate_stream(stream, StreamCut(Stream("s", "t"), {0: 0}))
    with pytest.raises(InvalidStreamCutError, match="the cut must be one of the stream"):
        client.controller.truncate_stream(stream, {0: 13})
    assert client.controller.head(stream) == {0: 0, 1: 0}
    client.controller.seal_stream(stream)
    with pytest.raises(StreamSealedError, match=f'stream "{stream}" is sealed: it can\'t be truncated any more'):
        truncate_stream(client.pool, StreamCut(stream, {0: 13, 1: 0}))
