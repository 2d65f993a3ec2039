"""Where the rows lie whose figures are known: an index of what one commit has written.

While it is written, and until it is committed, places are offsets in the transaction's segments. Pravega puts what a
transaction's segment holds behind what its stream's segment holds at that moment, as one piece. Where a segment has
grown between two versions by just what the later one has written to it, the piece begins where the earlier one ended.
Else others have written, too, nobody knows where, and that segment's places are dropped: its events are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from pyspark_pravega.client import SegmentPart
from pyspark_pravega.connector.index.conditions import Condition, possible
from pyspark_pravega.connector.index.figures import Figures, IndexedColumn

MOST_BLOCKS = 2000
"""Of one commit: an entry of the log has less than 1 MiB. Of larger commits neighbours become one block."""
_MOST_NUMBERS = 20_000
"""Likewise: of figures of columns, and of numbers that parts have."""
WORTH_SKIPPING_BYTES = 64 << 10
"""Less than this, between blocks that are read, is read with them: another request costs more."""


class Part(NamedTuple):
    """A range of a segment's bytes."""

    segment_id: int
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Block:
    """Some rows that were written together."""

    rows: int
    figures: tuple[Figures | None, ...]
    """Of each column of the index; None where they aren't known."""
    parts: tuple[Part, ...]
    """Where they lie."""

    def __add__(self, other: Block) -> Block:
        """Both as one."""
        pairs = zip(self.figures, other.figures, strict=True)
        return Block(
            rows=self.rows + other.rows,
            figures=tuple(None if one is None or two is None else one + two for one, two in pairs),
            parts=joined((*self.parts, *other.parts)),
        )


@dataclass(frozen=True, kw_only=True)
class BlockIndex:
    """The index of one commit, or of events that were read for it."""

    columns: tuple[tuple[str, ...], ...]
    """As `IndexedColumn.key`; of events that were read as `read_key`."""
    blocks: tuple[Block, ...]
    sizes: Mapping[int, int] | None = None
    """Of one that isn't committed yet: how many bytes its transaction has for each segment. None where that isn't
    known, as nothing is known of places: then it has one block."""

    @classmethod
    def of(
        cls, columns: Sequence[IndexedColumn], blocks: Iterable[Block], sizes: Mapping[int, int] | None
    ) -> BlockIndex:
        """The index of what tasks have written.

        Args:
            columns: those that have figures.
            blocks: in the order in which they were written.
            sizes: as of the index.
        """
        some = list(blocks)
        most = most_blocks(len(columns)) if sizes is not None else 1
        numbers = sum(3 * len(block.parts) for block in some)
        while len(some) > 1 and (len(some) > most or numbers > _MOST_NUMBERS):
            some = [some[i] + some[i + 1] if i + 1 < len(some) else some[i] for i in range(0, len(some), 2)]
            numbers = sum(3 * len(block.parts) for block in some)
        return cls(columns=tuple(column.key for column in columns), blocks=tuple(some), sizes=sizes)

    @cached_property
    def whole(self) -> Block:
        """All blocks as one: most conditions that no row meets are told by it."""
        parts = joined(part for block in self.blocks for part in block.parts)
        bare = [replace(block, parts=()) for block in self.blocks]
        return replace(sum(bare[1:], bare[0]), parts=parts)

    def placed(self, before: Mapping[int, int], after: Mapping[int, int], written: int) -> BlockIndex | None:
        """The index with places in the stream, when it is committed.

        Args:
            before: the stream's tail when the version before was made: segment id to offset; empty where there is none.
            after: the tail that this one has reached.
            written: how many bytes the commit has written.

        Returns:
            None where nothing is known of any place.
        """
        grown = {segment_id: Part(segment_id, before.get(segment_id, 0), end) for segment_id, end in after.items()}
        if self.sizes is None:
            if before.keys() != after.keys() or sum(part.end - part.start for part in grown.values()) != written:
                return None
            parts = tuple(part for part in grown.values() if part.end > part.start)
            return replace(self, blocks=tuple(replace(block, parts=parts) for block in self.blocks))
        begins = {
            segment_id: grown[segment_id].start
            for segment_id, size in self.sizes.items()
            if segment_id in grown and grown[segment_id].end - grown[segment_id].start == size
        }
        blocks = []
        for block in self.blocks:
            known = [part for part in block.parts if part.segment_id in begins]
            moved = [(part.segment_id, begins[part.segment_id], part) for part in known]
            places = tuple(Part(segment_id, begin + part.start, begin + part.end) for segment_id, begin, part in moved)
            if places:
                blocks.append(replace(block, parts=places))
        return BlockIndex(columns=self.columns, blocks=tuple(blocks)) if blocks else None

    def content(self) -> dict[str, Any]:
        """As the commit log keeps it."""
        content: dict[str, Any] = {
            "columns": self.columns,
            "blocks": [
                [
                    block.rows,
                    [number for part in block.parts for number in part],
                    [None if figures is None else figures.content() for figures in block.figures],
                ]
                for block in self.blocks
            ],
        }
        return content if self.sizes is None else {**content, "sizes": self.sizes}

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> BlockIndex:
        """An index that the commit log keeps.

        Args:
            content: as `content` gives it.
        """
        columns = tuple(tuple(map(str, key)) for key in content["columns"])
        blocks = []
        for rows, numbers, all_figures in content["blocks"]:
            triples = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
            figures = (
                None if of is None else Figures.of_content(rows, of, kind)
                for of, (_, kind, *_) in zip(all_figures, columns, strict=True)
            )
            blocks.append(Block(rows=rows, figures=tuple(figures), parts=tuple(Part(*triple) for triple in triples)))
        sizes = content.get("sizes")
        own = None if sizes is None else {int(segment_id): size for segment_id, size in sizes.items()}
        return cls(columns=columns, blocks=tuple(blocks), sizes=own)


