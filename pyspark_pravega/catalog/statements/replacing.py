"""Tables that are made or replaced together with their rows: CREATE OR REPLACE TABLE, CTAS, RTAS, INSERT OVERWRITE.

A stream can't be exchanged for another one, so a replaced table is the same stream: its new schema is a new version in
the registry, which isn't to be seen before the new rows are committed (`PINNED_SCHEMA`). The commit changes rows,
columns and properties at once (`connector.write.overwrite`). What the registry and the controller are told afterwards
is noted with it. If the statement dies, the next one that begins with the table does it (`Replacing.finish_left`).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pyspark.sql.types import StructType

from pyspark_pravega.catalog.base import PLANNED_S, CatalogBase
from pyspark_pravega.catalog.ddl import Transform
from pyspark_pravega.catalog.names import stream_of
from pyspark_pravega.catalog.properties import TableRequest, check_request
from pyspark_pravega.catalog.statements.evolution import revised
from pyspark_pravega.catalog.statements.tables import Tables, schema_info, typed_schema
from pyspark_pravega.catalog.stream_properties import shown, stream_configuration
from pyspark_pravega.client import Stream
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.lake import check_new
from pyspark_pravega.connector.log import GRACE_S, Ledger, State, create_ledger, open_ledger
from pyspark_pravega.connector.option_names import SCHEMA_TYPE
from pyspark_pravega.connector.table import (
    PINNED_SCHEMA,
    Check,
    TableDefinition,
    TableProperties,
    load_definition,
    with_key,
)
from pyspark_pravega.connector.write import StagedTable, forget_replacement, is_replaced, replace_all
from pyspark_pravega.errors import (
    ConfigurationError,
    ConflictError,
    IncompatibleSchemaError,
    NotFoundError,
    PravegaError,
    StreamExistsError,
    StreamNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.registry import SchemaRegistry

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class StagedStream:
    """A stream that was made for the rows to come."""

    stream: Stream
    segment: int
    """The least id of its segments, which another stream of this name doesn't have."""


@dataclass(frozen=True, kw_only=True)
class StagedKeyValueTable:
    """A key-value table that was made for the rows to come."""

    stream: Stream
    """Its scope and its name."""
    own: str
    """What it was made as (`made_as`)."""


@dataclass(frozen=True, kw_only=True)
class StagedReplacement:
    """What is to become of a table that is there."""

    stream: Stream
    id: str
    properties: dict[str, str]
    configuration: dict[str, str]
    """The stream's, as properties."""
    compatibility: str | None
    """The group's policy."""
    schema: int | None
    """The id of its new schema; None where it keeps its own."""
    pinned: int | None
    """The id of the schema that it then has; None for one without."""


Staged: TypeAlias = StagedStream | StagedKeyValueTable | StagedReplacement
"""What is to become of a table; travels through the JVM."""


