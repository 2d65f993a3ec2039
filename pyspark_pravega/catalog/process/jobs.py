"""Scans and writes that Spark's JVM asks for: planned here, run by Spark's Python workers, committed here."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import BinaryType, StructField, StructType

from pyspark_pravega.catalog.process.arrival import sealed
from pyspark_pravega.catalog.process.compactions import Compactions
from pyspark_pravega.catalog.process.moments import QueryMoment
from pyspark_pravega.catalog.process.pickles import pickle, pickled_read, unpickle
from pyspark_pravega.catalog.pushdown import (
    MOST,
    Bounds,
    EarlyEnd,
    counted_rows,
    estimated_rows,
    narrowed,
    wanted_fractions,
)
from pyspark_pravega.connector.key_value import KeyValueJob, KeyValuePlan
from pyspark_pravega.connector.log import offsets_of, open_ledger
from pyspark_pravega.connector.options import (
    BAD_EVENTS,
    BOUND_KEYS,
    CATALOG_WRITE_KEYS,
    EXACTLY_ONCE,
    KEPT_LEASE_MS,
    MODE,
    TABLE_READ_KEYS,
    ReadOptions,
    WriteOptions,
    canonical,
    reads_own,
)
from pyspark_pravega.connector.read import (
    CHANGE_COLUMNS,
    ChangesRange,
    ChangesReader,
    Moment,
    RowChangesReader,
    bounded_snapshot,
    check_bounds,
    check_extents,
    committed_ranges,
    parts_of_keys,
    row_changes,
    rows_at,
    snapshot_reader,
    snapshot_until,
)
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.stream import check_no_bounds
from pyspark_pravega.connector.table import TableDefinition, check_planned, check_same_stream, schema_read
from pyspark_pravega.connector.write import (
    REAL_TIME,
    CommitReport,
    DeltaJob,
    Epoch,
    OverwritingJob,
    ReadingJob,
    Seen,
    StagedTable,
    WriteJob,
    WritePlan,
    can_unpack,
    check_rows,
    check_trigger,
    unpack,
    with_dead_letters,
)
from pyspark_pravega.errors import ConfigurationError, TableChangedError
from pyspark_pravega.serde.lenient import DROP_MALFORMED, PERMISSIVE

_WRITE_RESULT = StructType([StructField("message", BinaryType(), True)])


@dataclass(frozen=True, kw_only=True)
class PlannedScan:
    """A read as Spark's Python runner takes it."""

    function: bytes
    """The pickled read function."""
    partitions: tuple[bytes, ...]
    """The pickled partitions; at least one."""
    schema: StructType
    """What the batches hold."""
    size: int
    """Bytes of events, frames included."""
    rows: int | None
    """About how many rows that is; None when there's nothing to tell by."""
    slices: int
    """Number of segments that hold events."""
    shared_memory: int
    """How many bytes a task shares with its worker at most; 0 for none."""
    seen: Seen | None = None
    """What a statement that replaces the table's rows has read of it; None where it has read a moment of the past."""


@dataclass(frozen=True, kw_only=True)
class PlannedWrite:
    """A write that has been settled."""

    plan: bytes
    """The pickled plan."""
    cluster_by: tuple[str, ...]
    """Rows with the same values in these columns are to come to one task."""
    order_by: str | None
    """The column with their event times, by which each task is to have them in order then."""
    at_once: bool
    """Whether rows are to be handed over one by one, as they come."""


@dataclass(frozen=True, kw_only=True)
class BegunWrite:
    """A write as Spark's Python runner takes it."""

    writer: bytes
    """The pickled writer, which commits or aborts, in this process or another one."""
    function: bytes
    """The pickled write function."""
    packed: bool
    """Whether it expects packed rows."""
    job: str | None
    """Under which the commit log of the written table knows the write; None where it doesn't."""


@dataclass(frozen=True, kw_only=True)
class ScanRequest:
    """What a query wants of a table."""

    columns: Sequence[str]
    """The wanted columns; none for rows only."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The read's options."""
    position: Mapping[str, Any] | None = None
    """Which part of the stream: `{"offsets": ..., "name": ...}` up to a moment, `{"changes": ...}` what
    versions have added (`ChangesRange`); None for all of it as it is now."""
    predicates: Sequence[Mapping[str, Any]] = ()
    """See `Bounds.of`."""
    limit: int | None = None
    """Rows that are enough."""
    planned: StructType | None = None
    """The table's columns as the query was planned with them; None where nothing was planned before."""
    moment: QueryMoment = field(default_factory=QueryMoment)
    """When the query reads the table, where the position doesn't say that."""


