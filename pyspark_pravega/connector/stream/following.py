"""Real-time queries: tasks follow segments, and hand events on as they come.

A batch of such a query has no end when it begins. Its tasks follow the segments from the batch's start, until Spark
ends it. Each row comes with the offset behind its event. So Spark may stop at any row, and that is the batch's end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyspark_pravega.client import Client, EventBatch, Stream
from pyspark_pravega.client.events import EventTail
from pyspark_pravega.connector.bounds import Time, Word
from pyspark_pravega.connector.option_names import (
    END_CUT,
    END_TIME,
    MAX_BYTES,
    MAX_EVENTS,
    MIN_EVENTS,
    MIN_PARTITIONS,
    MOST_TASKS,
)
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.plain import told_plainly
from pyspark_pravega.connector.read import PLACE, BatchReader, merged
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import DataLossError, SegmentNotFoundError, SegmentTruncatedError, UnsupportedOperationError
from pyspark_pravega.serde.codec import arrow_batch
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.datasource import InputPartition
from pyspark_pravega.spark.types import BooleanType, LongType, StructField, StructType

_log = logging.getLogger(__name__)

OFFSET_COLUMNS = (
    StructField("_at_segment", LongType(), False),
    StructField("_at_offset", LongType(), False),
    StructField("_is_row", BooleanType(), False),
)
"""What comes with each row, behind the columns of its batch: where its event ends. What isn't a row only tells
of an offset: a segment, and the offset up to which it has been read, or `GIVEN_WAY`."""
GIVEN_WAY = -1
"""In place of an offset: the segment was read to its end, and others have taken its place."""
FAILS = -2
"""In place of an offset: the worker is about to tell an error."""
_WAIT_S = 60.0
"""How long a task waits at a time. What comes wakes it, and so does the batch's end."""


@dataclass
class FollowedPartition(InputPartition):
    """Segments that one task follows."""

    stream: Stream
    start: dict[int, int]
    """Where to begin: segment id to offset in bytes."""

    def __init__(self, stream: Stream, start: dict[int, int]) -> None:
        super().__init__(min(start))
        self.stream, self.start = stream, start


def check_real_time(stream: Stream, options: ReadOptions) -> None:
    """Refuse what a real-time query can't have.

    Args:
        stream: what it reads.
        options: how it is to be read.

    Raises:
        UnsupportedOperationError: an option needs micro-batches.
    """
    given = {
        MAX_EVENTS: options.max_events,
        MAX_BYTES: options.max_bytes,
        MIN_EVENTS: options.min_events,
        MIN_PARTITIONS: options.min_partitions,
        END_TIME if isinstance(options.end, Time) else END_CUT: None if options.end is Word.UNBOUNDED else options.end,
    }
    for name, value in given.items():
        if value is not None:
            hint = f'; "{MOST_TASKS}" says how many tasks there are' if name == MIN_PARTITIONS else ""
            raise UnsupportedOperationError(
                f'stream "{stream}" can\'t be read with "{options.word(name)}" by a query with the real-time '
                "trigger, which reads rows as they come: leave the option out, or use "
                f"trigger(processingTime=...){hint}"
            )


def share(client: Client, stream: Stream, position: dict[int, int], tasks: int) -> list[FollowedPartition]:
    """Share segments out among tasks, neighbours in the key space together: they may be merged.

    Args:
        client: the cluster.
        stream: the stream.
        position: where the query is: segment id to offset in bytes.
        tasks: how many tasks there may be.
    """
    ranges = client.controller.segment_ranges(stream, position)
    order = sorted(position, key=lambda segment_id: (ranges[segment_id].min_key, segment_id))
    return [
        FollowedPartition(stream, {segment_id: position[segment_id] for segment_id in map(int, some)})
        for some in np.array_split(order, min(tasks, len(order)))
    ]


def _unlike(names: Sequence[str], field: StructField) -> StructField:
    """A field whose name none of these is: Java's Arrow doesn't read batches with two columns of a name."""
    name = field.name
    while name in names:
        name = f"_{name}"
    return StructField(name, field.dataType, field.nullable)


