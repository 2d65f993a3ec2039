"""The rows of a table with a key at a moment, each with its place and with the version that has written it last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.connector.log import Snapshot
from pyspark_pravega.connector.read import CommittedRange, KeyedReader
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.lake import POSITIONS, VERSION


class _LastRowsReader(KeyedReader):
    """Gives rows that are in the lake already with the versions that have written them."""

    def _base_schema(self, *, with_keys: bool) -> pa.Schema:
        return super()._base_schema(with_keys=with_keys).append(pa.field(VERSION, pa.int64()))

    def _of_base(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return super()._of_base(batch).append_column(VERSION, batch.column(VERSION))


def _of_base(batch: pa.RecordBatch, version: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows that are in the lake, by segments."""
    segments = batch.column(POSITIONS[0])
    named = batch.rename_columns([version if name == VERSION else name for name in batch.schema.names])
    for segment in np.unique(segments.to_numpy()).tolist():
        yield segment, named.filter(pc.equal(segments, segment))


def last_rows(
    definition: TableDefinition, whole: Snapshot, ranges: Sequence[CommittedRange], version: str
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The last row of each key, in batches of one segment's each. A read of many keys goes through the events several
    times, and holds as many keys as any other read.

    Args:
        definition: what the stream is as a table; it has a key.
        whole: the events that tell the rows.
        ranges: those of each segment, with the versions that have written them.
        version: what the column of the versions is to be called.

    Yields:
        The segment; and the table's columns, `POSITIONS` and the version.

    Raises:
        As `BatchReader.batches`.
    """
    by_segment = {one.part.segment_id: one for one in ranges}
    segment_column, offset_column = POSITIONS
    reader = _LastRowsReader(definition, whole, [*definition.schema.fieldNames(), *POSITIONS])
    for partition in reader.partitions():
        for batch in reader.read(partition):
            if VERSION in batch.schema.names:
                yield from _of_base(batch, version)
                continue
            segments = batch.column(segment_column).to_numpy()
            offsets = batch.column(offset_column).to_numpy()
            # A batch may be of several segments, one behind the other.
            begins = [int(index) for index in np.flatnonzero(np.diff(segments, prepend=-1))]
            for begin, end in zip(begins, [*begins[1:], len(segments)], strict=True):
                one = by_segment[int(segments[begin])]
                versions = one.versions[one.indexes(offsets[begin:end])]
                some = batch.slice(begin, end - begin).append_column(version, pa.array(versions))
                yield one.part.segment_id, some
