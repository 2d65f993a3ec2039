"""Rows of the lake between versions and offsets, in the order of their events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pyspark_pravega.lake.columns import POSITIONS, VERSION
from pyspark_pravega.lake.files import BATCH_ROWS, NO_END, Between
from pyspark_pravega.lake.spill import Spill
from pyspark_pravega.lake.stores import Store

if TYPE_CHECKING:
    import pyarrow.parquet as pq

SEGMENT, OFFSET = POSITIONS
_KNOWN_FILES = 4096
"""Whose figures are kept in memory."""
_WAITING_BYTES = 64 << 20
"""How many bytes of rows wait in memory."""
_RANGE_BYTES = 32 << 20
"""The rows of how many bytes of a segment's events are sorted together."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """Which rows are wanted."""

    after: int
    """The last version whose rows aren't."""
    last: int
    """The last one whose rows are."""
    segments: Mapping[int, tuple[int, int]]
    """Of which segments, from which offset on, and before which one."""


@dataclass(frozen=True, kw_only=True)
class GroupOfRows:
    """A row group of a file."""

    path: str
    number: int
    segments: frozenset[int]
    """Whose events it holds."""
    bytes: int
    """Before they are compressed."""
    first: int = 0
    last: int = NO_END
    """The first and the last version of which it may have rows."""


def groups_in(store: Store, path: str, after: int = -1, last: int = NO_END) -> list[GroupOfRows]:
    """The row groups of a file that may hold rows of some versions.

    Args:
        store: reaches it.
        path: the file.
        after: the version before the first one.
        last: the last one.
    """
    return [group for group in _groups(store, path) if group.first <= last and group.last > after]


@lru_cache(maxsize=_KNOWN_FILES)
def _groups(store: Store, path: str) -> tuple[GroupOfRows, ...]:
    """All of them, which never change."""
    groups = []
    with store.parquet(path) as file:
        leaves = {file.metadata.schema.column(i).path: i for i in range(len(file.metadata.schema))}
        for number in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(number)
            segments = frozenset(_segments(file, number, group.column(leaves[SEGMENT]).statistics))
            versions = group.column(leaves[VERSION]).statistics
            known = (versions.min, versions.max) if versions is not None and versions.has_min_max else (0, NO_END)
            first, last = known
            groups.append(
                GroupOfRows(
                    path=path, number=number, segments=segments, bytes=group.total_byte_size, first=first, last=last
                )
            )
    return tuple(groups)


@lru_cache(maxsize=_KNOWN_FILES)
def rows_of_versions(store: Store, path: str) -> tuple[tuple[int, int], ...]:
    """How many rows a file has of each version. It never changes.

    Args:
        store: reaches it.
        path: the file.

    Returns:
        Versions in their order, each with its rows.
    """
    counts: dict[int, int] = {}
    with store.parquet(path) as file:
        groups = range(file.metadata.num_row_groups)
        for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=[VERSION], use_threads=False):
            versions, rows = np.unique(batch.column(0).to_numpy(), return_counts=True)
            for version, number in zip(versions.tolist(), rows.tolist(), strict=True):
                counts[version] = counts.get(version, 0) + number
    return tuple(sorted(counts.items()))


def read_span(
    store: Store, path: str, groups: Sequence[int], columns: Sequence[str], span: Span
) -> Iterator[pa.RecordBatch]:
    """Read rows of a file, in the order in which they stand there.

    Args:
        store: reaches it.
        path: the file.
        groups: the numbers of the row groups.
        columns: the wanted ones; those that the file hasn't don't come. Those of the lake come besides.
        span: which rows.
    """
    ids = np.array(sorted(span.segments), np.int64)
    starts, ends = (np.array([span.segments[id][side] for id in ids.tolist()], np.int64) for side in (0, 1))
    with store.parquet(path) as file:
        there = set(file.schema_arrow.names)
        names = list(dict.fromkeys([*(name for name in columns if name in there), SEGMENT, OFFSET, VERSION]))
        for batch in file.iter_batches(BATCH_ROWS, row_groups=list(groups), columns=names, use_threads=False):
            segments, offsets, versions = (batch.column(name).to_numpy() for name in (SEGMENT, OFFSET, VERSION))
            index = np.minimum(np.searchsorted(ids, segments), len(ids) - 1)
            kept = (versions > span.after) & (versions <= span.last) & (ids[index] == segments)
            kept &= (offsets >= starts[index]) & (offsets < ends[index])
            if kept.all():
                yield batch
            elif kept.any():
                yield batch.filter(pa.array(kept))


def by_events(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows in the order of their events, segment by segment. Those that aren't wanted yet wait in a file of this
    machine.

    Args:
        batches: rows in any order, with the columns of the lake.
    """
    waiting: Spill[tuple[int, int]] = Spill(_WAITING_BYTES)
    try:
        for batch in batches:
            segments, offsets = (batch.column(name).to_numpy() for name in POSITIONS)
            order = np.lexsort((offsets, segments))
            ranges = offsets[order] // _RANGE_BYTES
            new = (np.diff(segments[order], prepend=-1) != 0) | (np.diff(ranges, prepend=-1) != 0)
            begins = np.flatnonzero(new).tolist()
            rows = batch.take(pa.array(order))
            for begin, end in zip(begins, [*begins[1:], len(order)], strict=True):
                waiting.add((int(segments[order[begin]]), int(ranges[begin])), rows.slice(begin, end - begin))
        for group in sorted(waiting.groups):
            table = pa.Table.from_batches(waiting.of(group)).combine_chunks().sort_by(OFFSET)
            yield from table.to_batches(BATCH_ROWS)
    finally:
        waiting.close()


def read_groups(
    store: Store, group: GroupOfRows, columns: Sequence[str], wanted: Sequence[Between]
) -> Iterator[pa.RecordBatch]:
    """Read a row group of a file.

    Args:
        store: reaches it.
        group: the row group.
        columns: the wanted ones; those that the file hasn't don't come. None for rows only: then one comes.
        wanted: which values are wanted: a row group that has none is passed over.
    """
    with store.parquet(group.path) as file:
        leaves = {file.metadata.schema.column(i).path: i for i in range(len(file.metadata.schema))}
        figures = file.metadata.row_group(group.number)
        if not all(one.may_hold(figures, leaves[one.column]) for one in wanted if one.column in leaves):
            return
        there = set(file.schema_arrow.names)
        names = [name for name in columns if name in there] or [VERSION]
        yield from file.iter_batches(BATCH_ROWS, row_groups=[group.number], columns=names, use_threads=False)


def _segments(file: pq.ParquetFile, number: int, figures: Any) -> list[int]:
    if figures is not None and figures.has_min_max and figures.min == figures.max:
        return [figures.min]
    batches = file.iter_batches(BATCH_ROWS, row_groups=[number], columns=[SEGMENT], use_threads=False)
    return [segment for batch in batches for segment in np.unique(batch.column(0).to_numpy()).tolist()]
