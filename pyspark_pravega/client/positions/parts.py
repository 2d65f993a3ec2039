"""What lies between two cuts: parts of segments."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark_pravega.client.names import Stream, transaction_segment_name
from pyspark_pravega.client.segments import SegmentState
from pyspark_pravega.client.stream_cut import NOT_REACHED
from pyspark_pravega.errors import InvalidStreamCutError


@dataclass(frozen=True, kw_only=True)
class SegmentPart:
    """A part of a segment; can be pickled. Offsets are bytes since the segment was made, at borders between events."""

    stream: Stream
    segment_id: int
    start: int
    end: int
    transaction: uuid.UUID | None = None
    """The open transaction in whose shadow of the segment it lies; None of the segment itself."""

    @property
    def name(self) -> str:
        """What it is a part of, on the wire."""
        name = self.stream.segment_name(self.segment_id)
        return name if self.transaction is None else transaction_segment_name(name, self.transaction)

    @property
    def size(self) -> int:
        """Bytes, frames included."""
        return self.end - self.start


@dataclass(frozen=True, kw_only=True)
class PartsBetween:
    """What lies between two cuts."""

    parts: tuple[SegmentPart, ...]
    """What is there, empty parts among it, in the order of the segments that were given."""
    lost: tuple[int, ...]
    """Segments of which something that lies between the cuts is gone."""


def parts_between(
    stream: Stream,
    states: Mapping[int, SegmentState | None],
    start: Mapping[int, int] | None,
    end: Mapping[int, int] | None,
) -> PartsBetween:
    """The parts of segments between two cuts.

    Args:
        stream: the stream.
        states: the segments between the two, predecessors before their successors, as they are now; None for one that
            is gone.
        start: segment id to offset in bytes; a segment that it doesn't name is read from 0. None for what is there.
        end: likewise; a segment that it doesn't name is read up to what is there. None for all of them.

    Raises:
        InvalidStreamCutError: the end lies before the start in a segment.
    """
    parts, lost = [], []
    for segment_id, state in states.items():
        stop = None if end is None else end.get(segment_id)
        if stop == NOT_REACHED:
            continue
        begin = 0 if start is None else max(0, start.get(segment_id, 0))
        if state is None:
            # Where nothing of it is wanted nothing is missed.
            if stop is None or stop > begin:
                lost.append(segment_id)
            continue
        if start is None:
            begin = state.start_offset
        if stop is None:
            stop = max(begin, state.write_offset)
        if stop < begin and start is not None:
            raise InvalidStreamCutError(
                f'the end of a read of stream "{stream}" lies before its start in segment {segment_id}: '
                f"{stop} < {begin}"
            )
        if (begin < state.start_offset and begin < stop) or (start is None and stop < begin):
            lost.append(segment_id)
        begin = max(begin, state.start_offset)
        parts.append(SegmentPart(stream=stream, segment_id=segment_id, start=begin, end=max(begin, stop)))
    return PartsBetween(parts=tuple(parts), lost=tuple(lost))
