"""What a write does, settled once from the table and the write's options, and taken along to the tasks."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.names import SegmentRange
from pyspark_pravega.connector.index import IndexedColumn
from pyspark_pravega.connector.log import Progress, Replacement
from pyspark_pravega.connector.option_names import (
    CLUSTER_BY_KEY,
    EVENT_TIME,
    EXACTLY_ONCE,
    MERGE_SCHEMA,
    QUERY,
    ROUTING_KEY,
    SERIALIZABLE,
    shown,
)
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TRUNCATE_LATER, TableDefinition, check_enforced, indexed_columns
from pyspark_pravega.connector.write.routing import Routing
from pyspark_pravega.declared import unreadable
from pyspark_pravega.errors import (
    ConfigurationError,
    DataLossError,
    EventEncodeError,
    InvalidNameError,
    NotFoundError,
    QueryTakenOverError,
    StreamSealedError,
    TableChangedError,
    UnsupportedOperationError,
    UnsupportedTypeError,
    did_you_mean,
)
from pyspark_pravega.serde.codec import Codec
from pyspark_pravega.serde.formats import RAW, STRING
from pyspark_pravega.serde.raw import KEY_COLUMN
from pyspark_pravega.serde.types import StoredForm, arrow_safe, same_names
from pyspark_pravega.settings import Settings
from pyspark_pravega.spark.arrow import NoArrowTypeError, to_arrow_schema
from pyspark_pravega.spark.types import (
    ArrayType,
    DataType,
    DateType,
    LongType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from pyspark_pravega.together import together

WRITER = "pyspark-pravega"
"""Under this name writes that aren't a streaming query's tell their event time: they are all one writer, so that none
of them, once over, holds the stream's watermark back."""
REAL_TIME, CONTINUOUS = "real-time", "continuous"
"""The triggers that run no micro-batches with fixed ends."""
_TIMES: tuple[type[DataType], ...] = (TimestampType, TimestampNTZType, DateType, LongType)


@dataclass(frozen=True, kw_only=True)
class StagedTable:
    """What a table is to become together with its rows. It can be pickled."""

    id: str
    """What identifies the statement."""
    properties: dict[str, str]
    """The table's properties."""
    stream: dict[str, Any]
    """What the registry and the controller are to be told afterwards."""

    def replacement(self, begins: Mapping[int, int]) -> Replacement:
        """As the commit log notes it.

        Args:
            begins: the stream cut at which the new rows begin: segment id to offset in bytes.
        """
        return Replacement(begins=dict(begins), id=self.id, properties=self.properties, stream=self.stream)


@dataclass(frozen=True, kw_only=True)
class Numbering:
    """By what a real-time query's rows are numbered. It can be pickled."""

    query: str
    sources: tuple[Stream, ...]
    """What the query reads, in the order of their names."""
    indexed: tuple[Stream, ...]
    """Those of whose events several rows are made."""
    key: str
    """How rows get their routing keys, of which columns of the sources, and of which of them several are made of one
    event: it must stay so."""
    coordinates: tuple[str, ...]
    """The rows' columns that only tell of which event a row is. They aren't written."""

    def writer_id(self, source: Stream, segment_id: int) -> uuid.UUID:
        """Under which id the rows of events of a segment of a source are written.

        Args:
            source: one of the sources.
            segment_id: the segment.
        """
        return uuid.uuid5(uuid.UUID(self.query), f"{source}/{segment_id}")


