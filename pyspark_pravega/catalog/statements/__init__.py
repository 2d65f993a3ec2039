"""What each statement does: a module for each kind, classes that `catalog.catalog` joins.

`tables` creates and drops, `altering` (with `evolution`, which makes the next schema) is ALTER TABLE, `replacing` is
CTAS, RTAS and INSERT OVERWRITE, `history` DELETE, UPDATE and MERGE, `key_values` (with `key_value_request`, which
checks what is said) all of it for key-value tables; then `namespaces`, `views`, `metadata_tables`, and the folder
`procedures`. It uses `catalog.base` and below, the connector, the registry and serde.
"""

from pyspark_pravega.catalog.statements.altering import Altering
from pyspark_pravega.catalog.statements.history import History
from pyspark_pravega.catalog.statements.key_values import KeyValueTables, shown_key_value_properties
from pyspark_pravega.catalog.statements.metadata_tables import MetadataTables, is_metadata
from pyspark_pravega.catalog.statements.namespaces import Namespaces
from pyspark_pravega.catalog.statements.procedures import PROCEDURES, Caller, Parameter, Procedures, Statement
from pyspark_pravega.catalog.statements.views import Views

__all__ = [
    "PROCEDURES",
    "Altering",
    "Caller",
    "History",
    "KeyValueTables",
    "MetadataTables",
    "Namespaces",
    "Parameter",
    "Procedures",
    "Statement",
    "Views",
    "is_metadata",
    "shown_key_value_properties",
]
