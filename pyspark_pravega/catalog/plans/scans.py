"""Batch reads of a stream: a function for each kind of read, and what they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from pyspark_pravega.catalog.plans.estimates import Amount, Analyzed, estimate
from pyspark_pravega.catalog.plans.moments import QueryMoment
from pyspark_pravega.catalog.plans.narrowing import Reach, filter_columns, fingerprint
from pyspark_pravega.catalog.plans.read_request import Position, all_columns, changes_of, with_read_options
from pyspark_pravega.catalog.plans.skipping import wanted_parts
from pyspark_pravega.catalog.plans.transactions import ENDS, OpenTransaction, OwnRows
from pyspark_pravega.catalog.pushdown import (
    MOST,
    OFFSET,
    Bounds,
    EarlyEnd,
    counted_changes,
    counted_keys,
    counted_rows,
    counted_until,
    counted_with_lake,
    narrowed,
    wanted_fractions,
)
from pyspark_pravega.catalog.sizes import estimated_rows
from pyspark_pravega.client import Client, SegmentPart, Stream, StreamCut
from pyspark_pravega.connector.index import Condition
from pyspark_pravega.connector.lake import (
    Additions,
    LakeChangesReader,
    LakeReader,
    added_between,
    base_files,
    behind_lake,
    check_slices,
    lake_between,
    lake_reader,
    wanted_of_base,
)
from pyspark_pravega.connector.log import Ledger, Snapshot, behind_base, open_ledger
from pyspark_pravega.connector.option_names import (
    BAD_EVENTS,
    BOUND_KEYS,
    MODE,
    TABLE_READ_KEYS,
    VERSION_KEYS,
    reads_own,
)
from pyspark_pravega.connector.options import ReadOptions, canonical
from pyspark_pravega.connector.predicates import Predicates
from pyspark_pravega.connector.read import (
    BatchReader,
    ChangesRange,
    Extent,
    KeyedReader,
    Moment,
    RowChangesReader,
    bounded_snapshot,
    check_bounds,
    parts_of_keys,
    resolve_extent,
    resolve_extents,
    row_changes,
    rows_at,
    snapshot_reader,
    snapshot_until,
)
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.statistics import statistics_of
from pyspark_pravega.connector.table import (
    TableDefinition,
    changed_table,
    check_planned,
    check_same_stream,
    schema_read,
)
from pyspark_pravega.connector.write import ReadSet
from pyspark_pravega.errors import ConfigurationError, NotFoundError, TableChangedError, UnsupportedOperationError
from pyspark_pravega.serde.lenient import DROP_MALFORMED


@dataclass(frozen=True, kw_only=True)
class ScanRequest:
    """What a query wants of a table."""

    columns: Sequence[str]
    """The wanted columns; none for rows only."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The read's options."""
    position: Position | None = None
    """Which part of the table; None for all of it as it is now."""
    predicates: Predicates = ()
    """What Spark tells of its condition."""
    condition: Condition = None
    """All of it that can be told."""
    skips: bool = True
    """Whether blocks may be passed over by it, where an index tells of them; else it is for estimates only."""
    limit: int | None = None
    """Rows that are enough."""
    planned: StructType | None = None
    """The table's columns as the query was planned with them; None where nothing was planned before."""
    moment: QueryMoment = field(default_factory=QueryMoment)
    """When the query reads the table, where the position doesn't say that."""
    transaction: OpenTransaction | None = None
    """The transaction that the query is in, if any."""

    def unsettled(self) -> ScanRequest:
        """The same, whose bounds only its options tell: what they meant was settled in another stream."""
        return replace(self, position=None) if isinstance(self.position, Extent) else self


