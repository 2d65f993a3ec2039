"""Figures of a task's rows, taken while they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from pyspark_pravega.connector.index.blocks import Block, Part
from pyspark_pravega.connector.index.figures import Figures, IndexedColumn, figures_of


class _Mark(NamedTuple):
    """What was written between two moments at which nothing was held back."""

    rows: int
    figures: tuple[Figures | None, ...]
    ends: Mapping[int, int]
    """Segment id to the bytes that the task had written to it by then."""


class IndexWriter:
    """Takes the figures of one task attempt's rows. Used by one thread."""

    def __init__(self, columns: Sequence[IndexedColumn]) -> None:
        """Nothing is known yet.

        Args:
            columns: those that get figures.
        """
        self._columns = columns
        self._rows = 0
        self._figures: tuple[Figures | None, ...] = ()
        self._marks: list[_Mark] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the figures of some rows.

        Args:
            batch: the rows, in the form that the table keeps.
        """
        names = batch.schema.names
        figures = tuple(
            figures_of(batch.column(names.index(column.name))) if column.name in names else None
            for column in self._columns
        )
        if self._rows:
            pairs = zip(self._figures, figures, strict=True)
            figures = tuple(None if one is None or two is None else one + two for one, two in pairs)
        self._rows, self._figures = self._rows + batch.num_rows, figures

    def mark(self, written: Mapping[int, tuple[int, int]]) -> None:
        """Note where the rows lie that were added since the mark before: together they are a block.

        Args:
            written: what the task has written, nothing held back: segment id to events and bytes.
        """
        if self._rows:
            ends = {segment_id: size for segment_id, (_, size) in written.items()}
            self._marks.append(_Mark(self._rows, self._figures, ends))
            self._rows, self._figures = 0, ()

    def blocks(self, ranges: Mapping[int, Sequence[tuple[int, int]]] | None) -> tuple[Block, ...]:
        """The blocks of all rows up to the last mark.

        Args:
            ranges: where in its transaction's segments the task's bytes lie, in the order in which they were written;
                None where that isn't known.

        Returns:
            Blocks without parts where that isn't known of all bytes.
        """
        last = self._marks[-1].ends if self._marks else {}
        if ranges is None or any(sum(end - start for start, end in ranges[id_]) != last.get(id_, 0) for id_ in ranges):
            ranges = {}
        blocks, before = [], dict.fromkeys(ranges, 0)
        for mark in self._marks:
            parts: list[Part] = []
            for segment_id, of_segment in ranges.items():
                start, end = before[segment_id], mark.ends.get(segment_id, 0)
                parts += _places(segment_id, of_segment, start, end)
                before[segment_id] = max(start, end)
            blocks.append(Block(rows=mark.rows, figures=mark.figures, parts=tuple(parts)))
        return tuple(blocks)


def _places(segment_id: int, ranges: Sequence[tuple[int, int]], start: int, end: int) -> list[Part]:
    """Where some of a task's bytes lie.

    Args:
        segment_id: the segment.
        ranges: where all of them lie.
        start: the first one's number among them, from 0.
        end: the number behind the last one.
    """
    parts, done = [], 0
    for first, behind in ranges:
        low, high = max(start, done), min(end, done + behind - first)
        if low < high:
            parts.append(Part(segment_id, first + low - done, first + high - done))
        done += behind - first
    return parts
