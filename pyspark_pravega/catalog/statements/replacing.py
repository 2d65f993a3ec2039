"""Tables that are made or replaced together with their rows: CREATE OR REPLACE TABLE, CTAS, RTAS, INSERT OVERWRITE.

A stream can't be exchanged for another one, so a replaced table is the same stream: its new schema is a new version in
the registry, which isn't to be seen before the new rows are committed (`PINNED_SCHEMA`); then everything before these
is truncated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_pravega.catalog.names import stream_of
from pyspark_pravega.catalog.properties import TableRequest, check_request
from pyspark_pravega.catalog.statements.altering import Altering
from pyspark_pravega.catalog.statements.evolution import revised
from pyspark_pravega.catalog.statements.tables import schema_info, truncate_visible
from pyspark_pravega.catalog.stream_properties import shown, stream_configuration
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.log import create_ledger, take_snapshot
from pyspark_pravega.connector.options import EXACTLY_ONCE
from pyspark_pravega.connector.read import proper_cut
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import PINNED_SCHEMA, TableDefinition, load_definition
from pyspark_pravega.connector.write import CommitReport, Epoch, WriteJob, WritePlan
from pyspark_pravega.errors import (
    IncompatibleSchemaError,
    PravegaError,
    StreamExistsError,
    StreamNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.serde.formats import REGISTERED, Schema, registered_schema, schema_for

Staged = dict[str, Any]
"""What is to become of a table; travels through the JVM as JSON."""


class OverwritingJob(WriteJob):
    """Writes rows that take the place of all that are there: the stream is truncated right before them."""

    def __init__(self, plan: WritePlan) -> None:
        """Begin a job.

        Args:
            plan: how to write.

        Raises:
            UnsupportedOperationError: its rows aren't committed together.
        """
        if plan.mode != EXACTLY_ONCE:
            raise UnsupportedOperationError(
                f'the rows of stream "{plan.stream}" can only be replaced at once: writer mode {plan.mode} doesn\'t '
                f"commit them together, take {EXACTLY_ONCE}"
            )
        super().__init__(plan)

    def commit_job(self, messages: Sequence[WriterCommitMessage | None], epoch: Epoch | None = None) -> CommitReport:
        """Make the new rows visible, then truncate the others. Doing it again after a success is harmless.

        Between the two, for a second or so, readers see both.

        Args:
            messages: see `WriteJob.commit_job`.
            epoch: likewise.
        """
        stream = self.plan.stream
        client, ledger = shared_client(self.plan.settings), self._ledger()
        log = ledger.job(self.job)
        cut = log.overwrite()
        if cut is None and self._is_committed(ledger):
            return CommitReport(repeated=True)
        if cut is None:
            cut = log.note_overwrite(take_snapshot(client, stream).cut)
        try:
            report = super().commit_job(messages, epoch)
        except PravegaError:
            log.forget_overwrite()
            raise
        if not report.repeated:
            # Of what was written before under the same query and epoch the cut knows nothing.
            client.truncate(proper_cut(client, stream, cut))
        log.forget_overwrite()
        return report


class Replacing(Altering):
    """Makes and replaces tables in two steps: staged, then committed or aborted."""

    def stage_table(
        self,
        namespace: Sequence[str],
        table: str,
        schema: StructType,
        transforms: Sequence[Mapping[str, Any]],
        properties: Mapping[str, str],
        *,
        create: bool,
        replace: bool,
    ) -> tuple[TableDefinition, Staged]:
        """Prepare a table for its rows.

        Args:
            namespace: its namespace.
            table: its name.
            schema: its columns.
            transforms: see `check_request`.
            properties: its properties.
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
        if not self.exists(stream):
            if not create:
                raise StreamNotFoundError(f'stream "{stream}" does not exist')
            made = self.create_table(namespace, table, schema, transforms, properties)
            return made, {"scope": stream.scope, "stream": stream.name, "made": True, "replaces": False}
        if not replace:
            raise StreamExistsError(f'stream "{stream}" exists already')
        request = check_request(schema, transforms, properties)
        before = self.definition(stream, age_s=0)
        if before.format != request.format:
            raise UnsupportedOperationError(
                f'the events of stream "{stream}" are {before.format}, and will stay so: to make it a table of format '
                f"{request.format}, drop it first"
            )
        staged: Staged = {
            "scope": stream.scope,
            "stream": stream.name,
            "made": False,
            "replaces": True,
            "properties": {key: value for key, value in request.properties.items() if key != "compatibility"},
            "configuration": shown(request.configuration),
            "compatibility": request.properties.get("compatibility"),
            "schema": self._stage_schema(before, request),
        }
        return self.staged_definition(staged), staged

    def staged_definition(self, staged: Staged) -> TableDefinition:
        """What a staged table will be.

        Args:
            staged: what `stage_table` has returned.
        """
        stream = _stream(staged)
        if staged["made"]:
            return self.definition(stream)
        options = {} if staged["schema"] is None else {PINNED_SCHEMA: str(staged["schema"])}
        found = load_definition(self.client, self.settings, stream, options)
        return replace(found, properties=dict(staged["properties"]))

    def commit_staged(self, staged: Staged, *, written: bool) -> None:
        """Make a staged table what it is to be. Doing it again is harmless.

        Args:
            staged: what `stage_table` has returned.
            written: whether rows were written, so that what came before them is gone already.
        """
        if staged["made"]:
            return
        stream = _stream(staged)
        if not written:
            truncate_visible(self.client, stream)
        create_ledger(self.client, stream).change_properties(lambda _: dict(staged["properties"]))
        if staged["compatibility"] is not None:
            self.set_compatibility(stream, staged["compatibility"])
        unset = set(shown(self.client.controller.stream_configuration(stream))) - set(staged["configuration"])
        self.client.controller.update_stream(
            stream, lambda before: stream_configuration(before, staged["configuration"], unset)
        )
        self.forget(stream)

    def abort_staged(self, staged: Staged) -> None:
        """Leave things as they were before a table was staged.

        Args:
            staged: what `stage_table` has returned.
        """
        stream = _stream(staged)
        if staged["made"]:
            if self.exists(stream):
                self.drop_stream(stream)
            return
        if staged["schema"] is not None:
            self._registry(stream).delete_schema(stream.scope, stream.name, staged["schema"])
            self._unpin(stream)
        self.forget(stream)

    def _stage_schema(self, before: TableDefinition, request: TableRequest) -> int | None:
        """The id of the schema that a replaced table will have; None when it keeps its own."""
        if before.registered is None:
            return None
        info, version = before.registered
        stream = before.stream
        new = _renamed(request, info.type, stream)
        if new.data == info.schema_data or new.columns() == before.schema:
            return None
        registry = self._registry(stream)
        scope, group = stream.scope, stream.name
        ledger = create_ledger(self.client, stream)
        ledger.change_properties(lambda kept: {**kept, PINNED_SCHEMA: str(version.id)})
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
            self._unpin(stream)
            raise

    def _unpin(self, stream: Stream) -> None:
        create_ledger(self.client, stream).change_properties(
            lambda before: {key: value for key, value in before.items() if key != PINNED_SCHEMA}
        )


def _renamed(request: TableRequest, type_name: str, stream: Stream) -> Schema:
    """The schema of a replaced table, of the type that the group holds."""
    space, _, name = type_name.rpartition(".")
    if request.format == "json" or not name:
        made = schema_for(request.format, request.schema, name=stream.name, namespace=stream.scope)
        return registered_schema(REGISTERED[request.format], type_name, made.data)
    return schema_for(request.format, request.schema, name=name, namespace=space)


def _stream(staged: Staged) -> Stream:
    return Stream(staged["scope"], staged["stream"])
