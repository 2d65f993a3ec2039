"""How streaming queries get on: what they read a second, how their lag goes, and when they will be caught up."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from pyspark_pravega.catalog.names import to_sql
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import Commit
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.live.queries import QueryLine, SourceLag, query_lines
from pyspark_pravega.live.rates import SLOW_S, recent_rate
from pyspark_pravega.live.sampling import Sampler
from pyspark_pravega.live.waiting import oldest_behind
from pyspark_pravega.sql.checkpoints import Folder

_LOOKED_S = 2.0
_TARGETS_S = 10.0
_KEPT = 450
"""So many measures of a lag are kept: a quarter of an hour."""
_TREND_S, _LEAST_TREND_S, _LEAST_MEASURES = 120.0, 8.0, 4
_INTERVALS = 3
"""Over so many micro-batches a lag is looked at, at least."""
_BATCHES = 2.0
"""Who is behind by no more than so many micro-batches keeps up."""
_NOTHING_BYTES = 4096
"""A change of a lag that is less than this says nothing."""


class Trend(StrEnum):
    """How a lag goes, from one trough to the next: a query that runs in micro-batches is behind between them."""

    UNKNOWN = "measuring"
    KEEPING_UP = "keeping up"
    CATCHING_UP = "catching up"
    STEADY = "steady"
    FALLING_BEHIND = "falling behind"


@dataclass(frozen=True)
class Measure:
    """A lag at a moment."""

    at: float
    """Seconds since 1970."""
    bytes: int
    events: int
    read: int
    """Bytes of the stream that the query has read, as far as its segments are still there."""


@dataclass(frozen=True)
class Outlook:
    """How a lag goes."""

    trend: Trend
    change: float | None = None
    """Bytes a second that the lag grows; less than 0 where it gets smaller."""
    caught_up_s: float | None = None
    """In so many seconds nothing will be left, if it goes on so; None where that isn't so, or not known."""


def outlook(measures: Sequence[Measure], interval_s: float = 0.0) -> Outlook:
    """How a lag goes, and when it will be nothing.

    Args:
        measures: the oldest first.
        interval_s: how far the query's micro-batches are from each other: its lag is looked at over several.
    """
    if not measures:
        return Outlook(Trend.UNKNOWN)
    last = measures[-1]
    lately = [one for one in measures if one.at >= last.at - max(_TREND_S, 2 * _INTERVALS * interval_s)]
    if not last.bytes:
        return Outlook(Trend.KEEPING_UP, None, 0.0)
    if len(lately) < _LEAST_MEASURES or last.at - lately[0].at < max(_LEAST_TREND_S, _INTERVALS * interval_s):
        return Outlook(Trend.UNKNOWN)
    middle = lately[0].at + (last.at - lately[0].at) / 2
    before = min((one for one in lately if one.at < middle), key=lambda one: one.bytes)
    after = min((one for one in lately if one.at >= middle), key=lambda one: one.bytes)
    read = (last.read - lately[0].read) / (last.at - lately[0].at)
    if after.bytes <= _BATCHES * interval_s * read:
        # No more than comes while a micro-batch is under way.
        return Outlook(Trend.KEEPING_UP, None, 0.0)
    change = (after.bytes - before.bytes) / max(0.001, after.at - before.at)
    if abs(after.bytes - before.bytes) <= max(_NOTHING_BYTES, 0.02 * before.bytes):
        return Outlook(Trend.STEADY, change)
    if change > 0:
        return Outlook(Trend.FALLING_BEHIND, change)
    return Outlook(Trend.CATCHING_UP, change, after.bytes / -change)


def seen_since(measures: Sequence[Measure]) -> float | None:
    """When bytes that still wait were seen first, in seconds since 1970; None where nothing waits.

    Args:
        measures: the oldest first.
    """
    if not measures or not measures[-1].bytes:
        return None
    return next(one.at for one in measures if one.read + one.bytes > measures[-1].read)


