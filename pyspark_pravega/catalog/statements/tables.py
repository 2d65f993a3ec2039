"""Streams as tables: made, changed, emptied, dropped."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from pyspark.sql.types import StructType

from pyspark_pravega.catalog.base import CatalogBase
from pyspark_pravega.catalog.ddl import Transform
from pyspark_pravega.catalog.names import scope_of, stream_of, to_sql
from pyspark_pravega.catalog.properties import TableRequest, check_request
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.positions import proper_cut
from pyspark_pravega.client.reader_groups import ReaderGroup
from pyspark_pravega.connector.lake import check_new, purge_of
from pyspark_pravega.connector.log import (
    Closing,
    Ledger,
    claim_ledger,
    close,
    delete_ledger,
    open_ledger,
    seal,
    settle,
    take_snapshot,
)
from pyspark_pravega.connector.option_names import SCHEMA_TYPE
from pyspark_pravega.connector.table import Check, TableDefinition, TableProperties
from pyspark_pravega.connector.write import replace_all
from pyspark_pravega.deadlines import Limit
from pyspark_pravega.errors import (
    ConfigurationError,
    ConflictError,
    NotFoundError,
    PravegaError,
    StreamExistsError,
    StreamNotFoundError,
    StreamNotSealedError,
    TableBeingDroppedError,
)
from pyspark_pravega.registry import SchemaInfo, SchemaRegistry
from pyspark_pravega.serde.formats import FORMATS, REGISTERED, Schema, registered_schema, schema_for
from pyspark_pravega.together import Begun, together

CLAIM_S = 30.0
"""How long another one's CREATE TABLE of the same name may take."""
_DROP_PATIENCE_S, _DROP_POLL_S = 10.0, 0.2