class RealTimeReader:
    """Follows segments in a worker, and gives the rows of their events. It can be pickled."""

    def __init__(self, definition: TableDefinition, columns: Sequence[str], options: ReadOptions) -> None:
        """Prepare.

        Args:
            definition: what the stream is as a table.
            columns: the wanted columns in their order, metadata columns among them.
            options: how to read.
        """
        self._settings, self._stream = definition.settings, definition.stream
        self._fail_on_data_loss = options.fail_on_data_loss
        place = PLACE.name if "_offset" in definition.schema.fieldNames() else "_offset"
        own = [*columns] if place in columns else [*columns, place]
        self._reader = BatchReader(definition, None, own)
        names = self._reader.schema.fieldNames()
        self.schema = StructType([*self._reader.schema, *(_unlike(names, field) for field in OFFSET_COLUMNS)])
        """The wanted columns, perhaps another one, and at last `OFFSET_COLUMNS`."""
        self._arrow_schema = to_arrow_schema(self.schema, timezone="UTC")
        self._offset = own.index(place)

    def read(self, partition: FollowedPartition, until: Iterable[object]) -> Iterator[pa.RecordBatch]:
        """Follow segments.

        Args:
            partition: which.
            until: when it has come to its end, so does the reading. Another thread goes through it.

        Yields:
            Batches of `schema` as soon as there are events.

        Raises:
            DataLossError: events are gone that were to be read.
            EventDecodeError: an event can't be decoded; the message says where it is.
            TableChangedError: there are events of a later schema, for which the read wasn't planned.
        """
        try:
            yield from self._follow(partition, until)
        except Exception:
            # Spark's worker tells an error when its input has ended, or after five seconds. The batch may be over by
            # then: Spark tries the task again, which has no time left to come to what is wrong, and so nobody hears
            # of it. This has the JVM end the input.
            yield self._offsets_only({min(partition.start): FAILS})
            raise

    def _follow(self, partition: FollowedPartition, until: Iterable[object]) -> Iterator[pa.RecordBatch]:
        client, over = shared_client(self._settings), threading.Event()
        known = dict(partition.start)
        with told_plainly(), EventTail(client, partition.stream, partition.start) as tail:

            def wait() -> None:
                for _ in until:
                    pass
                over.set()
                tail.close()

            threading.Thread(target=wait, name=f"until-{partition.stream}", daemon=True).start()
            while not over.is_set():
                arrived: list[EventBatch] = []
                try:
                    arrived = tail.poll_all(_WAIT_S)
                except (SegmentTruncatedError, SegmentNotFoundError) as error:
                    self._lose(error)
                moved = self._moved(known, tail.position, arrived)
                if moved:
                    yield self._offsets_only(moved)
                if arrived:
                    # Each batch takes the JVM and the sink their time: what has come at once goes on at once.
                    yield from map(arrow_batch, merged(rows for events in arrived for rows in self._rows(events)))
                elif tail.ended:
                    # The segments are at their ends, and the next batch goes on with others.
                    over.wait()

    def _lose(self, error: Exception) -> None:
        message = f'events of stream "{self._stream}" are gone before they were read ({error})'
        if self._fail_on_data_loss:
            raise DataLossError(
                f"{message}: set failOnDataLoss to false to go on without them; longer retention prevents it"
            ) from None
        _log.warning("%s; the next batch goes on behind them", message)

    @staticmethod
    def _moved(known: dict[int, int], position: Mapping[int, int], arrived: Sequence[EventBatch]) -> dict[int, int]:
        """What a scale has changed, but for the events that are handed on next; it is known then."""
        moved = dict.fromkeys(known.keys() - position.keys(), GIVEN_WAY)
        begins = {events.segment_id: events.start for events in reversed(arrived)}
        for segment_id, offset in position.items():
            if segment_id not in known:
                moved[segment_id] = begins.get(segment_id, offset)
        if moved:
            known.clear()
            known.update(position)
        return moved

    def _offsets_only(self, offsets: dict[int, int]) -> pa.RecordBatch:
        nothing = [pa.nulls(len(offsets), field.type) for field in self._arrow_schema][: -len(OFFSET_COLUMNS)]
        numbers = [pa.array(list(offsets), pa.int64()), pa.array(list(offsets.values()), pa.int64())]
        arrays = [*nothing, *numbers, pa.array([False] * len(offsets))]
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema)

    def _rows(self, events: EventBatch) -> Iterator[pa.RecordBatch]:
        for batch, end in self._reader.rows_of(events):
            rows = arrow_batch(batch)
            if not rows.num_rows:
                # None of these events is a row.
                yield self._offsets_only({events.segment_id: end})
                continue
            # Events that aren't rows count with the row before them.
            begins = rows.column(self._offset).to_numpy()
            ends = pa.array(np.append(begins[1:], end), pa.int64())
            segments = pa.repeat(pa.scalar(events.segment_id, pa.int64()), len(ends))
            arrays = [*rows.columns, segments, ends, pa.repeat(True, len(ends))]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema)
