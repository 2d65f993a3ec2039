"""Arrays and maps: blocks of items, each with its count, ended by a block of none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyspark_pravega.frames.ragged import Ints
from pyspark_pravega.serde.avro.cursor import Cursor, DatumError
from pyspark_pravega.serde.avro.step import Step, StepError

_MAX_EMPTY_ITEMS = 65536
_FEW_ITEMS = 8
_FEW_DATUMS = 64


@dataclass(frozen=True)
class ItemSize:
    """How large an array's item, or a map's entry, is in bytes."""

    least: int
    """At least that."""
    fixed: bool = False
    """Exactly that."""
    number: bool = False
    """It is a single number in the variable-length encoding."""
    step: Step | None = None
    """Walks over one of them."""

    def findable(self, datums: int) -> bool:
        """Whether to find all items of a block before reading them, in that many datums."""
        size_is_known = (self.fixed and self.least > 0) or self.number
        return size_is_known or (self.step is not None and datums <= _FEW_DATUMS)


def read_blocks(
    cursor: Cursor, read_items: Callable[[Cursor], tuple[pa.Array, ...]], item: ItemSize, path: str
) -> tuple[pa.Array, list[pa.Array]]:
    """Read arrays' or maps' blocks from all datums at once, an item of each at a time or a block of each.

    Args:
        cursor: stands at the arrays or maps.
        read_items: reads one item at each position of a cursor; its results have an element for each.
        item: how large items are.
        path: the column, for messages.

    Returns:
        Offsets of the lists, and what `read_items` returns for all items in order; no arrays when there are no items.

    Raises:
        DatumError: a datum has no such array.
    """
    n = len(cursor)
    left = np.zeros(n, dtype=np.int64)
    counts = np.zeros(n, dtype=np.int64)
    unfinished = np.arange(n, dtype=np.int64)
    parts: list[tuple[pa.Array, ...]] = []
    owners: list[Ints] = []
    while True:
        heads = unfinished[left[unfinished] == 0]
        if len(heads):
            part = cursor.some(heads)
            left[heads] = _block_counts(part, item.least, path)
            cursor.rejoin(heads, part)
            counts[heads] += left[heads]
            unfinished = unfinished[left[unfinished] > 0]
        if not len(unfinished):
            break
        part = cursor.some(unfinished)
        if int(left[unfinished].max()) > _FEW_ITEMS and item.findable(len(unfinished)):
            owner = np.repeat(np.arange(len(unfinished)), left[unfinished])
            parts.append(read_items(part.at(_item_starts(part, left[unfinished], item, path), owner)))
            owners.append(unfinished[owner])
            left[unfinished] = 0
        else:
            parts.append(read_items(part))
            owners.append(unfinished)
            left[unfinished] -= 1
        cursor.rejoin(unfinished, part)
    offsets = np.zeros(n + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    if len(parts) <= 1:
        return pa.array(offsets), [column for part in parts for column in part]
    order = pa.array(np.argsort(np.concatenate(owners), kind="stable"))
    columns = zip(*parts, strict=True)
    return pa.array(offsets), [pa.concat_arrays(column).take(order) for column in columns]


def _item_starts(part: Cursor, counts: Ints, item: ItemSize, path: str) -> Ints:
    """Where the items of one block of each datum begin; moves the cursor behind the blocks."""
    number = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    if item.fixed:
        first = part.advance(counts * item.least, f'"{path}"')
        return np.repeat(first, counts) + number * item.least
    if not item.number:
        return _walked_starts(part, counts, item, path)
    # A number's last byte is the one below 0x80.
    ends = np.flatnonzero(part.data < 0x80) + 1
    first = np.searchsorted(ends, part.position, side="right")
    last = first + counts - 1
    wrong = ends[np.minimum(last, len(ends) - 1)] > part.end
    wrong |= last >= len(ends)
    if wrong.any():
        raise part.fail(wrong, f'"{path}" has more items than the event has room for')
    starts: Ints = ends[np.maximum(np.repeat(first, counts) + number - 1, 0)]
    starts[number == 0] = part.position
    part.position = ends[last]
    return starts


def _walked_starts(part: Cursor, counts: Ints, item: ItemSize, path: str) -> Ints:
    assert item.step is not None
    step, data = item.step, part.data.data
    starts: list[int] = []
    for i, (position, end, count) in enumerate(
        zip(part.position.tolist(), part.end.tolist(), counts.tolist(), strict=True)
    ):
        # What lies behind the event is no part of it, and mustn't decide what is said of it.
        event = data[:end]
        try:
            for _ in range(count):
                starts.append(position)
                position = step(event, position)
                if position > end:
                    raise StepError("an item is longer than the rest of the event")
        except (StepError, IndexError) as error:
            reason = str(error) if isinstance(error, StepError) else "an item is longer than the rest of the event"
            raise DatumError(int(part.rows[i]), f'the items of "{path}" can\'t be found: {reason}') from None
        part.position[i] = position
    return np.array(starts, dtype=np.int64)


def _block_counts(part: Cursor, min_size: int, path: str) -> Ints:
    counts = part.varint()
    negative = np.flatnonzero(counts < 0)
    if len(negative):
        # A negative count is followed by the block's size in bytes, which is of use only to who skips it.
        sized = part.some(negative)
        sized.varint()
        part.rejoin(negative, sized)
        counts = np.abs(counts)
    room = (part.end - part.position) // min_size if min_size else _MAX_EMPTY_ITEMS
    wrong = (counts > room) | (counts < 0)
    if wrong.any():
        raise part.fail(wrong, f'"{path}" has more items than the event has room for')
    return counts
