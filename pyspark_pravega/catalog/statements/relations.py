"""Tables of either kind: what a statement wants is done by what is for streams, or for key-value tables.

A stream of a name comes before a key-value table of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from pyspark.sql.types import StructType

from pyspark_pravega.catalog.base import CatalogBase
from pyspark_pravega.catalog.ddl import ColumnChange, TableChange, Transform
from pyspark_pravega.catalog.names import stream_of, to_sql
from pyspark_pravega.catalog.statements.altering import Altering
from pyspark_pravega.catalog.statements.key_values import KeyValueTables, is_key_value_request, is_table_type
from pyspark_pravega.catalog.statements.replacing import Replacing, Staged, StagedKeyValueTable
from pyspark_pravega.catalog.statements.tables import Tables
from pyspark_pravega.connector.key_value import KeyValueDefinition, made_as, truncate
from pyspark_pravega.connector.table import Check, TableDefinition
from pyspark_pravega.connector.write import ReadSet
from pyspark_pravega.errors import StreamExistsError, StreamNotFoundError, UnsupportedOperationError
from pyspark_pravega.together import together


class Relations:
    """What statements do with a table, be it a stream or a key-value table."""

    def __init__(
        self, base: CatalogBase, tables: Tables, altering: Altering, replacing: Replacing, key_values: KeyValueTables
    ) -> None:
        """Serve a catalog.

        Args:
            base: the cluster, the registry, and what was looked up.
            tables: makes, empties and drops streams.
            altering: alters them.
            replacing: makes and replaces them with their rows.
            key_values: does what is done with key-value tables.
        """
        self._base, self._tables, self._altering = base, tables, altering
        self._replacing, self._key_values = replacing, key_values

    def names(self, namespace: Sequence[str]) -> list[str]:
        """The names of all streams and key-value tables of a scope, in SQL's spelling, sorted.

        Raises:
            ScopeNotFoundError: there is no such scope.
        """
        if self._base.is_empty_default(namespace):
            return []
        streams, others = together(lambda: self._tables.names(namespace), lambda: self._key_values.names(namespace))
        return sorted({*streams, *map(to_sql, others)})

    def create(
        self,
        namespace: Sequence[str],
        table: str,
        schema: StructType,
        transforms: Sequence[Transform],
        properties: Mapping[str, str],
        *,
        checks: Sequence[Check] = (),
    ) -> TableDefinition | KeyValueDefinition:
        """Create a table, a key-value table where the property `table-type` says so. See `Tables.create`."""
        if is_key_value_request(properties):
            return self._key_values.create(namespace, table, schema, transforms, properties, checks=checks)
        return self._tables.create(namespace, table, schema, transforms, _of_a_stream(properties), checks=checks)

    def drop(self, namespace: Sequence[str], table: str, *, purge: bool = False) -> bool:
        """Delete a table, be it a stream or a key-value table with its schema group.

        Args:
            namespace: its namespace.
            table: its name.
            purge: as of `Tables.drop`.

        Returns:
            False when there was none.
        """
        return self._tables.drop(namespace, table, purge=purge) or self._key_values.drop(stream_of(namespace, table))

    def truncate(self, namespace: Sequence[str], table: str) -> None:
        """Remove all rows. Of a key-value table those that are there now, one after another.

        Raises:
            StreamNotFoundError: there is no such table.
            StreamSealedError: it is sealed.
        """
        relation = self._base.relation(namespace, table, age_s=0)
        if isinstance(relation, KeyValueDefinition):
            truncate(relation)
        else:
            self._replacing.finish_left(relation)
            self._tables.truncate(namespace, table)

    def alter(
        self, namespace: Sequence[str], table: str, changes: Sequence[TableChange], seen: Sequence[ReadSet] = ()
    ) -> TableDefinition | KeyValueDefinition:
        """Change a table. Of a key-value table only properties change. See `Altering.alter`."""
        relation = self._base.relation(namespace, table, age_s=0)
        if isinstance(relation, KeyValueDefinition):
            return self._key_values.alter(relation, changes)
        return self._altering.alter(namespace, table, changes, seen)

    def supports_change(self, namespace: Sequence[str], table: str, change: ColumnChange) -> bool:
        """Whether a column can be changed so; of a key-value table none can. See `Altering.supports_change`."""
        if isinstance(self._base.relation(namespace, table), KeyValueDefinition):
            return False
        return self._altering.supports_change(namespace, table, change)

    def rename(self, namespace: Sequence[str], table: str) -> NoReturn:
        """Refuse to rename a table.

        Raises:
            UnsupportedOperationError: always.
        """
        relation = self._base.relation(namespace, table)
        if isinstance(relation, KeyValueDefinition):
            raise relation.refuse("Renaming", "create a new table AS SELECT from it, and drop it; or create a view")
        raise UnsupportedOperationError(
            f'stream "{stream_of(namespace, table)}" can\'t be renamed: create a new table AS SELECT from it, and drop '
            "it; or create a view"
        )

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
    ) -> tuple[TableDefinition | KeyValueDefinition, Staged]:
        """Prepare a table for its rows; see `Replacing.stage`. A key-value table is there from now on."""
        stream = stream_of(namespace, table)
        wanted = is_key_value_request(properties)
        there = not self._base.exists(stream) and self._base.is_key_value(stream)
        if not wanted and not there:
            given = _of_a_stream(properties)
            return self._replacing.stage(
                namespace, table, schema, transforms, given, checks=checks, create=create, replace=replace
            )
        if there and not replace:
            raise StreamExistsError(f'key-value table "{stream}" exists already')
        if there or not create or self._base.exists(stream):
            raise UnsupportedOperationError(
                f'"{stream}" can\'t be replaced, as it is or would become a key-value table: DROP it first, and then '
                "CREATE TABLE"
            )
        definition = self._key_values.create(namespace, table, schema, transforms, properties, checks=checks)
        return definition, StagedKeyValueTable(stream=stream, own=made_as(definition.segments))

    def staged(self, staged: Staged) -> TableDefinition | KeyValueDefinition:
        """What a staged table will be, see `Replacing.staged_definition`."""
        if not isinstance(staged, StagedKeyValueTable):
            return self._replacing.staged_definition(staged)
        definition = self._base.key_value(staged.stream)
        if definition is None:
            raise StreamNotFoundError(f'key-value table "{staged.stream}" does not exist any more')
        return definition

    def abort(self, staged: Staged) -> None:
        """Leave things as they were before a table was staged, see `Replacing.abort`."""
        if isinstance(staged, StagedKeyValueTable):
            self._key_values.drop_made(staged.stream, staged.own)
        else:
            self._replacing.abort(staged)


def _of_a_stream(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties without `table-type`, which streams don't have."""
    return {key: value for key, value in properties.items() if not is_table_type(key)}
