"""Events on their way to segments: which one takes each, and how many go in one block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client.names import SegmentRange
from pyspark_pravega.client.routing import key_fractions, segment_indexes
from pyspark_pravega.client.writing import BLOCK_BYTES, MAX_EVENT_BYTES
from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.serde import framing

Events: TypeAlias = pa.Array | pa.ChunkedArray | Sequence[bytes]
Keys: TypeAlias = pa.Array | pa.ChunkedArray | Sequence[str | None] | str | None


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Events, and where each lies in the key space."""

    payloads: pa.Array
    """Binary, without frames."""
    fractions: npt.NDArray[np.float64]
    """In [0, 1), shape (events,)."""

    def __len__(self) -> int:
        return len(self.payloads)

    def slice(self, start: int, end: int) -> Placed:
        """Some of the events, without a copy."""
        return Placed(payloads=self.payloads.slice(start, end - start), fractions=self.fractions[start:end])


def place(events: Events, keys: Keys, keyless: float) -> Placed:
    """Bring events and keys into one form.

    Args:
        events: binary or string values, none of them null.
        keys: a key for each event, one for all of them, or None.
        keyless: where events without a key go, a fraction in [0, 1).

    Raises:
        EventEncodeError: an event is null or larger than Pravega takes, or there isn't a key for each.
    """
    payloads = _binary(events)
    count = len(payloads)
    if keys is None:
        return Placed(payloads=payloads, fractions=np.full(count, keyless))
    if isinstance(keys, str):
        return Placed(payloads=payloads, fractions=np.full(count, key_fractions(pa.array([keys]))[0]))
    column = pa.array(keys, pa.string()) if not isinstance(keys, pa.Array | pa.ChunkedArray) else keys
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if len(column) != count:
        raise EventEncodeError(f"{count} events came with {len(column)} routing keys: give each a key, or one to all")
    fractions = key_fractions(column.cast(pa.string()))
    if column.null_count:
        fractions[column.is_null().to_numpy(zero_copy_only=False)] = keyless
    return Placed(payloads=payloads, fractions=fractions)


def by_segment(placed: Placed, ranges: Sequence[SegmentRange]) -> Iterator[tuple[SegmentRange, Placed]]:
    """Events by the segment that takes them; those of one segment keep their order.

    Args:
        placed: events.
        ranges: a stream's current segments, ordered by key range.

    Yields:
        A segment and its events; segments without any are left out.
    """
    indexes = segment_indexes(placed.fractions, ranges)
    if len(indexes) == 0:
        return
    if (indexes == indexes[0]).all():
        yield ranges[indexes[0]], placed
        return
    for index in np.unique(indexes):
        where = np.flatnonzero(indexes == index)
        yield (
            ranges[index],
            Placed(payloads=placed.payloads.take(pa.array(where)), fractions=placed.fractions[where]),
        )


def blocks(payloads: pa.Array, *, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, int]]:
    """Cut events into runs that make a block each.

    Args:
        payloads: binary, without frames; of sizes that `place` has let through.
        block_bytes: how large a block should be at most, frames included; one event alone may be larger.

    Yields:
        Index of a block's first event, and of the one after its last.
    """
    sizes = pc.binary_length(payloads).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum(sizes + framing.HEADER_SIZE)
    start = 0
    while start < len(sizes):
        done = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, done + block_bytes, side="right")))
        yield start, end
        start = end


def _check_sizes(sizes: npt.NDArray[np.int64]) -> None:
    """Refuse events that Pravega doesn't take.

    Args:
        sizes: bytes of each, without frames; at least one.

    Raises:
        EventEncodeError: one is too large.
    """
    largest = int(sizes.max())
    if largest > MAX_EVENT_BYTES:
        raise EventEncodeError(
            f"an event of {largest:,} bytes is larger than Pravega takes ({MAX_EVENT_BYTES:,} bytes): "
            "make the row smaller, or split it"
        )


def _binary(events: Events) -> pa.Array:
    array = events if isinstance(events, pa.Array | pa.ChunkedArray) else pa.array(events, pa.binary())
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.null_count:
        raise EventEncodeError(f"{array.null_count} of {len(array)} events are null: an event has bytes")
    if array.type not in (pa.binary(), pa.large_binary()):
        array = array.cast(pa.large_binary() if array.type == pa.large_string() else pa.binary())
    if len(array):
        _check_sizes(pc.binary_length(array).to_numpy(zero_copy_only=False).astype(np.int64))
    return array
