"""What versions have changed in a table with a key: rows inserted, updated and deleted, each with what it was before.

An event says what a row is from then on. What it was before is the key's last event of an earlier version. So a task
goes through the versions' events for their keys, through the earlier events for those keys, and then reads the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_pravega.client import Client, SegmentPart
from pyspark_pravega.connector.log import Ledger, Snapshot
from pyspark_pravega.connector.plain import told_plainly
from pyspark_pravega.connector.read.chains import ChainPartition, arrange_chains
from pyspark_pravega.connector.read.changes import CHANGE_COLUMNS, INSERT
from pyspark_pravega.connector.read.committed import CommittedRange, committed_ranges
from pyspark_pravega.connector.read.keyed import WRITTEN, Kept, KeyedReader, is_among
from pyspark_pravega.connector.read.reader import output_schema
from pyspark_pravega.connector.read.versions import Moment, commit_of, rows_at
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import SegmentTruncatedError

DELETE, BEFORE, AFTER = "delete", "update_preimage", "update_postimage"
_TYPES = (INSERT, DELETE, BEFORE, AFTER)
_PLACE, _VERSION = "_place", "_version"
Longs = npt.NDArray[np.int64]


class RowChangesPartition(ChainPartition):
    """A chain of segments, and what of them versions have added."""

    def __init__(self, chain: ChainPartition, ranges: Sequence[CommittedRange]) -> None:
        super().__init__([(part, False) for part in chain.parts])
        segment_ids = {part.segment_id for part in chain.parts}
        self.ranges = tuple(one for one in ranges if one.part.segment_id in segment_ids)


def changed_ranges(
    client: Client, ledger: Ledger, first: int, last: int
) -> tuple[Snapshot | None, list[CommittedRange]]:
    """What has to be read to tell what versions have changed.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        first: the first version.
        last: the last one.

    Returns:
        All events until the last version, and which of them the versions have added; none when there is no version.

    Raises:
        SegmentTruncatedError: what the rows were before isn't known any more.
    """
    if first > last:
        return None, []
    stream, replaced = ledger.stream, ledger.state().replaced_rows
    if first <= replaced:
        raise SegmentTruncatedError(
            f'what version {first} of stream "{stream}" has changed can\'t be told: version {replaced} took the place '
            f"of all rows, and what they were before is gone; begin with {replaced + 1}"
        )
    end = Moment(offsets=commit_of(ledger, stream, last).cut, name=f"version {last}", version=last)
    return rows_at(client, stream, end), committed_ranges(client, ledger, first, last)


class RowChangesReader(KeyedReader):
    """Reads what versions have changed."""

    def __init__(
        self,
        definition: TableDefinition,
        snapshot: Snapshot | None,
        ranges: Sequence[CommittedRange],
        columns: Sequence[str],
    ) -> None:
        """Plan a read.

        Args:
            definition: what the stream is as a table; it has a key.
            snapshot: all events until the last version; None where there is none.
            ranges: what of them the versions have added.
            columns: the wanted columns in their order, those of the changes among them; none for rows only.
        """
        inner = [name for name in columns if name not in CHANGE_COLUMNS.fieldNames()]
        super().__init__(definition, snapshot, inner)
        self._ranges = tuple(ranges)
        self._batch_schema = self._arrow_schema
        if columns:
            known = {field.name: field for field in (*output_schema(definition, inner), *CHANGE_COLUMNS)}
            self.schema = StructType([known[name] for name in columns])
            self._batch_schema = to_arrow_schema(self.schema, timezone="UTC")

    def __getstate__(self) -> dict[str, Any]:
        # Each task is told its own ranges: the plan of all of them stays here.
        return {**super().__getstate__(), "_ranges": ()}

    def partitions(self) -> Sequence[InputPartition]:
        """A partition for each chain of segments."""
        if self._snapshot is None:
            return []
        found = arrange_chains(shared_client(self._settings), self._snapshot)
        partitions = [RowChangesPartition(chain, self._ranges) for chain in found]
        return [partition for partition in partitions if partition.ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of a partition; those of a key in the order of versions.

        Args:
            partition: one of `partitions()`, or Spark's stand-in when there are none.
        """
        if not isinstance(partition, RowChangesPartition):
            return
        with told_plainly():
            kept = Kept(frames=[[] for _ in partition.parts], up_to=[part.start for part in partition.parts])
            changes, times = self._changes(partition, kept)
            yield from self._rows(partition.parts, changes, times, kept)

    def _changes(self, partition: RowChangesPartition, kept: Kept) -> tuple[pa.Table, dict[int, int]]:
        """The places of the rows that have changed: what, in which version; and the time of each version."""
        names = list(self._key.columns)
        times: dict[int, int] = {}
        changed: list[pa.Table] = []
        for one in partition.ranges:
            times.update(zip(one.versions.tolist(), one.times.tolist(), strict=True))
        # First the keys of which something was changed: of all others nothing need be known.
        for table in self._all_keys(partition, kept):
            added = table.filter(pc.greater(table[_VERSION], 0))
            if added.num_rows:
                changed.append(added)
        if not changed:
            return pa.table({_PLACE: pa.array([], pa.int64()), "type": [], _VERSION: []}), times
        last = _last(pa.concat_tables(changed), [*names, _VERSION])
        keys = last.select(names).group_by(names, use_threads=False).aggregate([])
        before: pa.Table | None = None
        for table in self._all_keys(partition, kept):
            earlier = table.filter(pc.equal(table[_VERSION], 0))
            if not earlier.num_rows:
                continue
            some = earlier.join(keys, names, join_type="left semi", use_threads=False).select(
                [*names, _VERSION, _PLACE]
            )
            before = _last(some if before is None else pa.concat_tables([before, some]), [*names, _VERSION])
        whole = last if before is None else pa.concat_tables([before, last])
        return _told(whole, names), times

    def _all_keys(self, partition: RowChangesPartition, kept: Kept) -> Iterator[pa.Table]:
        """The key of each event, its place, and its version: 0 for those before the first one."""
        for number, part in enumerate(partition.parts):
            ranges = [one for one in partition.ranges if one.part.segment_id == part.segment_id]
            for frames, position in self._kept_frames(number, part, kept):
                table = self._keys(frames, part.segment_id, position, number, (0.0, 1.0))
                offsets = ((table[_PLACE].to_numpy() & ~WRITTEN) >> 1) & np.int64((1 << 47) - 1)
                versions = np.zeros(len(offsets), np.int64)
                for one in ranges:
                    within = (offsets >= one.part.start) & (offsets < one.part.end)
                    versions[within] = one.versions[one.indexes(offsets[within])]
                yield table.append_column(_VERSION, pa.array(versions))

    def _rows(
        self, parts: Sequence[SegmentPart], changes: pa.Table, times: dict[int, int], kept: Kept
    ) -> Iterator[pa.RecordBatch]:
        places = changes[_PLACE].to_numpy()
        order = np.argsort(places, kind="stable")
        places = places[order]
        types, versions = changes["type"].to_numpy()[order], changes[_VERSION].to_numpy()[order]
        distinct, counts = np.unique(places, return_counts=True)
        ends = np.cumsum(counts)
        done = 0
        for batch in self._rows_at(parts, distinct, kept):
            here = counts[done : done + batch.num_rows]
            first = int(ends[done] - counts[done])
            some = slice(first, first + int(here.sum()))
            done += batch.num_rows
            rows = batch.take(pa.array(np.repeat(np.arange(batch.num_rows), here)))
            yield self._with_changes(rows, types[some], versions[some], times)

    def _with_changes(
        self, rows: pa.RecordBatch, types: Longs, versions: Longs, times: dict[int, int]
    ) -> pa.RecordBatch:
        stamps = np.array([times[version] for version in versions.tolist()], np.int64) * 1000
        made = {
            "_change_type": pa.array(_TYPES).take(pa.array(types)),
            "_commit_version": pa.array(versions),
            "_commit_timestamp": pa.array(stamps).cast(pa.timestamp("us", "UTC")),
        }
        known = dict(zip(rows.schema.names, rows.columns, strict=True)) | made
        return pa.RecordBatch.from_arrays([known[one.name] for one in self._batch_schema], schema=self._batch_schema)