@dataclass(frozen=True, kw_only=True)
class WritePlan:
    """How rows become events of a stream. It can be pickled."""

    settings: Settings
    stream: Stream
    codec: Codec
    form: StoredForm
    """In which values are kept, whichever way they come."""
    routing: Routing | None
    mode: str
    """One of `options.WRITER_MODES`."""
    lease_ms: int
    event_time: str | None
    """The column with the events' times."""
    cluster_by: tuple[str, ...]
    """Rows with the same values in these columns are to be written by one task."""
    query: str | None
    epoch: int | None
    isolation: str = SERIALIZABLE
    """One of `options.ISOLATION_LEVELS`."""
    compact_when: int | None = None
    """After how many bytes of events since the last compaction a commit starts one; None for never."""
    segment_id: int
    """A segment that the stream had: a stream that was dropped and made again never has it."""
    replaced_table: int = 0
    """The version that made the table what the plan takes it for, `State.replaced_table`."""
    added_checks: int = 0
    """How many CHECK constraints and changes of the key the plan knows of, `State.added_checks`."""
    staged: StagedTable | None = None
    """What the table becomes with these rows."""
    at_once: bool = False
    """Whether rows are sent as they come, instead of being collected to blocks."""
    index: tuple[IndexedColumn, ...] = ()
    """The columns of whose values the commit keeps figures."""
    numbering: Numbering | None = None
    """How rows are written exactly once that are sent as they come; None for all others."""

    @property
    def transacts(self) -> bool:
        """Whether rows are written in transactions."""
        return self.mode == EXACTLY_ONCE and self.numbering is None

    @classmethod
    def of(
        cls,
        definition: TableDefinition,
        options: WriteOptions,
        *,
        checks: Collection[str] | None = None,
        staged: StagedTable | None = None,
    ) -> WritePlan:
        """Settle a write.

        Args:
            definition: what the stream is as a table.
            options: what is stronger than the table's properties.
            checks: the names of the CHECK constraints that Spark checks the rows against; None where it does no such
                thing.
            staged: what the table is to become with these rows, if that is something else.

        Raises:
            UnsupportedOperationError: no engine would check the rows against the table's constraints.
            TableChangedError: a constraint was added after the write was analysed.
            ConfigurationError: options contradict each other, or the table.
            InvalidNameError: a column isn't there.
            UnsupportedTypeError: the event time's column has no times.
            StreamSealedError: nothing can be written to it any more.
        """
        properties = definition.properties
        # Those that can't be read are refused: rows without values in their columns get them from Spark.
        _ = properties.defaults
        check_enforced(properties.checks, checks, definition.stream)
        routing = _routing(definition, options)
        mode = options.writer_mode or properties.writer_mode
        cluster = options.cluster_by_key
        if cluster is None:
            cluster = properties.cluster_by_key
        if cluster and (routing is None or not routing.columns):
            raise ConfigurationError(
                f'"{CLUSTER_BY_KEY}" brings the rows of a routing key together: stream "{definition.stream}" needs '
                "routing-key with a column for that"
            )
        time = properties.event_time if options.event_time is None else options.event_time
        if mode != EXACTLY_ONCE:
            _check_direct(definition, options, mode)
            time = None
        codec, segment_id = together(definition.for_writing, lambda: _a_segment(definition))
        return cls(
            settings=definition.settings,
            stream=definition.stream,
            codec=codec,
            form=StoredForm(definition.schema),
            routing=routing,
            mode=mode,
            lease_ms=options.transaction_timeout_ms,
            event_time=None if time is None else _event_time(definition, options, time),
            cluster_by=routing.columns if cluster and routing is not None else (),
            query=options.query,
            epoch=options.epoch,
            isolation=options.isolation_level or properties.isolation_level,
            compact_when=properties.compact_when,
            index=indexed_columns(definition) if mode == EXACTLY_ONCE else (),
            segment_id=segment_id,
            replaced_table=definition.replaced_table,
            added_checks=definition.added_checks,
            staged=staged,
        )


def _routing(definition: TableDefinition, options: WriteOptions) -> Routing | None:
    """How the events' routing keys are made: as the options say, else as the table does."""
    columns, own, given = definition.schema.fieldNames(), definition.routing_key, options.routing_key
    if definition.key is not None and given not in (None, own):
        raise ConfigurationError(
            f'stream "{definition.stream}" has a primary key ({", ".join(definition.key.columns)}), of which its '
            f'routing keys are made: leave the option "{shown(ROUTING_KEY)}" out'
        )
    if given is None:
        if KEY_COLUMN in columns and definition.format in (RAW, STRING):
            return Routing(columns=(KEY_COLUMN,), texts=("", ""), scatters=True)
        if own is None:
            return None
        try:
            return Routing.parse(own, columns, plain=definition.properties.has_plain_texts)
        except InvalidNameError as error:
            raise unreadable(f'stream "{definition.stream}"', ROUTING_KEY, own, error) from None
    routing = Routing.parse(given, columns)
    routing.check_types(definition.schema)
    # In another spelling it is still the table's own, with the table's texts.
    return replace(routing, plain=own not in (given, str(routing)) or definition.properties.has_plain_texts)


def _event_time(definition: TableDefinition, options: WriteOptions, name: str) -> str:
    """The column of the event time, as the options name it, else the table."""
    try:
        return time_column(definition.schema, name)
    except (InvalidNameError, UnsupportedTypeError) as error:
        if options.event_time is not None:
            raise
        raise unreadable(f'stream "{definition.stream}"', EVENT_TIME, name, error) from None


