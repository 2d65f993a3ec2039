"""Segments on a real controller: which there are, were, and follow each other; scaling."""

from __future__ import annotations

import socket
import time
import uuid

import pytest
from client_tools import append, eventually, framed, make_stream, scale, truncate

from pyspark_pravega.client import (
    Client,
    Controller,
    SegmentRange,
    Stream,
    TransactionState,
)
from pyspark_pravega.errors import (
    OperationFailedError,
)
from pyspark_pravega.settings import Settings

server = pytest.mark.server
LEASE_MS = 60_000


@pytest.fixture
def controller(client: Client) -> Controller:
    return client.controller


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "t")


def in_state(controller: Controller, stream: Stream, transaction: uuid.UUID, state: TransactionState) -> None:
    eventually(lambda: controller.transaction_state(stream, transaction) is state)


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
@pytest.mark.parametrize(
    ("sealed", "ranges"), [([0], [(0.0, 1.0)]), ([0], [(0.0, 0.4)]), ([99], [(0.0, 0.5)]), ([0, 1], [(0.0, 1.0)])]
)
def test_a_scale_that_does_not_fit_is_refused(
    client: Client, scope: str, sealed: list[int], ranges: list[tuple[float, float]]
) -> None:
    stream = make_stream(client, scope, "t", segments=2)
    with pytest.raises(OperationFailedError, match=f'refused to scale stream "{stream}"'):
        client.controller.scale(stream, sealed, ranges, now_ms=time.time_ns() // 1_000_000)
    assert client.controller.current_segments(stream).ids == (0, 1)


@server
def test_the_segment_store_of_a_segment_can_be_reached(controller: Controller, stream: Stream) -> None:
    socket.create_connection(controller.endpoint(stream, 0), 10).close()
