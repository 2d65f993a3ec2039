"""Reading a stream's events between two cuts: planned as parts of segments, which may be read in parallel."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark_pravega.client.events import EventBatch, event_batches
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.reading import read_range, segment_state

if TYPE_CHECKING:
    from pyspark_pravega.client.client import Client


@dataclass(frozen=True, kw_only=True)
class SegmentPart:
    """A part of a segment: what one worker reads. It can be pickled."""

    stream: Stream
    segment_id: int
    start: int
    """First byte, where an event begins."""
    end: int
    """The byte after the last, where an event ends."""

    @property
    def size(self) -> int:
        """Bytes, frames included."""
        return self.end - self.start


def read_part(client: Client, part: SegmentPart) -> Iterator[EventBatch]:
    """The events of a part of a segment.

    Args:
        client: the cluster.
        part: what to read.

    Yields:
        Batches, about one for each megabyte.

    Raises:
        SegmentTruncatedError: the part's start has been truncated.
        SegmentNotFoundError: the segment doesn't exist any more.
        EventDecodeError: no event begins at the part's start.
        SegmentStoreUnavailableError: the segment store can't be reached.
    """
    with closing(read_range(client.pool, part.stream, part.segment_id, part.start, part.end)) as buffers:
        yield from event_batches(buffers, part.stream, part.segment_id, part.start, end=part.end)


def event_boundary(client: Client, stream: Stream, segment_id: int, near: int, *, known: int) -> int:
    """A place near an offset where an event begins.

    Pravega 0.13 can't tell (later versions have a command for it), so the frames are followed from a known place: at
    about a gigabyte a second where the segment store is near.

    Args:
        client: the cluster.
        stream: the segment's stream.
        segment_id: the segment.
        near: an offset in bytes, not beyond the segment's length.
        known: an offset not beyond `near` where an event begins: the segment's start, or one of an earlier cut.

    Returns:
        The last such place that isn't beyond `near`.

    Raises:
        EventDecodeError: no event begins at `known`.
        PravegaError: the segment can't be read.
    """
    found = known
    with closing(read_range(client.pool, stream, segment_id, known, near)) as buffers:
        for batch in event_batches(buffers, stream, segment_id, known):
            found = batch.end
    return found


def split_part(client: Client, part: SegmentPart, pieces: int) -> list[SegmentPart]:
    """Cut a part of a segment into pieces of about one size, at events' borders.

    Args:
        client: the cluster.
        part: what to cut.
        pieces: into how many at most.

    Returns:
        The pieces in order; together they are the part.
    """
    size = part.end - part.start
    wanted = [part.start + size * piece // pieces for piece in range(1, pieces)]
    borders, position = [part.start], part.start
    for near in wanted:
        position = event_boundary(client, part.stream, part.segment_id, near, known=position)
        borders.append(position)
    borders.append(part.end)
    return [
        SegmentPart(stream=part.stream, segment_id=part.segment_id, start=start, end=end)
        for start, end in itertools.pairwise(borders)
        if start < end
    ]


def plan(
    client: Client, stream: Stream, start: Mapping[int, int] | None = None, end: Mapping[int, int] | None = None
) -> list[SegmentPart]:
    """The parts of segments that lie between two cuts.

    Args:
        client: the cluster.
        stream: the stream.
        start: where to begin: segment id to offset in bytes; the stream's head when None.
        end: where to end; the stream's tail at this moment when None.

    Returns:
        The parts that hold bytes, predecessors before their successors: read in this order, each routing key's events
        come in theirs.

    Raises:
        StreamNotFoundError: there is no such stream.
        SegmentTruncatedError: `start` lies before the stream's head.
    """
    begin = client.controller.head(stream) if start is None else start
    parts = []
    for segment_id in client.controller.segments_between(stream, begin, end):
        first = begin.get(segment_id, 0)
        if end is not None and segment_id in end:
            last = end[segment_id]
        else:
            last = segment_state(client.pool, stream, segment_id).write_offset
        if max(first, 0) < last:
            parts.append(SegmentPart(stream=stream, segment_id=segment_id, start=max(first, 0), end=last))
    return parts
