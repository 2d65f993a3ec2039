"""`spark.readStream.format("pravega")`: streaming reads through Spark's Python data source API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pyspark_pravega.client import Stream
from pyspark_pravega.connector.lake import (
    LakePartition,
    LakeSlice,
    check_slices,
    file_batches,
    lake_between,
    lake_read,
    slice_batches,
)
from pyspark_pravega.connector.log import LakePart, only_in_lake, take_snapshot
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.plain import told_plainly
from pyspark_pravega.connector.read import (
    BatchReader,
    RowsReader,
    SlicePartition,
    bounded_snapshot,
    resolve_extent,
    snapshot_reader,
)
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.stream.offsets import SourceOffset
from pyspark_pravega.connector.stream.source import StreamSource
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import ConfigurationError, PravegaError, UnsupportedOperationError
from pyspark_pravega.serde.codec import Batch
from pyspark_pravega.spark.datasource import (
    LIMITED,
    DataSourceStreamReader,
    InputPartition,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)


class SeveralStreamsReader(RowsReader):
    """Reads partitions of several streams that have the same columns."""

    def __init__(self, definitions: Sequence[TableDefinition], columns: Sequence[str], options: ReadOptions) -> None:
        """Plan a read.

        Args:
            definitions: what the streams are as tables.
            columns: the wanted columns in their order, metadata columns among them; none for rows only.
            options: what to read.

        Raises:
            ConfigurationError: the streams don't have the same columns.
        """
        check_alike(definitions)
        self._options = options
        self._settings = definitions[0].settings
        self._streams = [definition.stream for definition in definitions]
        self._readers: Mapping[Stream, BatchReader] = {
            definition.stream: snapshot_reader(definition, None, columns, options) for definition in definitions
        }
        self.schema = self._readers[self._streams[0]].schema

    def batches(self, partition: InputPartition) -> Iterator[Batch]:
        """The rows of a partition, as `BatchReader.batches` gives them."""
        if isinstance(partition, SlicePartition):
            yield from self._readers[partition.stream].batches(partition)
        elif isinstance(partition, LakeSlice):
            yield from slice_batches(partition, self.schema)
        elif isinstance(partition, LakePartition):
            yield from file_batches(partition, self.schema)


class PravegaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What Spark asks of a streaming source in Python; all is answered by `StreamSource`."""

    def __init__(self, definitions: Sequence[TableDefinition], columns: Sequence[str], options: ReadOptions) -> None:
        """Begin a streaming read; arguments as `SeveralStreamsReader`."""
        check_unlimited(options)
        self._reader = SeveralStreamsReader(definitions, columns, options)
        self._definitions, self._options, self._columns = definitions, options, columns
        self._begin: SourceOffset | None = None
        """Where the next micro-batch begins: behind the one that was planned last. For a Spark that doesn't tell."""
        self._source: StreamSource | None = None
        self._target: SourceOffset | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Tasks read only; what plans stays with the planner.
        return {**self.__dict__, "_source": None, "_target": None, "_begin": None}

    @told_plainly()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a query without a checkpoint begins."""
        self._planner().subscribe()
        self._begin = self._initial()
        return self._begin.to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limits that the options set; Spark's Python API has room for one, so the others are applied with it."""
        options = self._options
        if options.max_events is not None:
            return ReadMaxRows(options.max_events)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        return ReadAllAvailable() if options.min_events is None else ReadMinRows(options.min_events)

    @told_plainly()
    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Where the next micro-batch ends. Before 4.2 Spark tells neither where it begins nor limits; it asks twice."""
        begin = self._begin if start is None else SourceOffset.from_dict(start)
        if begin is None:
            # It will begin at the initial offset, or where a checkpoint says: steps from the one come to the same end.
            target, begin = self._planner().target(), self._initial()
            while (end := self._planner().latest_offset(begin, limited=False, target=target)) != begin:
                begin = end
            return begin.to_dict()
        limited = LIMITED and not isinstance(limit, ReadAllAvailable)
        return self._planner().latest_offset(begin, limited=limited, target=self._target).to_dict()

    @told_plainly()
    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """The streams' tails."""
        return self._planner().tail().to_dict()

    @told_plainly()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of a query that reads what is there."""
        self._target = self._planner().target()

    @told_plainly()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What a micro-batch reads."""
        begin, self._begin = SourceOffset.from_dict(start), SourceOffset.from_dict(end)
        partitions = self._planner().partitions(begin, self._begin, spanning=not LIMITED)
        check_slices(self._definitions, self._columns, partitions)
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        return self._reader.read(partition)

    @told_plainly()
    def commit(self, end: dict[str, Any]) -> None:
        """Take note of what the query has committed."""
        self._planner().commit(SourceOffset.from_dict(end))

    def _initial(self) -> SourceOffset:
        begin = self._planner().initial_offset()
        for stream, position in begin.items():
            if position.lake is not None and not LIMITED:
                raise only_in_lake(stream, position.lake.last, 'spark.readStream.format("pravega") before Spark 4.2')
        return begin

    def _planner(self) -> StreamSource:
        if self._source is None:
            streams = [definition.stream for definition in self._definitions]
            self._source = StreamSource(shared_client(self._definitions[0].settings), streams, self._options)
        return self._source


