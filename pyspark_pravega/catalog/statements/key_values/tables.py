"""Pravega's key-value tables as tables: listed, made, altered, dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql.types import StructType

from pyspark_pravega.catalog.base import CatalogBase
from pyspark_pravega.catalog.ddl import RemoveProperty, SetProperty, TableChange, Transform
from pyspark_pravega.catalog.names import scope_of, stream_of
from pyspark_pravega.catalog.properties import PROVIDER, property_name
from pyspark_pravega.catalog.statements.key_values.request import (
    KeyValueRequest,
    check_altered,
    check_key_value_request,
)
from pyspark_pravega.catalog.statements.tables import schema_info
from pyspark_pravega.client import KeyValueTable, Stream
from pyspark_pravega.connector.key_value import (
    KEPT_KEY,
    KEY_VALUE,
    KEY_VALUE_PROPERTIES,
    PARTITIONS,
    TABLE_TYPE,
    KeyValueDefinition,
    key_value_definition,
    made_as,
    own_schema,
)
from pyspark_pravega.connector.log import Content
from pyspark_pravega.connector.option_names import FORMAT, ISOLATION_LEVEL
from pyspark_pravega.connector.store import STORE, is_internal
from pyspark_pravega.connector.table import PRIMARY_KEY, Check, given_properties
from pyspark_pravega.errors import (
    AuthenticationError,
    ConfigurationError,
    InvalidNameError,
    PravegaError,
    StreamExistsError,
)
from pyspark_pravega.serde.formats import REGISTERED
from pyspark_pravega.serde.native import describe
from pyspark_pravega.together import together
from pyspark_pravega.values import listed

_KEPT = 512


class KeyValueTables:
    """What statements do where the table is a key-value table."""

    def __init__(self, base: CatalogBase) -> None:
        """Serve a catalog.

        Args:
            base: the cluster, the registry, and what was looked up.
        """
        self._base = base

    def names(self, namespace: Sequence[str]) -> list[str]:
        """The names of all key-value tables of a scope that SQL shows this user, as Pravega has them."""
        try:
            tables = list(self._base.client.controller.list_key_value_tables(scope_of(namespace)))
        except AuthenticationError:
            return []
        return [name for name in tables if not is_internal(name)]

    def create(
        self,
        namespace: Sequence[str],
        table: str,
        schema: StructType,
        transforms: Sequence[Transform],
        properties: Mapping[str, str],
        *,
        checks: Sequence[Check] = (),
    ) -> KeyValueDefinition:
        """Create a key-value table with the schema of its values.

        Args:
            namespace: its namespace.
            table: its name.
            schema: its columns.
            transforms: its clauses.
            properties: its properties.
            checks: its CHECK constraints.

        Raises:
            StreamExistsError: there is something of this name.
            ScopeNotFoundError: there is no such scope.
            SchemaError: a column can't be mapped, or the registry refuses the schema.
            ConfigurationError: a property is wrong.
        """
        stream = stream_of(namespace, table)
        if is_internal(stream.name):
            raise InvalidNameError(
                f"\"{stream.name}\" is a name of the catalog's own key-value tables: take one that doesn't end with "
                f'".ledger", and isn\'t {STORE}'
            )
        request = check_key_value_request(schema, transforms, properties, checks)
        registry = self._base.registry if request.is_registered else None
        if request.is_registered and registry is None:
            raise ConfigurationError(
                "the schema of values is kept in a schema registry: set schema-registry-uri (or "
                "PRAVEGA_SCHEMA_REGISTRY_URI), or let the table keep it itself, TBLPROPERTIES ('encoding-header' = "
                "'false')"
            )
        scope = self._base.scope(namespace, make=True)
        self._check_free(stream)
        # What has no place in the format is said before anything is made.
        formed = own_schema(request.format, request.value_schema, stream) if request.format in REGISTERED else None
        made_group = False
        try:
            if registry is not None and formed is not None:
                info = schema_info(formed)
                made_group = registry.create_group(
                    scope,
                    stream.name,
                    serialization_format=info.serialization_format,
                    compatibility=request.compatibility,
                )
                registry.add_schema(scope, stream.name, info)
            is_new = self._base.client.create_key_value_table(
                scope,
                stream.name,
                partitions=request.configuration.partitions,
                key_bytes=request.configuration.key_bytes,
                secondary_key_bytes=request.configuration.secondary_key_bytes,
            )
        except PravegaError:
            if registry is not None and made_group and not self._base.is_key_value(stream):
                registry.delete_group(scope, stream.name)
            raise
        if is_new is False or (is_new is None and not self._is_as_asked(stream, request)):
            raise _exists(stream)
        self._keep(stream, request)
        definition = self._base.key_value(stream)
        assert definition is not None
        return definition

    def drop(self, stream: Stream) -> bool:
        """Delete a table with its schema group.

        Returns:
            False when there was none.
        """
        if not self._base.is_key_value(stream):
            return False
        self._drop(stream)
        return True

    def drop_made(self, stream: Stream, made_at: str) -> None:
        """Delete a table, unless another statement has made another one of that name meanwhile.

        Args:
            stream: the table's name.
            made_at: `made_as` of the one that is meant.
        """
        definition = self._base.key_value(stream) if self._base.is_key_value(stream) else None
        if definition is not None and made_as(definition.segments) == made_at:
            self._drop(stream)

    def drop_all(self, scope: str) -> None:
        """Delete all tables of a scope that SQL shows."""
        for name in list(self._base.client.controller.list_key_value_tables(scope)):
            if not is_internal(name):
                self._drop(Stream(scope, name))

    def alter(self, relation: KeyValueDefinition, changes: Sequence[TableChange]) -> KeyValueDefinition:
        """Change a table's properties.

        Args:
            relation: the table, as it is now.
            changes: what is to change.

        Returns:
            The table as it is after that.

        Raises:
            ConfigurationError: a property is unknown or malformed.
            UnsupportedOperationError: something else is to change.
        """
        stream, given, removed = relation.stream, dict[str, str](), set[str]()
        for change in changes:
            if isinstance(change, SetProperty):
                given[change.property] = change.value
            elif isinstance(change, RemoveProperty):
                removed.add(property_name(change.property, KEY_VALUE_PROPERTIES))
            else:
                raise relation.refuse(
                    f"ALTER TABLE ({type(change).__name__}) of",
                    "its properties can be changed, its columns and constraints not: make a new table AS SELECT",
                )
        is_ours = KEPT_KEY in relation.properties
        wanted = check_altered(given, is_ours=is_ours, name=stream)
        unset = removed & (KEY_VALUE_PROPERTIES - ({ISOLATION_LEVEL} if is_ours else {FORMAT, ISOLATION_LEVEL}))
        check_altered(dict.fromkeys(unset, ""), is_ours=is_ours, name=stream)
        made_at = made_as(relation.segments)

        def changed(before: Content | None) -> Content:
            kept = (
                before["properties"] if before is not None and before["made"] == made_at else relation.properties.texts
            )
            properties = {key: value for key, value in {**kept, **wanted}.items() if key not in removed}
            # What doesn't fit the table's keys is said now.
            self._of_properties(relation, properties)
            return {"made": made_at, "properties": properties}

        self._base.store(stream.scope).change_table(stream.name, changed)
        self._base.forget(stream)
        now = self._base.key_value(stream)
        assert now is not None
        return now

    def _keep(self, stream: Stream, request: KeyValueRequest) -> None:
        """Keep what SQL knows of a table that was just made; without it the table isn't wanted.

        Raises:
            StreamExistsError: another statement has done so. Where answers are lost several may have made the table: it
                is of the first one that gets here.
        """

        def first(before: Content | None) -> Content:
            if before is not None and before["made"] == made_at:
                raise _exists(stream)
            return {"made": made_at, "properties": request.properties}

        try:
            made_at = made_as(KeyValueTable(self._base.client.pool, stream.scope, stream.name).segments)
            self._base.store(stream.scope).change_table(stream.name, first)
        except StreamExistsError:
            raise
        except PravegaError:
            self._drop(stream)
            raise

    def _is_as_asked(self, stream: Stream, request: KeyValueRequest) -> bool:
        """Whether a table is the one that a statement has asked for, or as good as that: as wanted, and empty."""
        there = self._base.client.controller.key_value_table_configuration(stream.scope, stream.name)
        return (
            replace(request.configuration, rollover_size_bytes=there.rollover_size_bytes) == there
            and next(self._base.client.key_value_table(stream.scope, stream.name).iterate_keys(), None) is None
        )

    def _of_properties(self, definition: KeyValueDefinition, properties: dict[str, str]) -> KeyValueDefinition:
        return key_value_definition(
            self._base.settings, definition.stream, definition.segments, definition.configuration, properties
        )

    def _check_free(self, stream: Stream) -> None:
        """Refuse to make a table where something of its name is there."""
        exists, view = together(
            lambda: self._base.exists(stream), lambda: self._base.store(stream.scope).view(stream.name)
        )
        if exists:
            raise StreamExistsError(f'stream "{stream}" exists already: a key-value table needs another name')
        if view is not None:
            raise StreamExistsError(f'view "{stream}" exists already: a table needs another name')
        if self._base.is_key_value(stream):
            raise _exists(stream)

    def _drop(self, stream: Stream) -> None:
        """Delete a table with its schema group. The table goes last, so that a DROP that fails can be run again."""
        self._base.forget(stream)
        registry = self._base.registry
        if registry is not None and not self._base.exists(stream):
            registry.delete_group(stream.scope, stream.name)
        self._base.store(stream.scope).drop_table(stream.name)
        self._base.client.controller.delete_key_value_table(stream.scope, stream.name)


def _exists(stream: Stream) -> StreamExistsError:
    return StreamExistsError(f'key-value table "{stream}" exists already')


def loaded_key_value_properties(definition: KeyValueDefinition) -> dict[str, str]:
    """Those of a key-value table's properties that are known without asking for more.

    Args:
        definition: the table.
    """
    return {
        "provider": PROVIDER,
        TABLE_TYPE: KEY_VALUE,
        FORMAT: definition.values.format,
        "codec": describe(definition.values.codec),
        PRIMARY_KEY: listed(definition.layout.names),
        **given_properties(definition.properties),
        PARTITIONS: str(definition.configuration.partitions),
    }


def shown_key_value_properties(definition: KeyValueDefinition) -> dict[str, str]:
    """What SHOW TBLPROPERTIES and DESCRIBE EXTENDED show of a key-value table.

    Args:
        definition: the table.
    """
    policy = definition.values.compatibility
    return {**loaded_key_value_properties(definition), **({"compatibility": policy} if policy else {})}
