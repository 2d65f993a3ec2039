"""Which columns fit those of rows in the lake."""

from __future__ import annotations

import json

from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.lake import POSITIONS, VERSION, lake_schema
from pyspark_pravega.serde.formats import AVRO
from pyspark_pravega.serde.schemas import avro
from pyspark_pravega.spark.types import StructType


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


def _is_null_before(definition: TableDefinition, name: str) -> bool:
    """Whether a column of events that were written without it is null."""
    assert definition.registered is not None
    if definition.format != AVRO:
        return True
    schema = json.loads(definition.registered[0].schema_data)
    return any(avro.column_name(field) == name and field.get("default") is None for field in schema["fields"])