class Tables:
    """A table is a stream, with a schema group in the registry and a commit log beside it."""

    def __init__(self, base: CatalogBase) -> None:
        """Serve a catalog.

        Args:
            base: the cluster, the registry, and what was looked up.
        """
        self._base = base

    def names(self, namespace: Sequence[str]) -> list[str]:
        """The names of all streams in a scope, in SQL's spelling, sorted.

        Raises:
            ScopeNotFoundError: there is no such scope.
        """
        return sorted(to_sql(stream) for stream in self._base.client.controller.list_streams(scope_of(namespace)))

    def create(
        self,
        namespace: Sequence[str],
        table: str,
        schema: StructType,
        transforms: Sequence[Transform],
        properties: Mapping[str, str],
        *,
        checks: Sequence[Check] = (),
    ) -> TableDefinition:
        """Create a stream with its schema and its commit log. When this fails nothing is left behind.

        Args:
            namespace: its namespace.
            table: its name.
            schema: its columns.
            transforms: its clauses.
            properties: its properties.
            checks: its CHECK constraints.

        Raises:
            StreamExistsError: there is a stream of this name.
            ScopeNotFoundError: there is no such scope.
            SchemaError: a column can't be mapped, or the registry refuses the schema.
            ConfigurationError: a property is wrong.
        """
        stream = stream_of(namespace, table)
        request = check_request(schema, transforms, properties, checks, self._base.settings.allows_format)
        check_new(schema, request.configuration, request.properties)
        registry = formed = None
        custom = request.format not in FORMATS
        if request.format in REGISTERED or custom:
            registry = self._base.registry
            if registry is None and (not custom or TableProperties(request.properties).encoding_header):
                raise ConfigurationError(
                    "a table with columns needs a schema registry: set schema-registry-uri (or "
                    "PRAVEGA_SCHEMA_REGISTRY_URI), or make a table of raw events, (event BINARY) with "
                    "TBLPROPERTIES ('format' = 'raw')"
                )
            formed = _formed(request, stream)
        self._base.scope(namespace, make=True)
        exists, (view, other) = together(
            lambda: self._base.exists(stream),
            lambda: together(
                lambda: self._base.store(stream.scope).view(stream.name), lambda: self._base.is_key_value(stream)
            ),
        )
        if exists:
            raise StreamExistsError(f'stream "{stream}" exists already')
        if other:
            raise StreamExistsError(f'key-value table "{stream}" exists already: a stream needs another name')
        if view is not None:
            raise StreamExistsError(f'view "{stream}" exists already: a table needs another name')
        self._make(stream, request, registry, formed)
        return self._base.definition(stream, age_s=0)

    def drop(self, namespace: Sequence[str], table: str, *, purge: bool = False) -> bool:
        """Delete a stream with its events, its schema group and its commit log.

        Args:
            namespace: the table's namespace.
            table: its name.
            purge: whether its Iceberg table goes with it, if it has one.

        Returns:
            False when there was none.

        Raises:
            UnsupportedOperationError: the Iceberg table that is to go isn't in the catalog's lake; nothing was done.
        """
        stream = stream_of(namespace, table)
        if not self._base.exists(stream):
            return False
        remove_files = purge_of(self._base.settings, lambda: self._base.lake, stream) if purge else None
        is_dropped = self.drop_stream(stream)
        if is_dropped and remove_files is not None:
            remove_files()
        return is_dropped

    def truncate(self, namespace: Sequence[str], table: str) -> None:
        """Remove all events of a stream that are visible now, for ever; together with the next write, if the table's
        properties say so.

        Raises:
            StreamNotFoundError: there is no such stream.
            StreamSealedError: it is sealed.
        """
        stream = stream_of(namespace, table)
        ledger = open_ledger(self._base.client, stream)
        properties = TableProperties({} if ledger is None else ledger.properties(), of=f'stream "{stream}"')
        if ledger is not None and properties.truncates_later:
            truncate_later(self._base.client, ledger)
        else:
            truncate_visible(self._base.client, stream)
        self._base.forget(stream)

    def drop_all(self, scope: str) -> None:
        """Delete all streams of a scope."""
        for name in list(self._base.client.controller.list_streams(scope)):
            self.drop_stream(Stream(scope, name))

    def _make(
        self, stream: Stream, request: TableRequest, registry: SchemaRegistry | None, formed: Schema | None
    ) -> None:
        """The stream comes last: before it is there, nobody sees anything of the table."""
        client = self._base.client
        ledger = self._claim(stream)
        made_group = False

        def make_group() -> None:
            nonlocal made_group
            if registry is not None and formed is not None:
                info = schema_info(formed)
                made_group = registry.create_group(
                    stream.scope,
                    stream.name,
                    serialization_format=info.serialization_format,
                    compatibility=request.compatibility,
                )
                registry.add_schema(stream.scope, stream.name, info)

        try:
            together(make_group, lambda: ledger.set_properties(request.properties))
            is_new = client.controller.create_stream(stream, request.configuration)
        except PravegaError:
            if not self._base.exists(stream):
                delete_ledger(client, stream)
                if registry is not None and made_group:
                    registry.delete_group(stream.scope, stream.name)
            raise
        if not is_new:
            raise StreamExistsError(f'stream "{stream}" exists already')
        # Who was so slow that others took it for dead may find theirs there; the stream's maker decides.
        if ledger.properties() != request.properties:
            ledger.set_properties(request.properties)

    def _claim(self, stream: Stream) -> Ledger:
        """The table's commit log, which of several who create the table at once only one can make."""
        deadline = time.monotonic() + CLAIM_S
        while (ledger := claim_ledger(self._base.client, stream)) is None:
            if self._is_left_over(stream):
                registry = self._base.registry
                if registry is not None:
                    registry.delete_group(stream.scope, stream.name)
                delete_ledger(self._base.client, stream)
                continue
            if time.monotonic() > deadline:
                # Nobody is making the table: its stream was deleted by other means, or its maker has died.
                delete_ledger(self._base.client, stream)
                deadline = time.monotonic() + CLAIM_S
            time.sleep(0.1)
        return ledger

    def _is_left_over(self, stream: Stream) -> bool:
        """Whether the commit log that is there is of a table whose stream was deleted by other means.

        Raises:
            StreamExistsError: the stream is there.
        """
        # A table that is only being made has no versions. The log is looked at first: a stream may come meanwhile.
        try:
            ledger = open_ledger(self._base.client, stream)
            is_left_over = ledger is not None and ledger.is_left_over()
        except TableBeingDroppedError:
            # Another statement deletes it just now.
            is_left_over = False
        if self._base.exists(stream):
            raise StreamExistsError(f'stream "{stream}" exists already')
        return is_left_over

    def drop_stream(self, stream: Stream) -> bool:
        """Delete a stream with its events, its schema group, its commit log and the subscriptions to it.

        The stream goes last: while anything is left the table is there, and can be dropped again. What fails first, as
        without an answer of the registry, leaves all of it.

        Returns:
            False when another statement has deleted the stream meanwhile.
        """
        self._base.forget(stream)
        controller = self._base.client.controller
        limit, first = Limit(_DROP_PATIENCE_S), controller.identity(stream)
        while True:
            try:
                return self._delete(stream, self._base.registry, first)
            except (NotFoundError, TableBeingDroppedError, StreamNotSealedError):
                # Another statement drops it, too, and may have made it again.
                if not controller.stream_exists(stream):
                    return False
                # Where it came between a look and the seal, this statement has sealed it.
                replaced = None not in (first, now := controller.identity(stream)) and now != first
                if replaced and not controller.is_sealed(stream):
                    return False
                if not limit.wait(_DROP_POLL_S):
                    raise

    def _delete(self, stream: Stream, registry: SchemaRegistry | None, first: tuple[int, ...] | None) -> bool:
        """Delete what is there when it is sealed; what somebody makes behind that stays.

        Args:
            stream: the stream.
            registry: the registry, where there is one.
            first: the stream's identity before.
        """
        client = self._base.client
        controller, opened = client.controller, Begun(lambda: self._readable_ledger(stream))
        if registry is None:
            subscribers = controller.subscribers(stream)
        else:
            _, subscribers = together(
                lambda: registry.delete_group(stream.scope, stream.name), lambda: controller.subscribers(stream)
            )
        self._end_subscriptions(stream, subscribers)
        ledger = opened.result()
        if ledger is None:
            sealed = seal(client, stream, None)
            # A transaction that reads the table may have made one meanwhile.
            self._close(stream, sealed)
        elif close(client, ledger, Closing.DROP).pending is None:
            sealed, _ = together(lambda: seal(client, stream, None), lambda: delete_ledger(client, stream, first))
        else:
            # It says what is being committed, which the seal may have to wait for.
            sealed = seal(client, stream, ledger)
        # Until the stream was sealed, a writer that begins could make a log, also behind a deletion.
        delete_ledger(client, stream, sealed)
        if sealed is not None and controller.identity(stream) not in (None, sealed):
            raise StreamNotFoundError(f'stream "{stream}" was dropped and made again')
        return controller.delete_stream(stream)

    def _readable_ledger(self, stream: Stream) -> Ledger | None:
        """The stream's commit log."""
        # One that can't be read is deleted all the same.
        with suppress(PravegaError):
            ledger = open_ledger(self._base.client, stream)
            if ledger is not None:
                ledger.state()
                return ledger
        return None

    def _close(self, stream: Stream, sealed: tuple[int, ...] | None) -> None:
        ledger = self._readable_ledger(stream)
        if ledger is not None and (sealed is None or self._base.client.controller.identity(stream) == sealed):
            close(self._base.client, ledger, Closing.DROP)

    def _end_subscriptions(self, stream: Stream, subscribers: Iterable[str]) -> None:
        """Once a stream is gone the controller can't end subscriptions to it, and their scopes could never be deleted
        (measured with 0.13: it tries again for ever)."""
        controller = self._base.client.controller
        for subscriber in subscribers:
            scope, _, name = subscriber.partition("/")
            if any(one.stream != stream for one in controller.reader_group(scope, name).streams):
                controller.update_reader_group(scope, name, lambda group: _without(group, stream))
            else:
                controller.delete_reader_group(scope, name)


