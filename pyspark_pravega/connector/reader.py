"""Batch reads: a partition is a part of a segment, its rows come as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from pyspark_pravega.client.events import event_batches
from pyspark_pravega.client.reading import read_range
from pyspark_pravega.connector.definition import METADATA_COLUMNS, TableDefinition
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.tail import SegmentSlice, Snapshot
from pyspark_pravega.errors import EventDecodeError
from pyspark_pravega.serde import framing
from pyspark_pravega.serde.codec import BadEventError

ROW_MARKER = StructType([StructField("_row", IntegerType(), False)])
"""Stands for a row of which no column is wanted."""

OFFICIAL_COLUMNS = StructType(
    [
        StructField("scope", StringType(), False),
        StructField("stream", StringType(), False),
        StructField("segment_id", LongType(), False),
        StructField("offset", LongType(), False),
    ]
)
"""What Pravega's own Spark connector adds to an event."""


class SlicePartition(InputPartition):
    """A part of a segment, read by one task."""

    def __init__(self, part: SegmentSlice) -> None:
        super().__init__(part.segment_id)
        self.part = part

    def __repr__(self) -> str:
        return f"SlicePartition({self.part})"


class StreamReader(DataSourceReader):
    """Reads a snapshot of a stream."""

    def __init__(self, definition: TableDefinition, snapshot: Snapshot, columns: Sequence[str]) -> None:
        """Plan a read.

        Args:
            definition: what the stream is as a table.
            snapshot: which of its bytes to read.
            columns: the wanted columns in their order, metadata columns among them; none for rows only.
        """
        self._settings, self._codec, self._stream = definition.settings, definition.codec, definition.stream
        self._snapshot = snapshot
        self.schema = output_schema(definition, columns)
        self._data_columns = [name for name in columns if name in definition.schema.fieldNames()]
        self._arrow_schema = to_arrow_schema(self.schema, timezone="UTC")

    def partitions(self) -> Sequence[InputPartition]:
        """One partition for each segment that holds events."""
        return [SlicePartition(part) for part in self._snapshot.slices if part.size]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition.

        Args:
            partition: one of `partitions()`, or Spark's stand-in when there are none.

        Yields:
            Batches of the schema, one for each megabyte or so of events.

        Raises:
            EventDecodeError: an event can't be decoded; the message says where it is.
        """
        if not isinstance(partition, SlicePartition):
            return
        part = partition.part
        pool = shared_client(self._settings).pool
        with closing(read_range(pool, self._stream, part.segment_id, part.start, part.end)) as buffers:
            for found in event_batches(buffers, self._stream, part.segment_id, part.start, end=part.end):
                yield self._batch(found.frames, part.segment_id, found.start)

    def _batch(self, frames: framing.Frames, segment_id: int, position: int) -> pa.RecordBatch:
        try:
            decoded = self._codec.decode(frames.payloads, self._data_columns)
        except BadEventError as error:
            encoding = "" if error.encoding_id is None else f", encoding id {error.encoding_id}"
            raise EventDecodeError(
                f'an event of stream "{self._stream}" can\'t be decoded (segment {segment_id}, offset '
                f"{position + int(frames.starts[error.index])}{encoding}): {error.reason}"
            ) from None
        columns = dict(zip(self._data_columns, decoded.columns, strict=True))
        arrays = [
            columns[field.name] if field.name in columns else self._metadata(field, frames, segment_id, position)
            for field in self._arrow_schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema)

    def _metadata(self, field: pa.Field, frames: framing.Frames, segment_id: int, position: int) -> pa.Array:
        rows = len(frames.payloads)
        if field.name == "_encoding_id":
            return framing.encoding_ids(frames.payloads)
        if field.name in ("scope", "stream"):
            return pa.repeat(self._stream.scope if field.name == "scope" else self._stream.name, rows)
        values: npt.NDArray[np.int64] | npt.NDArray[np.int32]
        if field.name in ("_offset", "offset"):
            values = frames.starts + position
        elif field.name == "_event_size":
            values = frames.sizes
        elif field.name in ("_segment", "segment_id"):
            values = np.full(rows, segment_id, np.int64)
        else:
            values = np.zeros(rows, np.int32)
        return pa.array(values).cast(field.type)


def output_schema(definition: TableDefinition, columns: Sequence[str]) -> StructType:
    """The schema of a read.

    Args:
        definition: what the stream is as a table.
        columns: the wanted columns, metadata columns among them.

    Returns:
        Their fields in order; `ROW_MARKER` when none are wanted, because a batch without columns loses its length
        on its way to Spark.
    """
    if not columns:
        return ROW_MARKER
    known = {field.name: field for field in (*OFFICIAL_COLUMNS, *METADATA_COLUMNS, *definition.schema)}
    return StructType([known[name] for name in columns])
