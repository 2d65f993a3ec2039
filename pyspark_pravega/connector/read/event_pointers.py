"""Where an event lies in a chain of segments, and what it does, as one number: the last event has the greatest one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client.routing import key_fractions
from pyspark_pravega.frames import framing
from pyspark_pravega.frames.ragged import Ints

Mask = npt.NDArray[np.bool_]
Range = tuple[float, float]
"""A part of the key space: from, and up to without it."""

_PART_BITS, _OFFSET_BITS = 14, 47
MOST_PARTS = (1 << _PART_BITS) - 1
"""Parts of segments that pointers tell from each other."""
MOST_BYTES = 1 << _OFFSET_BITS
"""Offsets are below this one."""
_DELETES = np.int64(1)
_APPENDED = np.int64(1) << np.int64(1 + _OFFSET_BITS + _PART_BITS)
POINTER = "\x1fpointer"
"""The column of a table of keys that has a pointer for each. No column of a key has such a name."""


@dataclass(frozen=True)
class EventPointers:
    """Pointers to events, of many at a time. `max` of those of a key points to its last event.

    | bits | 63 | 62 | 61 to 48 | 47 to 1 | 0 |
    |---|---|---|---|---|---|
    | what | 0 | 0 where a compaction has written the event, so that all others are newer | part | offset | deletes |
    """

    values: Ints
    """An int64 each."""

    @classmethod
    def of(
        cls, part: int, begin: int, starts: Ints, *, deletes: Mask | None = None, compacted: Mask | None = None
    ) -> Self:
        """Point to events of one part.

        Args:
            part: the number of the part, in the order of the chain.
            begin: the offset in bytes, in the segment, from which `starts` are counted.
            starts: where the events begin.
            deletes: for each event whether it deletes its key's row; None where none does.
            compacted: for each event whether a compaction has written it; None where none has.
        """
        values = starts + np.int64((part << _OFFSET_BITS) + begin)
        values <<= np.int64(1)
        if compacted is None:
            values |= _APPENDED
        else:
            values |= np.where(compacted, np.int64(0), _APPENDED)
        if deletes is not None:
            values |= deletes
        return cls(values)

    @classmethod
    def column(cls, table: pa.Table) -> Self:
        """The pointers that a table of keys has.

        Args:
            table: with a column `POINTER`.
        """
        return cls(table[POINTER].to_numpy())

    @property
    def deletes(self) -> Mask:
        """For each whether its event deletes a row."""
        return (self.values & _DELETES).astype(np.bool_)

    @property
    def compacted(self) -> Mask:
        """For each whether a compaction has written its event."""
        return self.values < _APPENDED

    @property
    def locations(self) -> Ints:
        """Part and offset, without what else is known of the events: see `offsets_in`."""
        return (self.values & ~_APPENDED) >> np.int64(1)

    @property
    def offsets(self) -> Ints:
        """For each the offset of its event in its segment, in bytes."""
        return self.locations & np.int64(MOST_BYTES - 1)


def offsets_in(part: int, locations: Ints) -> Ints:
    """The offsets of those events that lie in a part.

    Args:
        part: the number of the part.
        locations: as of `EventPointers.locations`, ascending.
    """
    begin = np.int64(part) << np.int64(_OFFSET_BITS)
    first, behind = np.searchsorted(locations, [begin, begin + MOST_BYTES])
    return locations[first:behind] - begin


@dataclass
class Last:
    """Where the last events of the keys are that were met so far."""

    range: Range
    """The part of the key space that is looked at."""
    table: pa.Table
    """The key's columns, flat, and `POINTER`, to its last event. Where versions matter, their column, too."""
    more: list[pa.Table] = field(default_factory=list)
    """What isn't merged yet."""

    @property
    def rows_to_merge(self) -> int:
        """How many rows aren't merged yet."""
        return sum(table.num_rows for table in self.more)


@dataclass
class Kept:
    """Events of the first pass that are kept for the second one: all up to a position."""

    frames: list[list[tuple[framing.Frames, int]]]
    """For each part its frames, and the offset of the buffer that they lie in."""
    up_to: list[int]
    """For each part the offset in bytes up to which they are kept."""
    bytes: int = 0


def are(operations: pa.Array, values: Sequence[str]) -> Mask:
    """For each operation whether it is one of some values.

    Args:
        operations: the operations.
        values: the values.
    """
    return mask_of(pc.is_in(operations, value_set=pa.array(values, pa.string())))


def mask_of(values: pa.Array) -> Mask:
    """Booleans without nulls, as numpy has them.

    Args:
        values: the booleans.
    """
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)


def within(table: pa.Table, keys: Sequence[str], range: Range) -> pa.Table:
    """The rows whose keys lie in a part of the key space; where, is only these readers' own matter.

    Args:
        table: the rows.
        keys: the names of the key's columns, flat.
        range: the part of the key space.
    """
    texts: list[Any] = [table[name].cast(pa.string()).combine_chunks() for name in keys]
    joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, "\x1f")
    fractions = key_fractions(joined)
    return table.filter(pa.array((fractions >= range[0]) & (fractions < range[1])))
