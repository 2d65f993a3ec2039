"""Streaming reads that Spark's JVM asks for: planned here, run by Spark's Python workers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType
from pyspark.worker_util import pickleSer

from pyspark_pravega.catalog.base import PLANNED_S
from pyspark_pravega.catalog.process.arrival import sealed
from pyspark_pravega.catalog.process.jobs import all_columns, in_mode
from pyspark_pravega.catalog.process.messages import Followed, OpenedRealTime, OpenedStream, Source, Text64
from pyspark_pravega.catalog.process.pickles import pickle, pickled_read
from pyspark_pravega.catalog.process.protocol import text_of
from pyspark_pravega.connector.options import MODE, TABLE_READ_KEYS, ReadOptions, canonical
from pyspark_pravega.connector.read import ChangesRange, ChangesReader, RowChangesReader
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.stream import (
    ChangesSource,
    RealTimeReader,
    SeveralStreamsReader,
    StreamSource,
    check_no_bounds,
    check_real_time,
)
from pyspark_pravega.connector.table import (
    ENCODING_HEADER,
    TableDefinition,
    check_places,
    check_planned,
    check_same_stream,
)
from pyspark_pravega.connector.write import streamed_with_dead_letters
from pyspark_pravega.deadlines import deadline
from pyspark_pravega.errors import PravegaError, UnsupportedOperationError
from pyspark_pravega.together import Begun

_LOOK_S = 5.0
"""For how long a micro-batch waits at most to know whether its table has changed."""


class StreamRead:
    """One query's read of one table."""

    def __init__(
        self,
        definition: TableDefinition,
        columns: list[str],
        options: Mapping[str, str],
        position: Mapping[str, Any] | None = None,
        planned: StructType | None = None,
    ) -> None:
        """Begin a read.

        Args:
            definition: what the stream is as a table.
            columns: the wanted columns.
            options: the read's options.
            position: see `ScanRequest`: CHANGES are read by version, anything else by stream cut.
            planned: the table's columns as the query was planned with them; None where nothing was planned before.

        Raises:
            ConfigurationError: an option is unknown or malformed.
            TableChangedError: the table isn't any more what the query was planned with.
        """
        self._planned, self._table, self._columns = planned, definition, columns
        self.check_table(definition)
        changes = None if position is None else position.get("changes")
        if changes is None:
            definition.check_appended("a streaming read")
        given = canonical(options, TABLE_READ_KEYS, "read option")
        if MODE in given:
            definition = in_mode(definition, given[MODE], columns)
        definition = streamed_with_dead_letters(definition, given)
        self.options, self.shared_memory = ReadOptions.parse(given), definition.settings.shared_memory
        client, stream = shared_client(definition.settings), definition.stream
        self.reader: SeveralStreamsReader | ChangesReader | RowChangesReader
        # Offsets of both are values that know their text; which kind they are is the source's matter.
        self.source: Any
        if changes is not None:
            check_no_bounds(self.options)
            keyed = definition.key is not None
            if keyed:
                self.reader = RowChangesReader(definition, None, columns, max_keys=self.options.max_keys)
            else:
                self.reader = ChangesReader(definition, (), columns, fail_on_data_loss=self.options.fail_on_data_loss)
            self.source = ChangesSource(client, stream, ChangesRange.of(changes), self.options, keyed=keyed)
        else:
            self.reader = SeveralStreamsReader([definition], columns, self.options)
            self.source = StreamSource(client, [stream], self.options)
        self.lock = threading.Lock()
        self._definition = definition
        self._segments = set(definition.segments or ())

    @property
    def is_looked_after(self) -> bool:
        """Whether the table has to be looked at with each micro-batch, as its events don't tell their schema."""
        registered, properties = self._table.registered, self._table.properties
        return registered is not None and properties.get(ENCODING_HEADER) == "false"

    def check_stream(self, segment_ids: Collection[int]) -> None:
        """Refuse to read segments of another stream.

        Args:
            segment_ids: what is to be read.

        Raises:
            TableChangedError: the query's was dropped, and they are of one that was made later.
        """
        if self._segments.isdisjoint(segment_ids) and check_same_stream(
            shared_client(self._table.settings), self._table, segment_ids
        ):
            self._segments.update(segment_ids)

    def check_table(self, now: TableDefinition) -> None:
        """Refuse to go on with another table than the one that the query was planned with.

        Args:
            now: what the stream is as a table.

        Raises:
            TableChangedError: it is another one.
        """
        # Without its schema, which may be gone for the moment, nothing is known of it.
        if self._planned is not None and now.format == self._table.format:
            check_planned(now.stream, self._planned, self._columns, all_columns(now), decoded=True)
            check_places(self._table, now, self._columns)

    def check_decoded(self) -> None:
        """Refuse to decode rows that aren't in all what the query was planned with.

        Raises:
            TableChangedError: they aren't.
        """
        if self._planned is not None:
            check_planned(self._table.stream, self._planned, self._columns, all_columns(self._table))

    def real_time(self) -> RealTimeReader:
        """What the tasks of a query with the real-time trigger do.

        Raises:
            UnsupportedOperationError: this can't be read in such a query.
        """
        if not isinstance(self.source, StreamSource):
            raise UnsupportedOperationError(
                f'CHANGES of stream "{self._definition.stream}" can\'t be read by a query with the real-time trigger, '
                "as their batches are of whole versions: use trigger(processingTime=...)"
            )
        check_real_time(self._definition.stream, self.options)
        return RealTimeReader(self._definition, self._columns, self.options)


