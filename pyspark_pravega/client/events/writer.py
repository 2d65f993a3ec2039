"""Writing events to a stream directly: stored once and in order per routing key, whatever happens on the way."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Self

import pyarrow as pa

from pyspark_pravega.client.connections import Cluster
from pyspark_pravega.client.events.blocks import Batch, Events, Keys, Placed, blocks, by_segment, joined
from pyspark_pravega.client.names import SegmentRange, Stream
from pyspark_pravega.client.segments import BLOCK_BYTES, LITTLE_BYTES, HeldConnections, SegmentWriter, store_together
from pyspark_pravega.deadlines import Retries
from pyspark_pravega.errors import PravegaError, SegmentSealedError, StreamSealedError

LINGER_S = 0.1
CONFIRM_S = 0.5
"""How long a writer that is given nothing leaves acknowledgements unread: a lost connection may show only there."""
_WORTH_A_BLOCK = 4
"""Part of a block that is sent without waiting for the rest, when blocks before it are sent."""


class _Lane:
    """One segment's events: first in a buffer, then under way."""

    def __init__(self, writer: SegmentWriter) -> None:
        self.writer = writer
        self.buffered: list[Placed] = []
        self.bytes = 0

    def put(self, placed: Placed) -> None:
        self.buffered.append(placed)
        self.bytes += placed.data.size

    def take(self, block_bytes: int) -> Iterator[Placed]:
        """Everything in the buffer, small parts together: they are copied only where blocks would be small without."""
        parts, self.buffered, self.bytes = self.buffered, [], 0
        together: list[Placed] = []
        size = 0
        for part in parts:
            if together and size + part.data.size > block_bytes:
                yield joined(together)
                together, size = [], 0
            together.append(part)
            size += part.data.size
        if together:
            yield joined(together)


