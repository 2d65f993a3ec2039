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
_MOST_AHEAD = 64
"""Of what is read ahead: each batch counts 1, and 1 more for each 256 KiB, so it is 64 small ones, or 14 MiB."""
_COUNTED_BYTES = 256 << 10


class _Ended:
    """A sealed segment's end, with those who go on from there."""

    def __init__(self, segment_id: int, successors: tuple[Successor, ...]) -> None:
        self.segment_id, self.successors = segment_id, successors


_Arrival = EventBatch | _Ended | PravegaError | None


class _Arrivals(queue.Queue[_Arrival]):
    """What the segments' threads have read, in its order."""

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self._weight = 0

    def _qsize(self) -> int:
        return self._weight

    def _put(self, item: _Arrival) -> None:
        super()._put(item)
        self._weight += _weight(item)

    def _get(self) -> _Arrival:
        item: _Arrival = super()._get()
        self._weight -= _weight(item)
        return item


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
        self._arrivals = _Arrivals(_MOST_AHEAD)
        self._next: _Arrival = None
        """What `poll_all` has met behind its last batch."""
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
            arrival, self._next = self._next, None
            try:
                arrival = arrival or self._arrivals.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            if arrival is None:
                return None
            if isinstance(arrival, EventBatch):
                return self._handed_out(arrival)
            if isinstance(arrival, PravegaError):
                self.close()
                raise arrival
            self._go_on(arrival)
        return None

    def poll_all(self, timeout: float) -> list[EventBatch]:
        """As `poll`, and whatever else has been read meanwhile, of all segments.

        Args:
            timeout: how long to wait for the first events, in seconds.

        Returns:
            The batches in the order in which they came; none where `poll` gives None.

        Raises:
            SegmentTruncatedError: events that were to be read have been truncated.
            PravegaError: the stream can't be read any more.
        """
        first = self.poll(timeout)
        batches = [] if first is None else [first]
        with suppress(queue.Empty):
            while batches and len(batches) < _MOST_AHEAD:
                arrival = self._arrivals.get_nowait()
                if not isinstance(arrival, EventBatch):
                    self._next = arrival
                    break
                batches.append(self._handed_out(arrival))
        return batches

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

    def _handed_out(self, batch: EventBatch) -> EventBatch:
        self._position[batch.segment_id] = batch.end
        return batch

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

    def _hand_over(self, arrival: _Arrival) -> None:
        while not self._closed.is_set():
            try:
                self._arrivals.put(arrival, timeout=_PAUSE_S)
                return
            except queue.Full:
                continue


def _weight(arrival: _Arrival) -> int:
    return 1 + arrival.frames.consumed // _COUNTED_BYTES if isinstance(arrival, EventBatch) else 1
