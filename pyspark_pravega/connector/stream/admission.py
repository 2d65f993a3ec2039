"""How much of what is there a micro-batch takes: up to limits, at borders between events, all segments at one time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.events import event_batches
from pyspark_pravega.client.segments import read_range
from pyspark_pravega.connector.stream.steps import Range, Segment, Step
from pyspark_pravega.frames.framing import HEADER_SIZE

Offsets = npt.NDArray[np.int64]
_TIMES_FOR_A_VERSION = 4
"""Up to so many times the limits a version that is the first of a batch is read whole: its tasks have written its rows
in no order, so a part of it may hold rows that are later than those of its next part."""
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
        self._begun: _Begun | None = None
        self._event_size = 128
        """How long events are, as far as any were seen."""
        self._last_batch = time.monotonic()

    def admit(
        self,
        available: Mapping[Segment, Range],
        limits: Limits,
        steps: Callable[[], Iterable[Step]] = tuple,
    ) -> dict[Segment, int]:
        """What the next micro-batch reads.

        Args:
            available: what is there to be read of each segment.
            limits: how much it may be.
            steps: gives what is there in the order in which it is to be read, and is asked only where not all of it
                fits; else it is one step.

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
            self._begun = None
            return {segment: end for segment, (_, end) in available.items()}
        return self._in_order(available, limits, steps)

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

    def _in_order(
        self, available: Mapping[Segment, Range], limits: Limits, steps: Callable[[], Iterable[Step]]
    ) -> dict[Segment, int]:
        """Whole steps while they fit. Only one that doesn't fit alone is cut, and then gone on with."""
        ends = {segment: start for segment, (start, _) in available.items()}
        left, begun, self._begun = _Left(limits), self._begun, None
        everything = Step(ends={segment: end for segment, (_, end) in available.items()})
        for step in chain([] if begun is None else [begun.step], _later(steps), [everything]):
            if step is everything and left.taken:
                break
            part = {
                segment: (ends[segment], until)
                for segment, end in step.ends.items()
                if segment in available and ends[segment] < (until := min(end, available[segment][1]))
            }
            if not part:
                continue
            if self._holds(left, part, step):
                ends |= {segment: end for segment, (_, end) in part.items()}
            elif left.taken:
                break
            elif _size(part) == step.bytes and self._holds(_Left(limits, times=_TIMES_FOR_A_VERSION), part, step):
                ends |= {segment: end for segment, (_, end) in part.items()}
                break
            else:
                if begun is None or step is not begun.step:
                    begun = _Begun.of(step, available, part)
                self._begun = begun
                moved = self._shares(part, begun, left)
                if moved:
                    ends |= moved
                    break
        return ends

    def _holds(self, left: _Left, part: Mapping[Segment, Range], step: Step) -> bool:
        """Whether all of a part is still within the limits; takes it, if so."""
        if step.weights is not None:
            # Its ends may lie within events.
            return False
        size = _size(part)
        if left.bytes is not None and size > left.bytes:
            return False
        events = step.events if size == step.bytes else None
        if left.events is not None and events is None:
            events = 0
            for segment, (start, end) in part.items():
                events += self._walk(segment, start).count(end, left.events - events + 1)
                if events > left.events:
                    return False
        if left.events is not None and events is not None and events > left.events:
            return False
        for segment, (start, end) in part.items():
            self._walk(segment, start).go_on(end)
        left.take(events or 0, size)
        return True

    def _shares(self, part: Mapping[Segment, Range], begun: _Begun, left: _Left) -> dict[Segment, int]:
        """The first events of a part, in the order of how far they lie in their segments' shares of the step."""
        segments = list(part)
        walks = [self._walk(segment, part[segment][0]) for segment in segments]
        guess = left.bytes if left.bytes is not None else (left.events or 1) * self._event_size
        reached = max(begun.share(segment, part[segment][0]) for segment in segments)
        step = max(guess / max(1.0, sum(begun.weights[segment] for segment in segments)), 1e-6)
        while True:
            share = min(1.0, reached + step)
            shares = []
            for segment, walk in zip(segments, walks, strict=True):
                shares.append(begun.shares(segment, walk.ends(begun.until(segment, share, part[segment][1]))))
            count = sum(len(some) for some in shares)
            size = sum(walk.size(len(some)) for walk, some in zip(walks, shares, strict=True))
            if share == 1.0 or left.is_less_than(count, size):
                break
            step *= 2
        owners = np.repeat(np.arange(len(segments)), [len(some) for some in shares])
        order = np.argsort(np.concatenate(shares), kind="stable")
        sizes = np.concatenate([walk.sizes(len(some)) for walk, some in zip(walks, shares, strict=True)])[order]
        taken = left.first(sizes)
        if count:
            self._event_size = max(HEADER_SIZE, size // count)
        counts = np.bincount(owners[order[:taken]], minlength=len(segments)).tolist()
        left.take(taken, int(sizes[:taken].sum()))
        for walk, number in zip(walks, counts, strict=True):
            walk.take(number)
        return {segment: walk.position for segment, walk, number in zip(segments, walks, counts, strict=True) if number}

    def _walk(self, segment: Segment, start: int) -> _Walk:
        walk = self._walks.get(segment)
        if walk is None or walk.position != start:
            walk = self._walks[segment] = _Walk(self._client, *segment, start)
        return walk


@dataclass(frozen=True, kw_only=True)
class _Begun:
    """A step of which a batch has taken a share, and where it began: later batches go on by the same measure."""

    step: Step
    starts: Mapping[Segment, int]
    weights: Mapping[Segment, float]

    @classmethod
    def of(cls, step: Step, available: Mapping[Segment, Range], part: Mapping[Segment, Range]) -> _Begun:
        starts = {segment: start for segment, (start, _) in part.items()}
        weights = {
            segment: end - start if step.weights is None else step.weights[segment] - (start - available[segment][0])
            for segment, (start, end) in part.items()
        }
        return cls(step=step, starts=starts, weights={segment: max(1.0, size) for segment, size in weights.items()})

    def share(self, segment: Segment, offset: int) -> float:
        """How far an offset lies in what the step has of a segment: from 0 to 1."""
        return (offset - self.starts[segment]) / self.weights[segment]

    def shares(self, segment: Segment, offsets: Offsets) -> npt.NDArray[np.float64]:
        """The same of several ones."""
        return (offsets - self.starts[segment]) / self.weights[segment]

    def until(self, segment: Segment, share: float, end: int) -> int:
        """The offset up to which a share reaches."""
        return end if share >= 1.0 else min(end, self.starts[segment] + math.ceil(share * self.weights[segment]))


class _Left:
    """What of the limits is still left."""

    def __init__(self, limits: Limits, *, times: int = 1) -> None:
        self.events = None if limits.max_events is None else times * limits.max_events
        self.bytes = None if limits.max_bytes is None else times * limits.max_bytes
        self.taken = False

    def is_less_than(self, events: int, size: int) -> bool:
        return (self.events is not None and events >= self.events) or (self.bytes is not None and size > self.bytes)

    def first(self, sizes: Offsets) -> int:
        """How many of some events, in their order, are within the limits; one at least in each batch."""
        count = len(sizes) if self.events is None else min(len(sizes), self.events)
        if self.bytes is not None:
            count = min(count, int(np.searchsorted(np.cumsum(sizes), self.bytes, side="right")))
        return count if self.taken else max(count, min(1, len(sizes)))

    def take(self, events: int, size: int) -> None:
        self.taken = self.taken or size > 0
        if self.events is not None:
            self.events -= events
        if self.bytes is not None:
            self.bytes -= size


class _Walk:
    """The borders between a segment's events, from a position on, found as they are needed."""

    def __init__(self, client: Client, stream: Stream, segment_id: int, position: int) -> None:
        self.position = position
        """Where an event begins: behind those that were taken."""
        self._client, self._stream, self._segment_id = client, stream, segment_id
        self._ends: npt.NDArray[np.int64] = np.empty(0, np.int64)
        """Where the events behind the position end, as far as is known."""
        self._step = _FIRST_STEP

    def ends(self, until: int) -> Offsets:
        """Where the next events end, as far as that is up to an offset."""
        while (not len(self._ends) or self._ends[-1] < until) and self._look_ahead(until):
            pass
        return self._ends[: int(np.searchsorted(self._ends, until, side="right"))]

    def sizes(self, events: int) -> Offsets:
        """How long the next events are, which are known."""
        return np.diff(self._ends[:events], prepend=self.position)

    def size(self, events: int) -> int:
        """How long they are together."""
        return int(self._ends[events - 1]) - self.position if events else 0

    def take(self, events: int) -> None:
        """Go on by some events, which are known."""
        if events:
            self.go_on(int(self._ends[events - 1]))

    def go_on(self, position: int) -> None:
        """Go on to where an event begins."""
        self.position = position
        self._ends = self._ends[int(np.searchsorted(self._ends, position, side="right")) :]

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


def _size(part: Mapping[Segment, Range]) -> int:
    return sum(end - start for start, end in part.values())


def _later(steps: Callable[[], Iterable[Step]]) -> Iterator[Step]:
    yield from steps()


def _fits(total: int, limits: Limits) -> bool:
    """Whether all that is there surely goes into one batch."""
    if limits.max_bytes is not None and total > limits.max_bytes:
        return False
    return limits.max_events is None or total // HEADER_SIZE <= limits.max_events
