"""Which blocks of a table's events a query needn't read, by the indexes that its commits and `CALL index` have kept."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from pyspark.sql.datasource import InputPartition

from pyspark_pravega.client import SegmentPart, Stream
from pyspark_pravega.connector.index import BlockIndex, Condition, names_in, skipped, values_of
from pyspark_pravega.connector.log import Ledger, open_ledger
from pyspark_pravega.connector.option_names import reads_own
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.read import SlicePartition
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition, indexed_columns
from pyspark_pravega.serde.lenient import PERMISSIVE

_MOST_BLOCKS = 100_000
"""Kept in memory of a table; of more, the figures of older commits are kept as a whole."""
_MOST_TABLES = 100


@dataclass
class _Indexes:
    """What is known of a table. A version's index never changes, nor does an entry of `CALL index`."""

    controller_uri: str
    stream: Stream
    group_made: int
    """When the schema registry's group was made: one of a table that was made again was made later."""
    up_to: int = 0
    """The last version that was asked for."""
    by_version: dict[int, BlockIndex] = field(default_factory=dict)
    read: dict[int, BlockIndex] = field(default_factory=dict)
    """Of what `CALL index` has read, by the entries' numbers."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def learn(self, ledger: Ledger, last: int) -> None:
        """Ask for the indexes that aren't known yet; of all versions where the last one is 0."""
        known = set(self.read)
        self.read = dict(ledger.indexes().read(self.read).by_number)
        if self._learn_versions(ledger, last) or not known.issuperset(self.read):
            self._forget_figures()

    def all(self) -> list[BlockIndex]:
        """All that are known."""
        return [*self.by_version.values(), *self.read.values()]

    def _learn_versions(self, ledger: Ledger, last: int) -> bool:
        if 0 < last <= self.up_to:
            return False
        # A query can see the rows of a commit before the log has its version, and its index.
        there = ledger.state().version
        last = min(last, there) if last else there
        if last <= self.up_to:
            return False
        first = self.up_to + 1
        if not self.up_to:
            oldest = ledger.first_commit()
            first = last + 1 if oldest is None else oldest.version
        self.by_version.update(ledger.indexes().of_versions(range(first, last + 1)))
        self.up_to = last
        return True

    def _forget_figures(self) -> None:
        """Keep those of older ones as a whole, where there are too many."""
        blocks = 0
        for indexes in (self.read, self.by_version):
            for number in sorted(indexes, reverse=True):
                index = indexes[number]
                blocks += len(index.blocks)
                if blocks > _MOST_BLOCKS and len(index.blocks) > 1:
                    indexes[number] = replace(index, blocks=(index.whole,))


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
        some = indexes.all()
    return skipped(parts, some, values_of(condition, columns), columns.values())


def index_fingerprint(definition: TableDefinition) -> str:
    """What decides what an index says of a column: equal where its blocks may be passed over by the same name.

    Args:
        definition: what the stream is as a table.
    """
    columns = [(column.name, *column.read_key) for column in indexed_columns(definition)]
    return f"{definition.group_made}: {columns}"


def wanted_partitions(
    definition: TableDefinition,
    partitions: Sequence[InputPartition],
    condition: Condition,
    options: Mapping[str, str],
) -> tuple[list[InputPartition], int] | None:
    """What of a read that is planned already is wanted, when a join's other side has told its values.

    Args:
        definition: what the stream is as a table without a key.
        partitions: those of the plan.
        condition: what Spark tells.
        options: the read's.

    Returns:
        The partitions that are left, and how many bytes of events that saves; None where all are wanted.
    """
    events = ReadOptions.of_table(reads_own(options), versions=definition.is_changes).events
    if definition.is_changes or (events.mode or definition.mode) == PERMISSIVE:
        return None
    # What a transaction has written has no place in the stream yet, so no index.
    parts = [part for one in partitions if type(one) is SlicePartition for part in one.parts if not part.transaction]
    ledger = open_ledger(shared_client(definition.settings), definition.stream) if parts else None
    by_segment: dict[int, list[SegmentPart]] = defaultdict(list)
    for part in wanted_parts(definition, ledger, parts, condition):
        by_segment[part.segment_id].append(part)
    saved = sum(part.size for part in parts) - sum(part.size for some in by_segment.values() for part in some)
    if not saved:
        return None
    left: list[InputPartition] = []
    for one in partitions:
        if type(one) is not SlicePartition:
            left.append(one)
        elif kept := [wanted for part in one.parts for wanted in _within(part, by_segment[part.segment_id])]:
            left.append(SlicePartition(kept))
    return left, saved


def _within(part: SegmentPart, wanted: Sequence[SegmentPart]) -> Sequence[SegmentPart]:
    return [part] if part.transaction else [one for one in wanted if part.start <= one.start < part.end]