def most_blocks(columns: int) -> int:
    """How many blocks an index has at most.

    Args:
        columns: of how many columns it has figures.
    """
    return min(MOST_BLOCKS, _MOST_NUMBERS // (3 * columns + 1))


def skipped(
    parts: Iterable[SegmentPart],
    indexes: Iterable[BlockIndex],
    condition: Condition,
    columns: Iterable[IndexedColumn],
) -> list[SegmentPart]:
    """Parts of segments without the blocks of which no row can meet a condition.

    Args:
        parts: what would be read.
        indexes: those of the commits that have written it, as far as they are known.
        condition: as `values_of` gives it.
        columns: those that it may name.
    """
    names: dict[tuple[str, ...], str] = {}
    for column in columns:
        names |= {column.key: column.name, column.read_key: column.name}
    unwanted: dict[int, list[Part]] = {}

    def is_wanted(index: BlockIndex, block: Block) -> bool:
        pairs = zip(index.columns, block.figures, strict=True)
        figures = {names[key]: of for key, of in pairs if of is not None and key in names}
        return possible(condition, figures).true

    for index in indexes:
        some = index.blocks if is_wanted(index, index.whole) else (index.whole,)
        for block in some:
            if not is_wanted(index, block):
                for part in block.parts:
                    unwanted.setdefault(part.segment_id, []).append(part)
    gaps = {segment_id: joined(some) for segment_id, some in unwanted.items()}
    return [left for part in parts for left in _without(part, gaps.get(part.segment_id, ()))]


def _without(part: SegmentPart, gaps: Iterable[Part]) -> Iterator[SegmentPart]:
    position = part.start
    for gap in gaps:
        start, end = max(gap.start, part.start), min(gap.end, part.end)
        # At the begin and at the end nothing is read on the way.
        is_edge = start <= part.start or end >= part.end
        if end <= start or (end - start < WORTH_SKIPPING_BYTES and not is_edge):
            continue
        if start > position:
            yield replace(part, start=position, end=start)
        position = max(position, end)
    if position < part.end:
        yield replace(part, start=position)


def joined(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Parts in their order, neighbours as one.

    Args:
        parts: in any order.
    """
    some: list[Part] = []
    for part in sorted(parts):
        if some and some[-1].segment_id == part.segment_id and some[-1].end >= part.start:
            part = Part(part.segment_id, some[-1].start, max(part.end, some.pop().end))
        some.append(part)
    return tuple(some)