class RefusedStreamReader(PravegaStreamReader):
    """Stands for a streaming read that can't be: Spark 4.3 loses the sentence of an error while it makes a reader."""

    def __init__(self, error: PravegaError) -> None:
        """Prepare to refuse.

        Args:
            error: what is wrong.
        """
        self._error = error

    @told_plainly()
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Never: it is refused."""
        raise self._error

    def _planner(self) -> StreamSource:
        raise self._error


class SnapshotReader(SeveralStreamsReader):
    """Reads streams as they are now, between the bounds that the options name."""

    def __init__(self, definitions: Sequence[TableDefinition], columns: Sequence[str], options: ReadOptions) -> None:
        """Plan a read; arguments as `SeveralStreamsReader`."""
        super().__init__(definitions, columns, options)
        self._definitions, self._columns = tuple(definitions), tuple(columns)

    def __getstate__(self) -> dict[str, Any]:
        # Tasks read only.
        return {**self.__dict__, "_definitions": ()}

    @told_plainly()
    def partitions(self) -> Sequence[InputPartition]:
        """A partition for each segment with many events, and for several with few."""
        client = shared_client(self._settings)
        partitions: list[InputPartition] = []
        for stream in self._streams:
            whole = take_snapshot(client, stream)
            extent = resolve_extent(client, stream, self._options, streams=len(self._streams))
            snapshot = lake_between(client, whole, extent)
            if snapshot is not None and snapshot.lake is not None:
                partitions += self._in_lake(stream, snapshot.lake)
            else:
                snapshot = bounded_snapshot(client, whole, extent, self._options)
            partitions += self._readers[stream].arranged(snapshot)
        return partitions

    def _in_lake(self, stream: Stream, part: LakePart) -> Sequence[InputPartition]:
        definition = next(one for one in self._definitions if one.stream == stream)
        return lake_read(definition, part, self._columns)


def check_unlimited(options: ReadOptions) -> None:
    """Refuse limits where Spark has no word for them.

    Raises:
        UnsupportedOperationError: a limit is set, and this Spark is before 4.2.
    """
    if not LIMITED and (options.max_events or options.max_bytes or options.min_events) is not None:
        raise UnsupportedOperationError(
            'limits of micro-batches work in spark.readStream.format("pravega") since Spark 4.2; read the table by its '
            "name in a catalog, where they work"
        )


def check_alike(definitions: Sequence[TableDefinition]) -> None:
    """Refuse streams that can't be rows of one table.

    Raises:
        ConfigurationError: they don't have the same columns.
    """
    first = definitions[0]
    for other in definitions[1:]:
        if other.schema != first.schema:
            raise ConfigurationError(
                f'streams "{first.stream}" and "{other.stream}" can\'t be read together: their columns are '
                f"{first.schema.simpleString()} and {other.schema.simpleString()}"
            )
