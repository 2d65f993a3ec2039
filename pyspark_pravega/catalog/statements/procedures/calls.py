"""Procedures: `CALL pravega.system.scale(table => 'shop.orders', segments => 8)`."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.types import StructType

from pyspark_pravega.catalog.base import CatalogBase
from pyspark_pravega.catalog.properties import spelled_compatibility
from pyspark_pravega.catalog.statements.procedures.analyzing import COLUMNS as ANALYZE_COLUMNS
from pyspark_pravega.catalog.statements.procedures.analyzing import analyze
from pyspark_pravega.catalog.statements.procedures.copying import COLUMNS as COPY_COLUMNS
from pyspark_pravega.catalog.statements.procedures.copying import copy
from pyspark_pravega.catalog.statements.procedures.described import Parameter, Procedure
from pyspark_pravega.catalog.statements.procedures.indexing import COLUMNS as INDEX_COLUMNS
from pyspark_pravega.catalog.statements.procedures.indexing import index
from pyspark_pravega.catalog.statements.procedures.redelivering import COLUMNS as REDELIVER_COLUMNS
from pyspark_pravega.catalog.statements.procedures.redelivering import redeliver
from pyspark_pravega.catalog.statements.procedures.running import Caller, Step
from pyspark_pravega.catalog.statements.schemas import Schemas
from pyspark_pravega.catalog.stream_properties import MAX_SEGMENTS
from pyspark_pravega.client import ScaleType, ScalingPolicy, Stream, StreamConfiguration, StreamCut, TransactionState
from pyspark_pravega.client.controller import even_ranges
from pyspark_pravega.client.positions import proper_cut
from pyspark_pravega.connector.lake import check_unlaked, clean_lake, tier_apart
from pyspark_pravega.connector.log import Closing, close, create_ledger, open_ledger, seal, take_version
from pyspark_pravega.connector.read import moment_of
from pyspark_pravega.connector.stream import unsubscribe
from pyspark_pravega.connector.table import COMPACT_WHEN
from pyspark_pravega.connector.table_names import stream_of_table
from pyspark_pravega.connector.write import compact, create_cut, release
from pyspark_pravega.errors import (
    ConfigurationError,
    InvalidNameError,
    StreamNotFoundError,
    TransactionError,
    UnsupportedOperationError,
    did_you_mean,
)
from pyspark_pravega.values import duration

NAMESPACE = "system"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,254}")
_TRANSACTION_WAIT_S = 30.0


_TABLE = Parameter(name="table", type="STRING", comment="the table, as namespace.table, or scope/stream")
_CUT = "cut STRING, offsets MAP<BIGINT, BIGINT>"
PROCEDURES = {
    procedure.name: procedure
    for procedure in (
        Procedure(
            name="scale",
            description="Gives the stream another number of segments, of equal parts of the keys",
            parameters=(_TABLE, Parameter(name="segments", type="INT", comment="how many")),
            columns="segment BIGINT, min_key DOUBLE, max_key DOUBLE",
        ),
        Procedure(
            name="seal",
            description="Makes the stream read-only, for ever",
            parameters=(_TABLE,),
            columns=_CUT,
        ),
        Procedure(
            name="truncate",
            description="Removes all events before a version, for ever",
            parameters=(
                _TABLE,
                Parameter(name="version", type="STRING", comment="a commit's number, a stream cut, or a cut's name"),
            ),
            columns=_CUT,
        ),
        Procedure(
            name="compact",
            description="Writes the rows of a table with a primary key once more, and removes the events before",
            parameters=(
                _TABLE,
                Parameter(
                    name="remove_now",
                    type="BOOLEAN",
                    comment="whether queries that are under way may lose what they read",
                    default="false",
                ),
            ),
            columns="version BIGINT, rows BIGINT, bytes_before BIGINT, bytes_after BIGINT",
        ),
        Procedure(
            name="index",
            description="Reads events that no index tells of, and keeps what reads need to pass over them",
            parameters=(_TABLE,),
            columns=INDEX_COLUMNS,
        ),
        Procedure(
            name="analyze",
            description="Takes statistics of columns, by which Spark plans queries",
            parameters=(
                _TABLE,
                Parameter(name="columns", type="ARRAY<STRING>", comment="of which columns", default="NULL"),
            ),
            columns=ANALYZE_COLUMNS,
        ),
        Procedure(
            name="tier",
            description="Puts the rows of older versions into the lake, and truncates the stream as far as it may",
            parameters=(_TABLE,),
            columns="version BIGINT, rows BIGINT, files INT, kept_from BIGINT",
        ),
        Procedure(
            name="clean_lake",
            description="Removes files that broken-off calls of tier have left, and a keyed table's older snapshots",
            parameters=(
                _TABLE,
                Parameter(name="older_than", type="STRING", comment="how old they are", default="'1 day'"),
            ),
            columns="files INT, bytes BIGINT",
        ),
        Procedure(
            name="copy",
            description="Copies versions of a table into another one, once for each name",
            parameters=(
                Parameter(name="source", type="STRING", comment="the table that is copied"),
                Parameter(name="target", type="STRING", comment="the table into which it is copied"),
                Parameter(name="name", type="STRING", comment="what makes it a copy that is made once"),
                Parameter(name="from_version", type="STRING", comment="the first version, or a cut", default="NULL"),
                Parameter(name="to_version", type="STRING", comment="the last version, or a cut", default="NULL"),
                Parameter(name="where", type="STRING", comment="which rows", default="NULL", condition=True),
                Parameter(name="bytes_per_commit", type="STRING", comment="a size, about", default="'256 MiB'"),
            ),
            columns=COPY_COLUMNS,
        ),
        Procedure(
            name="redeliver",
            description="Brings dead letters that can be decoded now into a table, and removes them",
            parameters=(
                Parameter(name="letters", type="STRING", comment="the table of dead letters"),
                Parameter(name="source", type="STRING", comment="the table whose events they are"),
                Parameter(name="target", type="STRING", comment="the table into which good rows go"),
            ),
            columns=REDELIVER_COLUMNS,
        ),
        Procedure(
            name="create_cut",
            description="Gives a version, or the stream's end as it is now, a name to read AS OF",
            parameters=(
                _TABLE,
                Parameter(name="name", type="STRING", comment="the name"),
                Parameter(name="version", type="STRING", comment="a commit's number or a stream cut", default="NULL"),
            ),
            columns=f"name STRING, {_CUT}",
        ),
        Procedure(
            name="take_version",
            description="Makes a version of what others have written until now",
            parameters=(_TABLE,),
            columns=f"version BIGINT, bytes BIGINT, {_CUT}",
        ),
        Procedure(
            name="drop_cut",
            description="Forgets a cut's name",
            parameters=(_TABLE, Parameter(name="name", type="STRING", comment="the name")),
            columns="dropped BOOLEAN",
        ),
        Procedure(
            name="begin",
            description="Begins a transaction of this session, over several tables",
            parameters=(
                Parameter(
                    name="query", type="STRING", comment="the streaming query of which it is a batch", default="NULL"
                ),
                Parameter(name="epoch", type="BIGINT", comment="the batch's number", default="NULL"),
            ),
            columns="transaction STRING, state STRING",
        ),
        Procedure(
            name="commit",
            description="Commits this session's transaction; or one of Pravega's, by its id",
            parameters=(
                replace(_TABLE, default="NULL"),
                Parameter(name="transaction", type="STRING", comment="its id", default="NULL"),
            ),
            columns="transaction STRING, state STRING",
        ),
        Procedure(
            name="rollback",
            description="Throws away what this session's transaction has written",
            parameters=(),
            columns="transaction STRING, state STRING",
        ),
        Procedure(
            name="abort",
            description="Aborts an open transaction",
            parameters=(_TABLE, Parameter(name="transaction", type="STRING", comment="its id")),
            columns="transaction STRING, state STRING",
        ),
        Procedure(
            name="register_schema",
            description="Gives the stream its first schema, or its next one",
            parameters=(
                _TABLE,
                Parameter(name="columns", type="STRING", comment="as in CREATE TABLE", default="NULL", columns=True),
                Parameter(name="schema", type="STRING", comment="an Avro or JSON Schema", default="NULL"),
                Parameter(name="format", type="STRING", comment="avro, json or protobuf", default="'avro'"),
            ),
            columns="id INT, type STRING, version INT",
        ),
        Procedure(
            name="set_compatibility",
            description="Changes the policy that decides which schemas may come next",
            parameters=(_TABLE, Parameter(name="policy", type="STRING", comment="Backward, Full, AllowAny ...")),
            columns="before STRING, policy STRING",
        ),
        Procedure(
            name="watermark",
            description="Notes how far a writer has come in event time; the stream's watermark is made of that",
            parameters=(
                _TABLE,
                Parameter(name="time", type="BIGINT", comment="all its later events have at least this time"),
                Parameter(name="writer", type="STRING", comment="the writer", default="'sql'"),
            ),
            columns=f"writer STRING, time BIGINT, {_CUT}",
        ),
        Procedure(
            name="subscribers",
            description="Shows who keeps retention from removing what they haven't read",
            parameters=(_TABLE,),
            columns="subscriber STRING",
        ),
        Procedure(
            name="drop_subscriber",
            description="Forgets a subscriber whose query no longer runs, so that it keeps no events any more",
            parameters=(_TABLE, Parameter(name="subscriber", type="STRING", comment="as subscribers shows it")),
            columns="dropped BOOLEAN",
        ),
    )
}


class Procedures:
    """What Pravega can do with a stream and SQL has no statement for."""

    def __init__(self, base: CatalogBase, schemas: Schemas) -> None:
        """Serve a catalog.

        Args:
            base: the cluster, the registry, and what was looked up.
            schemas: gives streams schemas.
        """
        self._base, self._schemas = base, schemas

    def names(self, namespace: Sequence[str]) -> list[str]:
        """The names of all procedures; in any namespace but `system` there are none.

        Args:
            namespace: the namespace; empty for the whole catalog.
        """
        return sorted(PROCEDURES) if list(namespace) in ([], [NAMESPACE]) else []

    def named(self, namespace: Sequence[str], name: str) -> Procedure:
        """A procedure by its name.

        Args:
            namespace: its namespace.
            name: its name.

        Raises:
            InvalidNameError: there is none.
        """
        if list(namespace) != [NAMESPACE] or name.lower() not in PROCEDURES:
            raise InvalidNameError(
                f'there is no procedure "{".".join([*namespace, name])}": all are in the namespace "{NAMESPACE}"'
                f"{did_you_mean(name, PROCEDURES)}"
            )
        return PROCEDURES[name.lower()]

    def call(self, name: str, arguments: Sequence[Any]) -> list[list[Any]]:
        """Call a procedure.

        Args:
            name: its name.
            arguments: one for each of its parameters.

        Returns:
            The rows of its result.

        Raises:
            ConfigurationError: an argument is missing or wrong.
            PravegaError: it can't be done.
        """
        _check_given(PROCEDURES[name], arguments)
        if name in ("begin", "rollback") or (name == "commit" and None in arguments):
            # Spark's session has its transaction.
            raise ConfigurationError(
                f'procedure "{name}" takes both, a table and a transaction of Pravega\'s, or neither, in a session'
            )
        call: Callable[..., list[list[Any]]] = getattr(self, f"_{name}")
        stream = self._stream(arguments[0])
        result = call(stream, *arguments[1:])
        self._base.forget(stream)
        return result

    def step(self, caller: Caller, name: str, arguments: Sequence[Any]) -> Step:
        """Call a procedure, or go on with it.

        Args:
            caller: who has called it, and what was done for it just now.
            name: its name.
            arguments: one for each of its parameters.

        Returns:
            The rows of its result, or what Spark has to do before it is asked again.

        Raises:
            ConfigurationError: an argument is missing or wrong.
            PravegaError: it can't be done.
        """
        if name not in ("copy", "redeliver", "index", "analyze"):
            return self.call(name, arguments)
        _check_given(PROCEDURES[name], arguments)
        if name == "index":
            return index(self._base, caller, self._stream(arguments[0]))
        if name == "analyze":
            stream = self._stream(arguments[0])
            step = analyze(self._base, caller, stream, arguments[1])
            self._base.forget(stream)
            return step
        if name == "redeliver":
            letters, source, target = map(self._stream, arguments)
            return redeliver(self._base, caller, letters, source, target)
        source, target, *others = arguments
        return copy(self._base, caller, self._named(source), self._stream(target), *others)

    def _scale(self, stream: Stream, segments: int) -> list[list[Any]]:
        if not 1 <= segments <= MAX_SEGMENTS:
            raise ConfigurationError(f'argument "segments" must be a number from 1 to {MAX_SEGMENTS}, not {segments}')
        controller = self._base.client.controller
        current = controller.current_segments(stream)
        scaling = controller.stream_configuration(stream).scaling
        if scaling.scale_type is ScaleType.FIXED:
            # What its configuration says would undo any other scale sooner or later.
            controller.update_stream(stream, lambda before: _with_segments(before, segments))
        if len(controller.current_segments(stream).ids) != segments:
            controller.scale_stream(stream, current.ids, even_ranges(segments))
        return [[r.segment_id, r.min_key, r.max_key] for r in controller.current_segments(stream).ranges]

    def _seal(self, stream: Stream) -> list[list[Any]]:
        ledger = open_ledger(self._base.client, stream)
        if ledger is not None:
            close(self._base.client, ledger, Closing.SEAL)
        seal(self._base.client, stream, ledger)
        return [_row(self._base.client.tail(stream))]

    def _truncate(self, stream: Stream, version: str) -> list[list[Any]]:
        if self._base.definition(stream).key is not None:
            raise UnsupportedOperationError(
                f'stream "{stream}" has a primary key: its oldest events may be rows that nobody has changed since, so '
                "it can't be truncated at a version; DELETE rows, or TRUNCATE TABLE"
            )
        check_unlaked(self._base.definition(stream, age_s=0), "to truncate a stream at a version")
        moment = moment_of(self._base.client, stream, version)
        cut = proper_cut(self._base.client, stream, moment.offsets)
        self._base.client.truncate(cut)
        return [_row(cut)]

    def _compact(self, stream: Stream, remove_now: bool) -> list[list[Any]]:
        done = compact(self._base.settings, stream, one_more=not remove_now)
        return [[done.version, done.rows, done.bytes_before, done.bytes_after]]

    def _tier(self, stream: Stream) -> list[list[Any]]:
        done = tier_apart(self._base.settings, self._base.lake, stream)
        return [[done.version, done.rows, done.files, done.kept_from]]

    def _clean_lake(self, stream: Stream, older_than: str) -> list[list[Any]]:
        return [list(clean_lake(self._base.settings, self._base.lake, stream, duration("older_than", older_than)))]

    def _create_cut(self, stream: Stream, name: str, version: str | None) -> list[list[Any]]:
        if not _NAME.fullmatch(name):
            raise InvalidNameError(
                f'"{name[:60]}" can\'t be the name of a cut: it begins with a letter or _, and holds letters, digits, '
                '"_", "-" and "." behind that'
            )
        keyed = self._base.definition(stream, age_s=0).key is not None
        cut = create_cut(self._base.client, create_ledger(self._base.client, stream), name, version, keyed=keyed)
        return [[name, *_row(cut)]]

    def _take_version(self, stream: Stream) -> list[list[Any]]:
        taken = take_version(self._base.client, create_ledger(self._base.client, stream))
        return [[taken.version, taken.bytes, *_row(proper_cut(self._base.client, stream, taken.cut))]]

    def _drop_cut(self, stream: Stream, name: str) -> list[list[Any]]:
        ledger = open_ledger(self._base.client, stream)
        if ledger is None or not ledger.holders().drop_cut(name):
            return [[False]]
        # A compaction may have kept events for it.
        release(self._base.client, ledger, one_more=COMPACT_WHEN in ledger.properties())
        return [[True]]

    def _commit(self, stream: Stream, transaction: str) -> list[list[Any]]:
        transaction_id = self._open(stream, transaction)
        self._base.client.controller.commit_transaction(stream, transaction_id)
        return [[str(transaction_id), self._settled(stream, transaction_id, TransactionState.COMMITTING).name]]

    def _abort(self, stream: Stream, transaction: str) -> list[list[Any]]:
        transaction_id = self._open(stream, transaction)
        self._base.client.controller.abort_transaction(stream, transaction_id)
        return [[str(transaction_id), self._settled(stream, transaction_id, TransactionState.ABORTING).name]]

    def _register_schema(
        self, stream: Stream, columns: str | None, schema: str | None, table_format: str
    ) -> list[list[Any]]:
        parsed = None if columns is None else StructType.fromJson(json.loads(columns))
        version = self._schemas.register(stream, table_format=table_format, text=schema, columns=parsed)
        return [[version.id, version.type, version.version]]

    def _set_compatibility(self, stream: Stream, policy: str) -> list[list[Any]]:
        return [[self._schemas.set_compatibility(stream, policy), spelled_compatibility(policy)]]

    def _watermark(self, stream: Stream, at: int, writer: str) -> list[list[Any]]:
        cut = self._base.client.tail(stream)
        self._base.client.controller.note_timestamp(stream, writer, at, cut)
        return [[writer, at, *_row(cut)]]

    def _subscribers(self, stream: Stream) -> list[list[Any]]:
        return [[subscriber] for subscriber in self._base.client.controller.subscribers(stream)]

    def _drop_subscriber(self, stream: Stream, subscriber: str) -> list[list[Any]]:
        name = subscriber if "/" in subscriber else f"{stream.scope}/{subscriber}"
        dropped = unsubscribe(self._base.client, name, stream)
        ledger = open_ledger(self._base.client, stream)
        if ledger is not None:
            if name in ledger.holders().subscribers():
                ledger.holders().note_subscriber(name, None)
            # A compaction may have kept events for it.
            release(self._base.client, ledger, one_more=COMPACT_WHEN in ledger.properties())
        return [[dropped]]

    def _stream(self, text: str) -> Stream:
        stream = self._named(text)
        self._base.client.controller.stream_configuration(stream)
        return stream

    def _named(self, text: str) -> Stream:
        stream = stream_of_table(text, scope=self._base.settings.scope)
        try:
            self._base.client.controller.stream_configuration(stream)
        except StreamNotFoundError:
            self._base.check_no_key_value(stream)
            self._base.check_no_view(stream)
            raise
        return stream

    def _open(self, stream: Stream, text: str) -> uuid.UUID:
        try:
            transaction = uuid.UUID(text)
        except ValueError:
            raise ConfigurationError(
                f'"{text}" is no transaction\'s id: it is a UUID, as `{stream.name}$transactions` shows it'
            ) from None
        state = self._base.client.controller.transaction_state(stream, transaction)
        if state is not TransactionState.OPEN:
            raise TransactionError(f'transaction {transaction} of stream "{stream}" isn\'t open: it is {state.name}')
        return transaction

    def _settled(self, stream: Stream, transaction: uuid.UUID, passing: TransactionState) -> TransactionState:
        deadline = time.monotonic() + _TRANSACTION_WAIT_S
        while True:
            state = self._base.client.controller.transaction_state(stream, transaction)
            if state not in (TransactionState.OPEN, passing) or time.monotonic() > deadline:
                return state
            time.sleep(0.01)


def _check_given(procedure: Procedure, arguments: Sequence[Any]) -> None:
    for parameter, argument in zip(procedure.parameters, arguments, strict=True):
        if argument is None and parameter.default != "NULL":
            raise ConfigurationError(f'argument "{parameter.name}" of procedure "{procedure.name}" must not be null')


def _with_segments(before: StreamConfiguration, segments: int) -> StreamConfiguration:
    return replace(before, scaling=ScalingPolicy.fixed(segments))


def _row(cut: StreamCut) -> list[Any]:
    return [cut.to_text(), [[segment, offset] for segment, offset in cut.items()]]
