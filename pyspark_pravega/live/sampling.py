"""Samples of many streams: who asks for some of them gets these, and the others come in turn. Nothing runs by itself.

A sample of a stream costs a question for each current segment, two hundred to a packet. Only where a segment has grown
its events and the stream's commit log are asked for. The list of segments is taken anew when a segment was sealed, and
now and then, as somebody may have truncated the stream.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from pyspark_pravega.catalog.names import to_sql
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.segments import survey, survey_events
from pyspark_pravega.connector.log import Ledger, State
from pyspark_pravega.errors import NotFoundError, PravegaError
from pyspark_pravega.live.watched import REFRESHED_S, Growth, Watched, current_segments

LEAST_S = 0.9
"""A sample that isn't older is as good as a new one, for several who look."""
LISTED_S = 5.0
JUST_NOW_S = 15.0
"""Of a stream that wasn't looked at for longer nobody knows whether it was written."""
IN_TURN = 25
"""So many streams that nobody asked for are sampled, too, each time: they are sorted by what is known of them."""
_AT_ONCE = 8


@dataclass(frozen=True, kw_only=True)
class StreamLine:
    """What is known of a stream."""

    table: str
    """Its name in SQL."""
    stream: str
    """`scope/stream`."""
    segments: int
    """That take events now; 0 of a sealed stream."""
    bytes: int
    """From head to tail, frames included."""
    rows: int | None
    """As the commit log has counted them; None where they would have to be counted."""
    is_keyed: bool
    """Whether it is a table with a key, whose rows aren't its events."""
    version: int
    """The commit log's last one; 0 when there is none."""
    committed_at: int | None
    """When that was, in ms since 1970."""
    bytes_in: float | None
    """Written, a second; None until there are two samples."""
    events_in: float | None
    """Likewise. Events in transactions of other programs than this package aren't counted by anybody."""
    written_bytes: int
    """Since the stream was made, as far as its segments are still there."""
    written_events: int
    """That were counted; likewise."""
    curve: tuple[tuple[float, float | None], ...]
    """How many seconds ago how much a second came, in the last minute; None where nobody has looked."""
    error: str | None
    """Why the stream can't be looked at; all else is empty then."""


