"""ALTER TABLE: properties, and columns, which become new versions of the schema in the registry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from pyspark_pravega.catalog.base import CatalogBase
from pyspark_pravega.catalog.ddl import (
    AddColumn,
    AddConstraint,
    ClusterBy,
    ColumnChange,
    DeleteColumn,
    DropConstraint,
    RemoveProperty,
    RenameColumn,
    SchemaChange,
    SetProperty,
    TableChange,
    UpdateColumnDefaultValue,
    UpdateColumnType,
)
from pyspark_pravega.catalog.names import stream_of
from pyspark_pravega.catalog.properties import (
    CODEC,
    check_compatibility,
    check_format,
    check_writes,
    clustering_column,
    known_properties,
    property_name,
)
from pyspark_pravega.catalog.statements import primary_keys
from pyspark_pravega.catalog.statements.constraint_changes import ConstraintChanges
from pyspark_pravega.catalog.statements.evolution import check_still_readable, due, evolved, widening
from pyspark_pravega.catalog.statements.key_rows import KeyRows
from pyspark_pravega.catalog.statements.replacing import Replacing, unpin, without
from pyspark_pravega.catalog.statements.schemas import Schemas, schema_of
from pyspark_pravega.catalog.statements.uses import check_fields, check_uses
from pyspark_pravega.catalog.stream_properties import STREAM_PROPERTIES, stream_configuration
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.lake import check_added, check_needless, check_unlaked
from pyspark_pravega.connector.log import Ledger, create_ledger, settled_table
from pyspark_pravega.connector.option_names import EVENT_TIME, FORMAT, ROUTING_KEY, SCHEMA_TYPE
from pyspark_pravega.connector.options import EventOptions
from pyspark_pravega.connector.table import (
    COMPATIBILITY,
    COMPRESSION,
    ENCODING_HEADER,
    ICEBERG,
    INDEX_COLUMNS,
    KEY_PROPERTIES,
    LAKE,
    PINNED_SCHEMA,
    PRIMARY_KEY,
    TableDefinition,
    TableProperties,
    check_lake,
    check_schema_is_there,
    given_properties,
    indexed_names,
    load_definition,
)
from pyspark_pravega.connector.write import ReadSet, Routing, time_column
from pyspark_pravega.errors import (
    ConfigurationError,
    InvalidNameError,
    PravegaError,
    SchemaError,
    UnsupportedOperationError,
    UnsupportedTypeError,
)
from pyspark_pravega.lake import PARTITIONED_BY, SORTED_BY, check_lake_columns
from pyspark_pravega.serde.formats import FORMATS, RAW, REGISTERED, STRING, SYNONYMS, Schema, registered_schema
from pyspark_pravega.serde.raw import EVENT
from pyspark_pravega.values import names_of

SCHEMA = "schema"
"""The property that, together with `format`, gives a stream without a group its schema."""


class Altering:
    """Changes tables that are there."""

    def __init__(
        self, base: CatalogBase, schemas: Schemas, constraints: ConstraintChanges, replacing: Replacing
    ) -> None:
        """Serve a catalog.

        Args:
            base: the cluster, the registry, and what was looked up.
            schemas: adds schemas to the table's group.
            constraints: changes defaults and constraints.
            replacing: finishes what a replacement has left.
        """
        self._base, self._schemas, self._constraints, self._replacing = base, schemas, constraints, replacing

    def alter(
        self, namespace: Sequence[str], table: str, changes: Sequence[TableChange], seen: Sequence[ReadSet] = ()
    ) -> TableDefinition:
        """Change a table's properties, columns or constraints.

        Args:
            namespace: its namespace.
            table: its name.
            changes: what is to change.
            seen: what the statement has read of the table.

        Returns:
            The table as it is now.

        Raises:
            StreamNotFoundError: there is no such stream.
            ConfigurationError: a property is unknown or malformed.
            IncompatibleSchemaError: the group's policy forbids a change of columns.
            WriteConflictError: rows came while those that were there were held against a new constraint.
            UnsupportedOperationError: what a stream, or a format, can't do.
        """
        stream = stream_of(namespace, table)
        definition = self._replacing.finish_left(self._base.definition(stream, age_s=0))
        given: dict[str, str] = {}
        removed: set[str] = set()
        columns: list[SchemaChange] = []
        defaults: list[UpdateColumnDefaultValue] = []
        for change in changes:
            match change:
                case SetProperty():
                    given[change.property] = change.value
                case RemoveProperty():
                    removed.add(property_name(change.property))
                case ClusterBy():
                    _cluster(change.columns, given, removed)
                case UpdateColumnDefaultValue():
                    defaults.append(change)
                case AddConstraint():
                    self._constraints.add_check(stream, change.check, seen)
                case DropConstraint():
                    self._constraints.drop_check(stream, change.name, if_exists=change.if_exists)
                case _:
                    columns.append(change)
        columns = primary_keys.without_key_nulls(definition, columns)
        if columns:
            removals = [change.column for change in columns if isinstance(change, DeleteColumn)]
            dropped = [column[0] for column in removals if len(column) == 1]
            added = [change.column[0] for change in columns if isinstance(change, AddColumn)]
            stale = [name for name in added if name in definition.properties.defaults.keys() - definition.schema.names]
            if stale:
                # A DROP COLUMN has failed behind the registry.
                self._constraints.forget_defaults(stream, stale)
            self._alter_columns(stream, columns)
            if definition.properties.defaults.keys() & dropped:
                self._constraints.forget_defaults(stream, dropped)
        if defaults:
            self._constraints.alter_defaults(definition, defaults)
        if given or removed:
            self._alter_properties(definition, given, removed)
        self._base.forget(stream)
        return self._base.definition(stream, age_s=0)

    def supports_change(self, namespace: Sequence[str], table: str, change: ColumnChange) -> bool:
        """Whether a column can be changed so.

        Args:
            namespace: the table's namespace.
            table: its name.
            change: of a column.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        definition = self._base.load_table(namespace, table)
        if isinstance(change, UpdateColumnDefaultValue):
            return False
        try:
            self._altered(definition, [change])
        except (InvalidNameError, SchemaError, UnsupportedOperationError):
            return False
        return True

    def merge_schema(self, namespace: Sequence[str], table: str, rows: StructType) -> None:
        """Add the columns to a table that rows have and it doesn't, and widen types of others.

        Args:
            namespace: the table's namespace.
            table: its name.
            rows: the rows' columns.

        Raises:
            StreamNotFoundError: there is no such stream.
            IncompatibleSchemaError: the group's policy forbids it.
            UnsupportedOperationError: the format, or a stream, can't do it.
        """
        definition = self._base.load_table(namespace, table, age_s=0)
        changes = [
            change
            for change in widening(definition.schema, rows)
            if isinstance(change, AddColumn) or self.supports_change(namespace, table, change)
        ]
        if changes:
            self.alter(namespace, table, changes)

    # Columns

    def _alter_columns(self, stream: Stream, changes: Sequence[SchemaChange]) -> None:
        ledger = create_ledger(self._base.client, stream)
        while True:
            with ledger.schemas_locked():
                definition = self._base.definition(stream, age_s=0)
                if definition.registered is not None and not due(definition.event_schema, changes):
                    return
                added = self._add_altered(definition, changes)
                if self._show(ledger, definition, added):
                    unpin(self._base.registry_of(stream), stream, ledger)
                    return
                # The table was made another one meanwhile: it is that one that is altered.
                self._base.registry_of(stream).delete_schema(stream.scope, stream.name, added)

    def _show(self, ledger: Ledger, definition: TableDefinition, added: int) -> bool:
        """Let a schema be seen that was added to those of a definition; false when the table is another one now."""
        assert definition.registered is not None
        visible = str(definition.registered[1].id)

        def shown(before: dict[str, str]) -> dict[str, str]:
            if before.get(PINNED_SCHEMA, visible) != visible:
                return before
            # Behind it there may be the schema of a statement that hasn't replaced the table yet.
            return {**before, PINNED_SCHEMA: str(added)} if PINNED_SCHEMA in before else before

        ledger.change_properties(shown)
        properties, state = settled_table(self._base.client, ledger)
        pin = properties.get(PINNED_SCHEMA, str(added))
        return state.replaced_table == definition.replaced_table and pin == str(added)

    def _add_altered(self, definition: TableDefinition, changes: Sequence[SchemaChange]) -> int:
        """Add the schema of changed columns; returns its id."""
        return self._schemas.add(definition.stream, self._altered(definition, changes)).id

    def _altered(self, definition: TableDefinition, changes: Sequence[SchemaChange]) -> Schema:
        """The schema of changed columns."""
        stream = definition.stream
        if definition.registered is None:
            raise UnsupportedOperationError(
                f'stream "{stream}" holds events without a schema, so its columns can\'t be changed: give it a schema '
                "with CALL register_schema"
            )
        check_schema_is_there(definition)
        for change in changes:
            if isinstance(change, DeleteColumn | RenameColumn | UpdateColumnType):
                check_unlaked(definition, f'changing, or dropping, column "{change.path}"')
            elif isinstance(change, AddColumn) and len(change.column) > 1:
                check_unlaked(definition, f'adding field "{change.path}"')
            elif isinstance(change, AddColumn):
                check_added(definition, change.path, change.type)
        changes = due(definition.event_schema, changes)
        check_uses(definition, changes)
        info, _ = definition.registered
        schema = registered_schema(info.serialization_format, info.type, info.schema_data)
        earlier = self._schemas.earlier(stream, info.type)
        new = evolved(schema, changes, stream=str(stream), earlier=earlier)
        check_fields(stream, definition.properties, definition.event_schema, new.columns())
        check_still_readable(earlier, schema, new, stream=str(stream))
        return new

    # Properties

    def _alter_properties(self, definition: TableDefinition, given: Mapping[str, str], removed: set[str]) -> None:
        stream = definition.stream
        text = {key: value for key, value in given.items() if property_name(key) == SCHEMA}
        wanted = known_properties({key: value for key, value in given.items() if key not in text})
        if CODEC in {property_name(key) for key in given} | removed:
            raise ConfigurationError(f'table property "{CODEC}" tells which codec reads the events; it can\'t be set')
        table_format = self._new_format(definition, wanted, removed)
        if definition.format not in REGISTERED and table_format in REGISTERED and not text:
            raise ConfigurationError(
                f'stream "{stream}" has no schema yet, and format {table_format} needs one: CALL '
                f"register_schema(table => ..., format => '{table_format}', columns => 'id BIGINT, ...'), or set "
                '"schema" to its text together with "format"'
            )
        if text and table_format not in REGISTERED:
            raise ConfigurationError(f'table property "{SCHEMA}" goes with a "format" that has schemas')
        first_schema = definition.format not in REGISTERED and table_format in REGISTERED
        if text and not first_schema and not _is_schema_of(definition, table_format, text):
            raise ConfigurationError(
                f'stream "{stream}" has a schema already: change its columns with ALTER TABLE, or CALL register_schema'
            )
        kept = {key: value for key, value in wanted.items() if key not in STREAM_PROPERTIES}
        merged = {**without(definition.properties, removed), **kept, FORMAT: table_format}
        merged.pop(COMPATIBILITY, None)
        merged.pop(PINNED_SCHEMA, None)
        unread = _not_read(definition, wanted.keys() | removed)
        for name in unread:
            merged.pop(name, None)
        merged[FORMAT] = table_format
        schema = definition.schema
        if first_schema:
            (written,) = text.values()
            schema = schema_of(stream, table_format, written, None).columns()
        elif table_format in (RAW, STRING):
            kind = StringType() if table_format == STRING else BinaryType()
            schema = StructType([StructField(EVENT, kind, False)])
        configuration = definition.configuration
        changed = stream_configuration(configuration, wanted, removed)
        columns: list[SchemaChange] = []
        rows = KeyRows(self._base.client, definition)

        def check_key(versions: int) -> None:
            columns[:] = primary_keys.check_key_properties(definition, merged, changed, rows, versions=versions)

        # A key that means nothing here is left as it is.
        is_new_key = any(merged.get(name) != definition.properties.get(name) for name in KEY_PROPERTIES)
        if (merged.keys() | definition.properties.keys()) & KEY_PROPERTIES and (is_new_key or not definition.fault):
            check_key(create_ledger(self._base.client, stream).state().version)
        if LAKE in definition.properties and LAKE not in merged:
            check_needless(stream, create_ledger(self._base.client, stream).state())
        merged = self._checked(definition, schema, merged) | unread
        policy = wanted.get(COMPATIBILITY)
        if COMPATIBILITY in removed and policy is None:
            policy = check_compatibility(table_format, {})
        if policy is not None:
            policy = check_compatibility(table_format, {COMPATIBILITY: policy})
        # All of it is in order: from here on it is done. What queries see of it comes last, so that a statement that
        # fails in between can be run again. The configuration comes first, as a sealed stream refuses it.
        if changed != configuration:
            self._base.client.controller.update_stream(
                stream, lambda before: stream_configuration(before, wanted, removed)
            )
        if first_schema:
            self._schemas.register(
                stream, table_format=table_format, text=next(iter(text.values())), compatibility=policy
            )
        elif policy is not None:
            self._schemas.set_compatibility(stream, policy)
        known = definition.properties
        gone = {key for key in known if key not in merged and not key.startswith("_")}
        new = {key: value for key, value in merged.items() if known.get(key) != value}

        def changed_properties(before: dict[str, str]) -> dict[str, str]:
            # Others may have changed other ones since they were looked up.
            after = {**without(before, gone), **new}
            not_read = {*unread, *TableProperties(after).not_parsed()}
            check_writes(schema, given_properties(without(after, not_read)))
            if LAKE in new:
                check_lake_columns(schema)
            return after

        if (gone | new.keys()) & KEY_PROPERTIES:
            self._change_key(definition, columns, check_key, changed_properties)
        elif gone or new:
            create_ledger(self._base.client, stream).change_properties(changed_properties)

    def _change_key(
        self,
        definition: TableDefinition,
        columns: Sequence[SchemaChange],
        check: Callable[[int], None],
        change: Callable[[dict[str, str]], dict[str, str]],
    ) -> None:
        """Change the properties of a key, with the field of the events that goes with it."""
        check_unlaked(definition, "a primary key")
        stream, changes = definition.stream, list(columns)
        if primary_keys.ADDITION in changes:
            self._alter_columns(stream, [primary_keys.ADDITION])
        try:
            primary_keys.change_key(self._base.client, create_ledger(self._base.client, stream), check, change)
        except PravegaError:
            if primary_keys.ADDITION in changes:
                # Another statement may have given the stream a key meanwhile, and need it.
                with suppress(PravegaError):
                    self._alter_columns(stream, [primary_keys.REMOVAL])
            raise
        if primary_keys.REMOVAL in changes:
            self._alter_columns(stream, [primary_keys.REMOVAL])

    def _new_format(self, definition: TableDefinition, wanted: Mapping[str, str], removed: set[str]) -> str:
        before, plain = definition.format, (RAW, STRING)
        new_format = wanted.get(FORMAT)
        if new_format is None:
            return RAW if FORMAT in removed and before in plain else before
        new_format = SYNONYMS.get(new_format.lower(), new_format.lower())
        if new_format == before or (new_format in plain and before in plain):
            return new_format
        if before in REGISTERED and new_format in (*REGISTERED, *plain):
            raise UnsupportedOperationError(
                f'the events of stream "{definition.stream}" are {before}, and will stay so: make another table for '
                f"{new_format}"
            )
        return new_format

    def _checked(self, definition: TableDefinition, schema: StructType, merged: dict[str, str]) -> dict[str, str]:
        """The table's properties, each and all of them in order."""
        stream = definition.stream
        type_name = merged.pop(SCHEMA_TYPE, None)
        check_format(schema, merged, self._base.settings.allows_format)
        if merged[FORMAT] == definition.format and FORMAT not in definition.properties:
            # Others have made the stream: what its format is, its group says.
            del merged[FORMAT]
        if type_name is not None and type_name != definition.properties.get(SCHEMA_TYPE):
            load_definition(self._base.client, self._base.settings, stream, EventOptions(schema_type=type_name))
        if type_name is not None:
            merged[SCHEMA_TYPE] = type_name
        check_writes(schema, merged)
        if PRIMARY_KEY not in merged:
            primary_keys.settle_texts(definition, schema, merged)
        return merged


