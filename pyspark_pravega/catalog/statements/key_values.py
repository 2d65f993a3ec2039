"""Pravega's key-value tables as tables: found, made, altered, emptied, dropped. A stream of that name comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructType

from pyspark_pravega.catalog.base import FRESH_S, is_internal
from pyspark_pravega.catalog.looks import Looks
from pyspark_pravega.catalog.names import scope_of, stream_of, to_sql
from pyspark_pravega.catalog.properties import PROVIDER
from pyspark_pravega.catalog.statements.altering import Change
from pyspark_pravega.catalog.statements.key_value_request import (
    ALTERABLE,
    KeyValueRequest,
    check_altered,
    check_key_value_request,
    is_key_value_request,
)
from pyspark_pravega.catalog.statements.replacing import Replacing, Staged
from pyspark_pravega.catalog.statements.tables import schema_info
from pyspark_pravega.catalog.store import STORE
from pyspark_pravega.client import KeyValueTable, Stream
from pyspark_pravega.connector.key_value import (
    FORMAT,
    KEPT_KEY,
    KEY_VALUE,
    PARTITIONS,
    TABLE_TYPE,
    KeyValueDefinition,
    key_value_definition,
    load_key_value,
    made_as,
    own_schema,
    truncate,
)
from pyspark_pravega.connector.log import Content
from pyspark_pravega.connector.options import ISOLATION_LEVEL
from pyspark_pravega.connector.shared import shared_registry
from pyspark_pravega.connector.table import PRIMARY_KEY, Check, TableDefinition
from pyspark_pravega.connector.write import Seen, StagedTable
from pyspark_pravega.errors import (
    AuthenticationError,
    ConfigurationError,
    InvalidNameError,
    KeyValueTableNotFoundError,
    PravegaError,
    StreamExistsError,
    StreamNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.serde.formats import REGISTERED
from pyspark_pravega.serde.native import describe
from pyspark_pravega.settings import Settings, canonical_key
from pyspark_pravega.together import together
from pyspark_pravega.values import listed

_KEPT = 512


class KeyValueTables(Replacing):
    """What statements do where the table is a key-value table."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._key_values: Looks[Stream, KeyValueDefinition] = Looks(_KEPT)

    def relation(
        self, namespace: Sequence[str], table: str, *, age_s: float = FRESH_S
    ) -> TableDefinition | KeyValueDefinition:
        """A table, be it a stream or a key-value table.

        Args:
            namespace: its namespace.
            table: its name.
            age_s: how long ago it may have been looked up.

        Raises:
            StreamNotFoundError: there is neither, or a view of that name.
        """
        if "$" not in table:
            known = self._key_values.recent(stream_of(namespace, table), age_s)
            if known is not None:
                return known
        try:
            return super().load_table(namespace, table, age_s=age_s)
        except StreamNotFoundError:
            stream = None if "$" in table else stream_of(namespace, table)
            # Views are more frequent than key-value tables: the caller looks for one.
            if stream is None or self.store(stream.scope).view(stream.name) is not None:
                raise
            definition = self._stored_definition(stream) if self.is_key_value(stream) else None
            if definition is None:
                raise
            return definition

    def load_table(self, namespace: Sequence[str], table: str, *, age_s: float = FRESH_S) -> TableDefinition:
        """A stream as a table, for what is possible with streams only.

        Raises:
            UnsupportedOperationError: it is a key-value table.
        """
        relation = self.relation(namespace, table, age_s=age_s)
        if isinstance(relation, KeyValueDefinition):
            self.check_no_key_value(relation.stream)
            raise StreamNotFoundError(f'stream "{relation.stream}" does not exist')
        return relation

    def list_tables(self, namespace: Sequence[str]) -> list[str]:
        """The names of all streams and key-value tables of a scope, in SQL's spelling, sorted."""
        if self.is_empty_default(namespace):
            return []
        of_streams = super().list_tables
        streams, others = together(lambda: of_streams(namespace), lambda: self._listed(namespace))
        return sorted({*streams, *map(to_sql, others)})

    def create_table(
        self,
        namespace: Sequence[str],
        table: str,
        schema: StructType,
        transforms: Sequence[Mapping[str, Any]],
        properties: Mapping[str, str],
        *,
        checks: Sequence[Check] = (),
    ) -> TableDefinition:
        """See `Tables.create_table`; of a stream."""
        return super().create_table(namespace, table, schema, transforms, _of_a_stream(properties), checks=checks)

    def create_relation(
        self,
        namespace: Sequence[str],
        table: str,
        schema: StructType,
        transforms: Sequence[Mapping[str, Any]],
        properties: Mapping[str, str],
        *,
        checks: Sequence[Check] = (),
    ) -> TableDefinition | KeyValueDefinition:
        """Create a table, a key-value table where the property `table-type` says so. See `Tables.create_table`."""
        if not is_key_value_request(properties):
            return self.create_table(namespace, table, schema, transforms, properties, checks=checks)
        stream = stream_of(namespace, table)
        if is_internal(stream.name):
            raise InvalidNameError(
                f"\"{stream.name}\" is a name of the catalog's own key-value tables: take one that doesn't end with "
                f'".ledger", and isn\'t {STORE}'
            )
        request = check_key_value_request(schema, transforms, properties, checks)
        registry = shared_registry(self.settings) if request.is_registered else None
        if request.is_registered and registry is None:
            raise ConfigurationError(
                "the schema of values is kept in a schema registry: set schema-registry-uri (or "
                "PRAVEGA_SCHEMA_REGISTRY_URI), or let the table keep it itself, TBLPROPERTIES ('encoding-header' = "
                "'false')"
            )
        scope = self.scope(namespace, make=True)
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
            is_new = self.client.create_key_value_table(
                scope,
                stream.name,
                partitions=request.configuration.partitions,
                key_bytes=request.configuration.key_bytes,
                secondary_key_bytes=request.configuration.secondary_key_bytes,
            )
        except PravegaError:
            if registry is not None and made_group and not self.is_key_value(stream):
                registry.delete_group(scope, stream.name)
            raise
        if not is_new:
            raise StreamExistsError(f'key-value table "{stream}" exists already')
        self._keep(stream, request)
        definition = self._stored_definition(stream)
        assert definition is not None
        return definition

    def _keep(self, stream: Stream, request: KeyValueRequest) -> None:
        """Keep what SQL knows of a table that was just made; without it the table isn't wanted."""
        try:
            made_at = made_as(KeyValueTable(self.client.pool, stream.scope, stream.name).segments)
            content: Content = {"made": made_at, "properties": request.properties}
            self.store(stream.scope).change_table(stream.name, lambda _: content)
        except PravegaError:
            self._drop(stream)
            raise

    def drop_table(self, namespace: Sequence[str], table: str) -> bool:
        """Delete a table, be it a stream or a key-value table with its schema group.

        Returns:
            False when there was none.
        """
        if super().drop_table(namespace, table):
            return True
        stream = stream_of(namespace, table)
        if not self.is_key_value(stream):
            return False
        self._drop(stream)
        return True

    def drop_streams(self, scope: str) -> None:
        """Delete all tables of a scope."""
        super().drop_streams(scope)
        for name in list(self.client.controller.list_key_value_tables(scope)):
            if not is_internal(name):
                self._drop(Stream(scope, name))

    def truncate_table(self, namespace: Sequence[str], table: str) -> None:
        """Remove all rows. Of a key-value table those that are there now, one after another."""
        relation = self.relation(namespace, table, age_s=0)
        if isinstance(relation, KeyValueDefinition):
            truncate(relation)
        else:
            super().truncate_table(namespace, table)

    def alter_relation(
        self, namespace: Sequence[str], table: str, changes: Sequence[Change], seen: Sequence[Seen] = ()
    ) -> TableDefinition | KeyValueDefinition:
        """Change a table. Of a key-value table only properties change. See `Altering.alter_table`."""
        relation = self.relation(namespace, table, age_s=0)
        if not isinstance(relation, KeyValueDefinition):
            return self.alter_table(namespace, table, changes, seen)
        stream, given, removed = relation.stream, dict[str, str](), set[str]()
        for change in changes:
            if change["kind"] == "SetProperty":
                given[change["property"]] = change["value"]
            elif change["kind"] == "RemoveProperty":
                name = change["property"]
                removed.add(name if "." in name else canonical_key(name))
            else:
                raise relation.refuse(
                    f"ALTER TABLE ({change['kind']}) of",
                    "its properties can be changed, its columns and constraints not: make a new table AS SELECT",
                )
        is_ours = KEPT_KEY in relation.properties
        wanted = check_altered(given, is_ours=is_ours, name=stream)
        unset = removed & (ALTERABLE - {FORMAT, ISOLATION_LEVEL})
        check_altered(dict.fromkeys(unset, ""), is_ours=is_ours, name=stream)
        made_at = made_as(relation.segments)

        def changed(before: Content | None) -> Content:
            kept = before["properties"] if before is not None and before["made"] == made_at else relation.properties
            properties = {key: value for key, value in {**kept, **wanted}.items() if key not in removed}
            # What doesn't fit the table's keys is said now.
            self._of_properties(relation, properties)
            return {"made": made_at, "properties": properties}

        self.store(stream.scope).change_table(stream.name, changed)
        self._key_values.forget(stream)
        now = self._stored_definition(stream)
        assert now is not None
        return now

    def supports_change(self, namespace: Sequence[str], table: str, change: Change) -> bool:
        """Whether a column can be changed so; of a key-value table none can."""
        if isinstance(self.relation(namespace, table), KeyValueDefinition):
            return False
        return super().supports_change(namespace, table, change)

    def stage_relation(
        self,
        namespace: Sequence[str],
        table: str,
        schema: StructType,
        transforms: Sequence[Mapping[str, Any]],
        properties: Mapping[str, str],
        *,
        checks: Sequence[Check] = (),
        create: bool,
        replace: bool,
    ) -> tuple[TableDefinition | KeyValueDefinition, Staged]:
        """Prepare a table for its rows; see `Replacing.stage_table`. A key-value table is there from now on."""
        stream = stream_of(namespace, table)
        wanted = is_key_value_request(properties)
        there = not self.exists(stream) and self.is_key_value(stream)
        if not wanted and not there:
            given = _of_a_stream(properties)
            return self.stage_table(
                namespace, table, schema, transforms, given, checks=checks, create=create, replace=replace
            )
        if there and not replace:
            raise StreamExistsError(f'key-value table "{stream}" exists already')
        if there or not create or self.exists(stream):
            raise UnsupportedOperationError(
                f'"{stream}" can\'t be replaced, as it is or would become a key-value table: DROP it first, and then '
                "CREATE TABLE"
            )
        definition = self.create_relation(namespace, table, schema, transforms, properties, checks=checks)
        staged: Staged = {"scope": stream.scope, "stream": stream.name, "made": True, "replaces": False, "keys": True}
        own = made_as(definition.segments) if isinstance(definition, KeyValueDefinition) else None
        return definition, {**staged, "own": own}

    def staged_relation(self, staged: Staged) -> TableDefinition | KeyValueDefinition:
        """What a staged table will be, see `Replacing.staged_definition`."""
        if not staged.get("keys"):
            return self.staged_definition(staged)
        stream = Stream(staged["scope"], staged["stream"])
        definition = self._stored_definition(stream)
        if definition is None:
            raise StreamNotFoundError(f'key-value table "{stream}" does not exist any more')
        return definition

    def staged_table(self, staged: Staged) -> StagedTable | None:
        """See `Replacing.staged_table`."""
        return None if staged.get("keys") else super().staged_table(staged)

    def abort_staged(self, staged: Staged) -> None:
        """See `Replacing.abort_staged`."""
        stream = Stream(staged["scope"], staged["stream"])
        if not staged.get("keys"):
            super().abort_staged(staged)
            return
        definition = self._stored_definition(stream) if self.is_key_value(stream) else None
        # Somebody else may have made another one of that name meanwhile.
        if definition is not None and made_as(definition.segments) == staged["own"]:
            self._drop(stream)

    def rename_table(self, namespace: Sequence[str], table: str) -> None:
        """Refuse to rename a table.

        Raises:
            UnsupportedOperationError: always.
        """
        relation = self.relation(namespace, table)
        if isinstance(relation, KeyValueDefinition):
            raise relation.refuse("Renaming", "create a new table AS SELECT from it, and drop it; or create a view")
        super().rename_table(namespace, table)

    def _stored_definition(self, stream: Stream) -> KeyValueDefinition | None:
        """A key-value table, looked up now; None where there is none that SQL shows this user."""

        def find() -> KeyValueDefinition:
            return load_key_value(self.client, self.settings, stream, self.store(stream.scope).table(stream.name))

        try:
            return self._key_values.look(stream, find)
        except (KeyValueTableNotFoundError, AuthenticationError):
            self._key_values.forget(stream)
            return None

    def _of_properties(self, definition: KeyValueDefinition, properties: dict[str, str]) -> KeyValueDefinition:
        return key_value_definition(
            self.settings, definition.stream, definition.segments, definition.configuration, properties
        )

    def _listed(self, namespace: Sequence[str]) -> list[str]:
        try:
            tables = list(self.client.controller.list_key_value_tables(scope_of(namespace)))
        except AuthenticationError:
            return []
        return [name for name in tables if not is_internal(name)]

    def _check_free(self, stream: Stream) -> None:
        """Refuse to make a table where something of its name is there."""
        exists, view = together(lambda: self.exists(stream), lambda: self.store(stream.scope).view(stream.name))
        if exists:
            raise StreamExistsError(f'stream "{stream}" exists already: a key-value table needs another name')
        if view is not None:
            raise StreamExistsError(f'view "{stream}" exists already: a table needs another name')
        if self.is_key_value(stream):
            raise StreamExistsError(f'key-value table "{stream}" exists already')

    def _drop(self, stream: Stream) -> None:
        """Delete a table with its schema group. The table goes last, so that a DROP that fails can be run again."""
        self._key_values.forget(stream)
        registry = shared_registry(self.settings)
        if registry is not None and not self.exists(stream):
            registry.delete_group(stream.scope, stream.name)
        self.store(stream.scope).drop_table(stream.name)
        self.client.controller.delete_key_value_table(stream.scope, stream.name)


def _of_a_stream(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties without `table-type`, which streams don't have."""
    return {key: value for key, value in properties.items() if canonical_key(key) != TABLE_TYPE}


def shown_key_value_properties(definition: KeyValueDefinition) -> dict[str, str]:
    """What SHOW TBLPROPERTIES and DESCRIBE EXTENDED show of a key-value table.

    Args:
        definition: the table.
    """
    return {
        "provider": PROVIDER,
        TABLE_TYPE: KEY_VALUE,
        FORMAT: definition.values.format,
        "codec": describe(definition.values.codec),
        PRIMARY_KEY: listed(definition.layout.names),
        **{key: value for key, value in definition.properties.items() if not key.startswith("_")},
        **({"compatibility": definition.values.compatibility} if definition.values.compatibility else {}),
        PARTITIONS: str(definition.configuration.partitions),
    }
