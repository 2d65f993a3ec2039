"""Of which columns of a table the commits keep figures, so that reads can pass over blocks of events."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from pyspark_pravega.connector.index import IndexedColumn, check_indexed, is_ordered
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.connector.table.properties import INDEX_COLUMNS
from pyspark_pravega.errors import InvalidNameError, did_you_mean
from pyspark_pravega.serde.formats import REGISTERED, registered_schema
from pyspark_pravega.spark.types import StructType


def indexed_names(schema: StructType, names: Iterable[str]) -> list[str]:
    """The columns that the property `index-columns` names, as the table spells them, each once.

    Args:
        schema: the table's columns.
        names: as they were given.

    Raises:
        InvalidNameError: a column isn't there.
        UnsupportedTypeError: a column's values have no order that could be kept.
    """
    known = {name.lower(): name for name in schema.fieldNames()}
    columns = []
    for name in dict.fromkeys(names):
        column = known.get(name.lower())
        if column is None:
            raise InvalidNameError(
                f'"{INDEX_COLUMNS}": "{name}" is not a column{did_you_mean(name, schema.fieldNames())}'
            )
        check_indexed(column, schema[column].dataType)
        columns.append(column)
    return list(dict.fromkeys(columns))


def indexed_columns(definition: TableDefinition) -> tuple[IndexedColumn, ...]:
    """The indexed columns of a table.

    Args:
        definition: what the stream is as a table.

    Returns:
        None of a table that has no index: nothing is indexed, or it has a key, or a format without fields of its own.
        Columns that others have taken away, or given types without an order, are left out; and those of enums, as a
        later schema may read other names in the same events.
    """
    names = definition.properties.index_columns
    if not names or definition.key is not None or definition.registered is None or definition.format not in REGISTERED:
        return ()
    schema, _ = definition.registered
    registered = registered_schema(schema.serialization_format, schema.type, schema.schema_data)
    ids, enums, shapes = registered.field_ids(), registered.enum_columns(), registered.field_shapes()
    return tuple(
        IndexedColumn(
            name=field.name,
            id=ids[field.name,],
            type=field.dataType,
            shape=_digest(definition, shapes[field.name]),
        )
        for field in definition.schema
        if field.name in names and (field.name,) in ids and field.name not in enums and is_ordered(field.dataType)
    )


def _digest(definition: TableDefinition, shape: str) -> str:
    """What decides which value an event that was written by others has in a column."""
    of_events = [definition.format, str(definition.properties.encoding_header), shape]
    if definition.types is not None:
        assert definition.registered is not None
        of_events += [definition.registered[0].type, str(definition.types.others_are_errors)]
    return hashlib.blake2b("\n".join(of_events).encode(), digest_size=8).hexdigest()
