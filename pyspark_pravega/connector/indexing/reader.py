"""Figures of events that were written by others, a row for each block of about a megabyte."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from pyspark_pravega.client import SegmentPart
from pyspark_pravega.connector.index import BLOCK_BYTES, IndexedColumn, figures_of
from pyspark_pravega.connector.log import Snapshot
from pyspark_pravega.connector.plain import told_plainly
from pyspark_pravega.connector.read import BatchReader, SlicePartition, groups
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import EventDecodeError
from pyspark_pravega.frames import framing
from pyspark_pravega.serde.lenient import DROP_MALFORMED
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.datasource import InputPartition
from pyspark_pravega.spark.types import LongType, StringType, StructField, StructType

BLOCK_COLUMNS = StructType(
    [
        StructField("segment", LongType(), False),
        StructField("start", LongType(), False),
        StructField("end", LongType(), False),
        StructField("rows", LongType(), False),
        StructField("figures", StringType(), True),
    ]
)
"""Where a block lies; how many rows it has; and the figures of each column as JSON, null where an event can't be
decoded: who reads that is to be told."""
_ROWS_AT_ONCE = 200


class BlockReader(BatchReader):
    """Reads parts of a stream, and gives the figures of what is there."""

    _hands_batches_on: ClassVar[bool] = False

    def __init__(
        self, definition: TableDefinition, snapshot: Snapshot, columns: Sequence[IndexedColumn], task_bytes: int
    ) -> None:
        """Plan a read.

        Args:
            definition: what the stream is as a table without a key.
            snapshot: which of its bytes to read.
            columns: those that get figures.
            task_bytes: after how many bytes a task ends, even if there are more.
        """
        # Events are decoded whole, as a query may want any column, and dead letters are not for who only looks.
        plain = replace(definition.with_mode(DROP_MALFORMED), dead_letters=None)
        self._names = [column.name for column in columns]
        super().__init__(plain, snapshot, self._names, fail_on_data_loss=False)
        self.schema = BLOCK_COLUMNS
        self._block_schema = to_arrow_schema(BLOCK_COLUMNS, timezone="UTC")
        self._task_bytes = task_bytes

    def batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The figures of a partition's blocks, as of `BatchReader.batches`.

        Args:
            partition: one of `partitions()`.
        """
        if isinstance(partition, SlicePartition):
            with told_plainly():
                rows: list[dict[str, Any]] = []
                for row in self._blocks(partition.parts):
                    rows.append(row)
                    if len(rows) == _ROWS_AT_ONCE:
                        yield pa.RecordBatch.from_pylist(rows, self._block_schema)
                        rows = []
                if rows:
                    yield pa.RecordBatch.from_pylist(rows, self._block_schema)

    def _blocks(self, parts: Sequence[SegmentPart]) -> Iterator[dict[str, Any]]:
        left = self._task_bytes
        for some in groups(parts):
            self._read_ahead(some)
            for part in some:
                for row in self._blocks_of(part):
                    yield row
                    left -= row["end"] - row["start"]
                    if left <= 0:
                        return

    def _blocks_of(self, part: SegmentPart) -> Iterator[dict[str, Any]]:
        for events in self._frames(part):
            start = events.start
            count = -(-(events.end - start) // BLOCK_BYTES)
            for frames, end in self._frames_and_ends(events, min(self._most_rows, -(-len(events) // count))):
                rows, figures = self._figures(frames, events.segment_id, events.start)
                yield {"segment": events.segment_id, "start": start, "end": end, "rows": rows, "figures": figures}
                start = end
            # None is dropped: their block has no figures.
            self._dropped = 0

    def _figures(self, frames: framing.Frames, segment_id: int, position: int) -> tuple[int, str | None]:
        try:
            _, decoded = self._decode(frames, segment_id, position, self._names)
        except EventDecodeError:
            # One of another type, where that is an error.
            return 0, None
        batch = decoded.batch
        if len(decoded.bad):
            return batch.num_rows, None
        figures = [figures_of(batch.column(number)) for number in range(len(self._names))]
        return batch.num_rows, json.dumps([None if one is None else one.content() for one in figures])
