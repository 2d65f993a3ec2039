"""The catalog: scopes as namespaces, streams and key-value tables as tables, and what goes with them."""

from __future__ import annotations

from pyspark_pravega.catalog.statements import (
    History,
    KeyValueTables,
    MetadataTables,
    Namespaces,
    Procedures,
    Views,
)


class Catalog(Procedures, MetadataTables, History, KeyValueTables, Views, Namespaces):
    """A Pravega cluster and its schema registry as a catalog. Safe for use by several threads."""