@dataclass(frozen=True, kw_only=True)
class PlannedScan:
    """A read whose ends are fixed."""

    reader: DataSourceReader
    """Reads the partitions, in tasks."""
    schema: StructType
    """What its batches hold."""
    size: int
    """Bytes of events, frames included."""
    rows: int | None
    """About how many of its rows are wanted; None when there's nothing to tell by."""
    memory: int
    """About how many bytes the wanted columns of these are as Spark's rows."""
    slices: int
    """Number of segments that hold events; of a key-value table, of its partitions."""
    shared_memory: int
    """How many bytes a task shares with its worker at most; 0 for none."""
    routing: str
    """By what it is known where rows lie, by their keys or an index, for `narrow_scan`."""
    filters: Sequence[str] = ()
    """The columns whose values leave out much of it when a join tells them, for `narrow_scan`."""
    seen: ReadSet | None = None
    """What a statement that replaces the table's rows has read of it; None where it has read a moment of the past."""
    extent: str | None = None
    """What EXPLAIN says about it, where that isn't the number of segments and bytes."""
    skipped: int = 0
    """Bytes of events that the table's index saves from being read."""
    analyzed: Analyzed | None = None
    """What Spark estimates by itself, of a table with statistics."""


def plan_scan(definition: TableDefinition, request: ScanRequest) -> PlannedScan:
    """Plan a read of a stream.

    Args:
        definition: what the stream is as a table.
        request: what is wanted.

    Raises:
        ConfigurationError: an option is unknown or malformed.
        TableChangedError: the table isn't any more what the query was planned with.
    """
    read = _Read.of(definition, request)
    wanted = changes_of(definition, read.options, request.position)
    if request.transaction is not None and not isinstance(request.position, Moment):
        return _in_transaction(read, request.transaction, is_changes=wanted is not None)
    if wanted is not None:
        return _row_changes(read, wanted) if read.is_keyed else _changes(read, wanted)
    if isinstance(request.position, Moment):
        snapshot, seen = _at(read, request.position), None
    else:
        snapshot, seen = _now(read)
    return _last_rows(read, snapshot, seen) if read.is_keyed else _rows(read, snapshot, seen)


def _in_transaction(read: _Read, transaction: OpenTransaction, *, is_changes: bool) -> PlannedScan:
    """A table as it is now, with what a transaction has written to it behind that."""
    definition, stream = read.definition, read.stream
    if is_changes or definition.is_log:
        raise UnsupportedOperationError(
            f'the versions and the events of stream "{stream}" can\'t be read in a transaction, only its rows: {ENDS}'
        )
    own = transaction.own(stream)
    if own is None:
        snapshot, seen = _now(read)
        transaction.read(stream, seen, fresh=read.request.moment.news is not None)
        return _last_rows(read, snapshot, seen) if read.is_keyed else _rows(read, snapshot, seen)
    if read.options.has_bounds or isinstance(read.request.position, Extent):
        raise UnsupportedOperationError(
            f'the transaction has written to stream "{stream}", and what it has written has no place in the stream '
            f"yet: read it without start and end, or {ENDS}"
        )
    snapshot, seen = _now(read)
    if not own.replaces:
        transaction.read(stream, seen, fresh=read.request.moment.news is not None)
    snapshot = own.before(snapshot)
    if read.is_keyed:
        transaction.check_order(snapshot, own)
        return _last_rows(read, replace(snapshot, parts=(*snapshot.parts, *own.parts)), seen)
    return _rows(read, snapshot, seen, own)


def _changes(read: _Read, wanted: ChangesRange) -> PlannedScan:
    """CHANGES of a table without a key: the events that versions have added. It needs the versions' entries only."""
    first, last = read.versions(wanted)
    added = _added(read, first, last)
    check_slices([read.definition], read.request.columns, added.slices)
    reader = LakeChangesReader(read.definition, added, read.request.columns)
    parts = [one.part for one in added.ranges]
    return read.planned(reader, parts, lake=(added.bytes, added.rows), of_table=False)


def _row_changes(read: _Read, wanted: ChangesRange) -> PlannedScan:
    """CHANGES of a table with a key: what became of each row. It needs the rows before those versions, too."""
    first, last = read.versions(wanted)
    assert read.ledger is not None
    changes = row_changes(read.client, read.ledger, first, last)
    reader = RowChangesReader(read.definition, changes, read.request.columns, max_keys=read.options.max_keys)
    parts = [] if changes is None else [one.part for one in changes.ranges]
    return read.planned(reader, parts, of_table=False)


