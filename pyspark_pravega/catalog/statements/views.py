"""Views: queries with a name, kept in their namespace's scope in Pravega."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pyspark_pravega.catalog.base import CatalogBase
from pyspark_pravega.catalog.names import scope_of, stream_of, to_sql
from pyspark_pravega.connector.log import Content
from pyspark_pravega.errors import StreamExistsError, ViewExistsError, ViewNotFoundError


@dataclass(frozen=True, kw_only=True)
class View:
    """What Spark tells of a view, and wants to hear again."""

    query: str
    schema: str
    """As Spark's JSON."""
    properties: dict[str, str]
    catalog: str | None
    """The current one when the view was made, as is the namespace."""
    current: list[str]
    configuration: dict[str, str]
    """Spark's, under which the query is analysed."""
    mode: str | None
    columns: list[str]
    """The query's names of the view's columns."""


class Views:
    """Keeps views; nothing here understands their queries."""

    def __init__(self, base: CatalogBase) -> None:
        """Serve a catalog.

        Args:
            base: the cluster, the registry, and what was looked up.
        """
        self._base = base

    def names(self, namespace: Sequence[str]) -> list[str]:
        """The names of all views of a namespace, in SQL's spelling, sorted.

        Raises:
            ScopeNotFoundError: there is no such scope.
        """
        if self._base.is_empty_default(namespace):
            return []
        return sorted(to_sql(name) for name in self._base.store(self._base.scope(namespace)).views())

    def load(self, namespace: Sequence[str], table: str) -> View:
        """A view.

        Raises:
            ViewNotFoundError: there is none.
        """
        name = stream_of(namespace, table)
        view = self._base.store(name.scope).view(name.name)
        if view is None:
            raise ViewNotFoundError(f'view "{name}" does not exist')
        return View(**view)

    def store(self, namespace: Sequence[str], table: str, definition: View, *, create: bool, replace: bool) -> None:
        """Make a view, or give it another query.

        Args:
            namespace: its namespace.
            table: its name.
            definition: what Spark tells of it.
            create: whether it may be new.
            replace: whether it may be there.

        Raises:
            ViewExistsError: it is there and mustn't be.
            ViewNotFoundError: it isn't there and must be.
            StreamExistsError: there is a stream of this name.
            ScopeNotFoundError: there is no such scope.
        """
        name = stream_of(namespace, table)
        self._base.scope(namespace, make=create)
        if self._base.exists(name):
            raise StreamExistsError(f'stream "{name}" exists already: a view needs another name')
        if self._base.is_key_value(name):
            raise StreamExistsError(f'key-value table "{name}" exists already: a view needs another name')

        def change(before: Content | None) -> Content:
            if before is None and not create:
                raise ViewNotFoundError(f'view "{name}" does not exist')
            if before is not None and not replace:
                raise ViewExistsError(f'view "{name}" exists already')
            return asdict(definition)

        self._base.store(name.scope).change_view(name.name, change)

    def drop(self, namespace: Sequence[str], table: str) -> bool:
        """Remove a view.

        Returns:
            False when there was none.
        """
        name = stream_of(namespace, table)
        return self._base.store(name.scope).drop_view(name.name)

    def rename(self, namespace: Sequence[str], table: str, to_namespace: Sequence[str], to: str) -> None:
        """Give a view another name.

        Args:
            namespace: its namespace.
            table: its name.
            to_namespace: its new namespace; the same one when empty.
            to: its new name.

        Raises:
            ViewNotFoundError: there is none.
            ViewExistsError: there is one of the new name.
        """
        definition = self.load(namespace, table)
        target = list(to_namespace) or list(namespace)
        if scope_of(target) == scope_of(namespace) and stream_of(target, to) == stream_of(namespace, table):
            return
        self.store(target, to, definition, create=True, replace=False)
        self.drop(namespace, table)

    def has(self, namespace: Sequence[str], table: str) -> bool:
        """Whether there is a view of this name."""
        name = stream_of(namespace, table)
        return self._base.store(name.scope).view(name.name) is not None
