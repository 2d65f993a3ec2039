"""Which blocks of a table's events a query needn't read, by the indexes that its commits have kept."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from pyspark_pravega.client import SegmentPart, Stream
from pyspark_pravega.connector.index import BlockIndex, Condition, names_in, skipped, values_of
from pyspark_pravega.connector.log import Ledger
from pyspark_pravega.connector.table import TableDefinition, indexed_columns
from pyspark_pravega.serde.lenient import PERMISSIVE

_AT_ONCE = 500
"""Versions that are asked for together."""
_MOST_BLOCKS = 100_000
"""Kept in memory of a table; of more, the figures of older commits are kept as a whole."""
_MOST_TABLES = 100


@dataclass
class _Indexes:
    """What is known of a table. A version's index never changes."""

    controller_uri: str
    stream: Stream
    group_made: int
    """When the schema registry's group was made: one of a table that was made again was made later."""
    up_to: int = 0
    """The last version that was asked for."""
    by_version: dict[int, BlockIndex] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def learn(self, ledger: Ledger, last: int) -> None:
        """Ask for the indexes of versions that aren't known yet; of all where the last one is 0."""
        if 0 < last <= self.up_to:
            return
        # A query can see the rows of a commit before the log has its version, and its index.
        there = ledger.state().version
        last = min(last, there) if last else there
        if last <= self.up_to:
            return
        first = self.up_to + 1
        if not self.up_to:
            oldest = ledger.first_commit()
            first = last + 1 if oldest is None else oldest.version
        for low in range(first, last + 1, _AT_ONCE):
            self.by_version.update(ledger.indexes(range(low, min(last + 1, low + _AT_ONCE))))
        self.up_to = last
        blocks = 0
        for version in sorted(self.by_version, reverse=True):
            index = self.by_version[version]
            blocks += len(index.blocks)
            if blocks > _MOST_BLOCKS and len(index.blocks) > 1:
                self.by_version[version] = replace(index, blocks=(index.whole,))


_indexes_of = lru_cache(maxsize=_MOST_TABLES)(_Indexes)


def wanted_parts(
    definition: TableDefinition,
    ledger: Ledger | None,
    parts: Sequence[SegmentPart],
    condition: Condition,
    last: int = 0,
) -> Sequence[SegmentPart]:
    """Parts of segments without blocks of which no row meets a condition.

    Args:
        definition: what the stream is as a table.
        ledger: the stream's commit log, if it has one.
        parts: what would be read.
        condition: what Spark tells of the query's.
        last: the last version that has written them; 0 where that isn't known.
    """
    named = set(names_in(condition)) if ledger is not None else set()
    # Of events that a later schema can't decode, mode permissive shows rows of nulls.
    if ledger is None or definition.mode == PERMISSIVE or not named.intersection(definition.properties.index_columns):
        return parts
    columns = {column.name: column for column in indexed_columns(definition) if column.name in named}
    if not columns:
        return parts
    indexes = _indexes_of(definition.settings.controller_uri, definition.stream, definition.group_made)
    with indexes.lock:
        indexes.learn(ledger, last)
        some = list(indexes.by_version.values())
    return skipped(parts, some, values_of(condition, columns), columns.values())