def _rows(read: _Read, snapshot: Snapshot, seen: ReadSet | None, own: OwnRows | None = None) -> PlannedScan:
    """The events of a table without a key: those in a snapshot, within the offsets that predicates let through; and
    those of a transaction."""
    snapshot = narrowed(snapshot, read.bounds, read.ledger)
    position = read.request.position
    last = snapshot.version or (isinstance(position, Moment) and position.version) or 0
    condition = read.request.condition if read.request.skips else None
    wanted = wanted_parts(read.definition, read.ledger, snapshot.parts, condition, last)
    left = replace(snapshot, parts=tuple(wanted))
    skipped = snapshot.size - left.size
    if own is not None:
        left = replace(left, parts=(*left.parts, *own.parts))
    return read.planned_snapshot(left, seen, skipped)


def _last_rows(read: _Read, snapshot: Snapshot, seen: ReadSet | None) -> PlannedScan:
    """The rows of a table with a key: of a snapshot, the segments that the wanted keys have ever gone to."""
    if read.fractions is not None:
        snapshot = parts_of_keys(read.client, snapshot, read.fractions)
    return read.planned_snapshot(snapshot, seen)


def _now(read: _Read) -> tuple[Snapshot, ReadSet]:
    """A table as it is at the query's moment, between the bounds of the read's options; and what is seen of it so."""
    definition, stream = read.definition, read.stream
    whole = read.request.moment.snapshot(read.client, stream, read.ledger, keyed=read.is_keyed)
    if whole.replaced_table != definition.replaced_table:
        raise TableChangedError(
            f'stream "{stream}" was made another table (version {whole.replaced_table}) after this query was '
            "planned: run it again"
        )
    check_same_stream(read.client, definition, [part.segment_id for part in whole.parts])
    seen = replace(ReadSet.of(whole, read.fractions), schema=schema_read(definition, read.request.planned))
    extent = read.request.position
    if not isinstance(extent, Extent):
        extent = resolve_extent(read.client, stream, read.options)
    elif not extent.is_of(_known_segments(read.client, whole, extent)):
        raise changed_table(stream, "it was dropped and made again, or all segments are gone that its bounds name")
    if (through := lake_between(read.client, whole, extent)) is not None:
        return through, seen
    bounded = bounded_snapshot(read.client, whole, extent, read.options)
    return behind_lake(bounded) if bounded is whole else bounded, seen


def _known_segments(client: Client, whole: Snapshot, extent: Extent) -> list[int]:
    """The segments that a stream has; of one with a lake those, too, that it had."""
    there = [part.segment_id for part in whole.parts]
    if whole.tiered is None:
        return there
    named = {segment for cut in (extent.start, extent.end) if isinstance(cut, StreamCut) for segment in cut}
    try:
        return [*there, *client.controller.segment_ranges(whole.stream, named)]
    except NotFoundError:
        return there


def _at(read: _Read, moment: Moment) -> Snapshot:
    """A table as it was at a moment of the past."""
    if read.options.has_bounds:
        raise ConfigurationError(
            f'version "{moment.name}" of stream "{read.stream}" says where this read ends, and it '
            "begins at the version's first row: give no start or end by an option, or read without AS OF"
        )
    return (rows_at if read.is_keyed else snapshot_until)(read.client, read.stream, moment)


