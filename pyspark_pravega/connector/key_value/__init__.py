"""Pravega's key-value tables as tables of SQL: `definition` (what one is), `properties`, `key_layout` (how a key's
columns are its bytes), `read` and `write`.

It uses `connector.table`, `connector.write` and below, and knows nothing of streams' commit logs.
"""

from pyspark_pravega.connector.key_value.definition import (
    METADATA_COLUMNS,
    VALUE,
    VERSION,
    KeyValueDefinition,
    find_key_value,
    key_value_definition,
    made_as,
    no_stream,
    own_schema,
)
from pyspark_pravega.connector.key_value.key_layout import KeyLayout
from pyspark_pravega.connector.key_value.properties import (
    ALTERABLE,
    BOTH,
    KEPT_COLUMNS,
    KEPT_KEY,
    KEPT_VALUES,
    KEY_BYTES,
    KEY_COLUMNS,
    KEY_VALUE,
    KEY_VALUE_PROPERTIES,
    MADE,
    PARTITION_KEY,
    PARTITIONS,
    SCHEMA,
    TABLE_TYPE,
    KeyValueProperties,
)
from pyspark_pravega.connector.key_value.read import KeyValueReader, Wanted, narrowed, partitions_of
from pyspark_pravega.connector.key_value.write import KeyValueJob, KeyValuePlan, truncate

__all__ = [
    "ALTERABLE",
    "BOTH",
    "KEPT_COLUMNS",
    "KEPT_KEY",
    "KEPT_VALUES",
    "KEY_BYTES",
    "KEY_COLUMNS",
    "KEY_VALUE",
    "KEY_VALUE_PROPERTIES",
    "MADE",
    "METADATA_COLUMNS",
    "PARTITIONS",
    "PARTITION_KEY",
    "SCHEMA",
    "TABLE_TYPE",
    "VALUE",
    "VERSION",
    "KeyLayout",
    "KeyValueDefinition",
    "KeyValueJob",
    "KeyValuePlan",
    "KeyValueProperties",
    "KeyValueReader",
    "Wanted",
    "find_key_value",
    "key_value_definition",
    "made_as",
    "narrowed",
    "no_stream",
    "own_schema",
    "partitions_of",
    "truncate",
]