class StreamReads:
    """All streaming reads of a catalog process, as methods that the JVM calls. Safe for use by several threads.

    Each call says all that is needed to begin its read: so another process can go on with it.
    """

    def __init__(self, load: Callable[[list[str], str, dict[str, str], float], TableDefinition]) -> None:
        """Serve reads.

        Args:
            load: what a namespace's table is, read with some options, looked up so many seconds ago at most.
        """
        self._load = load
        self._reads: dict[str, StreamRead] = {}
        self._lock = threading.Lock()

    def _read(self, source: Source) -> StreamRead:
        with self._lock:
            read = self._reads.get(source["id"])
        if read is None:
            options = source["options"]
            definition = self._load(source["namespace"], source["table"], options, PLANNED_S)
            planned = StructType.fromJson(json.loads(source["schema"]))
            new_read = StreamRead(definition, source["columns"], options, source["position"], planned)
            with self._lock:
                read = self._reads.setdefault(source["id"], new_read)
        return read

    def open_stream(self, source: Source) -> OpenedStream:
        read = self._read(source)
        read.check_decoded()
        with read.lock:
            read.source.subscribe()
        # The partitions are planned with each micro-batch; the one that stands for none isn't needed.
        function, _ = pickled_read(read.reader, read.reader.schema)
        options = read.options
        return {
            "function": text_of(function),
            "schema": read.reader.schema.json(),
            "maxEvents": options.max_events,
            "maxBytes": options.max_bytes,
            "minEvents": options.min_events,
            "maxDelayMs": round(options.max_delay_s * 1000),
            "sharedMemory": read.shared_memory,
        }

    def stream_initial(self, source: Source) -> str:
        read = self._read(source)
        with read.lock:
            return str(read.source.initial_offset().to_json())

    def stream_latest(self, source: Source, start: str, limited: bool, target: str | None) -> str:
        read = self._read(source)
        end = None if target is None else read.source.offset(target)
        with read.lock:
            return str(read.source.latest_offset(read.source.offset(start), limited=limited, target=end).to_json())

    def stream_target(self, source: Source) -> str:
        read = self._read(source)
        with read.lock:
            return str(read.source.target().to_json())

    def stream_tail(self, source: Source) -> str:
        read = self._read(source)
        with read.lock:
            return str(read.source.tail().to_json())

    def stream_plan(self, source: Source, start: str, end: str) -> list[Text64]:
        read = self._read(source)
        # Begun when the end is settled: it finds the schema of all events before that.
        looked = Begun(lambda: self._look(source)) if read.is_looked_after else None
        with read.lock:
            partitions = read.source.partitions(read.source.offset(start), read.source.offset(end))
            read.check_stream({part.segment_id for partition in partitions for part in partition.parts})
        if looked is not None and (now := looked.result()) is not None:
            read.check_table(now)
        return [text_of(pickle(partition)) for partition in partitions]

    def _look(self, source: Source) -> TableDefinition | None:
        """What the table is now; None where nobody tells, and so nobody can have changed it."""
        try:
            with deadline(_LOOK_S):
                return self._load(source["namespace"], source["table"], source["options"], 0)
        except PravegaError:
            return None

    def open_real_time(self, source: Source) -> OpenedRealTime:
        read = self._read(source)
        read.check_decoded()
        reader = read.real_time()

        def follow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            partition = pickleSer.loads(next(batches).column(0)[0].as_py())  # type: ignore[no-untyped-call]
            yield from reader.read(partition, batches)

        return {"function": text_of(sealed(pickle((follow, reader.schema)))), "schema": reader.schema.json()}

    def stream_follow(self, source: Source, start: str, cores: int) -> list[Followed]:
        read = self._read(source)
        looked = Begun(lambda: self._look(source)) if read.is_looked_after else None
        with read.lock:
            partitions = read.source.follow(read.source.offset(start), cores)
            read.check_stream({segment_id for one in partitions for segment_id in one.start})
        if looked is not None and (now := looked.result()) is not None:
            read.check_table(now)
        return [
            {"partition": text_of(pickle(one)), "start": {str(segment_id): at for segment_id, at in one.start.items()}}
            for one in partitions
        ]

    def stream_merge(self, source: Source, start: str, positions: list[dict[str, int]]) -> str:
        read = self._read(source)
        merged = {int(segment_id): offset for one in positions for segment_id, offset in one.items()}
        with read.lock:
            (stream,) = read.source.streams
            return str(read.source.merge(read.source.offset(start), {stream: merged}).to_json())

    def stream_commit(self, source: Source, end: str) -> None:
        read = self._read(source)
        with read.lock:
            read.source.commit(read.source.offset(end))

    def stream_metrics(self, source: Source, consumed: str) -> dict[str, str]:
        read = self._read(source)
        with read.lock:
            figures: dict[str, str] = read.source.metrics(read.source.offset(consumed))
            return figures

    def stop_stream(self, id: str) -> None:
        with self._lock:
            self._reads.pop(id, None)