def _without(group: ReaderGroup, stream: Stream) -> ReaderGroup:
    return replace(group, streams=tuple(one for one in group.streams if one.stream != stream))


def schema_info(formed: Schema) -> SchemaInfo:
    """A schema as the registry takes it."""
    return SchemaInfo(
        type=formed.type, serialization_format=REGISTERED.get(formed.format, formed.format), schema_data=formed.data
    )


def _formed(request: TableRequest, stream: Stream) -> Schema:
    """The schema of a new table, of the type that its property names, where it does."""
    wanted = request.properties.get(SCHEMA_TYPE)
    if wanted is None:
        return schema_for(request.format, request.schema, name=stream.name, namespace=stream.scope)
    formed = typed_schema(request, wanted, stream)
    if formed.type != wanted:
        raise ConfigurationError(f'table property "{SCHEMA_TYPE}": no type can be called "{wanted}" in {formed.format}')
    return formed


def typed_schema(request: TableRequest, type_name: str, stream: Stream) -> Schema:
    """The schema of a table, of a type.

    Args:
        request: the CREATE TABLE or REPLACE TABLE.
        type_name: the type.
        stream: the table's stream.
    """
    space, _, name = type_name.rpartition(".")
    if request.format == "json" or not name:
        new_schema = schema_for(request.format, request.schema, name=stream.name, namespace=stream.scope)
        return registered_schema(REGISTERED[request.format], type_name, new_schema.data)
    return schema_for(request.format, request.schema, name=name, namespace=space)


def truncate_later(client: Client, ledger: Ledger) -> None:
    """Let the next commit take the place of all rows. Readers see the present ones until then.

    Args:
        client: the cluster.
        ledger: the table's commit log.
    """
    while True:
        state = settle(client, ledger)
        try:
            ledger.truncate_later(state)
        except ConflictError:
            continue
        return


def truncate_visible(client: Client, stream: Stream) -> None:
    """Remove all events of a stream that are visible now: as a version, where it has a commit log.

    Args:
        client: the cluster.
        stream: the stream.
    """
    ledger = open_ledger(client, stream)
    if ledger is None:
        client.truncate(proper_cut(client, stream, take_snapshot(client, stream).cut))
    else:
        replace_all(client, ledger)