def plan_scan(definition: TableDefinition, request: ScanRequest) -> PlannedScan:
    """Plan a read.

    Args:
        definition: what the stream is as a table.
        request: what is wanted.

    Raises:
        ConfigurationError: an option is unknown or malformed.
        TableChangedError: the table isn't any more what the query was planned with.
    """
    given = canonical(reads_own(request.options), TABLE_READ_KEYS, "read option")
    definition = _as_asked(definition, request, given)
    client, stream = shared_client(definition.settings), definition.stream
    between, own_columns = ReadOptions.parse(given), definition.schema.fieldNames()
    ledger = open_ledger(client, stream)
    reader: DataSourceReader
    seen = None
    fractions = None if definition.key is None else wanted_fractions(definition, request.predicates)
    if request.position is not None and "changes" in request.position:
        check_no_bounds(between)
        wanted = ChangesRange.of(request.position["changes"])
        first, last = wanted.versions(ledger, stream)
        if wanted.to_version is None and ledger is not None:
            last = min(last, request.moment.last_version(client, ledger))
        if definition.key is not None:
            assert ledger is not None
            changes = row_changes(client, ledger, first, last)
            reader = RowChangesReader(definition, changes, request.columns, max_keys=between.max_keys)
            slices = [] if changes is None else [one.part for one in changes.ranges]
        else:
            committed = committed_ranges(client, ledger, first, last) if ledger is not None and first <= last else []
            reader = ChangesReader(definition, committed, request.columns)
            slices = [one.part for one in committed]
    else:
        if request.position is not None:
            if between.has_bounds:
                raise ConfigurationError(
                    f'version "{request.position["name"]}" of stream "{stream}" says where this read ends, and it '
                    "begins at the version's first row: give no start or end by an option, or read without AS OF"
                )
            moment = Moment(**{**request.position, "offsets": offsets_of(request.position["offsets"])})
            snapshot = (snapshot_until if definition.key is None else rows_at)(client, stream, moment)
        else:
            whole = request.moment.snapshot(client, stream, ledger, keyed=definition.key is not None)
            if whole.replaced_table != definition.replaced_table:
                raise TableChangedError(
                    f'stream "{stream}" was made another table (version {whole.replaced_table}) after this query was '
                    "planned: run it again"
                )
            check_same_stream(client, definition, [part.segment_id for part in whole.parts])
            seen = replace(Seen.of(whole, fractions), schema=schema_read(definition, request.planned))
            snapshot = bounded_snapshot(client, whole, between)
        bounds = Bounds() if definition.key is not None else Bounds.of(request.predicates, own_columns)
        snapshot = narrowed(snapshot, bounds, ledger)
        if fractions is not None:
            snapshot = parts_of_keys(client, snapshot, fractions)
        reader = snapshot_reader(definition, snapshot, request.columns, between)
        slices = [part for part in snapshot.parts if part.size]
    if seen is None:
        check_same_stream(client, definition, [part.segment_id for part in slices])
    size = sum(part.size for part in slices)
    in_order = "_offset" in request.columns and definition.key is None
    last_offset = Bounds.of(request.predicates, own_columns).last if in_order else None
    planned: DataSourceReader = reader
    if request.limit is not None or last_offset is not None:
        planned = EarlyEnd(reader, request.limit, MOST if last_offset is None else last_offset)
    function, partitions = pickled_read(planned, reader.schema)
    return PlannedScan(
        function=function,
        partitions=tuple(partitions),
        schema=reader.schema,
        size=size,
        rows=estimated_rows(size, ledger),
        slices=len(slices),
        seen=seen,
        shared_memory=definition.settings.shared_memory,
    )


def _as_asked(definition: TableDefinition, request: ScanRequest, given: Mapping[str, str]) -> TableDefinition:
    """A table as a read's options take it, once that is the one that the query was planned with."""
    if request.planned is not None:
        check_planned(definition.stream, request.planned, request.columns, all_columns(definition))
    if MODE in given:
        definition = in_mode(definition, given[MODE], request.columns)
    if BAD_EVENTS in given:
        definition = with_dead_letters(definition, given[BAD_EVENTS], given.get(MODE))
    return definition


def all_columns(definition: TableDefinition) -> StructType:
    """A table's columns with those of CHANGES, its own last: they are stronger than others of their names.

    Args:
        definition: what the stream is as a table.
    """
    return StructType([*CHANGE_COLUMNS, *definition.schema])


