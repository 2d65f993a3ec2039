"""The catalog: scopes as namespaces, streams as tables, and what goes with them."""

from __future__ import annotations

from pyspark_pravega.catalog.statements import (
    Altering,
    History,
    MetadataTables,
    Namespaces,
    Procedures,
    Replacing,
    Views,
)


class Catalog(Procedures, MetadataTables, History, Replacing, Altering, Views, Namespaces):
    """A Pravega cluster and its schema registry as a catalog. Safe for use by several threads."""