class QueryWatch:
    """Looks at checkpoints when somebody asks, and remembers the lags. Safe for use by several threads."""

    def __init__(self, client: Client, sampler: Sampler, checkpoints: Sequence[Folder]) -> None:
        """Begin to watch.

        Args:
            client: the cluster.
            sampler: knows how much is written to streams.
            checkpoints: of streaming queries, or folders of some.
        """
        self._client, self._sampler, self._checkpoints = client, sampler, tuple(checkpoints)
        self._lock = threading.Lock()
        self._lines: list[QueryLine] = []
        self._looked_at = self._targets_at = 0.0
        self._measures: dict[tuple[str, str], deque[Measure]] = {}
        self._writers: dict[Stream, tuple[int, frozenset[str]]] = {}
        self._oldest: dict[tuple[str, str], tuple[SourceLag, Commit | None]] = {}

    def lines(self) -> list[QueryLine]:
        """The queries; looked at anew when some seconds have gone by.

        Raises:
            PravegaError: the servers can't be asked.
        """
        with self._lock:
            now = time.monotonic()
            if self._checkpoints and (not self._looked_at or now - self._looked_at >= _LOOKED_S):
                self._lines = query_lines(self._client, self._checkpoints)
                self._measure()
                self._looked_at = time.monotonic()
            return self._lines

    def rates_out(self) -> dict[str, float]:
        """What queries read of each stream, in bytes a second; of streams that are read only."""
        rates: dict[str, float] = {}
        with self._lock:
            for (_, stream), measures in self._measures.items():
                rate = _rate_out(measures)
                if rate is not None:
                    rates[stream] = rates.get(stream, 0.0) + rate
        return rates

    def outlook(self, line: QueryLine, source: SourceLag) -> Outlook:
        """How a query's lag in one of its streams goes."""
        with self._lock:
            measures = self._measures.get((line.checkpoint, source.stream), ())
            return outlook(measures, (line.interval_ms or 0) / 1000)

    def waits_since(self, line: QueryLine, source: SourceLag) -> float | None:
        """Since when the oldest row waits that a query hasn't read, in seconds since 1970; None where none waits.

        The commit log tells it. Of what others have written it is known since the first look at it.

        Args:
            line: one of `lines()`.
            source: what it reads.

        Raises:
            PravegaError: the commit log can't be read.
        """
        key = (line.checkpoint, source.stream)
        with self._lock:
            seen = seen_since(self._measures.get(key, ()))
            before, commit = self._oldest.get(key, (None, None))
        if not source.bytes_behind:
            return None
        log = self._sampler.logs().get(Stream.parse(source.stream))
        is_known = source.version is None and before is not None and before.unread == source.unread
        if log is not None and (commit is None or not is_known):
            ledger, state = log
            if source.version is None:
                commit = oldest_behind(ledger, state.version, source.unread)
            else:
                commit = next(iter(ledger.commits([source.version + 1])), None)
            with self._lock:
                self._oldest[key] = source, commit
        times = [at for at in (seen, None if commit is None else commit.committed_at / 1000) if at is not None]
        return min(times, default=None)

    def ages(self) -> dict[tuple[str, str], float]:
        """How old the oldest row is that each query hasn't read, in seconds, by its checkpoint and stream; 0 where all
        is read."""
        now, ages = time.time(), {}
        for line in self.lines():
            for source in line.sources:
                since = self._waits_since_ms(line, source)
                if since is not None or not source.bytes_behind:
                    ages[line.checkpoint, source.stream] = 0.0 if since is None else max(0.0, now - since / 1000)
        return ages

    def shown(self, line: QueryLine) -> dict[str, Any]:
        """A query as the page has it: with the tables into which it writes, and how its lags went.

        Args:
            line: one of `lines()`.
        """
        sources = []
        for source in line.sources:
            goes = self.outlook(line, source)
            with self._lock:
                measures = list(self._measures.get((line.checkpoint, source.stream), ()))
            history = [(round(one.at * 1000), one.bytes, one.events) for one in measures]
            rate = _rate_out(measures)
            of_source = {**asdict(source), "table": table_name(Stream.parse(source.stream)), "bytes_out": rate}
            since = self._waits_since_ms(line, source)
            sources.append({**of_source, **asdict(goes), "history": history, "waits_since": since})
        return {**asdict(line), "sources": sources, "targets": self.targets(line.query)}

    def targets(self, query: str | None) -> list[dict[str, str]]:
        """The tables into which a query writes, as far as their commit logs were looked at.

        Args:
            query: its id.
        """
        self._look_for_writers()
        with self._lock:
            written = sorted((s for s, (_, queries) in self._writers.items() if query in queries), key=str)
        return [{"stream": str(stream), "table": table_name(stream)} for stream in written]

    def _waits_since_ms(self, line: QueryLine, source: SourceLag) -> int | None:
        try:
            since = self.waits_since(line, source)
        except PravegaError:
            return None
        return None if since is None else round(since * 1000)

    def names(self) -> dict[str, str]:
        """The names of queries, by their ids."""
        return {line.query: line.name for line in self._lines if line.query is not None}

    def _measure(self) -> None:
        streams = {Stream.parse(source.stream) for line in self._lines for source in line.sources}
        self._sampler.streams()
        self._sampler.sample(streams, others=0)
        written = {line.stream: line.written_bytes for line in self._sampler.lines(streams)}
        now = time.time()
        for line in self._lines:
            for source in line.sources:
                measures = self._measures.setdefault((line.checkpoint, source.stream), deque(maxlen=_KEPT))
                # It is sampled at another moment than the lag: what is read never gets less.
                read = written.get(source.stream, 0) - source.bytes_behind
                read = max(read, measures[-1].read) if measures else read
                measures.append(Measure(now, source.bytes_behind, source.events_behind, read))
        there = {(line.checkpoint, source.stream) for line in self._lines for source in line.sources}
        self._measures = {key: measures for key, measures in self._measures.items() if key in there}
        self._oldest = {key: oldest for key, oldest in self._oldest.items() if key in there}

    def _look_for_writers(self) -> None:
        with self._lock:
            now = time.monotonic()
            if self._targets_at and now - self._targets_at < _TARGETS_S:
                return
            self._targets_at = now
            self._sampler.sample(())
            logs: Mapping[Stream, Any] = self._sampler.logs()
            self._writers = {stream: known for stream, known in self._writers.items() if stream in logs}
            for stream, (ledger, state) in logs.items():
                if not state.version or self._writers.get(stream, (-1,))[0] == state.version:
                    continue
                try:
                    queries = frozenset(progress.query for progress, _ in ledger.queries() if progress.epoch >= 0)
                except PravegaError:
                    continue
                self._writers[stream] = (state.version, queries)


def _rate_out(measures: Sequence[Measure]) -> float | None:
    """What is read a second; None where nothing was, and it wasn't looked at for long enough to say so."""
    rate = recent_rate([(one.at, one.read) for one in measures])
    return rate or (0.0 if measures and measures[-1].at - measures[0].at >= SLOW_S else None)


def table_name(stream: Stream) -> str:
    """A stream's name in SQL."""
    return f"{to_sql(stream.scope)}.{to_sql(stream.name)}"
