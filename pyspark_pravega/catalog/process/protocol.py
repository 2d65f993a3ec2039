"""What Spark's JVM and the catalog process say to each other: each method, its arguments and its result, once.

A request is `{"id": n, "method": "planScan", "params": {...}}`, its answer `{"id": n, "result": ...}` or
`{"id": n, "error": {"kind": ..., "condition": ..., "message": ...}}`. A long answer comes as several documents
`{"id": n, "piece": ..., "last": ...}`, whose pieces together are its text.

`Methods` declares the methods: `plan_scan` here is `planScan` on the wire, parameters have one name on both sides. mypy
holds the Python side against it, and `tests/catalog/test_protocol.py` the Java side.
"""

from __future__ import annotations

import base64
import inspect
import re
from collections.abc import Mapping
from typing import Any, NotRequired, Protocol, TypedDict

Text64 = str
"""Bytes, in base 64. Those of pickles are opaque to the JVM: it hands them to Spark's workers, or back."""


class Greeting(TypedDict):
    """What the process says when it starts, before it is asked anything."""

    metadata: str
    """The metadata columns of all tables, as Spark's JSON of a schema."""
    scope: str | None
    """The default namespace."""
    python: str
    """The version of Python, as `3.11`."""
    checkedOptions: list[str]
    """Read options, in all spellings, that are checked as soon as a table is looked up with them (`checkRead`)."""


class Failure(TypedDict):
    """An error as the JVM takes it."""

    kind: str
    """Which of Spark's exceptions it is, or `other`."""
    condition: str
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
    stream: str
    primaryKey: list[str]
    """The columns of its key; none for a table without."""
    rowId: list[str]
    """The columns that must be known of a row to delete it."""
    position: NotRequired[dict[str, Any]]
    """Which part of the stream is meant where not all of it is (see `ScanRequest.position`); opaque to the JVM."""
    staged: NotRequired[dict[str, Any]]
    """What becomes of a table with its rows; the JVM looks at `replaces` only."""


class MetadataTable(TypedDict):
    """Facts about a stream as rows: `orders$commits` and its like."""

    rows_of: str
    schema: str


class MetadataPage(TypedDict):
    """Some rows of such a table."""

    rows: list[list[Any]]
    next: int
    """Which page comes next, 0 when none does."""


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


class Procedure(TypedDict):
    """A procedure, for Spark's analysis of CALL."""

    name: str
    description: str
    parameters: list[Parameter]


class ProcedureResult(TypedDict):
    """What a procedure answers."""

    columns: str
    """As Spark's DDL."""
    rows: list[list[Any]]


class PlannedScan(TypedDict):
    """A batch read, as Spark's Python runner takes it."""

    function: Text64
    partitions: list[Text64]
    schema: str
    size: int
    """Bytes of events, frames included."""
    rows: int | None
    """About how many; None when there is nothing to tell by."""
    segments: int
    """Number of segments that hold events."""
    seen: str | None
    """What it reads of the table, for `commit_write` of a statement that replaces the rows; None of a past moment."""


class CountedRows(TypedDict):
    """How many rows a table has, as its commit log has counted them."""

    rows: int
    seen: str
    """As of `PlannedScan`."""


class Source(TypedDict):
    """A streaming read. Every call about it says it all, so that another process can go on with it."""

    id: str
    namespace: list[str]
    table: str
    columns: list[str]
    options: dict[str, str]
    position: dict[str, Any] | None


class OpenedStream(TypedDict):
    """A streaming read that has begun. Limits are those of its options; None where there is none."""

    function: Text64
    schema: str
    maxEvents: int | None
    maxBytes: int | None
    minEvents: int | None
    maxDelayMs: int


class PlannedWrite(TypedDict):
    """A write that has been settled."""

    plan: Text64
    clusterBy: list[str]
    orderBy: str | None


class BegunWrite(TypedDict):
    """A write whose tasks may begin."""

    writer: Text64
    """What the write's end needs: to be handed back with each call about it."""
    function: Text64
    packed: bool
    """Whether the function expects rows as they lie in the JVM's memory."""


class CommitReport(TypedDict):
    """What a commit came to."""

    rows: int
    bytes: int
    transactions: int
    milliseconds: int
    repeated: bool