class Replacing:
    """Makes and replaces tables in two steps: staged, then committed or aborted."""

    def __init__(self, base: CatalogBase, tables: Tables) -> None:
        """Serve a catalog.

        Args:
            base: the cluster, the registry, and what was looked up.
            tables: makes streams, and drops them.
        """
        self._base, self._tables = base, tables

    def stage(
        self,
        namespace: Sequence[str],
        table: str,
        schema: StructType,
        transforms: Sequence[Transform],
        properties: Mapping[str, str],
        *,
        checks: Sequence[Check] = (),
        create: bool,
        replace: bool,
    ) -> tuple[TableDefinition, Staged]:
        """Prepare a table for its rows.

        Args:
            namespace: its namespace.
            table: its name.
            schema: its columns.
            transforms: its clauses.
            properties: its properties.
            checks: its CHECK constraints.
            create: whether it may be new.
            replace: whether it may be there.

        Returns:
            What the table will be, and what `commit_staged` or `abort_staged` needs.

        Raises:
            StreamExistsError: it is there and mustn't be.
            StreamNotFoundError: it isn't there and must be.
            UnsupportedOperationError: the stream can't become that.
        """
        stream = stream_of(namespace, table)
        if not self._base.exists(stream):
            if not create:
                raise StreamNotFoundError(f'stream "{stream}" does not exist')
            definition = self._tables.create(namespace, table, schema, transforms, properties, checks=checks)
            own = min(self._base.client.controller.current_segments(stream).ids)
            return definition, StagedStream(stream=stream, segment=own)
        if not replace:
            raise StreamExistsError(f'stream "{stream}" exists already')
        request = check_request(schema, transforms, properties, checks, self._base.settings.allows_format)
        check_new(schema, request.configuration, request.properties)
        # Before the lock, which finishing takes, too.
        self.finish_left(self._base.definition(stream, age_s=PLANNED_S))
        ledger = create_ledger(self._base.client, stream)
        with ledger.schemas_locked():
            before = self._base.definition(stream, age_s=0)
            if before.format != request.format:
                raise UnsupportedOperationError(
                    f'the events of stream "{stream}" are {before.format}, and will stay so: to make it a table of '
                    f"format {request.format}, drop it first"
                )
            new_schema = self._stage_schema(ledger, before, request)
        kept = None if before.registered is None else before.registered[1].id
        staged = StagedReplacement(
            id=str(uuid.uuid4()),
            stream=stream,
            properties={key: value for key, value in request.properties.items() if key != "compatibility"},
            configuration=shown(request.configuration),
            compatibility=request.compatibility,
            schema=new_schema,
            pinned=kept if new_schema is None else new_schema,
        )
        return self.staged_definition(staged), staged

    def staged_definition(self, staged: Staged) -> TableDefinition:
        """What a staged table will be.

        Args:
            staged: what `stage` has returned.
        """
        if not isinstance(staged, StagedReplacement):
            return self._base.definition(staged.stream)
        client, settings = self._base.client, self._base.settings
        definition = load_definition(
            client, settings, staged.stream, keyed=False, staged={**staged.properties, **_pin(staged)}
        )
        return with_key(replace(definition, properties=TableProperties(staged.properties)))

    def staged_table(self, staged: Staged) -> StagedTable | None:
        """What the commit of a staged table's rows makes of it; None where it is that already.

        Args:
            staged: what `stage` has returned.
        """
        if not isinstance(staged, StagedReplacement):
            return None
        return StagedTable(
            id=staged.id,
            properties={**staged.properties, **_pin(staged)},
            stream={
                "configuration": staged.configuration,
                "compatibility": staged.compatibility,
                "pinned": staged.pinned,
            },
        )

    def commit(self, staged: Staged, *, written: bool) -> None:
        """Make a staged table what it is to be. Doing it again is harmless.

        Args:
            staged: what `stage` has returned.
            written: whether rows were written, so that the table is that already.
        """
        if not isinstance(staged, StagedReplacement):
            return
        stream = staged.stream
        ledger = create_ledger(self._base.client, stream)
        if not written:
            replace_all(self._base.client, ledger, self.staged_table(staged))
        self._finish(stream, ledger, ledger.state())
        self._base.forget(stream)

    def abort(self, staged: StagedStream | StagedReplacement) -> None:
        """Leave things as they were before a table was staged.

        Args:
            staged: what `stage` has returned.
        """
        stream = staged.stream
        if isinstance(staged, StagedStream):
            if self._is_own(stream, staged.segment):
                self._tables.drop_stream(stream)
            return
        ledger = open_ledger(self._base.client, stream)
        if ledger is not None and is_replaced(ledger, ledger.state(), staged.id):
            # Its commit was reported as failed, and yet it is made: the next statement finishes it.
            return
        if staged.schema is not None:
            ledger = ledger or create_ledger(self._base.client, stream)
            with ledger.schemas_locked():
                registry = self._base.registry_of(stream)
                registry.delete_schema(stream.scope, stream.name, staged.schema)
                unpin(registry, stream, ledger)
        self._base.forget(stream)

    def forget(self, staged: Staged) -> None:
        """Let the log forget that a staged table was committed, when its caller has the answer.

        Args:
            staged: what `stage` has returned.
        """
        if not isinstance(staged, StagedReplacement):
            return
        ledger = open_ledger(self._base.client, staged.stream)
        if ledger is not None:
            forget_replacement(ledger, staged.id)

    def finish_left(self, definition: TableDefinition) -> TableDefinition:
        """Do what a replacement of a table has left, if that is old. Statements that begin with a table call it.

        Args:
            definition: what the stream is as a table.

        Returns:
            What it is after that.
        """
        cleaning = definition.cleaning
        if cleaning is None or cleaning.stream is None:
            return definition
        stream = definition.stream
        ledger = open_ledger(self._base.client, stream)
        state = None if ledger is None else ledger.state()
        if ledger is None or state is None or not _is_left(ledger, state):
            return definition
        try:
            self._finish(stream, ledger, state)
        except PravegaError as error:
            _log.warning('what a replacement of stream "%s" has left could not be finished: %s', stream, error)
            return definition
        self._base.forget(stream)
        finished = self._base.definition(stream)
        if definition.is_changes:
            return finished.as_changes()
        return finished.as_log() if definition.is_log else finished

    def _is_own(self, stream: Stream, segment_id: int) -> bool:
        """Whether a stream is still the one that was made: of another one of its name the segments have other ids."""
        try:
            self._base.client.controller.segment_ranges(stream, [segment_id])
        except NotFoundError:
            return False
        return True

    def _finish(self, stream: Stream, ledger: Ledger, state: State) -> None:
        """Tell the registry and the controller what a table has become.

        One does so at a time: neither of them has conditional changes, so who was held up would undo what the next
        replacement has set.
        """
        if state.cleaning is None or state.cleaning.stream is None:
            return
        with ledger.schemas_locked():
            state = ledger.state()
            left = None if state.cleaning is None else state.cleaning.stream
            if left is None:
                return
            registry = None if left["pinned"] is None else self._base.registry_of(stream)
            if registry is not None and left["compatibility"] is not None:
                registry.update_compatibility(stream.scope, stream.name, left["compatibility"])
            unset = set(shown(self._base.client.controller.stream_configuration(stream))) - set(left["configuration"])
            self._base.client.controller.update_stream(
                stream, lambda before: stream_configuration(before, left["configuration"], unset)
            )
            if registry is not None:
                unpin(registry, stream, ledger)
            while state.cleaning is not None and state.cleaning.stream == left:
                try:
                    state = ledger.cleaned(state, replace(state.cleaning, stream=None))
                except ConflictError:
                    state = ledger.state()

    def _stage_schema(self, ledger: Ledger, before: TableDefinition, request: TableRequest) -> int | None:
        """The id of the schema that a replaced table will have; None when it keeps its own."""
        if before.registered is None:
            return None
        info, version = before.registered
        stream = before.stream
        if request.properties.get(SCHEMA_TYPE, info.type) != info.type:
            raise ConfigurationError(
                f'the events of stream "{before.stream}" are of type {info.type}, and will stay so: leave '
                f'"{SCHEMA_TYPE}" out'
            )
        new = typed_schema(request, info.type, before.stream)
        if new.data == info.schema_data or new.columns() == before.event_schema:
            return None
        registry = self._base.registry_of(stream)
        scope, group = stream.scope, stream.name
        ledger.change_properties(lambda kept: {PINNED_SCHEMA: str(version.id), **kept})
        newest = registry.schemas(scope, group)[-1][1].id
        policy = registry.group(scope, group).compatibility

        def add() -> int:
            added = registry.add_schema(scope, group, schema_info(new))
            if added.id <= newest:
                added = registry.add_schema(scope, group, schema_info(revised(new, newest + 1)))
            return added.id

        try:
            try:
                return add()
            except IncompatibleSchemaError:
                # No events of earlier schemas will be left to be compatible with.
                registry.update_compatibility(scope, group, "AllowAny")
                try:
                    return add()
                finally:
                    registry.update_compatibility(scope, group, policy)
        except PravegaError:
            unpin(registry, stream, ledger)
            raise


