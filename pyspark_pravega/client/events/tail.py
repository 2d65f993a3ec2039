"""Following a stream: its events as they are appended, across scales, in order per routing key."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, suppress
from typing import Self

from pyspark_pravega.client.connections import Cluster
from pyspark_pravega.client.events.batches import EventBatch, event_batches
from pyspark_pravega.client.names import Stream, Successor
from pyspark_pravega.client.positions import replacement, tail_cut
from pyspark_pravega.client.segments import follow_segment
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import PravegaError

_PAUSE_S = 0.2
"""How soon the threads notice that nobody wants more."""
_BATCHES_AHEAD = 8


class _Ended:
    """A sealed segment's end, with those who go on from there."""

    def __init__(self, segment_id: int, successors: tuple[Successor, ...]) -> None:
        self.segment_id, self.successors = segment_id, successors


class EventTail(Iterator[EventBatch]):
    """An endless iterator over a stream's events; it ends only with a sealed stream.

    A segment's events come in their order, and segments that came out of a scale begin when all those whose place they
    took have been read to their ends. A thread for each open segment reads ahead, by a few megabytes. Used by one
    thread, but for `close`; a context manager.
    """

    def __init__(self, client: Cluster, stream: Stream, start: Mapping[int, int] | None = None) -> None:
        """Begin to follow.

        Args:
            client: the cluster.
            stream: the stream.
            start: where to begin: segment id to offset in bytes, as `position` gave it; the stream's tail when None. Of
                a part of the segments, these are followed, and their successors when they have no predecessors among
                the others.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        self.stream = stream
        self._client = client
        self._arrivals: queue.Queue[EventBatch | _Ended | PravegaError | None] = queue.Queue(_BATCHES_AHEAD)
        self._closed = threading.Event()
        begin = tail_cut(client.pool, stream) if start is None else start
        # Segments of a cut that come later are found as successors.
        self._position = {segment_id: offset for segment_id, offset in begin.items() if offset >= 0}
        self._open: set[int] = set()
        self._begun = set(self._position)
        self._ended: dict[int, tuple[Successor, ...]] = {}
        for segment_id, offset in self._position.items():
            self._follow(segment_id, offset)

    @property
    def position(self) -> StreamCut:
        """Behind the events that have been handed out: begin here to go on."""
        return StreamCut(self.stream, self._position)

    @property
    def ended(self) -> bool:
        """Whether nothing more comes: all is read to the end, or the tail is closed."""
        return not self._open

    def poll(self, timeout: float) -> EventBatch | None:
        """The next events, if there are any soon.

        Args:
            timeout: how long to wait, in seconds.

        Returns:
            At least one event; None when none came, when the stream is sealed and read to its end, or when the tail was
            closed.

        Raises:
            SegmentTruncatedError: events that were to be read have been truncated.
            PravegaError: the stream can't be read any more.
        """
        deadline = time.monotonic() + timeout
        while self._open:
            try:
                arrival = self._arrivals.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            if arrival is None:
                return None
            if isinstance(arrival, EventBatch):
                self._position[arrival.segment_id] = arrival.end
                return arrival
            if isinstance(arrival, PravegaError):
                self.close()
                raise arrival
            self._go_on(arrival)
        return None

    def __next__(self) -> EventBatch:
        while self._open and not self._closed.is_set():
            batch = self.poll(1.0)
            if batch is not None:
                return batch
        raise StopIteration

    def close(self) -> None:
        """Read no more; the connections close within a moment. Wakes `poll` where it waits in another thread."""
        self._closed.set()
        self._open.clear()
        with suppress(queue.Full):
            self._arrivals.put_nowait(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _follow(self, segment_id: int, offset: int) -> None:
        self._open.add(segment_id)
        thread = threading.Thread(
            target=self._read, args=(segment_id, offset), name=f"tail-{self.stream}-{segment_id}", daemon=True
        )
        thread.start()

    def _go_on(self, ended: _Ended) -> None:
        """Begin with the successors that have waited for this segment last."""
        self._open.discard(ended.segment_id)
        self._ended[ended.segment_id] = ended.successors
        old, new = replacement(ended.segment_id, lambda segment_id: self._ended.get(segment_id, ()))
        for segment_id in old:
            self._position.pop(segment_id, None)
        # A position may be from a time when a successor could begin before the others of its scale.
        for segment_id in sorted(new - self._begun):
            self._begun.add(segment_id)
            self._position[segment_id] = 0
            self._follow(segment_id, 0)

    def _read(self, segment_id: int, offset: int) -> None:
        try:
            with closing(self._bytes(segment_id, offset)) as buffers:
                for batch in event_batches(buffers, self.stream, segment_id, offset):
                    self._hand_over(batch)
            if not self._closed.is_set():
                self._hand_over(_Ended(segment_id, self._client.controller.successors(self.stream, segment_id)))
        except PravegaError as error:
            self._hand_over(error)

    def _bytes(self, segment_id: int, offset: int) -> Generator[memoryview, None, None]:
        with closing(follow_segment(self._client.pool, self.stream, segment_id, offset, pause=_PAUSE_S)) as buffers:
            for data in buffers:
                if self._closed.is_set():
                    return
                if data is not None:
                    yield data

    def _hand_over(self, arrival: EventBatch | _Ended | PravegaError) -> None:
        while not self._closed.is_set():
            try:
                self._arrivals.put(arrival, timeout=_PAUSE_S)
                return
            except queue.Full:
                continue
