"""ALTER TABLE of tables with keys: what may change, and what a key does to a stream that is there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.types import StringType, StructType

from pyspark_pravega.catalog.ddl import AddColumn, DeleteColumn, SchemaChange, UpdateColumnNullability
from pyspark_pravega.catalog.properties import check_keys, is_of_key, key_of_history
from pyspark_pravega.catalog.statements.key_rows import KeyRows
from pyspark_pravega.client import Client, StreamConfiguration
from pyspark_pravega.connector.log import Ledger, settle
from pyspark_pravega.connector.option_names import ROUTING_KEY
from pyspark_pravega.connector.table import (
    DELETE_VALUES,
    DELETED_ROW_COLUMN,
    KEY_PROPERTIES,
    KEY_TEXTS,
    OPERATION,
    OPERATION_COLUMN,
    PRIMARY_KEY,
    ROW_COLUMN,
    UPSERT_VALUE,
    TableDefinition,
    TableKey,
    TableProperties,
    check_meaning,
    key_of,
)
from pyspark_pravega.connector.write import key_texts
from pyspark_pravega.errors import ConfigurationError, ConflictError, UnsupportedOperationError
from pyspark_pravega.values import listed

ADDITION = AddColumn(column=(OPERATION,), type=StringType())
REMOVAL = DeleteColumn(column=(OPERATION,))
"""The field of events that comes and goes with a table's key."""

_log = logging.getLogger(__name__)


def check_key_properties(
    definition: TableDefinition,
    merged: dict[str, str],
    configuration: StreamConfiguration,
    rows: KeyRows,
    *,
    versions: int,
) -> list[SchemaChange]:
    """Check the properties about keys that a stream is to have, and bring them into their usual spelling.

    Args:
        definition: what it is as a table.
        merged: all of the properties; changed in place.
        configuration: what the stream's will be.
        rows: looks at its events.
        versions: how many commits were made to it through its commit log.

    Returns:
        What has to change of its events' columns.

    Raises:
        ConfigurationError: the properties contradict each other, or the stream's events.
        UnsupportedOperationError: its events don't allow it.
    """
    stream, before = definition.stream, definition.properties
    declared = sorted(merged.keys() & (KEY_PROPERTIES - {PRIMARY_KEY}))
    if PRIMARY_KEY not in merged:
        if declared:
            raise ConfigurationError(f'table property "{declared[0]}" goes with "{PRIMARY_KEY}": set both')
        is_kept = definition.key is not None and definition.key.is_written and versions
        # Without its key a table can be read again in which an event has none.
        if is_kept and rows.fault(before) is None:
            raise UnsupportedOperationError(
                f'the events of stream "{stream}" are changes of rows, and will stay so: "{PRIMARY_KEY}" can\'t be '
                f"removed; read the events themselves from `{definition.log_name}`"
            )
        # No event of a table without versions says anything in it.
        ours = definition.key is not None and definition.key.operation == OPERATION and OPERATION_COLUMN not in before
        return [REMOVAL] if ours and not versions else []
    if definition.registered is None:
        raise UnsupportedOperationError(
            f'the events of stream "{stream}" have no schema, so they can\'t be changes of rows with a key: give it '
            "one with CALL register_schema"
        )
    merged[PRIMARY_KEY] = key_of_history(merged[PRIMARY_KEY], definition.event_schema)
    key_and_schema = key_of(TableProperties(merged), definition.event_schema, stream)
    assert key_and_schema is not None
    key, schema = key_and_schema
    merged[PRIMARY_KEY] = listed(key.columns)
    if any(before.get(name) != merged.get(name) for name in KEY_PROPERTIES):
        _check_meaning(key, definition)
    if not key.is_written:
        if ROUTING_KEY in merged:
            _check_routing(merged[ROUTING_KEY], schema, key)
        _check_rows(definition, schema, merged, rows)
        return []
    _check_unchanged(definition, before, merged, versions)
    check_keys(schema, definition.format, configuration, merged)
    own = next((name for name in definition.schema.fieldNames() if name.lower() == OPERATION), None)
    if own is not None and OPERATION_COLUMN not in merged:
        raise UnsupportedOperationError(
            f'stream "{stream}" can\'t be given a primary key: it has a column "{own}", and the events of a table with '
            f"a key have a field of this name that says what happened to a row. Drop the column; or, where it says "
            f"just that, set '{OPERATION_COLUMN}' = '{own}' together with '{PRIMARY_KEY}'"
        )
    _check_rows(definition, schema, merged, rows)
    if key.operation is not None or OPERATION in definition.event_schema.fieldNames():
        return []
    return [ADDITION]


def settle_texts(definition: TableDefinition, schema: StructType, merged: dict[str, str]) -> None:
    """Note that routing keys have the texts of CAST, where a stream is given another routing key than it has.

    Args:
        definition: what it is as a table.
        schema: its columns.
        merged: all of its new properties; changed in place.
    """
    if merged.get(ROUTING_KEY) != definition.routing_key:
        merged.update(key_texts(merged.get(ROUTING_KEY), schema))


