"""ALTER TABLE's changes of DEFAULT values and CHECK constraints."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark_pravega.catalog.base import CatalogBase
from pyspark_pravega.catalog.ddl import UpdateColumnDefaultValue
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.log import Ledger, State, create_ledger, settle, take_snapshot
from pyspark_pravega.connector.table import (
    Check,
    TableDefinition,
    TableProperties,
    added_check,
    with_rules,
)
from pyspark_pravega.connector.write import ReadSet, is_unchanged
from pyspark_pravega.errors import (
    ConfigurationError,
    ConflictError,
    UnsupportedOperationError,
    WriteConflictError,
    did_you_mean,
)


class ConstraintChanges:
    """Changes what SQL knows of a table's columns beyond their types."""

    def __init__(self, base: CatalogBase) -> None:
        """Serve a catalog.

        Args:
            base: the cluster, the registry, and what was looked up.
        """
        self._base = base

    def alter_defaults(self, definition: TableDefinition, changes: Sequence[UpdateColumnDefaultValue]) -> None:
        """Set or drop defaults of columns, for rows to come.

        Args:
            definition: what the stream is as a table.
            changes: the defaults.

        Raises:
            UnsupportedOperationError: a field of a struct can't have one.
        """
        for change in changes:
            if len(change.column) > 1:
                raise UnsupportedOperationError(
                    f'"{change.path}" of stream "{definition.stream}" is a field of a struct: only '
                    "columns have defaults"
                )

        def changed(before: dict[str, str]) -> dict[str, str]:
            defaults = dict(TableProperties(before).defaults)
            for change in changes:
                (column,) = change.column
                defaults.pop(column, None)
                if change.default:
                    defaults[column] = change.default
            return with_rules(before, defaults=defaults)

        create_ledger(self._base.client, definition.stream).change_properties(changed)

    def forget_defaults(self, stream: Stream, columns: Sequence[str]) -> None:
        """Forget the defaults of columns that are dropped."""

        def changed(before: dict[str, str]) -> dict[str, str]:
            defaults = TableProperties(before).defaults
            return with_rules(before, defaults={k: v for k, v in defaults.items() if k not in columns})

        create_ledger(self._base.client, stream).change_properties(changed)

    def add_check(self, stream: Stream, check: Check, seen: Sequence[ReadSet]) -> None:
        """Add a CHECK constraint.

        Writes that were planned before know nothing of it: their commits fail from then on.

        Args:
            stream: the stream.
            check: the constraint.
            seen: what Spark has read of the table to see that all rows keep to it.

        Raises:
            ConfigurationError: there is a constraint of that name.
            WriteConflictError: rows came since they were looked at.
        """
        ledger = create_ledger(self._base.client, stream)

        def changed(before: dict[str, str]) -> dict[str, str]:
            return with_rules(before, checks=added_check(TableProperties(before).checks, check, stream))

        while True:
            state = settle(self._base.client, ledger)
            if check.enforced:
                self._check_unchanged(ledger, state, seen, check)
            try:
                ledger.add_check(state, changed)
            except ConflictError:
                continue
            return

    def _check_unchanged(self, ledger: Ledger, state: State, seen: Sequence[ReadSet], check: Check) -> None:
        tail = take_snapshot(self._base.client, ledger.stream, ledger)
        if not all(is_unchanged(self._base.client, tail, state, one) for one in seen):
            raise WriteConflictError(
                f'constraint "{check.name}" was not added to stream "{ledger.stream}": rows came while those that were '
                "there were looked at; run the statement again"
            )

    def drop_check(self, stream: Stream, name: str, *, if_exists: bool) -> None:
        """Drop a CHECK constraint.

        Args:
            stream: the stream.
            name: the constraint's name, in any case.
            if_exists: whether it may be missing.

        Raises:
            ConfigurationError: there is none of that name.
        """

        def changed(before: dict[str, str]) -> dict[str, str]:
            checks = TableProperties(before).checks
            kept = [check for check in checks if check.name.lower() != name.lower()]
            if len(kept) == len(checks) and not if_exists:
                hint = did_you_mean(name, [check.name for check in checks])
                raise ConfigurationError(f'stream "{stream}" has no constraint "{name}"{hint}')
            return with_rules(before, checks=kept)

        create_ledger(self._base.client, stream).change_properties(changed)
