"""Reading a stream's events between two cuts: planned as parts of segments, which may be read in parallel."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import closing

from pyspark_pravega.client.connections import Cluster
from pyspark_pravega.client.events.batches import EventBatch, event_batches
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.positions import SegmentPart, parts_between
from pyspark_pravega.client.segments import read_range, segment_states
from pyspark_pravega.errors import SegmentTruncatedError


def read_part(client: Cluster, part: SegmentPart) -> Iterator[EventBatch]:
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


def event_boundary(client: Cluster, stream: Stream, segment_id: int, near: int, *, boundary: int) -> int:
    """An offset near an offset where an event begins.

    Pravega 0.13 can't tell (later versions have a command for it), so the frames are followed from a known offset: at
    about a gigabyte a second where the segment store is near.

    Args:
        client: the cluster.
        stream: the segment's stream.
        segment_id: the segment.
        near: an offset in bytes, not beyond the segment's length.
        boundary: an offset not beyond `near` where an event begins: the segment's start, or one of an earlier cut.

    Returns:
        The last such offset that isn't beyond `near`.

    Raises:
        EventDecodeError: no event begins at `boundary`.
        PravegaError: the segment can't be read.
    """
    position = boundary
    with closing(read_range(client.pool, stream, segment_id, boundary, near)) as buffers:
        for batch in event_batches(buffers, stream, segment_id, boundary):
            position = batch.end
    return position


def split_part(client: Cluster, part: SegmentPart, pieces: int) -> list[SegmentPart]:
    """Cut a part of a segment into pieces of about one size, at events' borders.

    Args:
        client: the cluster.
        part: what to cut.
        pieces: into how many at most.

    Returns:
        The pieces in order; together they are the part.
    """
    size = part.end - part.start
    targets = [part.start + size * piece // pieces for piece in range(1, pieces)]
    borders, position = [part.start], part.start
    for near in targets:
        position = event_boundary(client, part.stream, part.segment_id, near, boundary=position)
        borders.append(position)
    borders.append(part.end)
    return [
        SegmentPart(stream=part.stream, segment_id=part.segment_id, start=start, end=end)
        for start, end in itertools.pairwise(borders)
        if start < end
    ]


def plan(
    client: Cluster, stream: Stream, start: Mapping[int, int] | None = None, end: Mapping[int, int] | None = None
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
    between = client.controller.segments_between(stream, begin, end)
    states = segment_states(client.pool, stream, between)
    planned = parts_between(stream, {segment_id: states[segment_id] for segment_id in between}, begin, end)
    for segment_id in planned.lost:
        state, name = states[segment_id], stream.segment_name(segment_id)
        raise SegmentTruncatedError(
            f'segment "{name}" is gone: it has been truncated'
            if state is None
            else f'segment "{name}" begins at offset {state.start_offset}: '
            f"offset {begin.get(segment_id, 0)} has been truncated"
        )
    return [part for part in planned.parts if part.size]
