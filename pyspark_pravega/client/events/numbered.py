"""Writing events that have numbers, each once, however often and by whomever it is written.

The segment store keeps the last number that each writer id has stored in a segment, and takes an append only if its
writer knew that number. So of several who write the same events, in the order of their numbers and under one writer id,
each continues behind what is stored.

A scale divides the key space anew. An event of a key is stored if a segment has a higher number, or the same one, that
owns the key, or did so before. So a writer asks the sealed segments first. Of two that were merged each tells of its
own keys only.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pyspark_pravega.client.connections import Cluster
from pyspark_pravega.client.events.blocks import Batch, Events, Keys, Placed
from pyspark_pravega.client.events.writer import StreamWriter
from pyspark_pravega.client.names import SegmentRange, Stream
from pyspark_pravega.client.segments import SegmentWriter


@dataclass(frozen=True)
class _Stored:
    """What a sealed segment has."""

    owner: SegmentRange
    number: int
    """The writer's last one."""

    def has(self, fractions: npt.NDArray[np.float64], numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        own: npt.NDArray[np.bool_] = (self.owner.min_key <= fractions) & (fractions < self.owner.max_key)
        return own & (numbers <= self.number)


class NumberedWriter(StreamWriter):
    """Writes events that have numbers: what is stored of them isn't stored again.

    What must be true: all who write under the id write the same events in the same order, with the same routing key
    under each number. An event that one of them leaves out may be missing.
    Each batch is sent at once; an event is safe after `flush`.
    """

    def __init__(self, client: Cluster, stream: Stream, writer_id: uuid.UUID, since: Iterable[int]) -> None:
        """Open a stream for writing.

        Args:
            client: the cluster.
            stream: the stream.
            writer_id: what all have in common who write these events.
            since: the segments that were current before any of these events was written, by their ids; later on
                those of `settled_since`.

        Raises:
            StreamNotFoundError: there is no such stream.
            StreamSealedError: it takes no more events.
            SegmentNotFoundError: a segment that may have events of this writer is deleted.
        """
        super().__init__(client, stream, linger_s=0.0, writer_id=writer_id)
        self._id = writer_id
        self._sealed: list[_Stored] = []
        self._last = -1
        self._look_at(client.controller.segment_ranges(stream, since).values())

    def write_batch(self, events: Events, keys: Keys, numbers: npt.NDArray[np.int64]) -> None:
        """Write events, but for those that are stored.

        Args:
            events: as of `EventWriter.write_batch`.
            keys: likewise; events without a key all go to one segment.
            numbers: a number for each, 0 at least, and above all before it.

        Raises:
            ValueError: the numbers don't ascend.
            PravegaError: one of these, or of earlier events, can't be stored.
        """
        with self._lock:
            if len(numbers) and (numbers[0] <= self._last or not (np.diff(numbers) > 0).all()):
                raise ValueError("the numbers of events don't ascend")
            batch = Batch.of(events, keys, self._keyless(), numbers)
            if len(numbers):
                self._last = int(numbers[-1])
            self._put(batch)

    def _keyless(self) -> float:
        """The same place whoever writes."""
        return float(self._id.int >> 75) / 2.0**53

    def _new(self, events: Batch) -> Batch:
        if not self._sealed:
            return events
        assert events.numbers is not None
        return events.filter(self._are_new(events.fractions, events.numbers))

    def _are_new(self, fractions: npt.NDArray[np.float64], numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        new = np.ones(len(numbers), np.bool_)
        for one in self._sealed:
            new &= ~one.has(fractions, numbers)
        return new

    def _scaled(self, before: Sequence[SegmentRange]) -> None:
        self._look_at(before)

    def _left(self, remainder: Placed) -> Placed:
        """In the order of the numbers, without what others have stored in segments that are sealed now."""
        assert remainder.numbers is not None
        order = np.argsort(remainder.numbers, kind="stable")
        new = self._are_new(remainder.fractions[order], remainder.numbers[order])
        return remainder.take(order[new])

    def _look_at(self, before: Iterable[SegmentRange]) -> None:
        """Learn what sealed segments have, from some that were current at one moment to those that are now."""
        for owner in _sealed(self._client, self.stream, before, self._ranges):
            number = _last_number(self._client, self.stream, owner.segment_id, self._id)
            if number is not None:
                self._sealed.append(_Stored(owner, number))


def settled_since(
    client: Cluster, stream: Stream, since: Iterable[int], positions: Mapping[uuid.UUID, int]
) -> tuple[int, ...]:
    """From which segments on writers have to look for what is stored, as of `NumberedWriter`.

    A writer that fails, or is forgotten, may have written events ahead of those who take its place. So segments that
    are sealed are needed until all go on behind what these have.

    Args:
        client: the cluster.
        stream: the stream.
        since: from which ones on they had to look until now.
        positions: who writes, and the number behind which all of them go on: those up to it are never written again.

    Returns:
        The segments that are current now, or else `since`.

    Raises:
        StreamNotFoundError: there is no such stream.
        SegmentNotFoundError: a segment that may have events of theirs is deleted.
    """
    since = tuple(since)
    current = client.controller.current_segments(stream).ranges
    ranges = client.controller.segment_ranges(stream, since).values()
    for owner in _sealed(client, stream, ranges, current):
        for writer_id, position in positions.items():
            number = _last_number(client, stream, owner.segment_id, writer_id)
            if number is not None and number > position:
                return since
    return tuple(owner.segment_id for owner in current) or since


def _sealed(
    client: Cluster, stream: Stream, before: Iterable[SegmentRange], current: Sequence[SegmentRange]
) -> Iterator[SegmentRange]:
    """The sealed segments between those of two moments, the first ones among them."""
    known = {owner.segment_id for owner in current}
    waiting = [owner for owner in before if owner.segment_id not in known]
    known |= {owner.segment_id for owner in waiting}
    while waiting:
        owner = waiting.pop()
        yield owner
        for successor in client.controller.successors(stream, owner.segment_id):
            if successor.segment.segment_id not in known:
                known.add(successor.segment.segment_id)
                waiting.append(successor.segment)


def _last_number(client: Cluster, stream: Stream, segment_id: int, writer_id: uuid.UUID) -> int | None:
    return SegmentWriter(client.pool, stream, segment_id, writer_id=writer_id).last_number()
