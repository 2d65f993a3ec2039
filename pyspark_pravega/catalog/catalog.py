"""The catalog: scopes as namespaces, streams and key-value tables as tables, and what goes with them."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_pravega.catalog.base import CatalogBase
from pyspark_pravega.catalog.statements import (
    Altering,
    AppendOnly,
    ConstraintChanges,
    KeyValueTables,
    MetadataTables,
    Namespaces,
    Procedures,
    Relations,
    Replacing,
    Schemas,
    Tables,
    Views,
)
from pyspark_pravega.settings import Settings


class Catalog(CatalogBase):
    """A Pravega cluster and its schema registry as a catalog. Safe for use by several threads.

    It looks up, and each of its parts does the statements of a kind.
    """

    def __init__(self, settings: Settings, lake: Mapping[str, str] | None = None) -> None:
        """Open a catalog; nothing is contacted yet.

        Args:
            settings: where the cluster and the registry are.
            lake: where the lake is, as of `LakeConfiguration.of`.
        """
        super().__init__(settings, lake)
        self.tables = Tables(self)
        self.replacing = Replacing(self, self.tables)
        self.schemas = Schemas(self, self.replacing)
        self.altering = Altering(self, self.schemas, ConstraintChanges(self), self.replacing)
        self.key_values = KeyValueTables(self)
        self.relations = Relations(self, self.tables, self.altering, self.replacing, self.key_values)
        self.namespaces = Namespaces(self, self.tables, self.key_values)
        self.views = Views(self)
        self.metadata = MetadataTables(self, self.replacing)
        self.append_only = AppendOnly()
        self.procedures = Procedures(self, self.schemas)
