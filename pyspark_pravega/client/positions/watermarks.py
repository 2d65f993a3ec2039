"""Pravega's own watermarks: up to which event time a stream's writers have come, at which of its cuts.

The controller combines the times that all writers of a stream have noted (`note_timestamp`, or with a transaction's
commit), and appends what comes of it to a stream of its own, `_MARK<stream>`, every few seconds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from pyspark_pravega.client.connections import ConnectionPool
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.segments import read_range, segment_state
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import NotFoundError, SegmentNotFoundError, WireError

_PREFIX = "_MARK"
_ENTRY = struct.Struct(">ii")
"""What stands before an entry of a revisioned stream: a type, and its length in bytes."""
_BOUNDS = struct.Struct(">qq")
_SEGMENT = struct.Struct(">qdd")
_OFFSET = struct.Struct(">q")


@dataclass(frozen=True, kw_only=True)
class Watermark:
    """What is known of event time at a position of a stream."""

    lower_ms: int
    """Behind `cut` nothing older is to be expected, in the writers' own measure: ms since 1970 mostly."""
    upper_ms: int
    """Nothing before `cut` is newer."""
    cut: StreamCut
    """The position."""


def watermarks(pool: ConnectionPool, stream: Stream) -> Iterator[Watermark]:
    """A stream's watermarks, from the oldest that is kept.

    Args:
        pool: connections to the segment stores; its controller is asked as well.
        stream: the stream.

    Yields:
        Watermarks, times ascending; none for a stream whose writers note no time.

    Raises:
        StreamNotFoundError: there is no such stream.
        WireError: what is kept there isn't watermarks as Pravega 0.13 writes them.
    """
    # The stream itself first: its absence is what a caller wants to hear of.
    pool.controller.current_segments(stream)
    marks = Stream(stream.scope, _PREFIX + stream.name)
    try:
        (segment_id,) = pool.controller.current_segments(marks).ids
        state = segment_state(pool, marks, segment_id)
    except (NotFoundError, SegmentNotFoundError, ValueError):
        return
    with closing(read_range(pool, marks, segment_id, state.start_offset, state.write_offset)) as buffers:
        data = b"".join(buffers)
    position = 0
    while position < len(data):
        _, length = _ENTRY.unpack_from(data, position)
        position += _ENTRY.size
        yield _watermark(stream, data[position : position + length])
        position += length


def _watermark(stream: Stream, entry: bytes) -> Watermark:
    try:
        body = _body(entry, 0)[0]
        lower, upper = _BOUNDS.unpack_from(body, 0)
        count, position = _compact_int(body, _BOUNDS.size)
        offsets = {}
        for _ in range(count):
            segment, position = _body(body, position)
            segment_id, _, _ = _SEGMENT.unpack_from(segment, 0)
            (offsets[segment_id],) = _OFFSET.unpack_from(body, position)
            position += _OFFSET.size
    except (struct.error, IndexError, ValueError):
        raise WireError(f'stream "{stream}" has a watermark that isn\'t laid out as one of Pravega 0.13') from None
    return Watermark(lower_ms=lower, upper_ms=upper, cut=StreamCut(stream, offsets))


def _body(data: bytes, position: int) -> tuple[bytes, int]:
    """The first revision of a versioned value, and where the value ends."""
    # The serializer's version, the value's, and how many revisions of it follow (VersionedSerializer).
    serializer, version, revisions = data[position : position + 3]
    if serializer != 0 or version != 0:
        raise struct.error
    position += 3
    first = b""
    for number in range(revisions):
        _, length = struct.unpack_from(">bi", data, position)
        position += 5
        if number == 0:
            first = data[position : position + length]
        position += length
    return first, position


def _compact_int(data: bytes, position: int) -> tuple[int, int]:
    """A number of one, two or four bytes: the two upper bits tell how many."""
    first = data[position]
    if first < 0x80:
        return first, position + 1
    if first < 0xC0:
        return int.from_bytes(data[position : position + 2], "big") & 0x3FFF, position + 2
    return int.from_bytes(data[position : position + 4], "big") & 0x3FFFFFFF, position + 4