class Methods(Protocol):
    """The methods of the catalog process."""

    # Namespaces
    def list_namespaces(self) -> list[str]:
        """The names of all scopes that one may see."""

    def load_namespace(self, namespace: list[str]) -> dict[str, str]:
        """Its properties."""

    def create_namespace(self, namespace: list[str], properties: dict[str, str]) -> None:
        """Create a scope."""

    def alter_namespace(self, namespace: list[str], changes: list[dict[str, Any]]) -> None:
        """Change properties: `{"kind": "SetProperty", "property": ..., "value": ...}`, or `RemoveProperty`."""

    def drop_namespace(self, namespace: list[str], cascade: bool) -> bool:
        """Drop a scope. Returns whether it was there."""

    # Tables
    def list_tables(self, namespace: list[str]) -> list[str]:
        """The names of its tables."""

    def load_relation(self, namespace: list[str], table: str) -> Table | MetadataTable | Mapping[str, Any]:
        """A table, facts about one (`orders$commits`), or a view as `View`."""

    def load_table_at(
        self, namespace: list[str], table: str, version: str | None = None, timestamp: int | None = None
    ) -> Table:
        """A table as it was at a version (its number, or a name) or a time (microseconds since 1970)."""

    def check_read(self, namespace: list[str], table: str, options: dict[str, str]) -> None:
        """Refuse options of a read that are malformed, mean nothing in the stream, or contradict each other."""

    def load_changelog(self, namespace: list[str], table: str, bounds: dict[str, Any]) -> Table:
        """A table of what versions have added; the bounds are those of `ChangesRange`."""

    def create_table(
        self,
        namespace: list[str],
        table: str,
        schema: dict[str, Any],
        transforms: list[dict[str, Any]],
        properties: dict[str, str],
        checks: list[CheckConstraint],
    ) -> Table:
        """Create a table: its columns as Spark's JSON, its CLUSTERED BY, its properties, its CHECK constraints."""

    def alter_table(
        self, namespace: list[str], table: str, changes: list[dict[str, Any]], seen: list[str] | None = None
    ) -> Table:
        """Change a table, as `Changes.java` describes the changes; `seen` is what the statement has read of it."""

    def supports_change(self, namespace: list[str], table: str, change: dict[str, Any]) -> bool:
        """Whether a column can be changed so, for INSERT WITH SCHEMA EVOLUTION."""

    def rename_table(self, namespace: list[str], table: str) -> None:
        """Refused: streams keep their names."""

    def truncate_table(self, namespace: list[str], table: str) -> None:
        """Remove all rows."""

    def refuse_row_level(self, namespace: list[str], table: str, command: str) -> None:
        """Say why there is no DELETE, UPDATE or MERGE."""

    def drop_table(self, namespace: list[str], table: str) -> bool:
        """Drop a table. Returns whether it was there."""

    def metadata_rows(
        self,
        namespace: list[str],
        table: str,
        columns: list[str],
        predicates: list[dict[str, Any]] | None = None,
        limit: int | None = None,
        newestFirst: bool = False,  # noqa: N803
        page: int = 0,
    ) -> MetadataPage:
        """A page of the rows of a table of facts."""

    # Tables that are made or replaced together with their rows
    def stage_table(
        self,
        namespace: list[str],
        table: str,
        schema: dict[str, Any],
        transforms: list[dict[str, Any]],
        properties: dict[str, str],
        checks: list[CheckConstraint],
        create: bool,
        replace: bool,
    ) -> Table:
        """Prepare a table for its rows; `staged` of the answer goes into the write, and into its end."""

    def commit_staged(self, staged: dict[str, Any], written: bool) -> None:
        """Make a staged table what it is to be. May be done twice."""

    def abort_staged(self, staged: dict[str, Any]) -> None:
        """Leave things as they were before. May be done twice."""

    # Views
    def list_views(self, namespace: list[str]) -> list[str]:
        """The names of its views."""

    def store_view(self, namespace: list[str], table: str, definition: View, create: bool, replace: bool) -> None:
        """Create or replace a view."""

    def drop_view(self, namespace: list[str], table: str) -> bool:
        """Drop a view. Returns whether it was there."""

    def rename_view(self, namespace: list[str], table: str, to_namespace: list[str], to: str) -> None:
        """Give a view another name."""

    # Procedures
    def list_procedures(self, namespace: list[str]) -> list[str]:
        """The names of all procedures."""

    def describe_procedure(self, namespace: list[str], name: str) -> Procedure:
        """A procedure, for the analysis of CALL."""

    def call_procedure(self, name: str, arguments: list[Any]) -> ProcedureResult:
        """Do what a procedure does."""

    # Batch reads
    def plan_scan(
        self,
        namespace: list[str],
        table: str,
        columns: list[str],
        options: dict[str, str],
        position: dict[str, Any] | None = None,
        predicates: list[dict[str, Any]] | None = None,
        limit: int | None = None,
    ) -> PlannedScan:
        """Plan a batch read: its ends are fixed from here on. Predicates are those of `Predicates.java`."""

    def count_rows(self, namespace: list[str], table: str, options: dict[str, str]) -> CountedRows | None:
        """How many rows a table has, where the commit log knows; else None."""

    # Streaming reads; offsets are texts that the JVM keeps and hands back
    def open_stream(self, source: Source) -> OpenedStream:
        """Begin a streaming read, or go on with it in another process."""

    def stream_initial(self, source: Source) -> str:
        """Where a new query begins."""

    def stream_latest(self, source: Source, start: str, limited: bool, target: str | None) -> str:
        """Where the next micro-batch ends; within the limits if it has any, not beyond the target."""

    def stream_target(self, source: Source) -> str:
        """Where Trigger.AvailableNow ends."""

    def stream_tail(self, source: Source) -> str:
        """Where the stream ends now."""

    def stream_plan(self, source: Source, start: str, end: str) -> list[Text64]:
        """The pickled partitions of a micro-batch."""

    def stream_commit(self, source: Source, end: str) -> None:
        """Note that a query has consumed what is before an offset."""

    def stream_metrics(self, source: Source, consumed: str) -> dict[str, str]:
        """How far an offset is behind the tail."""

    def stop_stream(self, id: str) -> None:
        """Forget a streaming read."""

    # Writes
    def plan_write(
        self,
        namespace: list[str],
        table: str,
        options: dict[str, str],
        staged: dict[str, Any] | None = None,
        trigger: str | None = None,
        checks: list[str] | None = None,
        rows: str | None = None,
    ) -> PlannedWrite:
        """Settle a write, before Spark plans its query.

        `checks` names the constraints that Spark checks its rows against; None where it does no such thing. `rows` are
        the columns of a streaming query's rows, as Spark's JSON.
        """

    def take_over_query(self, plan: Text64, query: str, run: str) -> None:
        """Begin or go on with a streaming query: earlier runs of it can't commit any more."""

    def begin_write(
        self, plan: Text64, partitions: int, packed: str | None = None, overwrite: bool = False, changes: bool = False
    ) -> BegunWrite:
        """Begin a write, or a micro-batch of a query, and keep its transactions open until its end.

        With `changes` its rows say in a last column, `_row_operation`, what is to become of them.
        """

    def resume_write(self, writer: Text64, partitions: int) -> None:
        """Keep a write's transactions open in a process that has taken another one's place."""

    def commit_write(
        self,
        writer: Text64,
        messages: list[Text64 | None],
        query: str | None = None,
        run: str | None = None,
        epoch: int | None = None,
        seen: list[str] | None = None,
    ) -> CommitReport:
        """Make a write visible. May be done twice. With query, run and epoch it is that micro-batch.

        Where it replaces or changes rows, `seen` is what the statement has read of them: each `PlannedScan.seen`.
        """

    def abort_write(self, writer: Text64, messages: list[Text64 | None]) -> None:
        """Throw a write away. May be done twice."""


