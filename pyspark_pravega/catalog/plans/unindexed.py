"""Reads for `CALL index`: the figures of events that no index tells of."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark_pravega.catalog.plans.narrowing import fingerprint
from pyspark_pravega.catalog.plans.scans import PlannedScan
from pyspark_pravega.client import SegmentPart
from pyspark_pravega.connector.index import BLOCK_BYTES
from pyspark_pravega.connector.indexing import BLOCK_COLUMNS, BlockReader, Unindexed, check_unindexed, size_of
from pyspark_pravega.connector.log import Snapshot
from pyspark_pravega.connector.table import TableDefinition, changed_table

_ROW_BYTES = 500


def plan_unindexed(definition: TableDefinition, wanted: Unindexed, columns: Sequence[str]) -> PlannedScan:
    """Plan such a read.

    Args:
        definition: what the stream is as a table.
        wanted: what is to be read.
        columns: the wanted columns: all of them.

    Raises:
        TableChangedError: the indexed columns aren't those any more that are to get figures.
    """
    assert list(columns) == BLOCK_COLUMNS.fieldNames()
    indexed = check_unindexed(definition)
    if tuple(column.read_key for column in indexed) != wanted.keys:
        raise changed_table(definition.stream, "its indexed columns are others, or have another schema")
    stream = definition.stream
    parts = [SegmentPart(stream=stream, segment_id=id_, start=start, end=end) for id_, start, end in wanted.parts]
    reader = BlockReader(definition, Snapshot(stream=stream, parts=tuple(parts)), indexed, wanted.task_bytes)
    size = size_of(wanted.parts)
    rows = len(parts) + size // BLOCK_BYTES
    return PlannedScan(
        reader=reader,
        schema=BLOCK_COLUMNS,
        size=size,
        rows=rows,
        memory=rows * _ROW_BYTES,
        slices=len({part.segment_id for part in parts}),
        shared_memory=0,
        routing=fingerprint(definition),
    )
