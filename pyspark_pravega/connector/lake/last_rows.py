"""The rows of a table with a key at a moment, each with its place and with the version that has written it last."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.connector.base import check_base
from pyspark_pravega.connector.log import Snapshot
from pyspark_pravega.connector.read import (
    MERGED_ROWS,
    CommittedRange,
    KeyedReader,
    SlicePartition,
    arrange_chains,
)
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.lake import POSITIONS, VERSION, runs_of


class LastRowsReader(KeyedReader):
    """Reads rows with their places, and of those that are in the lake already the versions that have written them."""

    def __init__(self, definition: TableDefinition, whole: Snapshot, only: Collection[str] | None = None) -> None:
        """Plan a read.

        Args:
            definition: what the stream is as a table; it has a key.
            whole: the events that tell the rows, and the rows in the lake with which they begin.
            only: the files of the lake that are read; None for all.
        """
        super().__init__(definition, whole, [*definition.schema.fieldNames(), *POSITIONS])
        self._whole, self._only = whole, only

    def arranged(self, snapshot: Snapshot) -> Sequence[SlicePartition]:
        """As of any reader, of some files."""
        if snapshot.base is not None and self._definition is not None:
            check_base(self._definition, snapshot.base, self.schema.names)
        return arrange_chains(shared_client(self._settings), snapshot, files=self._only)

    def changed_keys(self) -> pa.Table | None:
        """The keys of events, flat, each once, ascending by their first column.

        Returns:
            None where they are too many.

        Raises:
            As `BatchReader.batches`.
        """
        names = [field.name for field in self._flat_key()]
        keys, more, rows = pa.schema(self._flat_key()).empty_table(), [], 0
        for part in self._whole.parts:
            for events in self._frames(part):
                more.append(self._keys(events.frames, part.segment_id, events.start, 0, (0.0, 1.0)).select(names))
                rows += more[-1].num_rows
                if rows >= max(MERGED_ROWS, keys.num_rows):
                    keys, more, rows = _distinct([keys, *more], names), [], 0
                    if keys.num_rows > self._max_keys:
                        return None
        keys = _distinct([keys, *more], names)
        return None if keys.num_rows > self._max_keys else keys.sort_by(names[0])

    def key_schema(self) -> pa.Schema:
        """The key's columns, as they are read in the lake."""
        return pa.schema([pa.field(name, self._key_type(name)) for name in self._key.columns])

    def has_some(self, rows: pa.RecordBatch, keys: pa.Table) -> bool:
        """Whether one of some rows has one of some keys, as a read tells it.

        Args:
            rows: with the columns of `key_schema`.
            keys: some of `changed_keys`.
        """
        there, names = self._base_keys(rows), keys.column_names
        return bool(there.join(keys, names, join_type="left semi", use_threads=False).num_rows)

    def _base_schema(self, *, with_keys: bool) -> pa.Schema:
        return super()._base_schema(with_keys=with_keys).append(pa.field(VERSION, pa.int64()))

    def _of_base(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return super()._of_base(batch).append_column(VERSION, batch.column(VERSION))


def _distinct(tables: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    return pa.concat_tables(tables).group_by(list(names), use_threads=False).aggregate([]).combine_chunks()


def _of_base(batch: pa.RecordBatch, version: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows that are in the lake, by segments."""
    segments = batch.column(POSITIONS[0])
    named = batch.rename_columns([version if name == VERSION else name for name in batch.schema.names])
    for segment in np.unique(segments.to_numpy()).tolist():
        yield segment, named.filter(pc.equal(segments, segment))


def last_rows(
    definition: TableDefinition,
    whole: Snapshot,
    ranges: Sequence[CommittedRange],
    version: str,
    only: Collection[str] | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The last row of each key, in batches of one segment's each. A read of many keys goes through the events several
    times, and holds as many keys as any other read.

    Args:
        definition: what the stream is as a table; it has a key.
        whole: the events that tell the rows.
        ranges: those of each segment, with the versions that have written them.
        version: what the column of the versions is to be called.
        only: of which files of the lake the rows are wanted that haven't changed; None for all.

    Yields:
        The segment; and the table's columns, `POSITIONS` and the version.

    Raises:
        As `BatchReader.batches`.
    """
    by_segment = {one.part.segment_id: one for one in ranges}
    segment_column, offset_column = POSITIONS
    reader = LastRowsReader(definition, whole, only)
    for partition in reader.partitions():
        for batch in reader.read(partition):
            if VERSION in batch.schema.names:
                yield from _of_base(batch, version)
                continue
            segments = batch.column(segment_column).to_numpy()
            offsets = batch.column(offset_column).to_numpy()
            # A batch may be of several segments, one behind the other.
            for begin, end in runs_of(segments):
                one = by_segment[int(segments[begin])]
                versions = one.versions[one.indexes(offsets[begin:end])]
                some = batch.slice(begin, end - begin).append_column(version, pa.array(versions))
                yield one.part.segment_id, some
