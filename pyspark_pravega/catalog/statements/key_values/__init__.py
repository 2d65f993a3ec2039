"""Pravega's key-value tables: `request` checks what is said of one, `tables` does it.

It uses `catalog.base` and below, the connector, the registry and serde, and no other statement but `tables`.
"""

from pyspark_pravega.catalog.statements.key_values.request import is_key_value_request, is_table_type
from pyspark_pravega.catalog.statements.key_values.tables import (
    KeyValueTables,
    loaded_key_value_properties,
    shown_key_value_properties,
)

__all__ = [
    "KeyValueTables",
    "is_key_value_request",
    "is_table_type",
    "loaded_key_value_properties",
    "shown_key_value_properties",
]
