"""The properties of a key-value table: each name, what its value may be, and what holds where it isn't set."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pyspark_pravega.connector.key_value.key_layout import parse_bytes, parse_columns
from pyspark_pravega.connector.table import TableProperties
from pyspark_pravega.declared import Properties, Property
from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.spark.types import StructField, StructType
from pyspark_pravega.values import names_of, number

TABLE_TYPE, KEY_VALUE = "table-type", "key-value"
KEY_COLUMNS, KEY_BYTES, PARTITION_KEY, PARTITIONS = "key-columns", "key-bytes", "partition-key", "partitions"
SCHEMA = "schema"
KEPT_KEY, KEPT_COLUMNS, KEPT_VALUES = "_key", "_columns", "_values"
"""Properties that CREATE TABLE keeps: the key's columns and the values' (Spark's JSON), and the names of all columns in
their order."""
MAX_PARTITIONS = 1000

MADE, MADE_BY_OTHERS, BOTH = "CREATE TABLE", "ALTER TABLE of one that others have made", "Both"


def _type(_: str, text: str) -> str:
    kind = text.strip().lower()
    if kind not in (KEY_VALUE, "stream"):
        raise ConfigurationError(
            f'table property "{TABLE_TYPE}" must be {KEY_VALUE}, or left out for a stream, not "{text}"'
        )
    return kind


def _struct(_: str, text: str) -> StructType:
    return StructType.fromJson(json.loads(text))


def _list(_: str, text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _also(one: Property[Any], group: str, **others: Any) -> Any:
    """A property that streams' tables have, too."""
    return replace(one, group=group, **others)


class KeyValueProperties(Properties):
    """Of one table. Names that begin with `_` are kept with it, and nobody sees them among the properties."""

    table_type = Property(
        name=TABLE_TYPE,
        group=MADE,
        value=f"`{KEY_VALUE}`",
        unset="a stream is made",
        about="makes a key-value table",
        parse=_type,
        default=KEY_VALUE,
    )
    primary_key: Property[tuple[str, ...] | None] = _also(
        TableProperties.primary_key, MADE, unset="the PRIMARY KEY clause", about="the key's columns"
    )
    partition_key = Property[tuple[str, ...] | None](
        name=PARTITION_KEY,
        group=MADE,
        value="the first columns of the key",
        unset="all of it",
        about="what chooses an entry's partition",
        parse=lambda _, text: names_of(text),
        default=None,
    )
    partitions = Property(
        name=PARTITIONS,
        group=MADE,
        value=f"1 to {MAX_PARTITIONS}",
        unset="1",
        about="how many partitions there are",
        parse=lambda name, text: number(name, text, least=1, most=MAX_PARTITIONS),
        default=1,
    )
    encoding_header: Property[bool | None] = _also(
        TableProperties.encoding_header, MADE, unset="`true`", about="whether values have the registry's header"
    )
    compatibility: Property[str | None] = _also(TableProperties.compatibility, MADE)
    key_columns = Property[list[StructField] | None](
        name=KEY_COLUMNS,
        group=MADE_BY_OTHERS,
        value="`id BIGINT, code STRING`",
        unset="one column of bytes",
        about="the key's columns",
        parse=lambda _, text: parse_columns(text),
        default=None,
    )
    schema = Property[str | None](
        name=SCHEMA,
        group=MADE_BY_OTHERS,
        value="a schema's text",
        unset="the registry's",
        about="the schema of values, with `format`",
        parse=lambda _, text: text,
        default=None,
    )
    format: Property[str | None] = _also(
        TableProperties.format,
        BOTH,
        value="`avro`, `json`, `protobuf`, `raw`, `string`",
        about="how values hold columns",
    )
    key_bytes = Property[dict[str, int]](
        name=KEY_BYTES,
        group=BOTH,
        value="`code=16, name=40`",
        unset="64 for a STRING, 4 times n for VARCHAR(n)",
        about="how many bytes columns of the key have",
        parse=lambda _, text: parse_bytes(text),
        default={},
    )
    isolation_level: Property[str] = _also(TableProperties.isolation_level, BOTH)

    # Kept with the table, and given by nobody.
    key = Property[StructType | None](name=KEPT_KEY, parse=_struct, default=None)
    columns = Property[tuple[str, ...]](name=KEPT_COLUMNS, parse=_list, default=())
    value_columns = Property[StructType | None](name=KEPT_VALUES, parse=_struct, default=None)
    defaults = TableProperties.defaults
    checks = TableProperties.checks


ALTERABLE = KeyValueProperties.names(MADE_BY_OTHERS, BOTH)
"""Properties that ALTER TABLE sets. Those but the isolation level are for tables that somebody else has made."""
KEY_VALUE_PROPERTIES = KeyValueProperties.names(MADE, MADE_BY_OTHERS, BOTH)
"""All of them."""
