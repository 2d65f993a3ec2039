"""Connections to the segment stores, found through the controller and kept for the next user."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self, TypeVar

from pyspark_pravega.client.connection import Connection
from pyspark_pravega.client.controller import Controller
from pyspark_pravega.client.names import Stream
from pyspark_pravega.errors import SegmentStoreUnavailableError

MAX_IDLE_PER_ENDPOINT = 8

Result = TypeVar("Result")


class ConnectionPool:
    """Connections by segment. Safe for use by several threads; a context manager."""

    def __init__(self, controller: Controller, *, timeout: float) -> None:
        """Keep connections to the segment stores of a controller's cluster.

        Args:
            controller: knows which segment store serves a segment.
            timeout: for connecting and for each reply, in seconds.
        """
        self.controller = controller
        self.timeout = timeout
        self._endpoints: dict[tuple[Stream, int], tuple[str, int]] = {}
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
        connection = self._take(stream, segment_id, fresh=fresh)
        if check and not connection.is_sound():
            connection.close()
            connection = self._take(stream, segment_id, fresh=True)
        try:
            yield connection
        except BaseException:
            # A reply may still be under way: the connection is of no use to the next one.
            connection.close()
            raise
        self._give_back(connection)

    def call(self, stream: Stream, segment_id: int, use: Callable[[Connection], Result]) -> Result:
        """Do something that may be done twice, with a second try on a new connection when the first is lost.

        Args:
            stream: the segment's stream.
            segment_id: the segment.
            use: what to do with a connection.
        """
        try:
            with self.connection(stream, segment_id) as connection:
                return use(connection)
        except SegmentStoreUnavailableError:
            with self.connection(stream, segment_id, fresh=True) as connection:
                return use(connection)

    def open(self, stream: Stream, segment_id: int, *, fresh: bool = False) -> Connection:
        """A new connection to the segment store that serves a segment; the caller closes it.

        Args:
            stream: the segment's stream.
            segment_id: the segment.
            fresh: ask the controller again where the segment is.

        Raises:
            SegmentStoreUnavailableError: the segment store can't be reached.
        """
        return Connection(*self._endpoint(stream, segment_id, fresh=fresh), timeout=self.timeout)

    def _endpoint(self, stream: Stream, segment_id: int, *, fresh: bool) -> tuple[str, int]:
        key = (stream, segment_id)
        if fresh or key not in self._endpoints:
            self._endpoints[key] = self.controller.endpoint(stream, segment_id)
        return self._endpoints[key]

    def _take(self, stream: Stream, segment_id: int, *, fresh: bool) -> Connection:
        endpoint = self._endpoint(stream, segment_id, fresh=fresh)
        if not fresh:
            with self._lock:
                if self._idle[endpoint]:
                    return self._idle[endpoint].pop()
        return Connection(*endpoint, timeout=self.timeout)

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if connection.healthy and len(self._idle[connection.endpoint]) < MAX_IDLE_PER_ENDPOINT:
                self._idle[connection.endpoint].append(connection)
                return
        connection.close()
