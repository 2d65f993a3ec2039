"""What Spark's JVM and the catalog process hand each other: what `methods` take and return."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from pyspark_pravega.catalog.plans import ColumnFigures, PositionText
from pyspark_pravega.catalog.process.pickles import Text64


class Greeting(TypedDict):
    """What the process says when it starts, before it is asked anything."""

    metadata: str
    """The metadata columns of all tables, as Spark's JSON of a schema."""
    scope: str
    """The default namespace."""
    python: str
    """The version of Python, as `3.11`."""
    checkedOptions: list[str]
    """Read options, in all spellings, that are checked as soon as a table is looked up with them (`checkRead`). What it
    answers becomes the table's position."""


class Failure(TypedDict):
    """An error as the JVM takes it."""

    kind: str
    """Which of Spark's exceptions it is, or `other`."""
    condition: str
    sqlState: str
    message: str


class Piece(TypedDict):
    """A piece of the text of a long answer."""

    piece: str
    last: bool


class CheckConstraint(TypedDict):
    """A CHECK constraint."""

    name: str
    condition: str
    """As SQL."""
    enforced: bool


class Table(TypedDict):
    """A stream as a table."""

    schema: str
    """As Spark's JSON of a schema, with defaults of columns in their metadata."""
    checks: list[CheckConstraint]
    properties: dict[str, str]
    """Those that are known without asking for more; `tableProperties` tells all."""
    whole: NotRequired[bool]
    """Whether these are all."""
    stream: str
    id: str | None
    """Another one when the table is dropped and made again; None where that isn't known."""
    primaryKey: list[str]
    """The columns of its key; none for a table without."""
    rowId: list[str]
    """The columns that must be known of a row to delete it."""
    position: NotRequired[PositionText]
    """Which part of the stream is meant where not all of it is; opaque to the JVM."""
    metadata: NotRequired[str]
    """Its metadata columns, as Spark's JSON, where they aren't those of all tables (`Greeting.metadata`)."""
    staged: NotRequired[dict[str, Any]]
    """What becomes of a table with its rows; the JVM looks at its `kind` only."""


class MetadataTable(TypedDict):
    """Facts about a stream as rows: `orders$commits` and its like."""

    rows_of: str
    stream: str
    schema: str


class MetadataPage(TypedDict):
    """Some rows of such a table."""

    rows: list[list[Any]]
    next: int
    """Which page comes next, 0 when none does."""
    moment: str | None
    """As of `PlannedScan`."""


class View(TypedDict):
    """A view, as it is stored and as Spark made it."""

    query: str
    schema: str
    properties: dict[str, str]
    catalog: str | None
    current: list[str]
    configuration: dict[str, str]
    mode: str | None
    columns: list[str]


class Parameter(TypedDict):
    """A parameter of a procedure."""

    name: str
    type: str
    """As Spark's DDL."""
    comment: str
    default: str | None
    columns: bool
    """Whether the value is a list of columns as DDL, which travels as Spark's JSON of a schema."""
    condition: bool
    """Whether the value is a condition, which has to be one of SQL's."""


class Procedure(TypedDict):
    """A procedure, for Spark's analysis of CALL."""

    name: str
    description: str
    parameters: list[Parameter]


class ProcedureStatement(TypedDict):
    """What the session does for a procedure."""

    text: str
    kind: str
    """`run`; `fetch`, when `call_procedure` is told its rows; `check`, when it is only analysed; or `read`, when it is
    told all rows of `table`, whose name is the text."""
    table: NotRequired[Table]
    after: dict[str, Any]
    """What `call_procedure` is told when that is done; opaque to the JVM."""


class ProcedureResult(TypedDict):
    """What a procedure answers: rows, or what has to be done before it is asked again."""

    columns: NotRequired[str]
    """As Spark's DDL."""
    rows: NotRequired[list[list[Any]]]
    statement: NotRequired[ProcedureStatement]