class Sampler:
    """Knows all streams of a cluster, as of when somebody asked last. Safe for use by several threads."""

    def __init__(self, client: Client, *, scope: str | None = None) -> None:
        """Watch a cluster.

        Args:
            client: the cluster.
            scope: watch this scope's streams only.
        """
        self.client, self.scope = client, scope
        self._lock = threading.RLock()
        self._watched: dict[Stream, Watched] = {}
        self._listed_at = 0.0

    def streams(self) -> list[Stream]:
        """All streams, by their names; listed anew when some seconds have gone by.

        Raises:
            PravegaError: they can't be listed.
        """
        with self._lock:
            now = time.monotonic()
            if not self._listed_at or now - self._listed_at > LISTED_S:
                controller = self.client.controller
                there: dict[Stream, None] = {}
                for scope in sorted(controller.list_scopes()) if self.scope is None else [self.scope]:
                    with suppress(NotFoundError):
                        there |= dict.fromkeys(Stream(scope, name) for name in sorted(controller.list_streams(scope)))
                for stream in self._watched.keys() - there.keys():
                    del self._watched[stream]
                for stream in there:
                    self._watched.setdefault(stream, Watched(stream))
                self._watched = {stream: self._watched[stream] for stream in there}
                self._listed_at = now
            return list(self._watched)

    def sample(self, streams: Iterable[Stream], *, others: int = IN_TURN) -> None:
        """Look at streams now, unless that was done a moment ago.

        Args:
            streams: which ones; those that aren't there are passed over.
            others: how many others are looked at, too: those whose samples are the oldest.

        Raises:
            PravegaError: the servers can't be asked.
        """
        with self._lock:
            now = time.monotonic()
            wanted = {stream: self._watched[stream] for stream in streams if stream in self._watched}
            rest = sorted(
                (one for stream, one in self._watched.items() if stream not in wanted), key=lambda one: one.sampled_at
            )
            due = [one for one in [*wanted.values(), *rest[:others]] if now - one.sampled_at >= LEAST_S]
            stale = [one for one in due if not one.refreshed_at or now - one.refreshed_at > REFRESHED_S]
            if stale:
                with ThreadPoolExecutor(min(_AT_ONCE, len(stale))) as threads:
                    list(threads.map(lambda one: self._refresh(one, now), stale))
            self._look([one for one in due if one.error is None], now)

    def lines(self, streams: Iterable[Stream] | None = None) -> list[StreamLine]:
        """What is known of streams, without asking anybody.

        Args:
            streams: which ones, without those that aren't there; all when None.
        """
        with self._lock:
            chosen = self._watched.keys() if streams is None else streams
            return [_line(self._watched[stream]) for stream in chosen if stream in self._watched]

    def samples(self, stream: Stream) -> list[tuple[int, int, int]]:
        """The last samples of a stream: when (ms since 1970), bytes and events written until then, the oldest first."""
        with self._lock:
            watched = self._watched.get(stream)
            return [(round(one.at * 1000), one.bytes, one.events) for one in watched.samples] if watched else []

    def growths(self) -> dict[Stream, list[Growth]]:
        """When something was written to streams lately, the oldest first: to those that were looked at just now."""
        with self._lock:
            since = time.monotonic() - JUST_NOW_S
            return {stream: list(one.growths) for stream, one in self._watched.items() if one.sampled_at > since}

    def logs(self) -> dict[Stream, tuple[Ledger, State]]:
        """The commit logs that are known, and their states when they were looked at last."""
        with self._lock:
            known = [(stream, one.ledger, one.state) for stream, one in self._watched.items()]
            return {stream: (ledger, state) for stream, ledger, state in known if ledger and state}

    def current(self, most: int) -> dict[Stream, frozenset[int]]:
        """The segments that take events, of some of the streams that were looked at.

        Args:
            most: of so many streams at most.
        """
        with self._lock:
            known = [one for one in self._watched.values() if one.error is None and one.current]
            return current_segments(known[:most])

    def begins(self, stream: Stream) -> dict[int, int]:
        """Where the bytes begin of each segment of a stream that has some: segment id to offset in bytes."""
        with self._lock:
            watched = self._watched.get(stream)
            return {} if watched is None else {s: watched.begins[s] for s, held in watched.kept.items() if held}

    def follow(self, stream: Stream, seconds: float) -> dict[int, list[tuple[float, int]]]:
        """Remember the tails of a stream's segments for some time.

        Args:
            stream: the stream.
            seconds: for how long; whoever still looks asks again.

        Returns:
            Segment id to when, in seconds since 1970, its tail was where, of the samples since it is followed.
        """
        with self._lock:
            watched = self._watched.get(stream)
            if watched is None:
                return {}
            watched.followed_until = time.monotonic() + seconds
            return {segment_id: list(tails) for segment_id, tails in watched.tails.items()}

    def _refresh(self, watched: Watched, now: float) -> None:
        try:
            watched.refresh(self.client, now)
        except PravegaError as error:
            watched.fail(error, now)

    def _look(self, due: Sequence[Watched], now: float) -> None:
        states_by_segment = survey(self.client.pool, current_segments(due)) if due else {}
        at = time.time()
        grown: dict[Stream, set[int]] = {}
        for one in due:
            before = one.current
            states = {s: states_by_segment[one.stream, s] for s in before if (one.stream, s) in states_by_segment}
            ids = set(one.take(states))
            if not one.refreshed_at:
                # A scale is seen at once. What was appended before it is counted, too.
                self._refresh(one, now)
                ids |= before
            if one.error is None and (ids := ids | one.uncounted_segments()):
                grown[one.stream] = ids
        counted = survey_events(self.client.pool, grown) if grown else {}
        for (stream, segment_id), (state, events) in counted.items():
            self._watched[stream].count(segment_id, state, events)
        for one in due:
            if one.stream in grown or one.state is None or one.state.pending is not None:
                try:
                    one.count_commits()
                except PravegaError as error:
                    one.fail(error, now)
                    continue
            if one.error is None:
                one.remember(at, now)


def _line(watched: Watched) -> StreamLine:
    bytes_in, events_in = watched.rates()
    state = watched.state
    return StreamLine(
        table=f"{to_sql(watched.stream.scope)}.{to_sql(watched.stream.name)}",
        stream=str(watched.stream),
        segments=len(watched.current),
        bytes=watched.bytes,
        rows=watched.rows,
        is_keyed=watched.is_keyed,
        version=0 if state is None else state.version,
        committed_at=None if state is None or not state.version else state.committed_at,
        bytes_in=bytes_in,
        events_in=events_in,
        written_bytes=watched.written,
        written_events=watched.events,
        curve=tuple(watched.curve()),
        error=watched.error,
    )
