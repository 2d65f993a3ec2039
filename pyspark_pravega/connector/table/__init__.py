"""What a stream is as a table: `definition` (columns, format, codec) and `encodings` (schemas of the registry by id).

It uses the commit log (`connector.log`), the registry and serde.
"""

from pyspark_pravega.connector.table.definition import (
    COLUMNS,
    COMPRESSIONS,
    CORRUPT_EVENT,
    METADATA_COLUMNS,
    MODE,
    PINNED_SCHEMA,
    SCHEMA_TYPE,
    TableDefinition,
    document_definition,
    load_definition,
    raw_definition,
)

__all__ = [
    "COLUMNS",
    "COMPRESSIONS",
    "CORRUPT_EVENT",
    "METADATA_COLUMNS",
    "MODE",
    "PINNED_SCHEMA",
    "SCHEMA_TYPE",
    "TableDefinition",
    "document_definition",
    "load_definition",
    "raw_definition",
]