def _last(table: pa.Table, keys: list[str]) -> pa.Table:
    """The last place for each combination of some columns."""
    grouped = table.group_by(keys, use_threads=False).aggregate([(_PLACE, "max")])
    renamed = grouped.rename_columns([_PLACE if name == f"{_PLACE}_max" else name for name in grouped.column_names])
    return renamed.select([*keys, _PLACE])


def _told(whole: pa.Table, names: Sequence[str]) -> pa.Table:
    """What has changed.

    Args:
        whole: for each key and version the place of its last event; version 0 is what was before.
        names: the key's columns.

    Returns:
        For each change the place of the row that it shows, the index of its type, and its version.
    """
    ordered = whole.sort_by([*((name, "ascending") for name in names), (_VERSION, "ascending")])
    same = np.ones(ordered.num_rows, np.bool_)
    same[:1] = False
    for name in names:
        column = ordered[name].combine_chunks()
        same[1:] &= is_among(pc.equal(column.slice(1), column.slice(0, max(0, len(column) - 1))))
    places, versions = ordered[_PLACE].to_numpy(), ordered[_VERSION].to_numpy()
    there = (places & 1) == 0
    before = np.roll(places, 1)
    was_there = same & np.roll(there, 1)
    is_change = versions > 0
    found: list[tuple[Longs, int, Longs]] = [
        (places[is_change & ~was_there & there], _TYPES.index(INSERT), versions[is_change & ~was_there & there]),
        (before[is_change & was_there & ~there], _TYPES.index(DELETE), versions[is_change & was_there & ~there]),
        (before[is_change & was_there & there], _TYPES.index(BEFORE), versions[is_change & was_there & there]),
        (places[is_change & was_there & there], _TYPES.index(AFTER), versions[is_change & was_there & there]),
    ]
    return pa.table(
        {
            _PLACE: np.concatenate([(rows & ~WRITTEN) >> 1 for rows, _, _ in found]),
            "type": np.concatenate([np.full(len(rows), kind) for rows, kind, _ in found]),
            _VERSION: np.concatenate([numbers for _, _, numbers in found]),
        }
    )