def change_key(
    client: Client, ledger: Ledger, check: Callable[[int], object], change: Callable[[dict[str, str]], dict[str, str]]
) -> None:
    """Change a table's properties, with its key among them. Commits of writes that were planned before fail then.

    Args:
        client: the cluster.
        ledger: the commit log of the stream.
        check: raises where the key doesn't fit so many versions.
        change: makes the new properties of the present ones; it may be called several times.
    """
    while True:
        state = settle(client, ledger)
        check(state.version)
        try:
            ledger.add_check(state, change)
        except ConflictError:
            continue
        return


def without_key_nulls(definition: TableDefinition, changes: Sequence[SchemaChange]) -> list[SchemaChange]:
    """Leave out that columns of a table's key may be null: they stay NOT NULL, as they were made such by the key.

    Spark's pipelines ask for that before each run but the first: they merge the table's schema with that of their rows,
    whose columns may be null.

    Args:
        definition: what the stream is as a table.
        changes: of columns.
    """
    own = [] if definition.key is None else [(name,) for name in definition.key.columns]
    left: list[SchemaChange] = []
    for change in changes:
        if isinstance(change, UpdateColumnNullability) and change.nullable and change.column in own:
            _log.warning('column "%s" of stream "%s" is in its key, and stays NOT NULL', change.path, definition.stream)
        else:
            left.append(change)
    return left


def check_key_schema(properties: Mapping[str, str], events: StructType, stream: object) -> None:
    """Refuse a schema without which a table's key couldn't be found in its events.

    Args:
        properties: the table's properties.
        events: the fields of the schema.
        stream: the stream, for messages.

    Raises:
        ConfigurationError: a field of the key, or the one that says what happened to a row, isn't there.
    """
    key_and_schema = key_of(TableProperties(properties), events, stream)
    if key_and_schema is None:
        return
    if key_and_schema[0].is_written and key_and_schema[0].operation is None:
        raise ConfigurationError(
            f'stream "{stream}" has a primary key, so its events need the field "{OPERATION}", a string that may be '
            "null: add it to the schema"
        )


def _check_meaning(key: TableKey, definition: TableDefinition) -> None:
    """Refuse properties of a key with which an event would mean nothing, or two things."""
    stream = definition.stream
    check_meaning(key, stream)
    if key.operation is not None:
        kind = definition.codec.schema.field(key.operation).type
        for name, text in [*((DELETE_VALUES, one) for one in key.deletes), (UPSERT_VALUE, key.upsert)]:
            if not _is_value(text, kind):
                raise ConfigurationError(
                    f'"{name}" of stream "{stream}" can\'t be "{text}": field "{key.operation}", which says what '
                    f"happened to a row, is {key.event_schema[key.operation].dataType.simpleString()}"
                )


def _is_value(text: str | None, kind: pa.DataType) -> bool:
    """Whether a text stands for a value of a type, as an event's field gets it."""
    try:
        pa.scalar(text, pa.string()).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _check_unchanged(
    definition: TableDefinition, before: Mapping[str, str], merged: Mapping[str, str], versions: int
) -> None:
    if definition.key is None or not versions:
        return
    for name in sorted(KEY_PROPERTIES | {ROUTING_KEY}):
        if before.get(name) != merged.get(name):
            raise UnsupportedOperationError(
                f'"{name}" of stream "{definition.stream}" can\'t be changed any more: its {versions} versions were '
                f"written with {before.get(name) or 'none'}. Make a new table AS SELECT from it"
            )


def _check_rows(definition: TableDefinition, schema: StructType, merged: dict[str, str], rows: KeyRows) -> None:
    """Refuse a key that not all of the events have that are there, unless it is the one that the table has."""
    before = definition.properties
    if all(before.get(name) == merged.get(name) for name in KEY_PROPERTIES | {ROUTING_KEY}):
        return
    settle_texts(definition, schema, merged)
    fault = rows.fault(merged)
    if fault is not None and (texts := key_texts(merged.get(ROUTING_KEY), schema)):
        # The events that are there may have the other texts.
        others = {**merged, **texts} if KEY_TEXTS not in merged else _without(merged, KEY_TEXTS)
        if rows.fault(others) is None:
            merged.clear()
            merged.update(others)
            return
    if fault is not None and ROW_COLUMN in merged:
        raise ConfigurationError(
            f'the events of stream "{definition.stream}" don\'t have the primary key {merged[PRIMARY_KEY]}: {fault}. '
            f'The row that an event deletes may be in another field, which "{DELETED_ROW_COLUMN}" names'
        )
    if fault is not None:
        raise UnsupportedOperationError(
            f'stream "{definition.stream}" can\'t have the primary key {merged[PRIMARY_KEY]}: {fault}. INSERT '
            "OVERWRITE the table with rows that have such a key, or make a new table with the key AS SELECT from it"
        )


def _without(properties: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in properties.items() if key != name}


def _check_routing(text: str, schema: StructType, key: TableKey) -> None:
    if not is_of_key(text, key.columns, schema):
        raise ConfigurationError(
            f"the routing key ({text}) must be made of columns of the primary key ({', '.join(key.columns)}), as "
            "the program that writes the events makes it; leave it out where it does something else"
        )
