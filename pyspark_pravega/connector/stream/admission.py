"""How much of what is there a micro-batch takes: up to limits, at borders between events, fairly from all segments."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.events import event_batches
from pyspark_pravega.client.segments import read_range
from pyspark_pravega.frames.framing import HEADER_SIZE

Segment = tuple[Stream, int]
Range = tuple[int, int]
"""Where something begins and ends in a segment, in bytes."""
_FIRST_STEP, _LONGEST_STEP = 64 << 10, 4 << 20


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a micro-batch takes at most, and at least."""

    max_events: int | None = None
    max_bytes: int | None = None
    """Frames included. A batch takes at least one event, however large."""
    min_events: int | None = None
    """With fewer there is no batch, until `max_delay_s` is over."""
    max_delay_s: float = 900.0
    """How long a batch may wait for `min_events`, since the one before."""

    @property
    def any_maximum(self) -> bool:
        """Whether a batch may have to leave something for the next one."""
        return self.max_events is not None or self.max_bytes is not None


class Admission:
    """Finds the ends of micro-batches. Used by one thread at a time.

    Pravega knows no event numbers, and 0.13 can't find an event's border near an offset: so what a limit may cut is
    read here, and the frames are counted. Each byte is read once, and nothing where all that is there fits.
    """

    def __init__(self, client: Client) -> None:
        """Begin.

        Args:
            client: the cluster.
        """
        self._client = client
        self._walks: dict[Segment, _Walk] = {}
        self._turn = 0
        self._last_batch = time.monotonic()

    def admit(self, available: Mapping[Segment, Range], limits: Limits) -> dict[Segment, int]:
        """What the next micro-batch reads.

        Args:
            available: what is there to be read of each segment.
            limits: how much it may be.

        Returns:
            Where to end in each of the segments; all at their starts where the batch has to wait.

        Raises:
            SegmentTruncatedError: events have been truncated meanwhile.
        """
        for gone in self._walks.keys() - available.keys():
            del self._walks[gone]
        total = sum(end - start for start, end in available.values())
        if limits.min_events and total and not self._enough(available, total, limits):
            return {segment: start for segment, (start, _) in available.items()}
        if total:
            self._last_batch = time.monotonic()
        if _fits(total, limits):
            return {segment: end for segment, (_, end) in available.items()}
        return self._share(available, limits)

    def _enough(self, available: Mapping[Segment, Range], total: int, limits: Limits) -> bool:
        assert limits.min_events is not None
        if time.monotonic() - self._last_batch >= limits.max_delay_s:
            return True
        # No event is shorter than its frame.
        if total < limits.min_events * HEADER_SIZE:
            return False
        count = 0
        for segment, (start, end) in available.items():
            count += self._walk(segment, start).count(end, limits.min_events - count)
            if count >= limits.min_events:
                return True
        return False

    def _share(self, available: Mapping[Segment, Range], limits: Limits) -> dict[Segment, int]:
        """Equal shares; what one segment doesn't use is shared among the others."""
        ends = {segment: start for segment, (start, _) in available.items()}
        order = [segment for segment, (start, end) in available.items() if start < end]
        # Who comes first gets a share even where there are fewer events than segments.
        self._turn += 1
        order = order[self._turn % len(order) :] + order[: self._turn % len(order)]
        left = _Left(limits)
        open_ones = order
        while open_ones and not left.nothing:
            events, size = left.share(len(open_ones))
            taken_before = left.taken
            still_open = []
            for segment in open_ones:
                if not left.nothing:
                    left.take(ends, segment, self._walk(segment, ends[segment]), available[segment][1], events, size)
                if ends[segment] < available[segment][1]:
                    still_open.append(segment)
            if left.taken == taken_before:
                if len(open_ones) == 1 or (events, size) == left.share(1):
                    break
                # No share holds an event: let the first ones have what there is.
                for segment in open_ones:
                    left.take(ends, segment, self._walk(segment, ends[segment]), available[segment][1], *left.share(1))
                break
            open_ones = still_open
        if not left.taken and order:
            first = order[0]
            walk = self._walk(first, ends[first])
            walk.take(available[first][1], 1, None)
            ends[first] = walk.position
        return ends

    def _walk(self, segment: Segment, start: int) -> _Walk:
        walk = self._walks.get(segment)
        if walk is None or walk.position != start:
            walk = self._walks[segment] = _Walk(self._client, *segment, start)
        return walk