def check_read(definition: TableDefinition, options: Mapping[str, str]) -> None:
    """Refuse a read's options that are wrong, before it is planned.

    Args:
        definition: what the stream is as a table.
        options: the read's options.

    Raises:
        ConfigurationError: one is unknown or malformed, or means nothing in this stream, or two contradict each other.
        InvalidStreamCutError: a cut isn't one of the stream, or the end lies before the start.
    """
    read = ReadOptions.parse(canonical(options, TABLE_READ_KEYS, "read option"))
    check_bounds(definition, read)
    check_extents(shared_client(definition.settings), [definition.stream], read)


def count_rows(
    definition: TableDefinition, options: Mapping[str, str], moment: QueryMoment | None = None
) -> tuple[int, Seen] | None:
    """How many rows a table has, where that is known without reading it; and of which version.

    Args:
        definition: what the stream is as a table.
        options: the read's options.
        moment: when the query reads the table.

    Raises:
        ConfigurationError: an option is unknown or malformed.
    """
    given = canonical(reads_own(options), TABLE_READ_KEYS, "read option")
    if (
        given.keys() & (BOUND_KEYS | {MODE, BAD_EVENTS})
        or definition.types is not None
        or definition.mode == DROP_MALFORMED
    ):
        return None
    if definition.key is not None:
        # The commit log has counted events.
        return None
    client, stream = shared_client(definition.settings), definition.stream
    ledger = open_ledger(client, stream)
    snapshot = (moment or QueryMoment()).snapshot(client, stream, ledger, keyed=False)
    rows = counted_rows(snapshot, ledger)
    return None if rows is None else (rows, Seen.of(snapshot))


def merges_schema(options: Mapping[str, str]) -> bool:
    """Whether a write may add its rows' columns to the table.

    Args:
        options: the write's options.

    Raises:
        ConfigurationError: an option is unknown or malformed.
    """
    return WriteOptions.parse(options, known=CATALOG_WRITE_KEYS).merge_schema


def plan_write(
    definition: TableDefinition,
    options: Mapping[str, str],
    trigger: str | None = None,
    *,
    checks: Sequence[str] | None = None,
    rows: StructType | None = None,
    case_sensitive: bool = False,
    staged: StagedTable | None = None,
) -> PlannedWrite:
    """Settle a write, before Spark plans its query.

    Args:
        definition: what the stream is as a table.
        options: the write's options.
        trigger: of a streaming query, where it isn't one of micro-batches; see `check_trigger`.
        checks: see `WritePlan.of`.
        rows: the columns of a streaming query's rows, which Spark doesn't hold against the table's; else None.
        case_sensitive: whether names of theirs that differ from the table's in case are different ones.
        staged: what the table is to become with the rows, if that is something else.

    Raises:
        ConfigurationError: an option is unknown, malformed, or contradicts others.
        UnsupportedOperationError: the trigger can't be had with them.
        EventEncodeError: the rows' columns aren't the table's.
    """
    parsed = WriteOptions.parse(options, known=CATALOG_WRITE_KEYS, lease_ms=KEPT_LEASE_MS)
    plan = replace(WritePlan.of(definition, parsed, checks=checks, staged=staged), at_once=trigger == REAL_TIME)
    check_trigger(plan, trigger)
    if rows is not None:
        check_rows(plan, rows, definition.schema, case_sensitive=case_sensitive)
    return PlannedWrite(plan=pickle(plan), cluster_by=plan.cluster_by, order_by=plan.event_time, at_once=plan.at_once)


