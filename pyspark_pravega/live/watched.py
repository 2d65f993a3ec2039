"""What a sampler knows of one stream: its segments' sizes, what was counted, and the last samples of both."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.segments import SegmentState
from pyspark_pravega.connector.log import Commit, Ledger, State, open_ledger, take_tail
from pyspark_pravega.connector.table import PRIMARY_KEY
from pyspark_pravega.live.rates import SLOW_S, curve_of, recent_rate

KEPT_SAMPLES = 90
KEPT_OFFSETS = 300
KEPT_GROWTHS = 20
STALE_S = 90.0
"""Samples that are older say nothing of the rate now."""
_COUNTED_VERSIONS = 100
_PATIENT_SAMPLES = 3
_RETRIED_S = 5.0
REFRESHED_S = 30.0
"""So often the list of segments is taken anew, where nothing else asks for it."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """How much was written to a stream until a moment."""

    at: float
    """Seconds since 1970."""
    bytes: int
    """Written since the stream was made, as far as segments are still there; frames included."""
    events: int
    """Counted by the segments and the commit log."""


@dataclass(frozen=True)
class Growth:
    """That something was written."""

    at: float
    """Seconds since 1970."""
    query: str | None = None
    """The streaming query that has written it; None of a job, and of another program."""


@dataclass
class Watched:
    """A stream that is watched. Used under the sampler's lock."""

    stream: Stream
    refreshed_at: float = 0.0
    """When the list of segments was taken, by `time.monotonic`; 0 when it has to be taken anew."""
    sampled_at: float = 0.0
    """Likewise of the last sample."""
    current: frozenset[int] = frozenset()
    """The segments that take events."""
    kept: dict[int, int] = field(default_factory=dict)
    """Bytes between head and tail, of each segment that still has some."""
    begins: dict[int, int] = field(default_factory=dict)
    """Where the bytes of a segment begin."""
    offsets: dict[int, int] = field(default_factory=dict)
    """Where the tail of a segment is."""
    direct_events: dict[int, int] = field(default_factory=dict)
    """Events that were appended to segments, without those of transactions."""
    written: int = 0
    committed_events: int = 0
    ledger: Ledger | None = None
    state: State | None = None
    rows: int | None = None
    """As the commit log has counted them, where nobody else has written and nothing is truncated; else None."""
    is_keyed: bool = False
    """Whether it is a table with a key, of whose rows the commit log doesn't tell how many there are."""
    error: str | None = None
    """Why it can't be looked at."""
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=KEPT_SAMPLES))
    growths: deque[Growth] = field(default_factory=lambda: deque(maxlen=KEPT_GROWTHS))
    """When something was written lately: commits, and what came between samples without one."""
    followed_until: float = 0.0
    """Until then, by `time.monotonic`, tails are remembered, segment by segment."""
    uncounted: int = 0
    """So many of the last samples didn't agree with the commit log: a commit may be under way."""
    tails: dict[int, deque[tuple[float, int]]] = field(default_factory=dict)
    """Of a stream that is followed: when, in seconds since 1970, a segment's tail was where."""

    @property
    def bytes(self) -> int:
        """From head to tail, frames included."""
        return sum(self.kept.values())

    @property
    def events(self) -> int:
        """That were ever written, as far as anybody counts them."""
        return sum(self.direct_events.values()) + self.committed_events + self._merged_events()

    def refresh(self, client: Client, now: float) -> None:
        """Take the list of segments anew, and open the commit log.

        Args:
            client: the cluster.
            now: by `time.monotonic`.

        Raises:
            PravegaError: that can't be had.
        """
        tail = take_tail(client, self.stream)
        if tail is None:
            # It is scaled or truncated at this moment; the next look finds it.
            self.refreshed_at = 0.0
            return
        if self.ledger is None:
            self.ledger = open_ledger(client, self.stream)
        self.is_keyed = self.ledger is not None and PRIMARY_KEY in self.ledger.properties()
        self.current, self.refreshed_at, self.error = tail.current, now, None
        there = {part.segment_id for part in tail.parts}
        for known in (self.kept, self.begins, self.offsets, self.tails):
            for segment_id in known.keys() - there:
                del known[segment_id]
        for part in tail.parts:
            self._see(part.segment_id, part.start, part.end)

    def uncounted_segments(self) -> set[int]:
        """Segments of which it isn't known yet how many events were appended."""
        return self.offsets.keys() - self.direct_events.keys()

    def take(self, states: dict[int, SegmentState | None]) -> list[int]:
        """Take over where the tails of current segments are.

        Args:
            states: the segments' states, as far as they could be had.

        Returns:
            The segments that have grown.
        """
        grown = []
        for segment_id, state in states.items():
            if state is None or state.sealed:
                self.refreshed_at = 0.0
            if state is not None and self._see(segment_id, state.start_offset, state.write_offset):
                grown.append(segment_id)
        return grown

    def count(self, segment_id: int, state: SegmentState, events: int) -> None:
        """Take over how many events a segment has had, with its state at that moment: one without the other would make
        rates of something that was written in between.

        Args:
            segment_id: the segment.
            state: its state.
            events: that were appended until then.
        """
        if segment_id in self.offsets:
            self._see(segment_id, state.start_offset, state.write_offset)
        self.direct_events[segment_id] = events

    def count_commits(self) -> None:
        """Look into the commit log for rows that were committed since."""
        if self.ledger is None:
            return
        before, state = self.state, self.ledger.state()
        self.state = state
        if before is None:
            self.committed_events = state.rows or 0
            self._look_back(self.ledger, state)
        elif state.version > before.version:
            first = max(before.version + 1, state.version - _COUNTED_VERSIONS + 1)
            commits = self.ledger.commits(range(first, state.version + 1))
            self.committed_events += sum(commit.rows for commit in commits)
            self.growths.extend(_growths(commits))

    def remember(self, at: float, now: float) -> None:
        """Keep a sample.

        Args:
            at: seconds since 1970.
            now: by `time.monotonic`.
        """
        if self.samples and at - self.samples[-1].at > STALE_S:
            self.samples.clear()
        while self.samples and self.samples[-1].at >= at:
            # It was committed while the segments were looked at.
            self.samples.pop()
        if self.samples and self.written > self.samples[-1].bytes:
            last = self.growths[-1].at if self.growths else 0.0
            if last <= self.samples[-1].at:
                self.growths.append(Growth(at))
        self.samples.append(Sample(at=at, bytes=self.written, events=self.events))
        self._count_rows()
        self.sampled_at = now
        if now > self.followed_until:
            self.tails.clear()
            return
        for segment_id in self.current:
            tails = self.tails.setdefault(segment_id, deque(maxlen=KEPT_OFFSETS))
            offset = self.offsets[segment_id]
            if len(tails) > 1 and tails[-1][1] == offset == tails[-2][1]:
                tails[-1] = (at, offset)
            else:
                tails.append((at, offset))

    def fail(self, error: Exception, now: float) -> None:
        """Note why the stream can't be looked at; it is tried again some seconds later.

        Args:
            error: what has happened.
            now: by `time.monotonic`.
        """
        self.error, self.sampled_at, self.refreshed_at = str(error), now, now - REFRESHED_S + _RETRIED_S
        self.samples.clear()
        self.growths.clear()
        # It may have been dropped and made again, with a log of its own.
        self.ledger, self.state, self.rows = None, None, None

    def rates(self) -> tuple[float | None, float | None]:
        """Bytes and events a second that are written now; None where there is one sample only."""
        rate = recent_rate([(one.at, one.bytes) for one in self.samples])
        return rate, recent_rate([(one.at, one.events) for one in self.samples])

    def curve(self) -> list[tuple[float, float | None]]:
        """Bytes a second in the last minute, as of `curve_of`."""
        points = [(one.at, one.bytes) for one in self.samples]
        return curve_of(points, points[-1][0]) if points else []

    def _look_back(self, ledger: Ledger, state: State) -> None:
        """Make samples of the last minute's commits, which were made before anybody looked."""
        if not state.version:
            return
        first = max(1, state.version - KEPT_GROWTHS)
        commits = ledger.commits(range(first, state.version + 1))
        self.growths.extend(_growths(commits))
        if not self.samples:
            self.samples.extend(_samples(commits, self.written, self.events))

    def _merged_events(self) -> int:
        """The rows of a commit in progress whose bytes are all there."""
        state = self.state
        if state is None or state.pending is None or state.bytes is None:
            return 0
        return state.pending.rows if self.written >= state.bytes + state.pending.bytes else 0

    def _count_rows(self) -> None:
        state = self.state
        if (
            state is not None
            and state.pending is None
            and state.bytes == self.written
            and not any(self.begins.values())
        ):
            self.rows, self.uncounted = None if self.is_keyed else state.rows, 0
            return
        # While rows are committed the log and the segments tell of different moments.
        self.uncounted += 1
        if self.uncounted > _PATIENT_SAMPLES or state is None:
            self.rows = None

    def _see(self, segment_id: int, begin: int, end: int) -> bool:
        before = self.offsets.get(segment_id, 0)
        end = max(before, end)
        self.begins[segment_id] = max(begin, self.begins.get(segment_id, 0))
        self.offsets[segment_id] = end
        self.kept[segment_id] = end - self.begins[segment_id]
        self.written += end - before
        return end > before


def current_segments(watched: Iterable[Watched]) -> dict[Stream, frozenset[int]]:
    """The current segments of streams, of those that have some."""
    return {one.stream: one.current for one in watched if one.current}


def _growths(commits: Iterable[Commit]) -> list[Growth]:
    return [Growth(one.committed_at / 1000, one.query) for one in commits if not one.of_others]


def _samples(commits: Sequence[Commit], written: int, events: int) -> list[Sample]:
    """What was written until some commits, the last minute's, if nobody has written since the last one.

    Args:
        commits: the oldest first.
        written: bytes that were written until now.
        events: likewise.
    """
    samples: list[Sample] = []
    now = time.time()
    for one in reversed(commits):
        # Since an older one nothing has come until the next.
        samples.append(Sample(at=max(one.committed_at / 1000, now - SLOW_S), bytes=written, events=events))
        written, events = written - one.bytes, events - one.rows
        if one.of_others or one.committed_at / 1000 < now - SLOW_S or written < 0 or events < 0:
            break
        if one.version == 1 and written == 0:
            samples.append(Sample(at=min(now - SLOW_S, samples[-1].at - 1), bytes=0, events=max(0, events)))
    return [sample for sample in reversed(samples) if sample.at <= now]
