"""Batch reads: a partition is a part of a segment, its rows come as Arrow batches."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client import SegmentPart
from pyspark_pravega.client.events import EventBatch, event_batches
from pyspark_pravega.client.segments import read_range, read_together, segment_states
from pyspark_pravega.connector import handover
from pyspark_pravega.connector.log import Snapshot
from pyspark_pravega.connector.plain import told_plainly
from pyspark_pravega.connector.read.partitions import SlicePartition, arrange
from pyspark_pravega.connector.read.small_parts import groups, merged
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import (
    CORRUPT_EVENTS,
    METADATA_COLUMNS,
    DeadLetter,
    TableDefinition,
    planned_schema,
)
from pyspark_pravega.connector.wanted import check_wanted
from pyspark_pravega.errors import (
    DataLossError,
    EventDecodeError,
    SegmentNotFoundError,
    SegmentTruncatedError,
    TransactionError,
)
from pyspark_pravega.frames import framing
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.frames.framing import HEADER_SIZE
from pyspark_pravega.frames.ragged import Ints
from pyspark_pravega.serde import lenient
from pyspark_pravega.serde.codec import Batch, arrow_batch, takes_views
from pyspark_pravega.serde.lenient import DROP_MALFORMED, FAIL_FAST, PERMISSIVE, Decoded
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.datasource import DataSourceReader, InputPartition
from pyspark_pravega.spark.types import DataType, IntegerType, LongType, StringType, StructField, StructType

_log = logging.getLogger(__name__)

ROW_MARKER = StructType([StructField("_row", IntegerType(), False)])
"""Stands for a row of which no column is wanted."""

_MOST_VALUES = 4 << 20
"""Rows times columns of a batch: a megabyte of small events in a table of many columns would be hundreds of megabytes
of values, though nearly all of them are null."""

OFFICIAL_COLUMNS = StructType(
    [
        StructField("scope", StringType(), False),
        StructField("stream", StringType(), False),
        StructField("segment_id", LongType(), False),
        StructField("offset", LongType(), False),
    ]
)
"""What Pravega's own Spark connector adds to an event."""
PLACE = StructField("offset of the event's frame", LongType(), False)
"""As the metadata column `_offset`, which a table's own column of that name hides."""


