"""What all statements share: the cluster, the registry, and the tables looked up lately. No look-up writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark_pravega.catalog.looks import Looks
from pyspark_pravega.catalog.names import scope_of, stream_of
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.key_value import KeyValueDefinition, find_key_value, no_stream
from pyspark_pravega.connector.shared import shared_client, shared_registry
from pyspark_pravega.connector.store import NamespaceStore, is_internal
from pyspark_pravega.connector.table import CHANGES, LOG, TableDefinition, load_definition
from pyspark_pravega.errors import (
    AuthenticationError,
    ConfigurationError,
    KeyValueTableNotFoundError,
    ScopeNotFoundError,
    StreamNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.lake import LakeConfiguration, file_properties
from pyspark_pravega.registry import SchemaRegistry
from pyspark_pravega.settings import Settings

FRESH_S = 0.005
"""A statement's own look-ups of one table are nearer to each other than this; it isn't stale for longer."""
PLANNED_S = 1.0
"""How long a scan or write may be planned with what the statement's analysis has looked up."""
_KEPT = 512
DEFAULT_NAMESPACE = "default"
"""Always there, because JDBC drivers, PyHive and others begin a session with it (USE `default`). Its scope is made with
the first thing that is put into it."""


class CatalogBase:
    """A Pravega cluster and its schema registry. Safe for use by several threads."""

    def __init__(self, settings: Settings, lake: Mapping[str, str] | None = None) -> None:
        """Open a catalog; nothing is contacted yet.

        Args:
            settings: where the cluster and the registry are.
            lake: where the lake is, as of `LakeConfiguration.of`.
        """
        self._lake = dict(lake or {})
        self.settings = replace(settings, lake=file_properties(self._lake))
        self._streams: Looks[Stream, TableDefinition] = Looks(_KEPT)
        self._key_values: Looks[Stream, KeyValueDefinition | None] = Looks(_KEPT)

    @property
    def client(self) -> Client:
        """The cluster."""
        return shared_client(self.settings)

    @property
    def lake(self) -> LakeConfiguration:
        """Where the lake is.

        Raises:
            ConfigurationError: the configuration says nothing that means anything.
        """
        return LakeConfiguration.of(self._lake)

    @property
    def registry(self) -> SchemaRegistry | None:
        """The schema registry; None where there is none."""
        return shared_registry(self.settings)

    def registry_of(self, stream: Stream) -> SchemaRegistry:
        """The schema registry, for the schema of a stream.

        Raises:
            ConfigurationError: there is none.
        """
        registry = self.registry
        if registry is None:
            raise ConfigurationError(
                f'the schema of stream "{stream}" is to be kept in a schema registry: set schema-registry-uri '
                "(or PRAVEGA_SCHEMA_REGISTRY_URI)"
            )
        return registry

    def relation(
        self, namespace: Sequence[str], table: str, *, age_s: float = FRESH_S
    ) -> TableDefinition | KeyValueDefinition:
        """A table, be it a stream or a key-value table.

        Args:
            namespace: its namespace.
            table: its name; with `$log` behind it the events of a table that has a key, with `$changes` what its
                versions have changed.
            age_s: how long ago it may have been looked up.

        Raises:
            StreamNotFoundError: there is neither, or a view of that name.
            UnsupportedOperationError: the table has no key, and so no such log.
        """
        if table.endswith(LOG):
            return self.definition(stream_of(namespace, table.removesuffix(LOG)), age_s=age_s).as_log()
        if table.endswith(CHANGES):
            return self.load_table(namespace, table.removesuffix(CHANGES), age_s=age_s).as_changes()
        stream = stream_of(namespace, table)
        known = self._key_values.recent(stream, age_s)
        if known is not None:
            return known
        try:
            return self.definition(stream, age_s=age_s)
        except StreamNotFoundError:
            # Views are more frequent than key-value tables: the caller looks for one.
            if self.store(stream.scope).view(stream.name) is not None:
                raise
            definition = self.key_value(stream) if self.is_key_value(stream) else None
            if definition is None:
                raise
            return definition

    def load_table(self, namespace: Sequence[str], table: str, *, age_s: float = FRESH_S) -> TableDefinition:
        """A stream as a table, see `relation`; for what is possible with streams only.

        Raises:
            StreamNotFoundError: there is no such stream.
            UnsupportedOperationError: it is a key-value table.
        """
        relation = self.relation(namespace, table, age_s=age_s)
        if isinstance(relation, KeyValueDefinition):
            self.check_no_key_value(relation.stream)
            raise StreamNotFoundError(f'stream "{relation.stream}" does not exist')
        return relation

    def definition(self, stream: Stream, *, age_s: float = FRESH_S) -> TableDefinition:
        """What a stream is as a table.

        Args:
            stream: the stream.
            age_s: how long ago it may have been looked up.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        known = self._streams.recent(stream, age_s)
        return known or self._streams.look(
            stream, lambda: load_definition(self.client, self.settings, stream, with_faults=True)
        )

    def key_value(self, stream: Stream) -> KeyValueDefinition | None:
        """A key-value table, looked up now; None where there is none that SQL shows this user."""
        return self._key_values.look(stream, lambda: find_key_value(self.client, self.settings, stream))

    def forget(self, stream: Stream) -> None:
        """Look a table up anew, because it has changed."""
        self._streams.forget(stream)
        self._key_values.forget(stream)

    def store(self, scope: str) -> NamespaceStore:
        """What a scope keeps beside streams."""
        return NamespaceStore(self.client, scope)

    def exists(self, stream: Stream) -> bool:
        """Whether there is such a stream."""
        try:
            self.client.controller.stream_configuration(stream)
        except StreamNotFoundError:
            return False
        return True

    def is_key_value(self, stream: Stream) -> bool:
        """Whether there is a key-value table of a stream's name, which SQL shows and the user may see."""
        if is_internal(stream.name):
            return False
        try:
            self.client.controller.key_value_table_configuration(stream.scope, stream.name)
        except (KeyValueTableNotFoundError, AuthenticationError):
            # Without rights to a table, Pravega doesn't tell whether there is one.
            return False
        return True

    def check_no_key_value(self, stream: Stream) -> None:
        """Refuse what is for streams, where the stream isn't there.

        Raises:
            UnsupportedOperationError: it is a key-value table.
        """
        if self.is_key_value(stream):
            raise no_stream(stream)

    def check_no_view(self, stream: Stream) -> None:
        """Refuse what is for streams, where the stream isn't there.

        Raises:
            UnsupportedOperationError: there is a view of its name.
        """
        if self.store(stream.scope).view(stream.name) is not None:
            raise UnsupportedOperationError(
                f'"{stream}" is a view, and procedures are for streams: name a table that the view reads'
            )

    def scope(self, namespace: Sequence[str], *, make: bool = False) -> str:
        """The scope behind a namespace.

        Args:
            namespace: its parts.
            make: whether something is to be put into it, so that the default namespace gets its scope.

        Raises:
            ScopeNotFoundError: there is no such scope.
        """
        scope = scope_of(namespace)
        if not self.client.controller.scope_exists(scope):
            if not make or scope != DEFAULT_NAMESPACE:
                raise no_such_scope(scope)
            self.client.controller.create_scope(scope)
        return scope

    def is_empty_default(self, namespace: Sequence[str]) -> bool:
        """Whether this is the default namespace, and nothing was ever put into it."""
        return scope_of(namespace) == DEFAULT_NAMESPACE and not self.client.controller.scope_exists(DEFAULT_NAMESPACE)


def no_such_scope(scope: str) -> ScopeNotFoundError:
    """The error of a namespace that isn't there."""
    return ScopeNotFoundError(f'scope "{scope}" does not exist')
