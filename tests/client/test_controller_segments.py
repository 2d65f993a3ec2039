"""Segments on a real controller: which there are, were, and follow each other."""

from __future__ import annotations

import socket

import pytest
from client_tools import append, framed, make_stream, scale, truncate

from pyspark_pravega.client import (
    Client,
    Controller,
    SegmentRange,
    Stream,
)
from pyspark_pravega.client.controller.scaling import even_ranges
from pyspark_pravega.client.names import Successor
from pyspark_pravega.client.stream_cut import UNBOUNDED, StreamCut
from pyspark_pravega.errors import (
    InvalidStreamCutError,
    NotFoundError,
)
from pyspark_pravega.settings import Settings

server = pytest.mark.server


@pytest.fixture
def controller(client: Client) -> Controller:
    return client.controller


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "t")


@server
def test_the_segments_of_a_stream_share_the_key_space(client: Client, scope: str) -> None:
    stream = make_stream(client, scope, "t", segments=4)
    segments = client.controller.current_segments(stream)
    assert segments.stream == stream
    assert segments.ranges == tuple(SegmentRange(segment_id=i, min_key=i / 4, max_key=(i + 1) / 4) for i in range(4))
    assert client.controller.head(stream) == dict.fromkeys(range(4), 0)
    assert client.controller.segments_from(stream, dict.fromkeys(range(4), 0)) == (0, 1, 2, 3)


@server
def test_a_scale_replaces_segments_by_ones_of_the_next_epoch(client: Client, scope: str) -> None:
    stream = make_stream(client, scope, "t", segments=2)
    scale(client, stream, [1], [(0.5, 0.75), (0.75, 1.0)])
    two, three = 1 << 32 | 2, 1 << 32 | 3
    assert client.controller.current_segments(stream).ranges == (
        SegmentRange(segment_id=0, min_key=0.0, max_key=0.5),
        SegmentRange(segment_id=two, min_key=0.5, max_key=0.75),
        SegmentRange(segment_id=three, min_key=0.75, max_key=1.0),
    )
    assert client.controller.head(stream) == {0: 0, 1: 0}
    assert client.controller.segments_from(stream, {0: 0, 1: 0}) == (0, 1, two, three)
    assert client.controller.segments_from(stream, {0: 0, two: 0, three: 0}) == (0, two, three)


@server
def test_the_head_moves_with_truncation(client: Client, settings: Settings, stream: Stream) -> None:
    append(client, stream, 0, framed(b"one"), framed(b"two"))
    truncate(settings, stream, {0: 11})
    assert client.controller.head(stream) == {0: 11}
    scale(client, stream, [0], [(0.0, 1.0)])
    truncate(settings, stream, {1 << 32 | 1: 0})
    assert client.controller.head(stream) == {1 << 32 | 1: 0}
    assert client.controller.segments_from(stream, client.controller.head(stream)) == (1 << 32 | 1,)


@server
def test_a_sealed_stream_has_no_current_segments_and_keeps_its_old_ones(client: Client, stream: Stream) -> None:
    client.controller.seal_stream(stream)
    assert client.controller.current_segments(stream).ids == ()
    assert client.controller.segments_from(stream, client.controller.head(stream)) == (0,)


@server
def test_the_segment_store_of_a_segment_can_be_reached(controller: Controller, stream: Stream) -> None:
    socket.create_connection(controller.endpoint(stream, 0), 10).close()


@server
def test_a_segment_is_known_by_its_epoch_its_predecessors_and_its_successors(client: Client, scope: str) -> None:
    controller, stream = client.controller, make_stream(client, scope, "t", segments=2)
    first = controller.current_segments(stream).ranges
    second = controller.split_segment(stream, 1).ranges
    third = controller.scale_stream(stream, [r.segment_id for r in second], [(0.0, 0.6), (0.6, 1.0)]).ranges
    assert [controller.epoch_segments(stream, epoch).ranges for epoch in range(3)] == [first, second, third]
    whole, a, b = second
    low, high = third
    assert controller.successors(stream, 1) == (
        Successor(segment=a, predecessors=(1,)),
        Successor(segment=b, predecessors=(1,)),
    )
    # The segment that went on has no successor in the second epoch, but in the third.
    assert whole == first[0]
    assert controller.successors(stream, whole.segment_id) == (
        Successor(segment=low, predecessors=(whole.segment_id, a.segment_id)),
    )
    assert controller.successors(stream, a.segment_id) == (
        Successor(segment=low, predecessors=(whole.segment_id, a.segment_id)),
        Successor(segment=high, predecessors=(a.segment_id, b.segment_id)),
    )
    assert controller.successors(stream, low.segment_id) == ()
    assert controller.predecessors(stream, high.segment_id) == (a.segment_id, b.segment_id)
    assert controller.predecessors(stream, a.segment_id) == (1,)
    assert controller.predecessors(stream, 0) == controller.predecessors(stream, 1) == ()
    every = [*first, *second, *third]
    assert controller.segment_ranges(stream, {r.segment_id for r in every}) == {r.segment_id: r for r in every}
    assert [controller.is_current(stream, r.segment_id) for r in every] == [False] * 5 + [True] * 2


@server
def test_segments_and_epochs_a_stream_never_had_are_named(controller: Controller, stream: Stream) -> None:
    for epoch in (1, -1, 2**31):
        with pytest.raises(NotFoundError, match=f'stream "{stream}" has no epoch {epoch}'):
            controller.epoch_segments(stream, epoch)
    with pytest.raises(NotFoundError, match=f'stream "{stream}" has no segment 7'):
        controller.predecessors(stream, 7)
    assert controller.successors(stream, 7) == ()
    assert controller.is_current(stream, 7) is False


@server
def test_segments_between_two_cuts_are_those_of_both_and_all_in_between(client: Client, scope: str) -> None:
    controller, stream = client.controller, make_stream(client, scope, "t", segments=2)
    a, b = controller.split_segment(stream, 1).ids[1:]
    c, d = controller.scale_stream(stream, [0, a, b], even_ranges(2)).ids
    start, middle, end = ({0: 0, 1: 0}, {0: 0, a: 0, b: 0}, {c: 0, d: 0})
    assert controller.segments_between(stream) == (0, 1, a, b, c, d)
    assert controller.segments_between(stream, UNBOUNDED, UNBOUNDED) == (0, 1, a, b, c, d)
    assert controller.segments_between(stream, start, middle) == (0, 1, a, b)
    assert controller.segments_between(stream, end=middle) == (0, 1, a, b)
    assert controller.segments_between(stream, StreamCut(stream, middle)) == (0, a, b, c, d)
    assert controller.segments_between(stream, middle, end) == (0, a, b, c, d)
    assert controller.segments_between(stream, end, end) == (c, d)
    for wrong in ((end, start), (start, {0: 0, 9 << 32: 0})):
        with pytest.raises(InvalidStreamCutError, match=f'segments of stream "{stream}" between two cuts'):
            controller.segments_between(stream, *wrong)
    with pytest.raises(InvalidStreamCutError, match='a cut of stream "s/other" can\'t be used for stream'):
        controller.segments_between(stream, StreamCut(Stream("s", "other"), start))
