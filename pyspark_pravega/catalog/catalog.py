"""Scopes as namespaces and streams as tables."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructType

from pyspark_pravega.catalog.names import scope_of, stream_of, to_sql
from pyspark_pravega.catalog.properties import TableRequest, check_request
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.definition import TableDefinition, load_definition
from pyspark_pravega.connector.ledger import Ledger, claim_ledger, delete_ledger, is_ledger_name
from pyspark_pravega.connector.shared import shared_client, shared_registry
from pyspark_pravega.errors import (
    ConfigurationError,
    PravegaError,
    ScopeExistsError,
    ScopeNotEmptyError,
    ScopeNotFoundError,
    StreamExistsError,
    StreamNotFoundError,
)
from pyspark_pravega.registry import SchemaInfo, SchemaRegistry
from pyspark_pravega.serde.formats import FORMATS, REGISTERED, Schema, schema_for
from pyspark_pravega.settings import Settings

CLAIM_S = 30.0
"""How long another one's CREATE TABLE of the same name may take."""


class Catalog:
    """A Pravega cluster and its schema registry as a catalog. Safe for use by several threads."""

    def __init__(self, settings: Settings) -> None:
        """Open a catalog; nothing is contacted yet.

        Args:
            settings: where the cluster and the registry are.
        """
        self.settings = settings

    @property
    def client(self) -> Client:
        """The cluster."""
        return shared_client(self.settings)

    # Namespaces

    def list_namespaces(self) -> list[str]:
        """The names of all scopes, in SQL's spelling, sorted."""
        return sorted(to_sql(scope) for scope in self.client.controller.list_scopes())

    def namespace_properties(self, namespace: Sequence[str]) -> dict[str, str]:
        """A namespace's properties.

        Raises:
            ScopeNotFoundError: there is no such scope.
        """
        scope = self._scope(namespace)
        return {"scope": scope}

    def create_namespace(self, namespace: Sequence[str]) -> None:
        """Create a scope.

        Raises:
            ScopeExistsError: it was there.
        """
        scope = scope_of(namespace)
        if not self.client.controller.create_scope(scope):
            raise ScopeExistsError(f'scope "{scope}" exists already')

    def drop_namespace(self, namespace: Sequence[str], *, cascade: bool) -> bool:
        """Delete a scope.

        Args:
            namespace: which one.
            cascade: delete its tables first.

        Returns:
            False when there was none.

        Raises:
            ScopeNotEmptyError: it holds tables, and `cascade` isn't set.
        """
        scope = scope_of(namespace)
        controller = self.client.controller
        if not controller.scope_exists(scope):
            return False
        streams = list(controller.list_streams(scope))
        if streams and not cascade:
            raise ScopeNotEmptyError(
                f'scope "{scope}" still holds {len(streams)} streams: drop them first, or use CASCADE'
            )
        for stream in streams:
            self._drop(Stream(scope, stream))
        if cascade:
            # The logs of streams that were deleted by other means.
            for table in filter(is_ledger_name, list(controller.list_key_value_tables(scope))):
                controller.delete_key_value_table(scope, table)
        return controller.delete_scope(scope)

    # Tables

    def list_tables(self, namespace: Sequence[str]) -> list[str]:
        """The names of all streams in a scope, in SQL's spelling, sorted.

        Raises:
            ScopeNotFoundError: there is no such scope.
        """
        return sorted(to_sql(stream) for stream in self.client.controller.list_streams(scope_of(namespace)))

    def load_table(self, namespace: Sequence[str], table: str) -> TableDefinition:
        """What a stream is as a table.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        return load_definition(self.client, self.settings, stream_of(namespace, table))

    def create_table(
        self,
        namespace: Sequence[str],
        table: str,
        schema: StructType,
        transforms: Sequence[Mapping[str, Any]],
        properties: Mapping[str, str],
    ) -> TableDefinition:
        """Create a stream with its schema and its commit log. When this fails nothing is left behind.

        Args:
            namespace: its namespace.
            table: its name.
            schema: its columns.
            transforms: see `check_request`.
            properties: its properties.

        Raises:
            StreamExistsError: there is a stream of this name.
            ScopeNotFoundError: there is no such scope.
            SchemaError: a column can't be mapped, or the registry refuses the schema.
            ConfigurationError: a property is wrong.
        """
        stream = stream_of(namespace, table)
        request = check_request(schema, transforms, properties)
        registry = formed = None
        custom = request.format not in FORMATS
        if request.format in REGISTERED or custom:
            registry = shared_registry(self.settings)
            if registry is None and (not custom or request.properties.get("encoding-header") == "true"):
                raise ConfigurationError(
                    "a table with columns needs a schema registry: set schema-registry-uri (or "
                    "PRAVEGA_SCHEMA_REGISTRY_URI), or make a table of raw events, (event BINARY) with "
                    "TBLPROPERTIES ('format' = 'raw')"
                )
            formed = schema_for(request.format, schema, name=stream.name, namespace=stream.scope)
        self._scope(namespace)
        if self._exists(stream):
            raise StreamExistsError(f'stream "{stream}" exists already')
        self._make(stream, request, registry, formed)
        return load_definition(self.client, self.settings, stream)

    def drop_table(self, namespace: Sequence[str], table: str) -> bool:
        """Delete a stream with its events, its schema group and its commit log.

        Returns:
            False when there was none.
        """
        stream = stream_of(namespace, table)
        if not self._exists(stream):
            return False
        self._drop(stream)
        return True

    def _make(
        self, stream: Stream, request: TableRequest, registry: SchemaRegistry | None, formed: Schema | None
    ) -> None:
        """The stream comes last: before it is there, nobody sees anything of the table."""
        client = self.client
        ledger = self._claim(stream)
        made_group = False
        try:
            ledger.set_properties(request.properties)
            if registry is not None and formed is not None:
                info = _schema_info(formed)
                made_group = registry.create_group(
                    stream.scope,
                    stream.name,
                    serialization_format=info.serialization_format,
                    compatibility=request.compatibility,
                )
                registry.add_schema(stream.scope, stream.name, info)
            made = client.controller.create_stream(stream, request.configuration)
        except PravegaError:
            if not self._exists(stream):
                delete_ledger(client, stream)
                if registry is not None and made_group:
                    registry.delete_group(stream.scope, stream.name)
            raise
        if not made:
            raise StreamExistsError(f'stream "{stream}" exists already')
        # Who was so slow that others took it for dead may find theirs there; the stream's maker decides.
        if ledger.properties() != request.properties:
            ledger.set_properties(request.properties)

    def _claim(self, stream: Stream) -> Ledger:
        """The table's commit log, which of several who create the table at once only one can make."""
        deadline = time.monotonic() + CLAIM_S
        while (ledger := claim_ledger(self.client, stream)) is None:
            if self._exists(stream):
                raise StreamExistsError(f'stream "{stream}" exists already')
            if time.monotonic() > deadline:
                # Nobody is making the table: its stream was deleted by other means, or its maker has died.
                delete_ledger(self.client, stream)
                deadline = time.monotonic() + CLAIM_S
            time.sleep(0.1)
        return ledger

    def _drop(self, stream: Stream) -> None:
        controller = self.client.controller
        controller.seal_stream(stream)
        controller.delete_stream(stream)
        registry = shared_registry(self.settings)
        if registry is not None:
            registry.delete_group(stream.scope, stream.name)
        delete_ledger(self.client, stream)

    def _exists(self, stream: Stream) -> bool:
        try:
            self.client.controller.stream_configuration(stream)
        except StreamNotFoundError:
            return False
        return True

    def _scope(self, namespace: Sequence[str]) -> str:
        scope = scope_of(namespace)
        if not self.client.controller.scope_exists(scope):
            raise ScopeNotFoundError(f'scope "{scope}" does not exist')
        return scope


def _schema_info(formed: Schema) -> SchemaInfo:
    return SchemaInfo(
        type=formed.type, serialization_format=REGISTERED.get(formed.format, formed.format), schema_data=formed.data
    )