class WriteJobs:
    """Keeps the transactions of writes open until they end. Safe for use by several threads.

    Nothing of a write is known only here: the JVM holds the writer, so that another process can go on with it.
    """

    def __init__(self) -> None:
        self._running: dict[uuid.UUID, ExitStack] = {}
        self._compactions = Compactions()

    def begin(
        self,
        plan: bytes,
        partitions: int,
        *,
        packed: StructType | None = None,
        kind: type[WriteJob] = WriteJob,
    ) -> BegunWrite:
        """Begin a write, or a micro-batch of a streaming query, and keep its transactions open from now on.

        Args:
            plan: what `plan_write` returned.
            partitions: how many partitions the write has.
            packed: the columns of the rows, where the JVM can hand them over as they lie in its memory.
            kind: what becomes of the rows that are there.

        Raises:
            UnsupportedOperationError: it can't be done in this writer mode.
        """
        settled = unpickle(plan)
        job: WriteJob | KeyValueJob
        if isinstance(settled, KeyValuePlan):
            changes, overwrite = issubclass(kind, DeltaJob), issubclass(kind, OverwritingJob)
            job = KeyValueJob(settled, partitions, changes=changes, overwrite=overwrite)
        else:
            job = kind(settled)
        unpacked = packed if packed is not None and can_unpack(packed) else None

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            message = pickle(job.write_task(batches if unpacked is None else unpack(batches, unpacked)))
            yield pa.record_batch([pa.array([message], pa.binary())], names=["message"])

        function = sealed(pickle((write, _WRITE_RESULT)))
        noted = str(job.job) if isinstance(job, ReadingJob) else None
        begun = BegunWrite(writer=pickle(job), function=function, packed=unpacked is not None, job=noted)
        self._keep_alive(job, partitions)
        return begun

    def resume(self, writer: bytes, partitions: int) -> None:
        """Keep the transactions of a write open that another process has begun.

        Args:
            writer: what `begin` returned.
            partitions: how many partitions the write has.
        """
        self._keep_alive(unpickle(writer), partitions)

    def _keep_alive(self, job: WriteJob | KeyValueJob, partitions: int) -> None:
        if isinstance(job, KeyValueJob) or job.plan.mode != EXACTLY_ONCE:
            return
        running = self._running[job.job] = ExitStack()
        running.enter_context(job.kept_alive(partitions))

    def commit(
        self,
        writer: bytes,
        messages: Sequence[bytes | None],
        epoch: Epoch | None = None,
        seen: Sequence[Seen] = (),
    ) -> CommitReport:
        """Make a write visible. Doing it again is harmless.

        Args:
            writer: what `begin` returned.
            messages: the pickled messages of the tasks that count.
            epoch: the streaming query's micro-batch that it is.
            seen: where rows are replaced or changed, what the statement has read of them.

        Raises:
            TransactionError: a transaction was lost, or another driver has taken the query over; nothing is visible.
            WriteConflictError: what is to be replaced isn't what the statement has read; nothing is visible.
        """
        job: WriteJob | KeyValueJob = unpickle(writer)
        unpickled = [None if message is None else unpickle(message) for message in messages]
        if isinstance(job, KeyValueJob):
            return job.commit_job(unpickled)
        # From here on the commit itself keeps them open.
        self._stop(job)
        if isinstance(job, ReadingJob):
            report = job.commit_job(unpickled, epoch, seen)
        else:
            report = job.commit_job(unpickled, epoch)
        self._compactions.consider(job.plan)
        return report

    def forget(self, writer: bytes) -> None:
        """Let the commit log forget that a write was committed: the JVM has the answer.

        Args:
            writer: what `begin` returned.
        """
        job: WriteJob | KeyValueJob = unpickle(writer)
        if not isinstance(job, KeyValueJob):
            job.forget_commit()

    def abort(self, writer: bytes, messages: Sequence[bytes | None]) -> None:
        """Throw a write away.

        Args:
            writer: what `begin` returned.
            messages: the pickled messages of its tasks; None where one has failed.
        """
        job: WriteJob | KeyValueJob = unpickle(writer)
        if not isinstance(job, KeyValueJob):
            self._stop(job)
        job.abort_job([None if message is None else unpickle(message) for message in messages])

    def _stop(self, job: WriteJob) -> None:
        running = self._running.pop(job.job, None)
        if running is not None:
            running.close()


def in_mode(definition: TableDefinition, mode: str, columns: Sequence[str]) -> TableDefinition:
    """A table as a read with the option `mode` takes it.

    Args:
        definition: what the stream is as a table.
        mode: one of `serde.lenient.MODES`.
        columns: the wanted columns.

    Raises:
        ConfigurationError: there is no such mode, or columns that can't be null would have to be.
    """
    definition_in_mode = definition.with_mode(mode)
    # Spark has taken the table's columns for what they were before it told the option.
    strict = [f.name for f in definition.schema if not f.nullable and f.name in columns]
    if strict and definition_in_mode.mode == PERMISSIVE:
        raise ConfigurationError(
            f"mode permissive puts nulls into the columns of events that can't be decoded, and {', '.join(strict)} of "
            f'stream "{definition.stream}" can\'t be null: make "mode" a property of the table, or read with '
            'spark.read.format("pravega")'
        )
    return definition_in_mode
