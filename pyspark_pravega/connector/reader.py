"""Batch reads: a partition is a part of a segment, its rows come as Arrow batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from pyspark_pravega.client.events import event_batches
from pyspark_pravega.client.reading import read_range
from pyspark_pravega.connector.definition import CORRUPT_EVENT, METADATA_COLUMNS, TableDefinition
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.tail import SegmentSlice, Snapshot
from pyspark_pravega.errors import EventDecodeError
from pyspark_pravega.serde import framing, lenient
from pyspark_pravega.serde.codec import BadEventError
from pyspark_pravega.serde.lenient import DROP_MALFORMED, PERMISSIVE, Decoded
from pyspark_pravega.serde.ragged import Ints

_log = logging.getLogger(__name__)

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
        self._mode, self._types = definition.mode, definition.types
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
        self._dropped = 0
        pool = shared_client(self._settings).pool
        with closing(read_range(pool, self._stream, part.segment_id, part.start, part.end)) as buffers:
            for found in event_batches(buffers, self._stream, part.segment_id, part.start, end=part.end):
                yield self._batch(found.frames, part.segment_id, found.start)
        if self._dropped:
            _log.warning(
                "%d events of segment %d of stream %s, offsets %d to %d, can't be decoded and were dropped",
                *(self._dropped, part.segment_id, self._stream, part.start, part.end),
            )

    def _batch(self, frames: framing.Frames, segment_id: int, position: int) -> pa.RecordBatch:
        frames, decoded = self._decode(frames, segment_id, position)
        columns = dict(zip(self._data_columns, decoded.batch.columns, strict=True))
        if CORRUPT_EVENT in self._arrow_schema.names:
            is_bad = np.zeros(len(frames.payloads), np.bool_)
            is_bad[decoded.bad if self._mode == PERMISSIVE else []] = True
            columns[CORRUPT_EVENT] = pc.if_else(pa.array(is_bad), frames.payloads, pa.scalar(None, pa.binary()))
        arrays = [
            columns[field.name] if field.name in columns else self._metadata(field, frames, segment_id, position)
            for field in self._arrow_schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema)

    def _decode(self, frames: framing.Frames, segment_id: int, position: int) -> tuple[framing.Frames, Decoded]:
        """The frames that have a row, and their rows."""
        try:
            if self._types is not None:
                frames = _some(frames, self._types.chosen(frames.payloads))
            decoded = lenient.decode(self._codec, frames.payloads, self._data_columns, self._mode)
        except BadEventError as error:
            encoding = "" if error.encoding_id is None else f", encoding id {error.encoding_id}"
            raise EventDecodeError(
                f'an event of stream "{self._stream}" can\'t be decoded (segment {segment_id}, offset '
                f"{position + int(frames.starts[error.index])}{encoding}): {error.reason}"
            ) from None
        if self._mode == DROP_MALFORMED:
            self._dropped += len(decoded.bad)
        return _some(frames, decoded.rows), decoded

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


def _some(frames: framing.Frames, which: Ints | None) -> framing.Frames:
    if which is None:
        return frames
    return replace(
        frames, payloads=frames.payloads.take(pa.array(which)), starts=frames.starts[which], sizes=frames.sizes[which]
    )


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