class _Left:
    """What of the limits is still left."""

    def __init__(self, limits: Limits) -> None:
        self.events, self.bytes = limits.max_events, limits.max_bytes
        self.taken = 0

    @property
    def nothing(self) -> bool:
        return self.events == 0 or (self.bytes is not None and self.bytes <= HEADER_SIZE)

    def share(self, among: int) -> tuple[int | None, int | None]:
        events = None if self.events is None else max(1, self.events // among)
        return events, None if self.bytes is None else self.bytes // among

    def take(
        self, ends: dict[Segment, int], segment: Segment, walk: _Walk, end: int, events: int | None, size: int | None
    ) -> None:
        if self.events is not None:
            events = min(self.events, self.events if events is None else events)
        if self.bytes is not None:
            size = min(self.bytes, self.bytes if size is None else size)
        count, length = walk.take(end, events, size)
        ends[segment] = walk.position
        self.taken += count
        if self.events is not None:
            self.events -= count
        if self.bytes is not None:
            self.bytes -= length


class _Walk:
    """The borders between a segment's events, from a position on, found as they are needed."""

    def __init__(self, client: Client, stream: Stream, segment_id: int, position: int) -> None:
        self.position = position
        """Where an event begins: behind those that were taken."""
        self._client, self._stream, self._segment_id = client, stream, segment_id
        self._ends: npt.NDArray[np.int64] = np.empty(0, np.int64)
        """Where the events behind the position end, as far as is known."""
        self._step = _FIRST_STEP

    def take(self, end: int, events: int | None, size: int | None) -> tuple[int, int]:
        """Go on by some events.

        Args:
            end: not beyond this offset.
            events: by this many at most.
            size: by this many bytes at most.

        Returns:
            By how many events, and bytes.
        """
        begin, count = self.position, 0
        target = end if size is None else min(end, begin + size)
        while events is None or count < events:
            known = int(np.searchsorted(self._ends, target, side="right"))
            step = known if events is None else min(known, events - count)
            if step:
                self.position = int(self._ends[step - 1])
                self._ends = self._ends[step:]
                count += step
            elif len(self._ends) or self.position >= target or not self._look_ahead(end):
                break
        return count, self.position - begin

    def count(self, end: int, enough: int) -> int:
        """How many events begin before an offset; counted no further than to a number that is enough."""
        while len(self._ends) < enough and self._look_ahead(end):
            pass
        return int(np.searchsorted(self._ends, end, side="right"))

    def _look_ahead(self, end: int) -> bool:
        """Find more borders; false when there are none before the end."""
        start = int(self._ends[-1]) if len(self._ends) else self.position
        step = self._step
        self._step = min(2 * step, _LONGEST_STEP)
        while start < end:
            until = min(end, start + step)
            pool = self._client.pool
            with closing(read_range(pool, self._stream, self._segment_id, start, until)) as buffers:
                ends = []
                for batch in event_batches(buffers, self._stream, self._segment_id, start):
                    starts = batch.frames.starts + batch.start
                    ends.append(np.append(starts[1:], batch.end))
            if ends:
                self._ends = np.concatenate([self._ends, *ends])
                return True
            if until == end:
                return False
            # An event that is longer than what was looked at.
            step *= 4
        return False


def _fits(total: int, limits: Limits) -> bool:
    """Whether all that is there surely goes into one batch."""
    if limits.max_bytes is not None and total > limits.max_bytes:
        return False
    return limits.max_events is None or total // HEADER_SIZE <= limits.max_events
