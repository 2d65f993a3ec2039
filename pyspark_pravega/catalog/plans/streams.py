"""Streaming reads: their offsets, and what each micro-batch or real-time batch reads."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypedDict

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_pravega.catalog.base import PLANNED_S
from pyspark_pravega.catalog.plans.read_request import (
    Position,
    PositionText,
    all_columns,
    changes_of,
    position_of,
    with_read_options,
)
from pyspark_pravega.connector.lake import Additions, LakeChangesReader, check_slices
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.read import RowChangesReader
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.stream import (
    ChangesSource,
    FollowedPartition,
    RealTimeReader,
    SeveralStreamsReader,
    StreamSource,
    check_real_time,
)
from pyspark_pravega.connector.table import (
    TableDefinition,
    check_field_ids,
    check_planned,
    check_same_stream,
)
from pyspark_pravega.deadlines import deadline
from pyspark_pravega.errors import PravegaError, UnsupportedOperationError
from pyspark_pravega.together import Begun

_LOOK_S = 5.0
"""For how long a micro-batch waits at most to know whether its table has changed."""


class Source(TypedDict):
    """A streaming read. Every call about it says it all, so that another process can go on with it."""

    id: str
    namespace: list[str]
    table: str
    columns: list[str]
    schema: str
    """The table's columns as the query was planned with them, as Spark's JSON."""
    options: dict[str, str]
    position: PositionText | None


class StreamRead:
    """One query's read of one table."""

    def __init__(
        self,
        definition: TableDefinition,
        columns: list[str],
        options: Mapping[str, str],
        position: Position | None = None,
        planned: StructType | None = None,
    ) -> None:
        """Begin a read.

        Args:
            definition: what the stream is as a table.
            columns: the wanted columns.
            options: the read's options.
            position: CHANGES are read by version, anything else by stream cut: where the options say, as that is when
                the query starts.
            planned: the table's columns as the query was planned with them; None where nothing was planned before.

        Raises:
            ConfigurationError: an option is unknown or malformed.
            TableChangedError: the table isn't any more what the query was planned with.
        """
        self._planned, self._table, self._columns = planned, definition, columns
        self.check_table(definition)
        self.options = ReadOptions.of_table(options, versions=definition.is_changes)
        wanted = changes_of(definition, self.options, position)
        if wanted is None:
            definition.check_appended("a streaming read")
        definition = with_read_options(definition, columns, self.options.events, streamed=True)
        self.shared_memory = definition.settings.shared_memory
        client, stream = shared_client(definition.settings), definition.stream
        self.reader: SeveralStreamsReader | LakeChangesReader | RowChangesReader
        # Offsets of both are values that know their text; which kind they are is the source's matter.
        self.source: Any
        if wanted is not None:
            keyed = definition.key is not None
            if keyed:
                self.reader = RowChangesReader(definition, None, columns, max_keys=self.options.max_keys)
            else:
                self.reader = LakeChangesReader(
                    definition, Additions(), columns, fail_on_data_loss=self.options.fail_on_data_loss
                )
            self.source = ChangesSource(client, stream, wanted, self.options, keyed=keyed)
        else:
            self.reader = SeveralStreamsReader([definition], columns, self.options)
            self.source = StreamSource(client, [stream], self.options)
        self.lock = threading.Lock()
        self.definition = definition
        self._segments = set(definition.segments or ())

    @property
    def is_looked_after(self) -> bool:
        """Whether the table has to be looked at with each micro-batch, as its events don't tell their schema."""
        return self._table.registered is not None and self._table.properties.encoding_header is False

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
            check_field_ids(self._table, now, self._columns)

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
                f'CHANGES of stream "{self.definition.stream}" can\'t be read by a query with the real-time trigger, '
                "as their batches are of whole versions: use trigger(processingTime=...)"
            )
        check_real_time(self.definition.stream, self.options)
        return RealTimeReader(self.definition, self._columns, self.options)


