"""Scopes as namespaces."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from pyspark_pravega.catalog.base import DEFAULT_NAMESPACE, CatalogBase, no_such_scope
from pyspark_pravega.catalog.ddl import PropertyChange, RemoveProperty, SetProperty
from pyspark_pravega.catalog.names import scope_of, to_sql
from pyspark_pravega.catalog.statements.key_values import KeyValueTables
from pyspark_pravega.catalog.statements.tables import Tables
from pyspark_pravega.client.key_value import forget_broken_names
from pyspark_pravega.connector.log import (
    DECISIONS_TABLE,
    delete_left_over_logs,
    is_ledger_name,
    open_decisions,
    roll_forward,
)
from pyspark_pravega.connector.store import STORE, is_internal
from pyspark_pravega.errors import (
    AuthenticationError,
    ConflictError,
    PravegaError,
    ScopeExistsError,
    ScopeNotEmptyError,
    TransactionError,
    UnsupportedOperationError,
)
from pyspark_pravega.together import together

_OURS = "scope"
"""The property that says what the scope is called in Pravega."""
_SPARKS = frozenset({"owner", "collation"})


_FRESH_S = 0.02
"""Spark asks for a namespace's properties seven times for one CREATE TABLE, each time within 2 ms of the answer before
(measured). They aren't stale for longer than this."""


class Namespaces:
    """A namespace is a scope, with a comment and properties in its store."""

    def __init__(self, base: CatalogBase, tables: Tables, key_values: KeyValueTables) -> None:
        """Serve a catalog.

        Args:
            base: the cluster, the registry, and what was looked up.
            tables: deletes the streams of a scope.
            key_values: deletes its key-value tables.
        """
        self._base, self._tables, self._key_values = base, tables, key_values
        self._lock = threading.Lock()
        self._last: tuple[str, dict[str, str], float] | None = None
        """The scope that was asked for last, its properties, and when they were answered."""
        self._changes = 0

    def names(self) -> list[str]:
        """The names of all scopes, in SQL's spelling, sorted."""
        return sorted(to_sql(scope) for scope in self._base.client.controller.list_scopes())

    def properties(self, namespace: Sequence[str]) -> dict[str, str]:
        """A namespace's properties, its comment among them.

        Raises:
            ScopeNotFoundError: there is no such scope.
        """
        scope, last = scope_of(namespace), self._last
        if last is not None and last[0] == scope and time.monotonic() - last[2] <= _FRESH_S:
            return dict(last[1])
        changes = self._changes
        exists, properties = together(
            lambda: self._base.client.controller.scope_exists(scope), lambda: self._base.store(scope).properties()
        )
        if not exists and scope != DEFAULT_NAMESPACE:
            raise no_such_scope(scope)
        properties = {**properties, _OURS: scope}
        with self._lock:
            if changes == self._changes:
                self._last = scope, properties, time.monotonic()
        return dict(properties)

    def create(self, namespace: Sequence[str], properties: Mapping[str, str] | None = None) -> None:
        """Create a scope.

        Args:
            namespace: its name.
            properties: its comment and properties.

        Raises:
            ScopeExistsError: it was there.
            UnsupportedOperationError: it is to have a location.
        """
        scope = scope_of(namespace)
        kept = _checked(properties or {})
        if not self._base.client.controller.create_scope(scope):
            raise ScopeExistsError(f'scope "{scope}" exists already')
        if not kept:
            return
        try:
            self._base.store(scope).change_properties(lambda _: kept)
        except PravegaError:
            self._base.client.controller.delete_scope(scope)
            raise
        finally:
            self._has_changed()

    def alter(self, namespace: Sequence[str], changes: Sequence[PropertyChange]) -> None:
        """Set and remove properties of a namespace.

        Args:
            namespace: which one.
            changes: of its properties.

        Raises:
            ScopeNotFoundError: there is no such scope.
            UnsupportedOperationError: it is to have a location.
        """
        given = _checked({change.property: change.value for change in changes if isinstance(change, SetProperty)})
        scope = self._base.scope(namespace, make=True)
        removed = {change.property for change in changes if isinstance(change, RemoveProperty)}
        try:
            self._base.store(scope).change_properties(
                lambda before: {**{key: value for key, value in before.items() if key not in removed}, **given}
            )
        finally:
            self._has_changed()

    def drop(self, namespace: Sequence[str], *, cascade: bool) -> bool:
        """Delete a scope.

        Args:
            namespace: which one.
            cascade: delete its tables, views and reader groups (as those of `subscriber`) first.

        Returns:
            False when there was none.

        Raises:
            ScopeNotEmptyError: it holds tables, views or reader groups, and `cascade` isn't set.
        """
        scope = scope_of(namespace)
        controller = self._base.client.controller
        if not controller.scope_exists(scope):
            return False
        tables = list(controller.list_key_value_tables(scope))
        store = self._base.store(scope) if STORE in tables else None
        if not cascade:
            streams = sum(1 for _ in controller.list_streams(scope))
            views = len(store.views()) if store is not None else 0
            groups = sum(1 for _ in controller.list_reader_groups(scope))
            others = sum(1 for table in tables if not is_internal(table))
            counts = {"streams": streams, "key-value tables": others, "views": views, "reader groups": groups}
            if any(counts.values()):
                held = " and ".join(f"{count} {what}" for what, count in counts.items() if count)
                raise ScopeNotEmptyError(f'scope "{scope}" still holds {held}: drop them first, or use CASCADE')
            self._delete_decisions(scope, tables)
            delete_left_over_logs(self._base.client, scope, tables)
        else:
            self._delete_decisions(scope, tables)
            # Before their streams: the controller can't end the subscription to one that is gone.
            for group in list(controller.list_reader_groups(scope)):
                controller.delete_reader_group(scope, group)
            self._tables.drop_all(scope)
            self._key_values.drop_all(scope)
            # The logs of streams that were deleted by other means.
            for table in filter(is_ledger_name, list(controller.list_key_value_tables(scope))):
                controller.delete_key_value_table(scope, table)
        try:
            if store is not None:
                store.delete()
            with suppress(AuthenticationError):
                forget_broken_names(self._base.client, scope, controller.list_key_value_tables(scope))
            return controller.delete_scope(scope)
        finally:
            self._has_changed()

    def _delete_decisions(self, scope: str, tables: Sequence[str]) -> None:
        """Delete the records of transactions, behind what they decide in tables of other scopes."""
        client = self._base.client
        decisions = open_decisions(client, scope) if DECISIONS_TABLE in tables else None
        if decisions is not None:
            for transaction in decisions.committed():
                with suppress(ConflictError, TransactionError):
                    roll_forward(client, transaction)
            client.controller.delete_key_value_table(scope, DECISIONS_TABLE)

    def _has_changed(self) -> None:
        """Ask for properties anew, also where an answer of before the change is still on its way."""
        with self._lock:
            self._changes += 1
            self._last = None


def _checked(properties: Mapping[str, str]) -> dict[str, str]:
    if "location" in properties:
        raise UnsupportedOperationError("a Pravega scope has no location: leave LOCATION out")
    if _OURS in properties:
        raise UnsupportedOperationError(
            f'property "{_OURS}" tells what the namespace is called in Pravega: a scope can\'t be renamed'
        )
    return {key: value for key, value in properties.items() if key not in _SPARKS}
