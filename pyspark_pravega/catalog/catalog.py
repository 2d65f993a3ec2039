"""The catalog: scopes as namespaces, streams as tables, and what goes with them."""

from __future__ import annotations

from pyspark_pravega.catalog.altering import Altering
from pyspark_pravega.catalog.history import History
from pyspark_pravega.catalog.metadata_tables import MetadataTables
from pyspark_pravega.catalog.namespaces import Namespaces
from pyspark_pravega.catalog.procedures import Procedures
from pyspark_pravega.catalog.replacing import Replacing
from pyspark_pravega.catalog.views import Views


class Catalog(Procedures, MetadataTables, History, Replacing, Altering, Views, Namespaces):
    """A Pravega cluster and its schema registry as a catalog. Safe for use by several threads."""
