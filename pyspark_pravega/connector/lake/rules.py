"""Which tables may have a lake, and which columns fit those that it has."""

from __future__ import annotations

import json

import pyarrow as pa

from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.lake import POSITIONS, VERSION, lake_schema
from pyspark_pravega.serde.formats import AVRO, REGISTERED
from pyspark_pravega.serde.lenient import FAIL_FAST
from pyspark_pravega.serde.schemas import avro
from pyspark_pravega.spark.types import DataType, StructField, StructType


def check_kept(definition: TableDefinition) -> pa.Schema:
    """Refuse a table whose rows can't go to a lake yet.

    Args:
        definition: what the stream is as a table.

    Returns:
        Its columns there.

    Raises:
        UnsupportedOperationError: it is such a table.
        UnsupportedTypeError: a column has a type that Iceberg hasn't.
    """
    why = ""
    if definition.registered is None or definition.format not in REGISTERED:
        why = f"its format is {definition.format}, and only {', '.join(sorted(REGISTERED))} can have a lake yet"
    elif definition.types is not None:
        why = "its stream holds events of several types, and such tables can't have a lake yet"
    elif definition.mode != FAIL_FAST or definition.properties.bad_events is not None:
        why = f'only tables of mode {FAIL_FAST}, without "bad-events", can have a lake yet'
    elif definition.configuration.retention is not None:
        why = "its retention may remove events before they are in the lake: UNSET it, and set lake-keep-in-stream"
    if why:
        raise UnsupportedOperationError(f'stream "{definition.stream}" can\'t go to the lake: {why}')
    return lake_schema(definition.schema)


def check_fits(definition: TableDefinition, columns: StructType) -> None:
    """Refuse columns that aren't those of rows in the lake, with nullable ones added: of others it isn't known what
    those rows hold in them.

    Args:
        definition: what the stream is as a table.
        columns: those of the rows that are in the lake.

    Raises:
        UnsupportedOperationError: they aren't.
    """
    before = lake_schema(columns)
    now = lake_schema(StructType([field for field in definition.schema if field.name in columns.names]))
    why = ""
    for field in before:
        index = now.get_field_index(field.name)
        if index < 0:
            why = f'column "{field.name}" isn\'t there any more'
        elif now.field(index).type != field.type:
            why = f'column "{field.name}" had another type'
    for name in definition.schema.names:
        if name in columns.names:
            continue
        if name.lower() in (*POSITIONS, VERSION):
            why = f'column "{name}" is called as one of the lake\'s'
        elif not (definition.schema[name].nullable and _is_null_before(definition, name)):
            why = f'column "{name}" was added, and isn\'t null in rows from before'
    if why:
        raise UnsupportedOperationError(
            f'rows of stream "{definition.stream}" that are in the lake can\'t be told with its columns: {why}; only '
            "columns that may be null can be added to a table with a lake yet"
        )


def check_added(definition: TableDefinition, name: str, kind: DataType) -> None:
    """Refuse a new column of a table with a lake that can't go there.

    Args:
        definition: what the stream is as a table.
        name: the column's.
        kind: its type.

    Raises:
        UnsupportedOperationError: it is called as one of the lake's.
        UnsupportedTypeError: Iceberg hasn't its type.
    """
    if definition.has_lake:
        lake_schema(StructType([StructField(name, kind)]))


def check_unlaked(definition: TableDefinition, what: str) -> None:
    """Refuse what can't be done yet with a table that has rows in the lake, or had some.

    Args:
        definition: what the stream is as a table.
        what: what is asked for.

    Raises:
        UnsupportedOperationError: it has.
    """
    if definition.has_lake:
        raise UnsupportedOperationError(
            f'{what} isn\'t possible yet where rows are in the lake, as those of stream "{definition.stream}" are: '
            "make a new table AS SELECT"
        )


def _is_null_before(definition: TableDefinition, name: str) -> bool:
    """Whether a column of events that were written without it is null."""
    assert definition.registered is not None
    if definition.format != AVRO:
        return True
    schema = json.loads(definition.registered[0].schema_data)
    return any(avro.column_name(field) == name and field.get("default") is None for field in schema["fields"])