@dataclass(frozen=True, kw_only=True)
class _Read:
    """What each kind of read begins with."""

    definition: TableDefinition
    """The table, as the read's options take it."""
    request: ScanRequest
    options: ReadOptions
    client: Client
    ledger: Ledger | None
    bounds: Bounds
    """Which events a query may want of a table without a key."""
    fractions: npt.NDArray[np.float64] | None
    """Where the wanted keys lie in the key space; None where that isn't known, or there is no key."""

    @classmethod
    def of(cls, definition: TableDefinition, request: ScanRequest) -> _Read:
        options = ReadOptions.of_table(reads_own(request.options), versions=definition.is_changes)
        if request.planned is not None:
            check_planned(definition.stream, request.planned, request.columns, all_columns(definition))
        definition = with_read_options(definition, request.columns, options.events)
        client, is_keyed = shared_client(definition.settings), definition.key is not None
        return cls(
            definition=definition,
            request=request,
            options=options,
            client=client,
            ledger=open_ledger(client, definition.stream),
            bounds=Bounds() if is_keyed else Bounds.of(request.predicates, definition.schema.fieldNames()),
            fractions=wanted_fractions(definition, request.predicates) if is_keyed else None,
        )

    @property
    def stream(self) -> Stream:
        return self.definition.stream

    @property
    def is_keyed(self) -> bool:
        return self.definition.key is not None

    def versions(self, wanted: ChangesRange) -> tuple[int, int]:
        """The first and the last version of a range, up to the query's moment where the range has no end."""
        if wanted.to_version is not None or self.ledger is None:
            return wanted.versions(self.ledger, self.stream)
        # The moment comes first: what is committed behind it isn't read, however soon.
        moment = self.request.moment.last_version(self.client, self.ledger)
        first, last = wanted.versions(self.ledger, self.stream)
        return first, min(last, moment)

    def planned_snapshot(self, snapshot: Snapshot, seen: ReadSet | None, skipped: int = 0) -> PlannedScan:
        """A read of what is in a snapshot, from which an index has saved some bytes."""
        reader = snapshot_reader(self.definition, snapshot, self.request.columns, self.options)
        parts = [part for part in snapshot.parts if part.size]
        if snapshot.base is not None and isinstance(reader, KeyedReader):
            base, predicates = snapshot.base, self.request.predicates
            reader.wanted = wanted_of_base(self.definition, base, predicates)
            newer = [part for part in behind_base(snapshot).parts if part.size]
            files = base_files(self.definition, base, reader.wanted)
            size = sum(file.size for file in files)
            return self.planned(reader, newer, seen, lake=(size, base.rows), files=[file.path for file in files])
        if snapshot.lake is None:
            return self.planned(reader, parts, seen, snapshot.counted, skipped=skipped)
        columns, predicates = self.request.columns, self.request.predicates
        whole, size = lake_reader(self.definition, reader, snapshot.lake, columns, predicates)
        lake = size, snapshot.lake.tiered.rows
        return self.planned(whole, parts, seen, snapshot.counted, lake=lake, files=whole.paths, skipped=skipped)

    def planned(
        self,
        reader: BatchReader | LakeReader,
        parts: Sequence[SegmentPart],
        seen: ReadSet | None = None,
        counted: tuple[int, int] | None = None,
        lake: tuple[int, int] = (0, 0),
        *,
        files: Sequence[str] = (),
        skipped: int = 0,
        of_table: bool = True,
    ) -> PlannedScan:
        """A read of some parts of segments, and of bytes and rows of files of the lake; not of the table's rows,
        perhaps."""
        if seen is None:
            check_same_stream(self.client, self.definition, [part.segment_id for part in parts])
        size, limit = sum(part.size for part in parts), self.request.limit
        rows = estimated_rows(size, self.ledger, counted)
        in_lake, rows_there = lake
        size, rows = size + in_lake, None if rows is None else rows + rows_there
        amount = Amount(size=size, rows=rows, skipped=skipped, is_part=self.fractions is not None)
        statistics = statistics_of(self.definition, self.ledger) if of_table else None
        about = estimate(self.definition, statistics, reader.schema, self.request.condition, amount)
        slices = len({part.segment_id for part in parts})
        reach = Reach(size=size, slices=slices, files=files, least=self.options.filter_size)
        # Without its offsets it isn't known of a batch whether a later event may be wanted.
        last = self.bounds.last if OFFSET in self.request.columns else MOST
        return PlannedScan(
            reader=reader if limit is None and last == MOST else EarlyEnd(reader, limit, last),
            schema=reader.schema,
            size=size,
            rows=about.rows,
            memory=about.memory,
            analyzed=about.analyzed,
            skipped=skipped,
            slices=slices,
            shared_memory=self.definition.settings.shared_memory,
            routing=fingerprint(self.definition),
            filters=filter_columns(self.definition, self.request.columns, reach),
            seen=seen,
        )