def _is_schema_of(definition: TableDefinition, table_format: str, text: Mapping[str, str]) -> bool:
    """Whether a table has the schema already that a statement gives it, as when the statement is run again."""
    (written,) = text.values()
    return schema_of(definition.stream, table_format, written, None).columns() == definition.event_schema


def _not_read(definition: TableDefinition, changed: Collection[str]) -> dict[str, str]:
    """The properties that a table keeps with values which mean nothing here: they stay as they are, unless changed."""
    kept = definition.properties
    names = set(kept.not_parsed())
    if kept.get(FORMAT, definition.format) not in (*FORMATS, definition.format):
        names |= {FORMAT, COMPRESSION, ENCODING_HEADER}
    try:
        Routing.parse(kept.get(ROUTING_KEY, "''"), definition.schema.fieldNames())
    except InvalidNameError:
        names.add(ROUTING_KEY)
    try:
        time_column(definition.schema, kept.get(EVENT_TIME, ""))
    except (InvalidNameError, UnsupportedTypeError):
        names.add(EVENT_TIME)
    try:
        indexed_names(definition.schema, names_of(kept.get(INDEX_COLUMNS, "")))
    except (InvalidNameError, UnsupportedTypeError):
        names.add(INDEX_COLUMNS)
    for name in (PARTITIONED_BY, SORTED_BY):
        if name in kept:
            try:
                check_lake(definition.schema, TableProperties({LAKE: ICEBERG, name: kept[name]}))
            except (ConfigurationError, InvalidNameError, UnsupportedTypeError):
                names.add(name)
    return {name: kept[name] for name in names - set(changed) if name in kept}


def _cluster(columns: Sequence[str], given: dict[str, str], removed: set[str]) -> None:
    column = clustering_column(columns)
    if column is None:
        removed.add(ROUTING_KEY)
    else:
        given[ROUTING_KEY] = column