def wire_name(method: str) -> str:
    """A method's name on the wire: `planScan` for `plan_scan`."""
    return re.sub(r"_(.)", lambda letter: letter.group(1).upper(), method)


METHODS: dict[str, tuple[str, inspect.Signature]] = {
    wire_name(name): (name, inspect.signature(method))
    for name, method in vars(Methods).items()
    if inspect.isfunction(method) and not name.startswith("_")
}
"""By their names on the wire, their names in Python and their signatures (with `self`)."""


def call(service: Methods, method: str, params: Mapping[str, Any]) -> Any:
    """Call a method as a request has it.

    Args:
        service: answers.
        method: its name on the wire.
        params: its arguments by name.

    Returns:
        Its result, of JSON's types.

    Raises:
        ValueError: there is no such method, or it doesn't take such arguments: jar and package are of two versions.
        PravegaError: it has failed.
    """
    try:
        name, signature = METHODS[method]
        signature.bind(service, **params)
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"method {method}({', '.join(params)}) isn't known here ({error}): the jar on Spark's class path and the "
            "Python package are of different versions, install both anew"
        ) from error
    return getattr(service, name)(**params)


def text_of(data: bytes) -> Text64:
    """Bytes as they travel."""
    return base64.b64encode(data).decode()


def bytes_of(text: Text64) -> bytes:
    """Bytes that have travelled."""
    return base64.b64decode(text)