class RowsReader(DataSourceReader):
    """Reads in batches that may be the native module's, while `handover.takes_views()`."""

    def partitions(self) -> Sequence[InputPartition]:
        """A partition that stands for none: those of a streaming query come with each micro-batch."""
        return [InputPartition(None)]

    @abstractmethod
    def batches(self, partition: InputPartition) -> Iterator[Batch]:
        """The rows of a partition, for who takes the native module's batches.

        Args:
            partition: one of `partitions()`, or Spark's stand-in when there are none.
        """

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, as pyarrow's batches.

        Args:
            partition: as of `batches`.
        """
        for batch in self.batches(partition):
            yield arrow_batch(batch)


class BatchReader(RowsReader):
    """Reads parts of a stream."""

    _hands_batches_on: ClassVar[bool] = True
    """Whether batches go to Spark as they are decoded; where they are changed, columns may not be of views."""
    _ends_with_events: ClassVar[bool] = True
    """Whether a part ends where an event does; else what is there of its last event isn't read."""

    def __init__(
        self,
        definition: TableDefinition,
        snapshot: Snapshot | None,
        columns: Sequence[str],
        *,
        min_partitions: int | None = None,
        fail_on_data_loss: bool = True,
    ) -> None:
        """Plan a read.

        Args:
            definition: what the stream is as a table.
            snapshot: which of its bytes to read; None for one that is told with each partition.
            columns: the wanted columns in their order, metadata columns among them; none for rows only.
            min_partitions: how many partitions there shall be at least, if there is enough to read.
            fail_on_data_loss: whether events that are truncated while they are read are an error, or are passed over.
        """
        self._settings, self._codec, self._stream = definition.settings, definition.codec, definition.stream
        self._mode, self._types, self._dead_letters = definition.mode, definition.types, definition.dead_letters
        self._snapshot, self._follows = snapshot, snapshot is None
        self._dropped = 0
        self._received: dict[tuple[int, int, int], memoryview] = {}
        self.bytes_read = 0
        """Bytes of events, frames included, that `read` has gone through so far."""
        self._min_partitions, self._fail_on_data_loss = min_partitions, fail_on_data_loss
        self.schema = output_schema(definition, columns)
        self._data_columns = [name for name in columns if name in definition.schema.fieldNames()]
        self._planned = planned_schema(definition, self._data_columns)
        self._arrow_schema = to_arrow_schema(self.schema, timezone="UTC")
        self._most_rows = max(1, _MOST_VALUES // sum(_width(field.dataType) for field in self.schema))

    def __getstate__(self) -> dict[str, Any]:
        # Each task is told its own parts: the plan of all of them stays here.
        return {**self.__dict__, "_snapshot": None}

    def partitions(self) -> Sequence[InputPartition]:
        """A partition for each segment with many events, and for several with few."""
        return [] if self._snapshot is None else self.arranged(self._snapshot)

    def arranged(self, snapshot: Snapshot) -> Sequence[SlicePartition]:
        """The partitions of some of the stream.

        Args:
            snapshot: which of its bytes to read.
        """
        return arrange(shared_client(self._settings), snapshot.parts, minimum=self._min_partitions)

    def batches(self, partition: InputPartition) -> Iterator[Batch]:
        """The rows of a partition.

        Args:
            partition: one of `partitions()`, or Spark's stand-in when there are none.

        Yields:
            Batches of the schema, one for each megabyte or so of events, or several where the columns are many. While
            `handover.takes_views()` they may be the native module's.

        Raises:
            EventDecodeError: an event can't be decoded; the message says where it is.
            TableChangedError: there are events of a later schema, for which the read wasn't planned.
            DataLossError: events have been truncated since the read was planned.
        """
        if isinstance(partition, SlicePartition):
            with told_plainly():
                for parts in groups(partition.parts):
                    yield from merged(self._read_parts(parts), self._most_rows)

    def _read_parts(self, parts: Sequence[SegmentPart]) -> Iterator[Batch]:
        self._read_ahead(parts)
        for part in parts:
            for events in self._frames(part):
                for batch, _ in self.rows_of(events):
                    yield batch

    def _read_ahead(self, parts: Sequence[SegmentPart]) -> None:
        """Receive a group of parts, for `_frames`."""
        ranges = [(part.segment_id, part.start, part.end) for part in parts if part.transaction is None]
        pool = shared_client(self._settings).pool
        self._received = read_together(pool, self._stream, ranges) if len(ranges) > 1 else {}

    def rows_of(self, events: EventBatch) -> Iterator[tuple[Batch, int]]:
        """The rows of some events.

        Args:
            events: what was received.

        Yields:
            Batches of the schema, and the offset in the segment at which the events of each end.

        Raises:
            EventDecodeError: an event can't be decoded; the message says where it is.
        """
        for frames, end in self._frames_and_ends(events, self._most_rows):
            yield self._batch(frames, events.segment_id, events.start), end

    def _frames_and_ends(self, events: EventBatch, most: int) -> Iterator[tuple[framing.Frames, int]]:
        """Events in pieces of so many at most, and the offset in the segment at which each ends."""
        for frames in pieces(events.frames, most):
            last = len(frames) - 1
            yield frames, int(frames.starts[last] + frames.sizes[last]) + events.start + HEADER_SIZE

    def _frames(self, part: SegmentPart) -> Iterator[EventBatch]:
        """The frames of a part's events, about a megabyte at a time."""
        self._dropped, position = 0, part.start
        pool = shared_client(self._settings).pool
        received = None
        if part.transaction is None:
            received = self._received.pop((part.segment_id, part.start, part.end), None)
        while position < part.end:
            try:
                read = read_range(pool, self._stream, part.segment_id, position, part.end, segment=part.name)
                with nullcontext([received]) if received is not None else closing(read) as buffers:
                    end = part.end if self._ends_with_events else None
                    for events in event_batches(buffers, self._stream, part.segment_id, position, end=end):
                        check_wanted()
                        self.bytes_read += events.end - position
                        yield events
                        position = events.end
                break
            except (SegmentTruncatedError, SegmentNotFoundError) as error:
                if part.transaction is not None:
                    raise TransactionError(
                        f'rows of stream "{self._stream}" can\'t be read any more which a transaction had written '
                        "when this read was planned: it was committed or rolled back since. Run the query again"
                    ) from None
                if self._fail_on_data_loss:
                    raise DataLossError(
                        f'events of stream "{self._stream}" were truncated while they were read, segment '
                        f"{part.segment_id} from offset {position} to {part.end} ({error}): set failOnDataLoss to "
                        "false to go on without them; longer retention prevents it"
                    ) from None
                position = self._behind_the_loss(part, position)
        if self._dropped:
            _log.warning(
                "%d events of segment %d of stream %s, offsets %d to %d, can't be decoded and were dropped",
                *(self._dropped, part.segment_id, self._stream, part.start, part.end),
            )

    def _behind_the_loss(self, part: SegmentPart, position: int) -> int:
        pool = shared_client(self._settings).pool
        state = segment_states(pool, self._stream, [part.segment_id])[part.segment_id]
        after = part.end if state is None else max(position, state.start_offset)
        _log.warning(
            "events of segment %d of stream %s from offset %d on were truncated before they were read; going on at %d",
            *(part.segment_id, self._stream, position, after),
        )
        return after

    def _batch(self, frames: framing.Frames, segment_id: int, position: int) -> Batch:
        views = self._hands_batches_on and handover.takes_views()
        frames, decoded = self._decode(frames, segment_id, position, self._wanted_fields(), views=views)
        if self._is_decoded_whole:
            return decoded.held
        columns = self._columns_of(decoded.batch)
        corrupt = [name for name in CORRUPT_EVENTS if name in self._arrow_schema.names and name not in columns]
        if corrupt:
            is_bad = np.zeros(len(frames), np.bool_)
            is_bad[decoded.bad if self._mode == PERMISSIVE else []] = True
            payloads = pc.if_else(pa.array(is_bad), frames.payloads, pa.scalar(None, pa.binary()))
            columns |= dict.fromkeys(corrupt, payloads)
        arrays = [
            columns[field.name] if field.name in columns else self._metadata(field, frames, segment_id, position)
            for field in self._arrow_schema
        ]
        schema = self._arrow_schema
        if views:
            schema = pa.schema([field.with_type(array.type) for field, array in zip(schema, arrays, strict=True)])
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    @cached_property
    def _is_decoded_whole(self) -> bool:
        """Whether the wanted rows are what the codec gives: fields of the events, and as the table has them."""
        known = {field.name: field for field in self._codec.schema}
        fields = [known.get(name) for name in self._data_columns]
        return self._wanted_fields() == self._data_columns and fields == list(self._arrow_schema)

    def _wanted_fields(self) -> list[str]:
        """The fields of the events that make the wanted columns."""
        return self._data_columns

    def _columns_of(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """The wanted columns of a batch of those fields."""
        return dict(zip(self._data_columns, batch.columns, strict=True))

    def _decode(
        self, frames: framing.Frames, segment_id: int, position: int, fields: Sequence[str], *, views: bool = False
    ) -> tuple[framing.Frames, Decoded]:
        """The frames that have a row, and some fields of theirs, which may be views of what was received."""
        try:
            if self._types is not None:
                frames = some_frames(frames, self._types.chosen(frames.events))
            unseen = self._mode == FAIL_FAST and not fields
            events = frames.events if unseen or takes_views(self._codec) else frames.payloads
            if unseen and self._planned is not None and self._follows:
                self._planned.check_unseen(events)
            with nullcontext() if self._planned is None else self._planned.held():
                decoded = lenient.decode(self._codec, events, fields, self._mode, views=views)
        except BadEventError as error:
            if self._planned is not None:
                self._planned.check_bad(frames.payloads.slice(error.index, 1))
            encoding = "" if error.encoding_id is None else f", encoding id {error.encoding_id}"
            raise EventDecodeError(
                f'an event of stream "{self._stream}" can\'t be decoded (segment {segment_id}, offset '
                f"{position + int(frames.starts[error.index])}{encoding}): {error.reason}"
            ) from None
        if self._planned is not None and len(decoded.bad):
            self._planned.check_bad(frames.payloads.take(pa.array(decoded.bad)))
        if self._dead_letters is not None and len(decoded.bad):
            bad = some_frames(frames, decoded.bad)
            self._dead_letters.put(
                [self._letter(bad, index, segment_id, position) for index in range(len(decoded.bad))]
            )
        elif self._mode == DROP_MALFORMED:
            self._dropped += len(decoded.bad)
        return some_frames(frames, decoded.rows), decoded

    def _letter(self, bad: framing.Frames, index: int, segment_id: int, position: int) -> DeadLetter:
        """What is told of an event that can't be decoded."""
        payload = bad.payloads.slice(index, 1)
        try:
            self._codec.decode(payload, self._codec.schema.names)
            # Its schema has come to the registry just now.
            reason, encoding_id = "its schema was unknown", framing.encoding_ids(payload)[0].as_py()
        except BadEventError as error:
            reason, encoding_id = error.reason, error.encoding_id
        return DeadLetter(
            segment=segment_id,
            offset=position + int(bad.starts[index]),
            encoding_id=encoding_id,
            reason=reason,
            event=payload[0].as_py(),
        )

    def _metadata(self, field: pa.Field, frames: framing.Frames, segment_id: int, position: int) -> pa.Array:
        rows = len(frames)
        if field.name == "_encoding_id":
            return framing.encoding_ids(frames.events)
        if field.name in ("_stream", "scope", "stream"):
            names = {"_stream": str(self._stream), "scope": self._stream.scope, "stream": self._stream.name}
            return pa.repeat(names[field.name], rows)
        values: npt.NDArray[np.int64] | npt.NDArray[np.int32]
        if field.name in ("_offset", "offset", PLACE.name):
            values = frames.starts + position
        elif field.name == "_event_size":
            values = frames.sizes
        elif field.name in ("_segment", "segment_id"):
            values = np.full(rows, segment_id, np.int64)
        else:
            values = np.zeros(rows, np.int32)
        return pa.array(values).cast(field.type)


def pieces(frames: framing.Frames, most: int) -> Iterator[framing.Frames]:
    """Frames in pieces of so many events at most; they share their bytes.

    Args:
        frames: all of them.
        most: how many events a piece has at most.
    """
    if len(frames) <= most:
        yield frames
        return
    for first in range(0, len(frames), most):
        rows = slice(first, first + most)
        yield replace(
            frames,
            events=frames.events.slice(first, most),
            starts=frames.starts[rows],
            sizes=frames.sizes[rows],
        )


def _width(kind: DataType) -> int:
    """How many values a row has in a column, one for each collection."""
    if isinstance(kind, StructType):
        return 1 + sum(_width(field.dataType) for field in kind)
    return 1


def some_frames(frames: framing.Frames, which: Ints | None) -> framing.Frames:
    """Some of several frames.

    Args:
        frames: all of them.
        which: the indexes of those that are wanted; None for all.
    """
    if which is None:
        return frames
    return replace(
        frames, events=frames.payloads.take(pa.array(which)), starts=frames.starts[which], sizes=frames.sizes[which]
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
    known = {field.name: field for field in (*OFFICIAL_COLUMNS, *METADATA_COLUMNS, PLACE, *definition.schema)}
    return StructType([known[name] for name in columns])