def unpin(registry: SchemaRegistry, stream: Stream, ledger: Ledger) -> None:
    """Take out a table's pin where it makes no difference: at the newest schema. Only while schemas are locked.

    Args:
        registry: where the schemas are.
        stream: the table's stream.
        ledger: its commit log.
    """
    newest = str(registry.schemas(stream.scope, stream.name)[-1][1].id)
    ledger.change_properties(
        lambda before: without(before, {PINNED_SCHEMA}) if before.get(PINNED_SCHEMA) == newest else before
    )


def without(properties: Mapping[str, str], removed: set[str]) -> dict[str, str]:
    """The properties that stay when some are removed."""
    return {key: value for key, value in properties.items() if key not in removed}


def _pin(staged: StagedReplacement) -> dict[str, str]:
    """The property that keeps a table at the schema that its replacement has."""
    return {} if staged.pinned is None else {PINNED_SCHEMA: str(staged.pinned)}


def _is_left(ledger: Ledger, state: State) -> bool:
    """Whether a replacement's own statement has had its time to finish it. Of a version that the log doesn't know any
    more that is long ago.
    """
    if state.cleaning is None:
        return False
    versions = ledger.commits([state.cleaning.version])
    return not versions or now_ms() - versions[0].committed_at > GRACE_S * 1000
