"""What a stream is as a table: `definition` (columns, format, codec), `rules` (defaults and constraints of columns) and
`encodings` (schemas of the registry by id).

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
    check_schema_is_there,
    document_definition,
    load_definition,
    raw_definition,
)
from pyspark_pravega.connector.table.rules import (
    Check,
    added_check,
    avro_defaults,
    check_enforced,
    checks_of,
    defaults_of,
    split_defaults,
    with_defaults,
    with_rules,
)

__all__ = [
    "COLUMNS",
    "COMPRESSIONS",
    "CORRUPT_EVENT",
    "METADATA_COLUMNS",
    "MODE",
    "PINNED_SCHEMA",
    "SCHEMA_TYPE",
    "Check",
    "TableDefinition",
    "added_check",
    "avro_defaults",
    "check_enforced",
    "check_schema_is_there",
    "checks_of",
    "defaults_of",
    "document_definition",
    "load_definition",
    "raw_definition",
    "split_defaults",
    "with_defaults",
    "with_rules",
]
