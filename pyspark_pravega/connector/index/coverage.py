"""What of a stream has figures already, and how blocks that were read for that are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pyspark_pravega.connector.index.blocks import Block, BlockIndex, Part, joined, most_blocks
from pyspark_pravega.connector.index.figures import IndexedColumn

BLOCK_BYTES = 1 << 20
"""About how much a block has. Neighbours that are smaller together become one."""


class Coverage:
    """Of which bytes of a stream there are figures of some columns."""

    def __init__(self, columns: Sequence[IndexedColumn]) -> None:
        """Nothing is covered.

        Args:
            columns: the columns that are to have figures.
        """
        self._keys = [{column.key, column.read_key} for column in columns]
        self._parts: list[list[Part]] = [[] for _ in columns]

    def add(self, index: BlockIndex) -> None:
        """Count on an index.

        Args:
            index: with places in the stream.
        """
        for keys, known in zip(self._keys, self._parts, strict=True):
            if keys.intersection(index.columns):
                known += index.whole.parts

    def lacks(self, parts: Iterable[Part]) -> tuple[Part, ...]:
        """What has no figures of some of the columns.

        Args:
            parts: parts of the stream.
        """
        some = list(parts)
        return joined(left for known in self._parts for left in without(some, known))

    def lacks_of(self, index: BlockIndex, parts: Iterable[Part]) -> bool:
        """Whether an index tells of some parts what nothing tells that was added.

        Args:
            index: the index.
            parts: parts of the stream.
        """
        own = list(within(index.whole.parts, parts))
        return any(
            keys.intersection(index.columns) and next(without(own, known), None) is not None
            for keys, known in zip(self._keys, self._parts, strict=True)
        )


def without(parts: Iterable[Part], others: Iterable[Part]) -> Iterator[Part]:
    """Parts without what others have of them.

    Args:
        parts: parts of a stream.
        others: the other ones.
    """
    by_segment: dict[int, list[Part]] = {}
    for other in joined(others):
        by_segment.setdefault(other.segment_id, []).append(other)
    for part in parts:
        position = part.start
        for other in by_segment.get(part.segment_id, ()):
            if other.end <= position or other.start >= part.end:
                continue
            if other.start > position:
                yield Part(part.segment_id, position, other.start)
            position = other.end
        if position < part.end:
            yield Part(part.segment_id, position, part.end)


def within(parts: Iterable[Part], others: Iterable[Part]) -> Iterator[Part]:
    """What parts and others have in common.

    Args:
        parts: parts of a stream.
        others: the other ones.
    """
    some = list(parts)
    yield from without(some, without(some, others))


def gathered(
    columns: tuple[tuple[str, ...], ...], last: BlockIndex | None, blocks: Sequence[Block]
) -> tuple[BlockIndex, Sequence[Block], bool]:
    """An index of blocks that were read, and the blocks for which it has no room.

    Args:
        columns: as of the index.
        last: the one that was kept before, in whose place the new one may come.
        blocks: each of one part.

    Returns:
        The index; the blocks that are left; and whether the last one's blocks are in the index.
    """
    most = most_blocks(len(columns))
    takes_last = last is not None and last.columns == columns and len(last.blocks) < most
    known = last.blocks if takes_last and last is not None else ()
    some = _merged([*known, *blocks])
    if takes_last and len(some) > most:
        # What is full stays as it is.
        return gathered(columns, None, blocks)
    return BlockIndex(columns=columns, blocks=tuple(some[:most])), some[most:], takes_last


def _merged(blocks: Sequence[Block]) -> list[Block]:
    """Blocks in the order of their places, small neighbours as one."""
    some: list[Block] = []
    for block in sorted(blocks, key=lambda one: one.parts):
        both = some[-1] + block if some and _touches(some[-1], block) else None
        if both is not None and sum(part.end - part.start for part in both.parts) <= BLOCK_BYTES:
            some[-1] = both
        else:
            some.append(block)
    return some


def _touches(one: Block, two: Block) -> bool:
    (left, *_), (right, *_) = reversed(one.parts), two.parts
    return left.segment_id == right.segment_id and left.end == right.start