class StreamReads:
    """All streaming reads of a catalog process. Safe for use by several threads.

    Each call says all that is needed to begin its read, so another process can go on with it. Offsets are texts.
    """

    def __init__(self, load: Callable[[list[str], str, dict[str, str], float], TableDefinition]) -> None:
        """Serve reads.

        Args:
            load: what a namespace's table is, read with some options, looked up so many seconds ago at most.
        """
        self._load = load
        self._reads: dict[str, StreamRead] = {}
        self._lock = threading.Lock()

    def check(self, namespace: list[str], table: str, options: dict[str, str], position: PositionText | None) -> None:
        """Refuse a read that can't be, when a query is defined."""
        StreamRead(self._load(namespace, table, options, PLANNED_S), [], options, position_of(position))

    def open(self, source: Source) -> StreamRead:
        """Begin a query's read, or go on with it in another process."""
        read = self._read(source)
        read.check_decoded()
        with read.lock:
            read.source.subscribe()
        return read

    def open_real_time(self, source: Source) -> RealTimeReader:
        """Begin to read as a query with the real-time trigger does."""
        read = self._read(source)
        read.check_decoded()
        return read.real_time()

    def initial(self, source: Source) -> str:
        """Where a new query begins."""
        read = self._read(source)
        with read.lock:
            return str(read.source.initial_offset().to_json())

    def latest(self, source: Source, start: str, limited: bool, target: str | None) -> str:
        """Where the next micro-batch ends; within the limits if it has any, not beyond the target."""
        read = self._read(source)
        end = None if target is None else read.source.offset(target)
        with read.lock:
            return str(read.source.latest_offset(read.source.offset(start), limited=limited, target=end).to_json())

    def target(self, source: Source) -> str:
        """Where Trigger.AvailableNow ends."""
        read = self._read(source)
        with read.lock:
            return str(read.source.target().to_json())

    def tail(self, source: Source) -> str:
        """Where the stream ends."""
        read = self._read(source)
        with read.lock:
            return str(read.source.tail().to_json())

    def plan(self, source: Source, start: str, end: str) -> Sequence[InputPartition]:
        """The partitions of a micro-batch."""
        read = self._read(source)
        # Begun when the end is settled: it finds the schema of all events before that.
        looked = self._begin_look(read, source)
        with read.lock:
            partitions = read.source.partitions(read.source.offset(start), read.source.offset(end))
            check_slices([read.definition], source["columns"], partitions)
            read.check_stream({part.segment_id for partition in partitions for part in partition.parts})
        _check_look(read, looked)
        return list(partitions)

    def follow(self, source: Source, start: str, cores: int) -> Sequence[FollowedPartition]:
        """The partitions of a real-time batch; `cores` is how many tasks can run at a time."""
        read = self._read(source)
        looked = self._begin_look(read, source)
        with read.lock:
            partitions = read.source.follow(read.source.offset(start), cores)
            read.check_stream({segment_id for one in partitions for segment_id in one.start})
        _check_look(read, looked)
        return list(partitions)

    def merge(self, source: Source, start: str, positions: list[dict[str, int]]) -> str:
        """Where a real-time batch has ended: of each of its tasks, the segments and how far it has read them."""
        read = self._read(source)
        merged = {int(segment_id): offset for one in positions for segment_id, offset in one.items()}
        with read.lock:
            (stream,) = read.source.streams
            return str(read.source.merge(read.source.offset(start), {stream: merged}).to_json())

    def commit(self, source: Source, end: str) -> None:
        """Note that a query has consumed what is before an offset."""
        read = self._read(source)
        with read.lock:
            read.source.commit(read.source.offset(end))

    def metrics(self, source: Source, consumed: str) -> dict[str, str]:
        """How far an offset is behind the tail."""
        read = self._read(source)
        with read.lock:
            figures: dict[str, str] = read.source.metrics(read.source.offset(consumed))
            return figures

    def stop(self, id: str) -> None:
        """Forget a streaming read."""
        with self._lock:
            self._reads.pop(id, None)

    def _read(self, source: Source) -> StreamRead:
        with self._lock:
            read = self._reads.get(source["id"])
        if read is None:
            options = source["options"]
            definition = self._load(source["namespace"], source["table"], options, PLANNED_S)
            planned, position = StructType.fromJson(json.loads(source["schema"])), position_of(source["position"])
            new_read = StreamRead(definition, source["columns"], options, position, planned)
            with self._lock:
                read = self._reads.setdefault(source["id"], new_read)
        return read

    def _begin_look(self, read: StreamRead, source: Source) -> Begun[TableDefinition | None] | None:
        """Begin to look what the table is, where its events don't tell that."""
        return Begun(lambda: self._look(source)) if read.is_looked_after else None

    def _look(self, source: Source) -> TableDefinition | None:
        """What the table is now; None where nobody tells, and so nobody can have changed it."""
        try:
            with deadline(_LOOK_S):
                return self._load(source["namespace"], source["table"], source["options"], 0)
        except PravegaError:
            return None


def _check_look(read: StreamRead, looked: Begun[TableDefinition | None] | None) -> None:
    if looked is not None and (now := looked.result()) is not None:
        read.check_table(now)
