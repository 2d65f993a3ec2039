"""Connections to the segment stores, found through the controller and kept for the next user."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Self, TypeVar

from pyspark_pravega.client.connections.absent import Presence
from pyspark_pravega.client.connections.connection import Connection
from pyspark_pravega.client.connections.tokens import Tokens
from pyspark_pravega.client.controller import Controller
from pyspark_pravega.client.names import SegmentList, Stream, StreamSegments
from pyspark_pravega.deadlines import Limit, Retries
from pyspark_pravega.errors import SegmentStoreUnavailableError, TokenExpiredError, WrongHostError
from pyspark_pravega.security import Tls

MAX_IDLE_PER_ENDPOINT = 8
MOST_TOLD = 64
"""The endpoints of so many segments are told to other processes, which ask for the others."""
IDLE_S = 5.0
"""A connection that nobody has used for so long is tried out before it is used."""
REPLY_S = 30.0
"""How long a reply may take of a segment store that is there, before it is asked for again."""

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class KnownEndpoints:
    """Which segment stores serve segments, as a client knows it. It can be pickled."""

    tables: dict[tuple[str, str], StreamSegments]
    """The segments of key-value tables, by scope and name."""
    endpoints: dict[tuple[Stream, int], tuple[str, int]]
    """Host and port of the segment store that serves a segment."""


class ConnectionPool:
    """Connections by segment, and the tokens to use on them. Safe for use by several threads; a context manager."""

    def __init__(
        self,
        controller: Controller,
        *,
        timeout: float,
        authenticated: bool = False,
        tls: Tls | None = None,
        presumed: bool = False,
    ) -> None:
        """Keep connections to the segment stores of a controller's cluster.

        Args:
            controller: knows which segment store serves a segment.
            timeout: how long an operation is tried again where the caller sets no deadline, in seconds. A reply may
                take no longer either.
            authenticated: whether the segment stores want tokens.
            tls: which servers to believe; None for connections without TLS.
            presumed: whether the segment stores' addresses are right for sure, because others have reached them.
        """
        self.controller = controller
        self.timeout = timeout
        self.tokens = Tokens(controller, enabled=authenticated)
        self._tls, self._presumed = tls, presumed
        self._presences: dict[tuple[str, int], Presence] = {}
        self._endpoints: dict[tuple[Stream, int], tuple[str, int]] = {}
        self.table_segments: dict[tuple[str, str], StreamSegments] = {}
        """Where key-value tables were when they were last opened, by scope and name."""
        self.segment_lists: dict[Stream, SegmentList] = {}
        """The segments of streams, as the controller has told them; see `segments.listed`."""
        self._idle: dict[tuple[str, int], list[Connection]] = defaultdict(list)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle = [connection for connections in self._idle.values() for connection in connections]
            self._idle.clear()
        for connection in idle:
            connection.close()

    @contextmanager
    def connection(
        self, stream: Stream, segment_id: int, *, fresh: bool = False, check: bool = False
    ) -> Iterator[Connection]:
        """A connection to the segment store that serves a segment, for one user at a time.

        Args:
            stream: the segment's stream.
            segment_id: the segment.
            fresh: connect anew instead of using an idle connection, and ask the controller again.
            check: find out first whether an idle connection is still sound, for what mustn't be done twice.

        Raises:
            SegmentStoreUnavailableError: the segment store can't be reached.
        """
        connection = self.take(stream, segment_id, fresh=fresh, check=check)
        try:
            yield connection
        except BaseException as error:
            # A reply may still be under way: the connection is of no use to the next one.
            connection.close()
            self.learn(stream, segment_id, error)
            raise
        self.give_back(connection)

    def call(self, stream: Stream, segment_id: int, use: Callable[[Connection], Result]) -> Result:
        """Do something that may be done twice, again on a new connection when the first is lost.

        Args:
            stream: the segment's stream.
            segment_id: the segment.
            use: what to do with a connection. It asks for tokens anew each time.

        Raises:
            SegmentStoreUnavailableError: it couldn't be done until the caller's deadline, or within the time-out.
        """
        retries = Retries(self.timeout)
        while True:
            try:
                with self.connection(stream, segment_id, fresh=retries.failures > 0) as connection:
                    return use(connection)
            except (SegmentStoreUnavailableError, TokenExpiredError):
                if not retries.again():
                    raise

    def open(self, stream: Stream, segment_id: int, *, fresh: bool = False) -> Connection:
        """A new connection to the segment store that serves a segment; the caller closes it.

        Args:
            stream: the segment's stream.
            segment_id: the segment.
            fresh: ask the controller again where the segment is.

        Raises:
            SegmentStoreUnavailableError: the segment store can't be reached.
        """
        return self._connect(self._endpoint(stream, segment_id, fresh=fresh))

    def take(self, stream: Stream, segment_id: int, *, fresh: bool = False, check: bool = False) -> Connection:
        """A connection to the segment store that serves a segment, until the caller closes it or gives it back.

        Args:
            stream: the segment's stream.
            segment_id: the segment.
            fresh: as of `connection`.
            check: likewise.

        Raises:
            SegmentStoreUnavailableError: the segment store can't be reached.
        """
        endpoint = self._endpoint(stream, segment_id, fresh=fresh)
        while not fresh:
            with self._lock:
                if not self._idle[endpoint]:
                    break
                connection = self._idle[endpoint].pop()
            if not check and time.monotonic() - connection.used_at < IDLE_S:
                return connection
            if connection.is_sound():
                return connection
            connection.close()
            fresh, endpoint = True, self._endpoint(stream, segment_id, fresh=True)
        return self._connect(endpoint)

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for its next user, unless there are enough.

        Args:
            connection: one that `take` or `open` gave, with nothing under way.
        """
        with self._lock:
            if connection.healthy and len(self._idle[connection.endpoint]) < MAX_IDLE_PER_ENDPOINT:
                self._idle[connection.endpoint].append(connection)
                return
        connection.close()

    def by_segment_store(self, stream: Stream, segment_ids: Iterable[int]) -> list[list[int]]:
        """Segments by the segment store that serves them, or probably does.

        To ask the controller for each of a thousand segments takes a second, so one whose endpoint isn't known is
        looked for where another one is: a segment store says so when it isn't the right one.

        Args:
            stream: the segments' stream.
            segment_ids: the segments, at least one.

        Returns:
            The segments of each segment store, in their order; the endpoint of the first of each is known.
        """
        ids = list(segment_ids)
        unknown = [segment_id for segment_id in ids if (stream, segment_id) not in self._endpoints]
        if len(unknown) == len(ids):
            self._endpoint(stream, unknown.pop(0), fresh=False)
        by_endpoint: dict[tuple[str, int], list[int]] = {}
        for segment_id in ids:
            if (stream, segment_id) in self._endpoints:
                by_endpoint.setdefault(self._endpoints[stream, segment_id], []).append(segment_id)
        next(iter(by_endpoint.values())).extend(unknown)
        return list(by_endpoint.values())

    def by_endpoint(self, segments: Mapping[Stream, Iterable[int]]) -> dict[tuple[str, int], list[tuple[Stream, int]]]:
        """Segments of many streams by the segment store that serves them, or probably does; see `by_segment_store`.

        Args:
            segments: stream to segments, at least one each.

        Returns:
            Host and port to the segments there.
        """
        by_endpoint: dict[tuple[str, int], list[tuple[Stream, int]]] = {}
        for stream, ids in segments.items():
            for some in self.by_segment_store(stream, ids):
                endpoint = self._endpoint(stream, some[0], fresh=False)
                by_endpoint.setdefault(endpoint, []).extend((stream, segment_id) for segment_id in some)
        return by_endpoint

    def confirm(self, stream: Stream, segment_ids: Iterable[int], endpoint: tuple[str, int]) -> None:
        """Remember that a segment store has answered for segments."""
        for segment_id in segment_ids:
            self._endpoints[stream, segment_id] = endpoint

    def forget_endpoints(self, stream: Stream, segment_ids: Iterable[int]) -> None:
        """Forget where segments were thought to be."""
        for segment_id in segment_ids:
            self._endpoints.pop((stream, segment_id), None)

    def known_endpoints(self, *streams: Stream) -> KnownEndpoints:
        """The known endpoints of some streams' segments, and the segments of key-value tables, for another process.

        Args:
            streams: the streams; of a key-value table the stream of its segments.
        """
        return KnownEndpoints(
            tables={key: segments for key, segments in self.table_segments.items() if segments.stream in streams},
            endpoints=dict(islice((one for one in list(self._endpoints.items()) if one[0][0] in streams), MOST_TOLD)),
        )

    def believe(self, known: KnownEndpoints) -> None:
        """Begin with what another process has known. What is wrong by now is found out when it is used.

        Args:
            known: what `known_endpoints` has told there.
        """
        for table, segments in known.tables.items():
            self.table_segments.setdefault(table, segments)
        for segment, endpoint in known.endpoints.items():
            self._endpoints.setdefault(segment, endpoint)

    def learn(self, stream: Stream, segment_id: int, error: BaseException) -> None:
        """Learn from what became of a connection: that a token is too old, or that the segment has moved.

        Args:
            stream: the segment's stream.
            segment_id: the segment.
            error: what happened to one that `open` made; for `connection` and `call` the pool does it itself.
        """
        if isinstance(error, TokenExpiredError):
            self.tokens.forget(stream)
        elif isinstance(error, WrongHostError):
            # As Java's client does: the controller is asked for the new endpoint, not the old store's guess believed.
            self._endpoints.pop((stream, segment_id), None)

    def _connect(self, endpoint: tuple[str, int]) -> Connection:
        presence = self._presence(endpoint)
        seconds = min(presence.attempt_s(), self.timeout)
        limit = Limit(seconds)
        is_cut_short = limit.is_given and limit.left < seconds
        try:
            return self._new(endpoint, seconds, presence)
        except SegmentStoreUnavailableError as error:
            if is_cut_short:
                # By the caller's deadline: that tells nobody anything.
                raise
            self._close_idle(endpoint)
            raise presence.missed(error) from None

    def _presence(self, endpoint: tuple[str, int]) -> Presence:
        with self._lock:
            if endpoint not in self._presences:
                ping = partial(self._new, endpoint)
                self._presences[endpoint] = Presence(endpoint, ping, presumed=self._presumed)
            return self._presences[endpoint]

    def _new(self, endpoint: tuple[str, int], seconds: float, presence: Presence | None = None) -> Connection:
        return Connection(
            *endpoint, timeout=min(self.timeout, REPLY_S), tls=self._tls, connect_s=seconds, presence=presence
        )

    def _close_idle(self, endpoint: tuple[str, int]) -> None:
        with self._lock:
            idle = self._idle.pop(endpoint, [])
        for connection in idle:
            connection.close()

    def _endpoint(self, stream: Stream, segment_id: int, *, fresh: bool) -> tuple[str, int]:
        key = (stream, segment_id)
        if fresh or key not in self._endpoints:
            self._endpoints[key] = self.controller.endpoint(stream, segment_id)
        return self._endpoints[key]
