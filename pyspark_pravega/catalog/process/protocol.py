"""What Spark's JVM and the catalog process say to each other: each method, its arguments and its result, once.

A request is `{"id": n, "method": "planScan", "params": {...}}`, its answer `{"id": n, "result": ...}` or
`{"id": n, "error": {"kind": ..., "condition": ..., "sqlState": ..., "message": ...}}`. A long answer comes as several
documents `{"id": n, "piece": ..., "last": ...}`, whose pieces together are its text.

`Methods` declares the methods: `plan_scan` here is `planScan` on the wire, parameters have one name on both sides. mypy
holds the Python side against it, and `tests/catalog/test_protocol.py` the Java side.
"""

from __future__ import annotations

import base64
import inspect
import re
from collections.abc import Mapping
from typing import Any, Protocol

from pyspark_pravega.catalog.process.messages import (
    BegunWrite,
    CheckConstraint,
    CommitReport,
    CountedRows,
    Followed,
    MetadataPage,
    MetadataTable,
    NarrowedScan,
    OpenedRealTime,
    OpenedStream,
    PlannedScan,
    PlannedWrite,
    Procedure,
    ProcedureResult,
    Source,
    Table,
    Text64,
    View,
)


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
        moments: list[str] | None = None,
    ) -> MetadataPage:
        """A page of the rows of a table of facts; `moments` as of `plan_scan`, of its stream."""

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

    def call_procedure(
        self,
        name: str,
        arguments: list[Any],
        catalog: str,
        after: dict[str, Any] | None = None,
        rows: list[str] | None = None,
    ) -> ProcedureResult:
        """Do what a procedure does, in the catalog of that name.

        `after` is that of the statement that was done just now, and `rows` are its rows as JSON, where they are wanted.
        """

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
        schema: str | None = None,
        moments: list[str] | None = None,
    ) -> PlannedScan:
        """Plan a batch read: its ends are fixed from here on. Predicates are those of `Predicates.java`.

        The schema has the table's columns as the query was planned with them, as Spark's JSON. `moments` is what
        earlier calls for the query have told of this stream (`PlannedScan.moment`).
        """

    def narrow_scan(
        self,
        namespace: list[str],
        table: str,
        options: dict[str, str],
        partitions: list[Text64],
        seen: str | None,
        predicates: list[dict[str, Any]],
        places: str | None = None,
    ) -> NarrowedScan | None:
        """What of a planned read further predicates leave, as of the same moment; None for all of it."""

    def count_rows(
        self,
        namespace: list[str],
        table: str,
        options: dict[str, str],
        schema: str | None = None,
        moments: list[str] | None = None,
    ) -> CountedRows:
        """How many rows a table has, where the commit log knows; schema and `moments` are as of `plan_scan`."""

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

    def open_real_time(self, source: Source) -> OpenedRealTime:
        """Begin to read as a query with the real-time trigger does.

        The function takes the pickled partition, and ends when its input does. Its batches have the columns of the
        schema: those that are wanted, perhaps another one, and in the last three where each row's event ends (a segment
        and an offset; below 0 when the segment has given way to others) and whether there is a row at all.
        """

    def stream_follow(self, source: Source, start: str, cores: int) -> list[Followed]:
        """The partitions of a real-time batch; `cores` is how many tasks can run at a time."""

    def stream_merge(self, source: Source, start: str, positions: list[dict[str, int]]) -> str:
        """Where a real-time batch has ended: of each of its tasks, the segments and how far it has read them."""

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
        case_sensitive: bool = False,
    ) -> PlannedWrite:
        """Settle a write, before Spark plans its query.

        `checks` names the constraints that Spark checks its rows against; None where it does no such thing. `rows` are
        the columns of a streaming query's rows, as Spark's JSON, and `case_sensitive` says whether names of theirs that
        differ from the table's in case are different ones.
        """

    def take_over_query(self, plan: Text64, query: str, run: str, epoch: int | None = None) -> None:
        """Begin or go on with a streaming query, with an epoch: earlier runs of it can't commit any more."""

    def begin_write(
        self, plan: Text64, partitions: int, packed: str | None = None, overwrite: bool = False, changes: bool = False
    ) -> BegunWrite:
        """Begin a write, or a micro-batch of a query, and keep its transactions open until its end.

        With `changes` its rows say in a last column, `_row_operation`, what is to become of them.
        """

    def has_job(self, namespace: list[str], table: str, options: dict[str, str], job: str) -> bool:
        """Whether the log of a table that is read has the job of a write that runs: then it is the written table."""

    def refuse_unknown(self, namespace: list[str], table: str, reads: list[dict[str, str]]) -> None:
        """Refuse to replace or change rows of a table that the statement reads without the catalog.

        `reads` are the options of all such reads.
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
        offsets: list[str | None] | None = None,
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
