"""Parts of segments as Spark's partitions: large ones are split where parallelism is idle, small ones share a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from pyspark_pravega.client import Client, SegmentPart, Stream
from pyspark_pravega.client.events import split_part
from pyspark_pravega.spark.datasource import InputPartition

Item = TypeVar("Item")

_WORTH_SPLITTING_BYTES = 64 << 10
PACKED_BYTES = 1 << 20
"""Segments with less than this share a task: it is read in the time that a task takes to start."""


@dataclass
class SlicePartition(InputPartition):
    """Parts of segments, read by one task one after another."""

    parts: tuple[SegmentPart, ...]

    def __init__(self, parts: Sequence[SegmentPart]) -> None:
        super().__init__(parts[0].segment_id)
        self.parts = tuple(parts)

    @property
    def stream(self) -> Stream:
        """Whose they are."""
        return self.parts[0].stream

    def __repr__(self) -> str:
        return f"SlicePartition({', '.join(map(str, self.parts))})"


def arrange(client: Client, parts: Sequence[SegmentPart], *, minimum: int | None = None) -> list[SlicePartition]:
    """Share parts of segments out among tasks.

    Args:
        client: finds borders between events where large parts are split.
        parts: what is to be read.
        minimum: how many partitions there shall be at least, if there is enough to read; parts are split for that.
    """
    parts = [part for part in parts if part.size]
    total = sum(part.size for part in parts)
    if minimum:
        parts = [piece for part in parts for piece in _pieces(client, part, total, minimum)]
    target = PACKED_BYTES if not minimum else min(PACKED_BYTES, total // minimum)
    by_stream = groupby(parts, key=lambda part: part.stream)
    return [SlicePartition(some) for _, own in by_stream for some in pack(own, lambda part: part.size, target)]


def pack(
    items: Iterable[Item],
    size_of: Callable[[Item], int],
    target: int = PACKED_BYTES,
    *,
    count_of: Callable[[Item], int] = lambda _: 1,
    most: int | None = None,
) -> list[list[Item]]:
    """Put small neighbours together.

    Args:
        items: what is packed, in its order.
        size_of: an item's size in bytes.
        target: how large a pack is at most; one item alone may be larger.
        count_of: of how many parts an item is.
        most: how many parts a pack has at most, if that matters; one item alone may have more.
    """
    packed: list[list[Item]] = []
    size = count = 0
    for item in items:
        size, count = size + size_of(item), count + count_of(item)
        if packed and size <= target and (most is None or count <= most):
            packed[-1].append(item)
        else:
            packed.append([item])
            size, count = size_of(item), count_of(item)
    return packed


def _pieces(client: Client, part: SegmentPart, total: int, minimum: int) -> list[SegmentPart]:
    if part.transaction is not None:
        return [part]
    wanted = -(-part.size * minimum // total)
    # To find borders the part is read, so it must be worth it.
    wanted = min(wanted, part.size // _WORTH_SPLITTING_BYTES + 1)
    return split_part(client, part, wanted) if wanted > 1 else [part]