class Analyzed(TypedDict):
    """What Spark estimates by itself what conditions leave, as of `plans.Analyzed`."""

    rows: int
    memory: int
    columns: dict[str, ColumnFigures]


class PlannedScan(TypedDict):
    """A batch read, as Spark's Python runner takes it."""

    function: Text64
    partitions: list[Text64]
    schema: str
    size: int
    """Bytes of events, frames included."""
    rows: int | None
    """About how many are wanted; None when there is nothing to tell by."""
    memory: int
    """About how many bytes the wanted columns of these are as Spark's rows."""
    analyzed: NotRequired[Analyzed]
    """Of a table with statistics."""
    segments: int
    """Number of segments that hold events."""
    seen: str | None
    """What it reads of the table, for `commit_write` of a statement that replaces the rows; None of a past moment."""
    extent: NotRequired[str]
    """What EXPLAIN says about it, where that isn't the number of segments and bytes."""
    skipped: int
    """Bytes of events that an index saves from being read."""
    sharedMemory: int
    """How many bytes a task shares with its Python worker at most; 0 for none."""
    routing: str
    """By what it is known where rows lie, for `narrow_scan`; opaque to the JVM."""
    filters: list[str]
    """The columns whose values leave out much of it when a join tells them."""
    moment: str | None
    """When it reads the table, for further calls of the query (`QueryMoment`); None where they know, or none is told.
    """
    beside: dict[str, str]
    """Likewise of other streams that the query reads, by their names, where they were asked for."""


class NarrowedScan(TypedDict):
    """What of a `PlannedScan` is left when a join's other side has told its values."""

    partitions: list[Text64]
    segments: int
    seen: str | None
    extent: NotRequired[str]
    """As of `PlannedScan`."""
    skipped: int
    """Bytes of events that this saves, by the table's index."""


class CountedRows(TypedDict):
    """How many rows a table has, as its commit log has counted them."""

    rows: int | None
    """None where they have to be counted."""
    seen: str | None
    """As of `PlannedScan`, as are the next ones."""
    moment: str | None
    beside: dict[str, str]


class OpenedStream(TypedDict):
    """A streaming read that has begun. Limits are those of its options; None where there is none."""

    function: Text64
    schema: str
    maxEvents: int | None
    maxBytes: int | None
    minEvents: int | None
    maxDelayMs: int
    sharedMemory: int
    """As of a `PlannedScan`."""


class Followed(TypedDict):
    """What one task of a real-time batch follows."""

    partition: Text64
    """Pickled."""
    start: dict[str, int]
    """Where it begins: segment id to offset in bytes."""


class OpenedRealTime(TypedDict):
    """A read that follows a stream."""

    function: Text64
    schema: str


class PlannedWrite(TypedDict):
    """A write that has been settled."""

    plan: Text64
    clusterBy: list[str]
    orderBy: str | None
    atOnce: bool
    """Whether rows are to be handed over one by one, as they come."""


class BegunWrite(TypedDict):
    """A write whose tasks may begin."""

    writer: Text64
    """What the write's end needs: to be handed back with each call about it."""
    function: Text64
    packed: bool
    """Whether the function expects rows as they lie in the JVM's memory."""
    job: str | None
    """Of a write that replaces or changes rows: its id in the table's commit log, for `has_job`."""


class ReadTable(TypedDict):
    """What a statement has read of a table."""

    stream: str
    seen: str
    """As of `PlannedScan`."""


class BegunTransaction(TypedDict):
    """A transaction that takes statements."""

    transaction: str
    """Its id, which goes with each of them."""


class PreparedTransaction(TypedDict):
    """A transaction that is to be committed."""

    prepared: Text64
    tables: list[str]
    """The tables that it has written to, by their names in SQL without the catalog."""


class CommittedTransaction(TypedDict):
    """What has become of a transaction."""

    repeated: bool
    """Whether it was a batch that had been committed before: then it has changed nothing."""


class CommitReport(TypedDict):
    """What a commit came to."""

    rows: int
    bytes: int
    transactions: int
    milliseconds: int
    repeated: bool
