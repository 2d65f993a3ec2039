"""What each statement does: a module for each kind, classes that `catalog.catalog` joins.

`tables` creates and drops, `altering` (with `evolution`, which makes the next schema) is ALTER TABLE, `replacing` is
CTAS, RTAS and INSERT OVERWRITE, `history` DELETE, UPDATE and MERGE; then `namespaces`, `views`, `metadata_tables`,
`procedures`, of which `copying` and `redelivering` have Spark do a part (`running`). It uses
`catalog.base` and below, the connector, the registry and serde.
"""

from pyspark_pravega.catalog.statements.altering import Altering
from pyspark_pravega.catalog.statements.history import History
from pyspark_pravega.catalog.statements.metadata_tables import MetadataTables, is_metadata
from pyspark_pravega.catalog.statements.namespaces import Namespaces
from pyspark_pravega.catalog.statements.procedures import PROCEDURES, Parameter, Procedures
from pyspark_pravega.catalog.statements.replacing import Replacing
from pyspark_pravega.catalog.statements.running import Caller, Statement
from pyspark_pravega.catalog.statements.views import Views

__all__ = [
    "PROCEDURES",
    "Altering",
    "Caller",
    "History",
    "MetadataTables",
    "Namespaces",
    "Parameter",
    "Procedures",
    "Replacing",
    "Statement",
    "Views",
    "is_metadata",
]