def _check_direct(definition: TableDefinition, options: WriteOptions, mode: str) -> None:
    """Refuse what needs a commit, in a writer mode that has none."""
    if options.query is not None:
        raise ConfigurationError(f'option "{QUERY}" is for writer mode exactly-once, not for {mode}')
    if options.event_time is not None:
        raise ConfigurationError(f'"{EVENT_TIME}" is told with a commit: it needs writer mode exactly-once')
    if definition.properties.truncates_later:
        raise ConfigurationError(
            f'stream "{definition.stream}" can\'t be written in mode {mode}: by its property "{TRUNCATE_LATER}" a '
            "TRUNCATE TABLE takes effect with a later commit, and would remove such rows, too; write exactly-once"
        )


def _a_segment(definition: TableDefinition) -> int:
    """A segment of the stream that the definition is of, whatever stream of its name is there by now."""
    client, segment_ids = shared_client(definition.settings), definition.segments
    if segment_ids is None:
        segment_ids = tuple(client.controller.current_segments(definition.stream).ids)
    if not segment_ids:
        raise StreamSealedError(
            f'stream "{definition.stream}" is sealed: it can be read and dropped, and nothing can be written to it; a '
            "DROP TABLE that was interrupted leaves it so, and can be run again"
        )
    # Tasks are told where it is.
    client.pool.by_segment_store(definition.stream, segment_ids)
    return min(segment_ids)


def check_trigger(plan: WritePlan, trigger: str | None) -> None:
    """Refuse a streaming query's trigger with which rows would be lost.

    Args:
        plan: how the query writes.
        trigger: `REAL_TIME` or `CONTINUOUS`; None for all others.

    Raises:
        UnsupportedOperationError: it is one of those.
    """
    if trigger == CONTINUOUS:
        raise UnsupportedOperationError(
            f'stream "{plan.stream}" can\'t be written by a query with the continuous trigger, in which Spark repeats '
            "no task: use trigger(processingTime=...) or trigger(availableNow=True)"
        )
    if trigger == REAL_TIME and plan.cluster_by:
        raise UnsupportedOperationError(
            f'"{CLUSTER_BY_KEY}" has the rows for stream "{plan.stream}" change their tasks, which a query with the '
            f'real-time trigger does without: add option("{shown(CLUSTER_BY_KEY)}", "false")'
        )


def check_rows(plan: WritePlan, rows: StructType, columns: StructType, *, case_sensitive: bool = False) -> None:
    """Refuse rows that can't be written, before any of them is there.

    Args:
        plan: how they are to be written.
        rows: their columns.
        columns: the table's.
        case_sensitive: whether names that differ in case are different ones.

    Raises:
        EventEncodeError: a column is missing, unknown, or of another type.
    """
    try:
        schema = to_arrow_schema(arrow_safe(rows), timezone="UTC")
    except NoArrowTypeError:
        # Spark says so itself, when it makes Arrow batches of them.
        return
    try:
        if case_sensitive:
            check_case(rows, columns)
        plan.codec.encode(plan.form.of(pa.RecordBatch.from_pylist([], schema=schema)))
    except EventEncodeError as error:
        hint = ""
        if None in same_names(schema.names, columns.fieldNames()):
            hint = f'; option("{MERGE_SCHEMA}", "true") adds new columns to the table'
        message = f"the query's rows can't be written to stream \"{plan.stream}\": {error}{hint}"
        raise EventEncodeError(message) from None


def check_case(rows: DataType, columns: DataType, path: str = "") -> None:
    """Refuse rows with names that differ from the table's in case, which is for sessions that tell these apart.

    Args:
        rows: the rows' columns, or the type of one of them.
        columns: the table's, likewise.
        path: the column's name, for messages.

    Raises:
        EventEncodeError: one has such a name.
    """
    if isinstance(rows, ArrayType) and isinstance(columns, ArrayType):
        check_case(rows.elementType, columns.elementType, f"{path}.element")
    elif isinstance(rows, MapType) and isinstance(columns, MapType):
        check_case(rows.keyType, columns.keyType, f"{path}.key")
        check_case(rows.valueType, columns.valueType, f"{path}.value")
    elif isinstance(rows, StructType) and isinstance(columns, StructType):
        before = f"{path}." if path else ""
        for name, meant in zip(rows.fieldNames(), same_names(rows.fieldNames(), columns.fieldNames()), strict=True):
            if meant is not None and meant != name:
                raise EventEncodeError(
                    f'the rows have "{before}{name}", and the table "{before}{meant}", which are different names as '
                    "spark.sql.caseSensitive is true: name it as the table does"
                )
            if meant is not None:
                check_case(rows[name].dataType, columns[name].dataType, before + name)