class StreamWriter:
    """What writers of a stream have in common: events wait for each segment, are sent, and follow the stream's scales.

    Safe for use by several threads; a context manager that flushes at its end.
    """

    def __init__(
        self,
        client: Cluster,
        stream: Stream,
        *,
        linger_s: float = LINGER_S,
        block_bytes: int = BLOCK_BYTES,
        writer_id: uuid.UUID | None = None,
        segments: Sequence[SegmentRange] = (),
    ) -> None:
        """Open a stream for writing.

        Args:
            client: the cluster.
            stream: the stream.
            linger_s: how long an event may wait for others, in seconds; with 0 each batch is sent at once.
            block_bytes: the size of a block, in bytes.
            writer_id: under which segments know the writer; a new one for each segment when None.
            segments: those that take events now, ordered by key range, where that is known; else the controller is
                asked.

        Raises:
            StreamNotFoundError: there is no such stream.
            StreamSealedError: it takes no more events.
        """
        self.stream = stream
        self.events_written = 0
        """Events handed over so far; after `flush` all of them are stored."""
        self.bytes_written = 0
        """Theirs, frames included."""
        self._writer_id = writer_id
        self._client, self._block_bytes, self._linger_s = client, block_bytes, linger_s
        self._lock = threading.RLock()
        self._ranges = tuple(segments) or _current(client, stream)
        self._lanes: dict[int, _Lane] = {}
        self._held = HeldConnections()
        self._turn = 0
        self._failed: PravegaError | None = None
        self._oldest: float | None = None
        self._wake = threading.Condition(self._lock)
        self._closed = False
        self._flusher: threading.Thread | None = None

    @property
    def unacknowledged(self) -> tuple[int, int]:
        """How many events that were handed over aren't known to be stored, and their bytes, frames included."""
        with self._lock:
            events, size = 0, 0
            for lane in self._lanes.values():
                sent, sent_bytes = lane.writer.unacknowledged
                events += sent + sum(map(len, lane.buffered))
                size += sent_bytes + lane.bytes
            return events, size

    def flush(self) -> None:
        """Wait until everything that was written is stored.

        Raises:
            StreamSealedError: the stream was sealed before.
            PravegaError: something can't be stored; the writer is of no more use then.
        """
        with self._lock:
            self._check()
            self._send(full_only=False)
            while True:
                sealed = self._flush_lanes()
                if not sealed:
                    return
                self._follow_the_stream()
                self._send(full_only=False)

    def close(self) -> None:
        """Flush, and let go of the connections.

        Raises:
            PravegaError: as `flush`.
        """
        with self._lock:
            if self._closed:
                return
            try:
                if self._failed is None:
                    self._store_together()
                    self.flush()
            finally:
                self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            with self._lock:
                self._end()

    def _put(self, batch: Batch) -> None:
        """Take events; whoever calls has the lock."""
        self._check()
        for part in batch.parts(len(self._ranges)):
            for owner, placed in self._new(part).place(self._ranges):
                self.events_written += len(placed)
                self.bytes_written += placed.data.size
                self._lane(owner).put(placed)
            self._send(full_only=self._linger_s > 0)
        if self._oldest is None:
            if any(lane.buffered for lane in self._lanes.values()):
                self._oldest = time.monotonic()
            self._start_flusher()
            self._wake.notify()

    def _store_together(self) -> None:
        """Store what little there is for segments to which nothing was sent: no connection of their own is worth it.

        What that doesn't store is left to `flush`.
        """
        held_back = []
        for lane in self._lanes.values():
            if 0 < lane.bytes <= LITTLE_BYTES and all(placed.numbers is None for placed in lane.buffered):
                for part in lane.take(self._block_bytes):
                    if lane.writer.hold_back(part.view, len(part), origin=part):
                        held_back.append(lane.writer)
                    else:
                        lane.put(part)
        store_together(self._client.pool, self.stream, held_back)

    def _check(self) -> None:
        if self._failed is not None:
            raise self._failed
        if self._closed:
            raise ValueError(f'the writer of stream "{self.stream}" is closed')

    def _end(self) -> None:
        self._closed = True
        self._wake.notify()
        for lane in self._lanes.values():
            lane.writer.close()

    def _keyless(self) -> float:
        """A place in the next segment's part of the key space."""
        self._turn = (self._turn + 1) % len(self._ranges)
        chosen = self._ranges[self._turn]
        return (chosen.min_key + chosen.max_key) / 2

    def _lane(self, owner: SegmentRange) -> _Lane:
        lane = self._lanes.get(owner.segment_id)
        if lane is None:
            writer = SegmentWriter(
                self._client.pool, self.stream, owner.segment_id, writer_id=self._writer_id, held=self._held
            )
            lane = self._lanes[owner.segment_id] = _Lane(writer)
        return lane

    def _send(self, *, full_only: bool) -> None:
        """Send what is in the buffers, wherever the stream's segments are by now."""
        while True:
            try:
                for lane in list(self._lanes.values()):
                    while lane.buffered and (not full_only or lane.bytes >= self._block_bytes):
                        self._send_lane(lane, full_only=full_only)
                break
            except SegmentSealedError:
                self._follow_the_stream()
            except PravegaError as error:
                self._fail(error)
        if not any(lane.buffered for lane in self._lanes.values()):
            self._oldest = None

    def _send_lane(self, lane: _Lane, *, full_only: bool) -> None:
        cuts = [block for part in lane.take(self._block_bytes) for block in blocks(part, block_bytes=self._block_bytes)]
        # What is far from filling a block waits for more.
        if full_only and len(cuts) > 1 and cuts[-1].data.size < self._block_bytes // _WORTH_A_BLOCK:
            lane.put(cuts.pop())
        for index, block in enumerate(cuts):
            try:
                if block.numbers is None:
                    lane.writer.append(block.view, len(block), origin=block)
                else:
                    lane.writer.append_numbered(block)
            except PravegaError:
                # The segment's writer knows this block already; what lies behind it goes back.
                waiting, lane.buffered, lane.bytes = lane.buffered, [], 0
                for part in [*cuts[index + 1 :], *waiting]:
                    lane.put(part)
                raise

    def _flush_lanes(self) -> bool:
        """Whether a segment turned out to be sealed."""
        sealed = False
        for lane in self._lanes.values():
            try:
                lane.writer.flush()
            except SegmentSealedError:
                sealed = True
            except PravegaError as error:
                self._fail(error)
        return sealed

    def _fail(self, error: PravegaError) -> None:
        self._failed = error
        raise error

    def _follow_the_stream(self) -> None:
        """Take what sealed segments didn't store to their successors.

        All lanes of segments that are no longer current are settled before anything goes to the new ones: events of
        one key must not overtake each other.
        """
        try:
            before, self._ranges = self._ranges, self._segments_after_the_seal()
            current = {owner.segment_id for owner in self._ranges}
            remainder: list[Placed] = []
            for segment_id in [segment for segment in self._lanes if segment not in current]:
                lane = self._lanes.pop(segment_id)
                remainder += self._settle(lane)
            self._scaled(before)
            if remainder:
                for owner, part in by_segment(self._left(joined(remainder)), self._ranges):
                    self._lane(owner).put(part)
        except PravegaError as error:
            self._fail(error)

    def _new(self, events: Batch) -> Batch:
        """Those that aren't known to be stored."""
        return events

    def _scaled(self, before: Sequence[SegmentRange]) -> None:
        """Take note of a scale.

        Args:
            before: the segments that were current before.
        """

    def _left(self, remainder: Placed) -> Placed:
        """What of events that sealed segments didn't take goes to those that are current now."""
        return remainder

    def _settle(self, lane: _Lane) -> list[Placed]:
        """What a segment that takes no more events hasn't stored, in its order."""
        try:
            try:
                lane.writer.flush()
                unstored: list[object] = []
            except SegmentSealedError:
                unstored = lane.writer.unstored()
        finally:
            lane.writer.close()
        parts = [part for part in unstored if isinstance(part, Placed)]
        return parts + lane.buffered

    def _segments_after_the_seal(self) -> tuple[SegmentRange, ...]:
        """The current segments, once the scale that sealed some of ours is through."""
        retries = Retries(self._client.pool.timeout)
        while True:
            ranges = _current(self._client, self.stream)
            if {owner.segment_id for owner in ranges} != {owner.segment_id for owner in self._ranges}:
                return ranges
            if not retries.again():
                raise SegmentSealedError(
                    f'a segment of stream "{self.stream}" is sealed, but the controller knows no successor of it: '
                    "a scale seems to have been interrupted; try again later"
                )

    def _start_flusher(self) -> None:
        if self._flusher is None:
            self._flusher = threading.Thread(target=self._linger, name=f"linger-{self.stream}", daemon=True)
            self._flusher.start()

    def _linger(self) -> None:
        with self._lock:
            while not self._closed and self._failed is None:
                under_way = any(lane.writer.under_way for lane in self._lanes.values())
                if self._oldest is not None:
                    seconds = self._oldest + self._linger_s - time.monotonic()
                    if seconds > 0:
                        self._wake.wait(seconds)
                        continue
                elif self._wake.wait(CONFIRM_S if under_way else None) or self._oldest is not None or self._closed:
                    continue
                try:
                    if self._oldest is None:
                        self.flush()
                    else:
                        self._send(full_only=False)
                except PravegaError:
                    # It is kept for the writer's next call.
                    return


