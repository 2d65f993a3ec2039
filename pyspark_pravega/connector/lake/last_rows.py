"""The rows of a table with a key at a moment, each with its place and with the version that has written it last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pyspark_pravega.connector.log import Snapshot
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.read import CommittedRange, snapshot_reader
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.lake import POSITIONS


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
    reader = snapshot_reader(definition, whole, [*definition.schema.fieldNames(), *POSITIONS], ReadOptions())
    for partition in reader.partitions():
        for batch in reader.read(partition):
            segments = batch.column(segment_column).to_numpy()
            offsets = batch.column(offset_column).to_numpy()
            # A batch may be of several segments, one behind the other.
            begins = [int(index) for index in np.flatnonzero(np.diff(segments, prepend=-1))]
            for begin, end in zip(begins, [*begins[1:], len(segments)], strict=True):
                one = by_segment[int(segments[begin])]
                versions = one.versions[one.indexes(offsets[begin:end])]
                some = batch.slice(begin, end - begin).append_column(version, pa.array(versions))
                yield one.part.segment_id, some