def check_read(definition: TableDefinition, options: Mapping[str, str]) -> Extent | None:
    """Refuse a read's options that are wrong, before it is planned, and settle where it begins and ends.

    Args:
        definition: what the stream is as a table.
        options: the read's options.

    Returns:
        None where there are no bounds, or only the query itself can tell what they mean.

    Raises:
        ConfigurationError: one is unknown or malformed, or means nothing in this stream, or two contradict each other.
        InvalidStreamCutError: a cut isn't one of the stream, or the end lies before the start.
    """
    read = ReadOptions.of_table(reads_own(options), versions=definition.is_changes)
    if changes_of(definition, read, None) is not None:
        return None
    check_bounds(definition, read)
    extents = resolve_extents(shared_client(definition.settings), [definition.stream], read)
    return next((extent for extent in extents if extent.is_final), None)


def count_rows(
    definition: TableDefinition,
    options: Mapping[str, str],
    moment: QueryMoment | None = None,
    position: Position | None = None,
    transaction: OpenTransaction | None = None,
) -> tuple[int, ReadSet | None] | None:
    """How many rows a table has, where that is known without reading it; and of which version.

    Args:
        definition: what the stream is as a table.
        options: the read's options.
        moment: when the query reads the table.
        position: which part of the table; None for all of it as it is now.
        transaction: the one that the query is in, if any.

    Returns:
        The version is None of what isn't the whole table as it is now, as of `PlannedScan`.

    Raises:
        ConfigurationError: an option is unknown or malformed.
    """
    given = canonical(reads_own(options), TABLE_READ_KEYS, "read option")
    bounds = BOUND_KEYS if definition.is_changes else BOUND_KEYS | VERSION_KEYS
    if (
        given.keys() & (bounds | {MODE, BAD_EVENTS})
        or definition.types is not None
        or definition.mode == DROP_MALFORMED
        or isinstance(position, Extent)
        or (transaction is not None and position is None and transaction.own(definition.stream) is not None)
    ):
        return None
    request = ScanRequest(columns=(), options=options, position=position, moment=moment or QueryMoment())
    if transaction is not None and position is None and (definition.is_changes or definition.is_log):
        # The scan says why not.
        return None
    read = _Read.of(definition, request)
    wanted = changes_of(definition, read.options, position)
    if (wanted is not None or position is not None) and read.is_keyed:
        return None
    if wanted is not None:
        first, last = read.versions(wanted)
        added = _added(read, first, last)
        rows = counted_changes([one.part for one in added.ranges], read.ledger, first, last)
        return None if rows is None or added.slices else (rows, None)
    if isinstance(position, Moment):
        past = _at(read, position)
        if past.lake is not None:
            rows = counted_with_lake(past, read.ledger, position.version)
            return None if rows is None else (rows, None)
        rows = counted_until(past, read.ledger, position.version)
        return None if rows is None else (rows, None)
    snapshot = request.moment.snapshot(read.client, read.stream, read.ledger, keyed=read.is_keyed)
    if snapshot.tiered is not None:
        rows = counted_with_lake(behind_lake(snapshot), read.ledger, snapshot.version)
        return None if rows is None else (rows, ReadSet.of(snapshot))
    rows = (counted_keys if read.is_keyed else counted_rows)(snapshot, read.ledger)
    return None if rows is None else (rows, ReadSet.of(snapshot))


def _added(read: _Read, first: int, last: int) -> Additions:
    """What versions have added."""
    return Additions() if read.ledger is None or first > last else added_between(read.client, read.ledger, first, last)