class EventWriter(StreamWriter):
    """Writes events to a stream, at least once and, as long as this object lives, exactly once.

    Events of one routing key keep their order, also when the stream scales. They are collected to blocks of about a
    megabyte; what waits longer than `linger_s` is sent by a thread of the writer's own, which also sees to it that what
    was sent is stored when nothing follows. An event is safe after `flush`.
    """

    def write(self, event: bytes | str, key: str | None = None) -> None:
        """Write one event.

        Args:
            event: its bytes; a text becomes UTF-8. At most 8 MiB.
            key: its routing key: events of one key stay in order.

        Raises:
            EventEncodeError: the event is too large.
            PravegaError: it, or an earlier one, can't be stored.
        """
        payload = event.encode() if isinstance(event, str) else event
        self.write_batch(pa.array([payload], pa.binary()), key)

    def write_batch(self, events: Events, keys: Keys = None) -> None:
        """Write many events, which is far faster than one after another.

        Args:
            events: an Arrow array of binary or string values, or a sequence of bytes; at most 8 MiB each.
            keys: a routing key for each, one for all of them, or None: then all go to one segment, and the next
                batch to the next segment.

        Raises:
            EventEncodeError: an event is null or too large, or there isn't a key for each.
            PravegaError: one of these, or of earlier events, can't be stored.
        """
        with self._lock:
            self._put(Batch.of(events, keys, self._keyless()))


def _current(client: Cluster, stream: Stream) -> tuple[SegmentRange, ...]:
    ranges = client.controller.current_segments(stream).ranges
    if not ranges:
        raise StreamSealedError(f'stream "{stream}" is sealed: it takes no more events')
    return ranges
