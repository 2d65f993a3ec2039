"""Small ranges of many segments, asked for together: one after another each takes a round trip."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias

from pyspark_pravega.client.connections import Connection, ConnectionPool
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.segments.reading import ASK_AGAIN_S, REQUEST_BYTES
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.errors import SegmentStoreUnavailableError, TokenExpiredError, WireError

Range: TypeAlias = tuple[int, int, int]
"""A segment's id, the first byte, and the byte after the last."""


def read_together(pool: ConnectionPool, stream: Stream, ranges: Sequence[Range]) -> dict[Range, memoryview]:
    """The bytes of ranges, all asked for before the first answer comes.

    Args:
        pool: connections to the segment stores.
        stream: the segments' stream.
        ranges: together of no more bytes than are to be held in memory.

    Returns:
        What came whole, each in memory of its own. The rest is left to `read_range`, which says what is wrong with it.
    """
    received: dict[Range, memoryview] = {}
    by_segment: dict[int, list[Range]] = {}
    for one in ranges:
        if 0 < one[2] - one[1] <= REQUEST_BYTES:
            by_segment.setdefault(one[0], []).append(one)
    with suppress(SegmentStoreUnavailableError, TokenExpiredError, WireError):
        for of_store in pool.by_segment_store(stream, by_segment) if by_segment else ():
            asked = [one for segment_id in of_store for one in by_segment[segment_id]]
            with pool.connection(stream, of_store[0]) as connection:
                _receive(connection, pool.tokens.get(stream), stream, asked, received)
            pool.confirm(stream, {one[0] for one in asked if one in received}, connection.endpoint)
    return received


def _receive(
    connection: Connection, token: str, stream: Stream, ranges: Sequence[Range], received: dict[Range, memoryview]
) -> None:
    under_way: dict[int, Range] = {}
    questions = []
    for one in ranges:
        segment_id, start, end = one
        request_id = connection.next_id()
        under_way[request_id] = one
        segment, length = stream.segment_name(segment_id), end - start
        questions.append(
            wire.ReadSegment(segment=segment, offset=start, suggested_length=length, token=token, request_id=request_id)
        )
    connection.send(*questions)
    for reply in connection.replies(len(under_way), timeout=ASK_AGAIN_S):
        asked = under_way.pop(getattr(reply, "request_id", -1), None)
        if isinstance(reply, wire.SegmentRead) and asked is not None:
            _, start, end = asked
            if reply.offset == start and len(reply.data) >= end - start:
                received[asked] = reply.data[: end - start]
        elif asked is None:
            raise WireError(f"an answer that nobody has asked for: {type(reply).__name__}")
