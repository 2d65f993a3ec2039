"""Alembic's part: a table of migrations whose rows change by MERGE."""

from __future__ import annotations

from typing import Any

from alembic.ddl.impl import DefaultImpl
from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, String, Table, text
from sqlalchemy.sql import Update

_IS_VERSIONS = "pravega_versions"


class PravegaImpl(DefaultImpl):
    """Alembic finds it by the dialect's name."""

    __dialect__ = "pravega"
    transactional_ddl = False

    def version_table_impl(
        self, *, version_table: str, version_table_schema: str | None, version_table_pk: bool, **_: Any
    ) -> Table:
        """The table of migrations, which always has a key: rows of others can't be changed.

        Args:
            version_table: its name.
            version_table_schema: its namespace; None for the current one.
            version_table_pk: whether Alembic wants the key.
        """
        del version_table_pk
        return Table(
            version_table,
            MetaData(),
            Column("version_num", String(32), nullable=False),
            PrimaryKeyConstraint("version_num", name=f"{version_table}_pkc"),
            schema=version_table_schema,
            info={_IS_VERSIONS: True},
        )

    def _exec(self, construct: Any, *args: Any, **kw: Any) -> Any:
        """Run a statement.

        Alembic notes a migration by changing the key of its row, which Spark refuses: here another row takes its
        place, in one commit.
        """
        if (
            isinstance(construct, Update)
            and isinstance(construct.table, Table)
            and _IS_VERSIONS in construct.table.info
        ):
            construct = text(self._exchange(construct))
        return super()._exec(construct, *args, **kw)

    def _exchange(self, update: Any) -> str:
        (after,) = update._values.values()
        before = update.whereclause.right
        table = self.dialect.identifier_preparer.format_table(update.table)
        rows = f"SELECT * FROM VALUES ({before}, true), ({after}, false) AS v (version_num, gone)"
        return (
            f"MERGE INTO {table} AS t USING ({rows}) AS s ON t.version_num = s.version_num "
            "WHEN MATCHED AND s.gone THEN DELETE "
            "WHEN NOT MATCHED AND NOT s.gone THEN INSERT (version_num) VALUES (s.version_num)"
        )
