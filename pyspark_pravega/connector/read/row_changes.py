"""What versions have changed in a table with a key: rows inserted, updated and deleted, each with what it was before.

An event says what a row is from then on. What it was before is the key's last event of an earlier version. So a task
goes through the versions' events for their keys, through the earlier events for those keys, and then reads the rows.
The earlier events are those since the last compaction, of segments to which the versions have written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client import Client
from pyspark_pravega.connector.base import BaseRows, check_base
from pyspark_pravega.connector.log import Ledger, Snapshot
from pyspark_pravega.connector.plain import told_plainly
from pyspark_pravega.connector.read.chains import ChainPartition, arrange_chains
from pyspark_pravega.connector.read.changes import CHANGE_COLUMNS, INSERT
from pyspark_pravega.connector.read.committed import CommittedRange, committed_ranges, first_that_is_there
from pyspark_pravega.connector.read.eras import events_of_changes
from pyspark_pravega.connector.read.event_pointers import (
    POINTER,
    EventPointers,
    Kept,
    Last,
    Range,
    mask_of,
    offsets_in,
    within,
)
from pyspark_pravega.connector.read.keyed import MERGED_ROWS, KeyedReader
from pyspark_pravega.connector.read.reader import output_schema
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.frames.ragged import Ints
from pyspark_pravega.serde.codec import Batch, arrow_batch
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.datasource import InputPartition
from pyspark_pravega.spark.types import StructType

DELETE, BEFORE, AFTER = "delete", "update_preimage", "update_postimage"
_TYPES = (INSERT, DELETE, BEFORE, AFTER)
_VERSION, _LOCATION = "\x1fversion", "location"
"""The first one is beside columns of a key, none of which has such a name."""
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class RowChanges:
    """What has to be read to tell what versions have changed."""

    snapshot: Snapshot
    """All events from which the rows until the last version are made."""
    ranges: tuple[CommittedRange, ...]
    """Which of them the versions have added."""
    base: int = 0
    """The one of the versions whose rows, those that a compaction has written, are the rows before the first version; 0
    where that are all earlier events."""


class RowChangesPartition(ChainPartition):
    """A chain of segments, and what of them versions have added."""

    def __init__(self, keyed: ChainPartition, changes: RowChanges) -> None:
        super().__init__([(part, False) for part in keyed.parts], keyed.lake)
        segment_ids = {part.segment_id for part in keyed.parts}
        self.ranges = tuple(one for one in changes.ranges if one.part.segment_id in segment_ids)
        self.base = changes.base


def row_changes(client: Client, ledger: Ledger, first: int, last: int) -> RowChanges | None:
    """What has to be read to tell what versions have changed.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        first: the first version.
        last: the last one.

    Returns:
        None when there is no version.

    Raises:
        SegmentTruncatedError: some of their events are gone, or what the rows were before isn't known any more.
        VersionNotFoundError: a version isn't known any more.
    """
    if first > last:
        return None
    era, snapshot = events_of_changes(client, ledger, first, last)
    begins = era.begins if era.version >= first == era.base else None
    return RowChanges(
        snapshot=snapshot,
        ranges=tuple(committed_ranges(client, ledger, first, last, begins=begins)),
        base=era.version if era.version >= first else 0,
    )


def row_change_partitions(client: Client, changes: RowChanges | None) -> list[RowChangesPartition]:
    """Share what versions have changed out among tasks: a chain of segments to which they have written goes to one.

    Args:
        client: tells what part of the key space a segment has owned.
        changes: what is to be read; None for nothing.
    """
    if changes is None:
        return []
    written = {one.part.segment_id for one in changes.ranges}
    return [RowChangesPartition(one, changes) for one in arrange_chains(client, changes.snapshot, written)]


def first_told_version(client: Client, ledger: Ledger, first: int, last: int) -> int:
    """The first of some versions from which on all changes of rows can be told.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        first: the first version.
        last: the last one.

    Returns:
        One more than `last` where there is none.
    """
    return first_that_is_there(first, last, lambda version: row_changes(client, ledger, version, last))


class RowChangesReader(KeyedReader):
    """Reads what versions have changed."""

    _hands_batches_on = False

    def __init__(
        self,
        definition: TableDefinition,
        changes: RowChanges | None,
        columns: Sequence[str],
        *,
        max_keys: int | None = None,
    ) -> None:
        """Plan a read.

        Args:
            definition: what the stream is as a table; it has a key.
            changes: what to read; None for nothing, or for what is told with each partition.
            columns: the wanted columns in their order, those of the changes among them; none for rows only.
            max_keys: as of `KeyedReader`, of keys that have changed.
        """
        inner = [name for name in columns if name not in CHANGE_COLUMNS.fieldNames()]
        super().__init__(definition, None, inner, max_keys=max_keys)
        self._changed = changes
        self._batch_schema = self._arrow_schema
        if columns:
            known = {field.name: field for field in (*output_schema(definition, inner), *CHANGE_COLUMNS)}
            self.schema = StructType([known[name] for name in columns])
            self._batch_schema = to_arrow_schema(self.schema, timezone="UTC")

    def __getstate__(self) -> dict[str, Any]:
        # Each task is told its own ranges: the plan of all of them stays here.
        return {**super().__getstate__(), "_changed": None}

    def partitions(self) -> Sequence[InputPartition]:
        """See `row_change_partitions`."""
        changes = self._changed
        if changes is not None and changes.snapshot.base is not None and self._definition is not None:
            check_base(self._definition, changes.snapshot.base, [] if self._counts else self._arrow_schema.names)
        return row_change_partitions(shared_client(self._settings), self._changed)

    def batches(self, partition: InputPartition) -> Iterator[Batch]:
        """The changes of a partition; those of a key in the order of versions.

        Args:
            partition: one of `partitions()`, or Spark's stand-in when there are none.
        """
        if not isinstance(partition, RowChangesPartition):
            return
        self._check_parts(partition.parts)
        with told_plainly():
            kept = Kept(frames=[[] for _ in partition.parts], up_to=[part.start for part in partition.parts])
            times = {
                version: at
                for one in partition.ranges
                for version, at in zip(one.versions.tolist(), one.times.tolist(), strict=True)
            }
            begin, width = 0.0, 1.0
            while begin < 1.0:
                last = self._changed_keys(partition, (begin, min(1.0, begin + width)))
                begin, width = last.range[1], last.range[1] - begin
                yield from self._rows(partition, self._told(partition, last, kept), times, kept)

    def _changed_keys(self, partition: RowChangesPartition, range: Range) -> Last:
        """For each key that was changed and each version its last event; of a part of the key space, which is made
        smaller until they are few enough.

        Args:
            partition: what to read.
            range: the part of the key space.
        """
        schema = self._flat_key()
        names = [*(flat.name for flat in schema), _VERSION]
        more = [pa.field(name, pa.int64()) for name in (_VERSION, POINTER)]
        last = Last(range=range, table=pa.schema([*schema, *more]).empty_table())
        for number, part in enumerate(partition.parts):
            for one in partition.ranges:
                if one.part.segment_id != part.segment_id:
                    continue
                for events in self._frames(one.part):
                    table = self._keys(events.frames, part.segment_id, events.start, number, last.range)
                    last.more.append(_with_versions(table, one))
                    if last.rows_to_merge >= max(MERGED_ROWS, last.table.num_rows):
                        self._merge(last, names)
        self._merge(last, names)
        return last

    def _told(self, partition: RowChangesPartition, last: Last, kept: Kept) -> pa.Table:
        """What has happened to some keys, as `_changes` tells it.

        Args:
            partition: what to read.
            last: the keys, see `_changed_keys`.
            kept: keeps frames.
        """
        names = [flat.name for flat in self._flat_key()]
        # Of all other keys nothing need be known.
        keys = last.table.select(names).group_by(names, use_threads=False).aggregate([])
        before = Last(range=last.range, table=last.table.select([*names, POINTER]).slice(0, 0))
        for table in self._earlier_keys(partition, last.range, kept):
            before.more.append(table.join(keys, names, join_type="left semi", use_threads=False))
            if before.rows_to_merge >= MERGED_ROWS:
                self._merge(before)
        self._merge(before)
        rows = before.table.append_column(_VERSION, pa.repeat(pa.scalar(0, pa.int64()), before.table.num_rows))
        return _changes(pa.concat_tables([last.table, rows.select(last.table.column_names)]), names)

    def _earlier_keys(self, partition: RowChangesPartition, range: Range, kept: Kept) -> Iterator[pa.Table]:
        """The keys of, and pointers to, the events that the rows before the first version are made of."""
        for number, part in enumerate(partition.parts):
            own = [one for one in partition.ranges if one.part.segment_id == part.segment_id]
            earlier = replace(part, end=min((one.part.start for one in own), default=part.end))
            for frames, position in self._kept_frames(number, earlier, kept):
                yield self._keys(frames, part.segment_id, position, number, range)
            for one in own if partition.base else ():
                index = int(np.searchsorted(one.versions, partition.base))
                if index < len(one.versions) and one.versions[index] == partition.base:
                    for events in self._frames(one.between(index, index + 1).part):
                        table = self._keys(events.frames, part.segment_id, events.start, number, range)
                        yield table.filter(pa.array(EventPointers.column(table).compacted))
        if partition.lake is not None:
            yield from self._keys_of_base(partition, partition.lake, range)

    def _keys_of_base(self, partition: RowChangesPartition, base: BaseRows, range: Range) -> Iterator[pa.Table]:
        """The keys of rows in the lake, which are older than all events, and pointers to these: to their indexes in a
        part of their own."""
        first, names = 0, [flat.name for flat in self._flat_key()]
        schema = pa.schema([pa.field(name, self._key_type(name)) for name in self._key.columns])
        for batch in base.batches(schema):
            older = np.ones(batch.num_rows, np.bool_)
            pointers = EventPointers.of(len(partition.parts), first, np.arange(batch.num_rows), compacted=older)
            first += batch.num_rows
            table = self._base_keys(batch).append_column(POINTER, pa.array(pointers.values))
            yield table if range == (0.0, 1.0) else within(table, names, range)

    def _rows_of_base(self, base: BaseRows, indexes: Ints) -> Iterator[pa.RecordBatch]:
        """Some rows in the lake.

        Args:
            base: all of them.
            indexes: which ones, ascending.
        """
        first = 0
        for batch in base.batches(self._base_schema(with_keys=True)) if len(indexes) else ():
            one, other = np.searchsorted(indexes, [first, first + batch.num_rows])
            if one < other:
                yield self._of_base(batch.take(pa.array(indexes[one:other] - first)))
            first += batch.num_rows

    def _rows(
        self, partition: RowChangesPartition, changes: pa.Table, times: dict[int, int], kept: Kept
    ) -> Iterator[pa.RecordBatch]:
        parts = partition.parts
        locations = changes[_LOCATION].to_numpy()
        order = np.argsort(locations, kind="stable")
        locations = locations[order]
        types, versions = changes["type"].to_numpy()[order], changes[_VERSION].to_numpy()[order]
        distinct, counts = np.unique(locations, return_counts=True)
        ends = np.cumsum(counts)
        done = 0
        rows_there: Iterator[Batch] = self._rows_at(parts, distinct, kept)
        if partition.lake is not None:
            rows_there = chain(rows_there, self._rows_of_base(partition.lake, offsets_in(len(parts), distinct)))
        for batch in rows_there:
            here = counts[done : done + batch.num_rows]
            first = int(ends[done] - counts[done])
            some = slice(first, first + int(here.sum()))
            done += batch.num_rows
            rows = arrow_batch(batch).take(pa.array(np.repeat(np.arange(batch.num_rows), here)))
            yield self._with_changes(rows, types[some], versions[some], times)

    def _with_changes(
        self, rows: pa.RecordBatch, types: Longs, versions: Longs, times: dict[int, int]
    ) -> pa.RecordBatch:
        stamps = np.array([times[version] for version in versions.tolist()], np.int64) * 1000
        columns = {
            "_change_type": pa.array(_TYPES).take(pa.array(types)),
            "_commit_version": pa.array(versions),
            "_commit_timestamp": pa.array(stamps).cast(pa.timestamp("us", "UTC")),
        }
        known = dict(zip(rows.schema.names, rows.columns, strict=True)) | columns
        return pa.RecordBatch.from_arrays([known[one.name] for one in self._batch_schema], schema=self._batch_schema)


def _with_versions(table: pa.Table, added: CommittedRange) -> pa.Table:
    """Keys with their versions, without rows that a compaction has only written once more.

    Args:
        table: the keys, and pointers to their events.
        added: where these lie.
    """
    table = table.filter(pa.array(~EventPointers.column(table).compacted))
    versions = pa.array(added.versions[added.indexes(EventPointers.column(table).offsets)])
    return table.add_column(table.num_columns - 1, _VERSION, versions)


def _changes(whole: pa.Table, names: Sequence[str]) -> pa.Table:
    """What has changed.

    Args:
        whole: for each key and version a pointer to its last event; version 0 is what was before.
        names: the key's columns, flat.

    Returns:
        For each change the location of the event that has its row, the index of its type, and its version.
    """
    ordered = whole.sort_by([*((name, "ascending") for name in names), (_VERSION, "ascending")])
    same = np.ones(ordered.num_rows, np.bool_)
    same[:1] = False
    for name in names:
        column = ordered[name].combine_chunks()
        same[1:] &= mask_of(pc.equal(column.slice(1), column.slice(0, max(0, len(column) - 1))))
    pointers, versions = EventPointers.column(ordered), ordered[_VERSION].to_numpy()
    there, after = ~pointers.deletes, pointers.locations
    before = np.roll(after, 1)
    was_there = same & np.roll(there, 1)
    is_change = versions > 0
    kinds: list[tuple[Longs, int, Longs]] = [
        (after[is_change & ~was_there & there], _TYPES.index(INSERT), versions[is_change & ~was_there & there]),
        (before[is_change & was_there & ~there], _TYPES.index(DELETE), versions[is_change & was_there & ~there]),
        (before[is_change & was_there & there], _TYPES.index(BEFORE), versions[is_change & was_there & there]),
        (after[is_change & was_there & there], _TYPES.index(AFTER), versions[is_change & was_there & there]),
    ]
    return pa.table(
        {
            _LOCATION: np.concatenate([rows for rows, _, _ in kinds]),
            "type": np.concatenate([np.full(len(rows), kind) for rows, kind, _ in kinds]),
            _VERSION: np.concatenate([numbers for _, _, numbers in kinds]),
        }
    )