def time_column(schema: StructType, name: str) -> str:
    """The column that an event time names.

    Args:
        schema: the table's columns.
        name: as it was given.

    Raises:
        InvalidNameError: there is no such column.
        UnsupportedTypeError: it has no times.
    """
    columns = [field for field in schema if field.name.lower() == name.lower()]
    if not columns:
        raise InvalidNameError(f'"{EVENT_TIME}": "{name}" is not a column{did_you_mean(name, schema.fieldNames())}')
    if not isinstance(columns[0].dataType, _TIMES):
        raise UnsupportedTypeError(
            f'"{EVENT_TIME}": column "{columns[0].name}" of type {columns[0].dataType.simpleString()} has no times: '
            "take a timestamp, a date, or a bigint in whatever unit"
        )
    return str(columns[0].name)


def check_stream(client: Client, plan: WritePlan) -> tuple[SegmentRange, ...]:
    """Refuse to write to a stream that isn't the one that a write was planned for.

    Args:
        client: the cluster.
        plan: the write.

    Returns:
        The segments that take events now, ordered by key range; none of a sealed stream.

    Raises:
        TableChangedError: it was dropped, and perhaps made again.
    """
    try:
        current = client.controller.current_segments(plan.stream)
        # A stream that is made again goes on counting segments.
        if plan.segment_id not in current.ids:
            client.controller.segment_ranges(plan.stream, [plan.segment_id])
        return current.ranges
    except NotFoundError:
        again = " and made again" if client.controller.stream_exists(plan.stream) else ""
        raise TableChangedError(
            f'stream "{plan.stream}" was dropped{again} after this write was planned: nothing was written; run the '
            "statement again, start the query anew"
        ) from None


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """A streaming query's micro-batch, or whatever else is to be written once."""

    query: str
    number: int
    run: str | None = None
    """The driver, where there may only be one; None where the number alone decides."""
    offsets: str | None = None
    """What tells where the micro-batch ends in the query's sources; None where that isn't known."""

    def is_done(self, progress: Progress, stream: Stream) -> bool:
        """Whether it was committed before.

        Args:
            progress: how far the query has come in the stream.
            stream: the stream.

        Raises:
            DataLossError: another micro-batch was committed under its number, so its rows would be thrown away.
        """
        if progress.epoch < self.number:
            return False
        repeated = progress.epoch == self.number and progress.offsets in (None, self.offsets)
        if self.offsets is not None and not repeated:
            raise DataLossError(
                f'streaming query {self.query} has written epoch {progress.epoch} to stream "{stream}" before, and '
                f"its checkpoint comes with epoch {self.number} and other rows, which would be taken for written: the "
                "checkpoint is older than what was written, as one that was restored from a backup. Use the newest "
                "checkpoint; or a new one, with options that say where to begin"
            )
        return True


def fenced(plan: WritePlan, query: str) -> QueryTakenOverError:
    """The error of a driver whose query another driver has taken over.

    Args:
        plan: what it writes.
        query: the query.
    """
    what = ", and nothing of its epoch was written" if plan.numbering is None else ""
    return QueryTakenOverError(
        f'another driver has taken over streaming query {query}, which writes to stream "{plan.stream}": this one '
        f"stops{what}. Only one driver may run from a checkpoint at a time"
    )


def check_not_numbered(plan: WritePlan, progress: Progress) -> None:
    """Refuse to write micro-batches exactly once of a query that has numbered its rows.

    Args:
        plan: what it writes.
        progress: how far the query has come.

    Raises:
        UnsupportedOperationError: it has: what it wrote behind its last batch would come twice.
    """
    if progress.numbered is not None:
        raise UnsupportedOperationError(
            f'streaming query {progress.query} has written to stream "{plan.stream}" in real time, exactly once, and '
            "its last batch has no end that micro-batches could begin at: go on with the real-time trigger, or begin a "
            "new checkpoint, with options that say where to begin"
        )
