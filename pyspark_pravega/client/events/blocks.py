"""Events on their way to segments: which one takes each, in frames, and how many go in one block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_pravega.client.names import SegmentRange
from pyspark_pravega.client.routing import key_fractions, segment_indexes
from pyspark_pravega.client.segments import BLOCK_BYTES
from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.frames import framing

Events: TypeAlias = pa.Array | pa.ChunkedArray | Sequence[bytes]
Keys: TypeAlias = pa.Array | pa.ChunkedArray | Sequence[str | None] | str | None

_PART_BYTES = 7 * BLOCK_BYTES // 4
"""How much is framed at once for each segment: two blocks, with room for segments that get more than others."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Events in their frames, and where each lies in the key space."""

    frames: pa.Array
    """The events, frames included, lying one after another."""
    fractions: npt.NDArray[np.float64]
    """In [0, 1), shape (events,)."""
    numbers: npt.NDArray[np.int64] | None = None
    """A number for each, ascending; None where they have none of their own."""

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def data(self) -> pa.Buffer:
        """The frames, ready to be appended; no copy."""
        return framing.frames_bytes(self.frames)

    @property
    def view(self) -> memoryview:
        """As `data`."""
        return memoryview(self.data)

    def slice(self, start: int, end: int) -> Placed:
        """Some of the events, without a copy."""
        some = slice(start, end)
        return Placed(
            frames=self.frames.slice(start, end - start),
            fractions=self.fractions[some],
            numbers=_chosen(self.numbers, some),
        )

    def take(self, which: npt.NDArray[np.int64]) -> Placed:
        """Some of the events, in another order."""
        return Placed(
            frames=self.frames.take(pa.array(which)),
            fractions=self.fractions[which],
            numbers=_chosen(self.numbers, which),
        )

    @property
    def first(self) -> int:
        """The first one's number."""
        assert self.numbers is not None
        return int(self.numbers[0])

    @property
    def last(self) -> int:
        """The last one's number."""
        assert self.numbers is not None
        return int(self.numbers[-1])

    def behind(self, number: int) -> Placed:
        """Those with higher numbers."""
        assert self.numbers is not None
        return self.slice(int(np.searchsorted(self.numbers, number, side="right")), len(self))


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Events that were handed over together, checked."""

    payloads: pa.Array
    """Binary, none of them null or too large."""
    fractions: npt.NDArray[np.float64]
    """Where each lies in the key space, in [0, 1), shape (events,)."""
    numbers: npt.NDArray[np.int64] | None = None
    """As of `Placed`."""

    @classmethod
    def of(cls, events: Events, keys: Keys, keyless: float, numbers: npt.NDArray[np.int64] | None = None) -> Batch:
        """Bring events and keys into one form.

        Args:
            events: binary or string values, none of them null.
            keys: a key for each event, one for all of them, or None.
            keyless: where events without a key go, a fraction in [0, 1).
            numbers: a number for each event, ascending, if they have any.

        Raises:
            EventEncodeError: an event is null or larger than Pravega takes, or there isn't a key for each.
        """
        payloads = _binary(events)
        framing.check_sizes(payloads)
        return cls(payloads=payloads, fractions=_fractions(keys, len(payloads), keyless), numbers=numbers)

    @classmethod
    def joined(cls, batches: Sequence[Batch]) -> Batch:
        """Several as one, in their order.

        Args:
            batches: at least one, without numbers.
        """
        if len(batches) == 1:
            return batches[0]
        payloads = [batch.payloads for batch in batches]
        if len({one.type for one in payloads}) > 1:
            payloads = [one.cast(pa.large_binary()) for one in payloads]
        return cls(
            payloads=pa.concat_arrays(payloads), fractions=np.concatenate([batch.fractions for batch in batches])
        )

    def __len__(self) -> int:
        return len(self.payloads)

    @property
    def bytes(self) -> int:
        """About as many as the payloads have."""
        return int(self.payloads.nbytes)

    def parts(self, segments: int) -> Iterator[Batch]:
        """Cut a large batch: the frames of all of it at once would fill fresh memory, which costs more than they do.

        Args:
            segments: how many share the events: a part has a block or two for each.

        Yields:
            Slices, without a copy.
        """
        if not len(self):
            return
        rows = max(1, _PART_BYTES * segments * len(self) // max(1, self.bytes))
        for start in range(0, len(self), rows):
            yield self.slice(start, start + rows)

    def slice(self, start: int, end: int) -> Batch:
        """Some of the events, without a copy."""
        some = slice(start, end)
        return Batch(
            payloads=self.payloads.slice(start, end - start),
            fractions=self.fractions[some],
            numbers=_chosen(self.numbers, some),
        )

    def filter(self, which: npt.NDArray[np.bool_]) -> Batch:
        """Some of the events, in their order."""
        return Batch(
            payloads=self.payloads.filter(pa.array(which)),
            fractions=self.fractions[which],
            numbers=_chosen(self.numbers, which),
        )

    def place(self, ranges: Sequence[SegmentRange]) -> Iterator[tuple[SegmentRange, Placed]]:
        """Put the events into frames, by the segment that takes them.

        Args:
            ranges: a stream's current segments, ordered by key range.

        Yields:
            A segment and its events, in their order; segments without any are left out.
        """
        if not len(self):
            return
        indexes = segment_indexes(self.fractions, ranges).astype(np.uint32)
        if (indexes == indexes[0]).all():
            frames = framing.by_owner(self.payloads, np.zeros(len(self), np.uint32), 1)[0]
            yield ranges[indexes[0]], Placed(frames=frames, fractions=self.fractions, numbers=self.numbers)
            return
        # Sorting small numbers is done by radix.
        kind = np.uint8 if len(ranges) <= 256 else np.uint32
        order = np.argsort(indexes.astype(kind), kind="stable")
        ordered = self.fractions[order]
        numbers = _chosen(self.numbers, order)
        start = 0
        for owner, frames in zip(ranges, framing.by_owner(self.payloads, indexes, len(ranges)), strict=True):
            if len(frames):
                own = slice(start, start + len(frames))
                yield owner, Placed(frames=frames, fractions=ordered[own], numbers=_chosen(numbers, own))
                start = own.stop


def _chosen(
    numbers: npt.NDArray[np.int64] | None, which: slice | npt.NDArray[np.int64] | npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64] | None:
    return None if numbers is None else numbers[which]


def by_segment(placed: Placed, ranges: Sequence[SegmentRange]) -> Iterator[tuple[SegmentRange, Placed]]:
    """Placed events by the segment that takes them now; those of one segment keep their order.

    Args:
        placed: events.
        ranges: a stream's current segments, ordered by key range.

    Yields:
        A segment and its events; segments without any are left out.
    """
    indexes = segment_indexes(placed.fractions, ranges)
    for index in np.unique(indexes):
        yield ranges[index], placed.take(np.flatnonzero(indexes == index))


def joined(parts: Sequence[Placed]) -> Placed:
    """Events of several parts as one, in their order.

    Args:
        parts: at least one.
    """
    if len(parts) == 1:
        return parts[0]
    numbers = [part.numbers for part in parts if part.numbers is not None]
    return Placed(
        frames=pa.concat_arrays([part.frames for part in parts]),
        fractions=np.concatenate([part.fractions for part in parts]),
        numbers=np.concatenate(numbers) if numbers else None,
    )


def blocks(placed: Placed, *, block_bytes: int = BLOCK_BYTES) -> Iterator[Placed]:
    """Cut events into runs that make a block each.

    Args:
        placed: events.
        block_bytes: how large a block should be at most, frames included; one event alone may be larger.

    Yields:
        A block's events. The blocks are about of one size: no small one comes last.
    """
    ends = framing.frame_ends(placed.frames)
    start, done = 0, 0
    while start < len(ends):
        left = int(ends[-1]) - done
        share = -(-left // -(-left // block_bytes))
        end = int(np.searchsorted(ends, done + share, side="left")) + 1
        if ends[end - 1] - done > block_bytes and end > start + 1:
            end -= 1
        yield placed.slice(start, end)
        start, done = end, int(ends[end - 1])


def _fractions(keys: Keys, count: int, keyless: float) -> npt.NDArray[np.float64]:
    if keys is None:
        return np.full(count, keyless)
    if isinstance(keys, str):
        return np.full(count, key_fractions(pa.array([keys]))[0])
    column = pa.array(keys, pa.string()) if not isinstance(keys, pa.Array | pa.ChunkedArray) else keys
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if len(column) != count:
        raise EventEncodeError(f"{count} events came with {len(column)} routing keys: give each a key, or one to all")
    fractions = key_fractions(column)
    if column.null_count:
        fractions[column.is_null().to_numpy(zero_copy_only=False)] = keyless
    return fractions


def _binary(events: Events) -> pa.Array:
    array = events if isinstance(events, pa.Array | pa.ChunkedArray) else pa.array(events, pa.binary())
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.null_count:
        raise EventEncodeError(f"{array.null_count} of {len(array)} events are null: an event has bytes")
    if array.type not in (pa.binary(), pa.large_binary()):
        array = array.cast(pa.large_binary() if array.type == pa.large_string() else pa.binary())
    return array
