"""What each statement does: a module for each kind, with a class whose constructor says what it needs.

No class is made of another one: `catalog.catalog` makes one of each and hands on those that others need.

`relations` is for tables of either kind. Of streams `tables` creates and drops, `altering` (with `evolution`, which
makes the next schema, `schemas`, `primary_keys` and `constraint_changes`) is ALTER TABLE, `replacing` is CTAS, RTAS and
INSERT OVERWRITE, `append_only` refuses DELETE, UPDATE and MERGE where there is no key; of key-value tables `key_values`
does all of it. Then `namespaces`, `views`, `metadata_tables`, and the folder `procedures`. It uses `catalog.base` and
below, the connector, the registry and serde.
"""

from pyspark_pravega.catalog.statements.altering import Altering
from pyspark_pravega.catalog.statements.append_only import AppendOnly
from pyspark_pravega.catalog.statements.constraint_changes import ConstraintChanges
from pyspark_pravega.catalog.statements.key_values import (
    KeyValueTables,
    loaded_key_value_properties,
    shown_key_value_properties,
)
from pyspark_pravega.catalog.statements.metadata_tables import MetadataTables, is_metadata
from pyspark_pravega.catalog.statements.namespaces import Namespaces
from pyspark_pravega.catalog.statements.procedures import (
    PROCEDURES,
    Caller,
    Parameter,
    Procedures,
    Reading,
    Statement,
    quoted,
)
from pyspark_pravega.catalog.statements.relations import Relations
from pyspark_pravega.catalog.statements.replacing import Replacing, Staged
from pyspark_pravega.catalog.statements.schemas import Schemas
from pyspark_pravega.catalog.statements.tables import Tables
from pyspark_pravega.catalog.statements.views import View, Views

__all__ = [
    "PROCEDURES",
    "Altering",
    "AppendOnly",
    "Caller",
    "ConstraintChanges",
    "KeyValueTables",
    "MetadataTables",
    "Namespaces",
    "Parameter",
    "Procedures",
    "Reading",
    "Relations",
    "Replacing",
    "Schemas",
    "Staged",
    "Statement",
    "Tables",
    "View",
    "Views",
    "is_metadata",
    "loaded_key_value_properties",
    "quoted",
    "shown_key_value_properties",
]
