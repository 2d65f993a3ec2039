"""SQLAlchemy's dialect `pravega`: PyHive's connection, with Spark's statements, answers and types."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from pyhive import hive, sqlalchemy_hive
from sqlalchemy import bindparam, exc, schema, text
from sqlalchemy.engine import reflection

from pyspark_pravega.sql.dialect.compiling import KEYS_SINCE, PravegaCompiler, PravegaDDLCompiler
from pyspark_pravega.sql.dialect.described import Description, description_of, names_in, not_null, pattern_of
from pyspark_pravega.sql.dialect.types import COLSPECS, PravegaTypeCompiler, type_of

_VIEWS_SINCE = (4, 2)
"""The Spark that asks catalogs for views."""
_NOT_THERE = ("[TABLE_OR_VIEW_NOT_FOUND]", "[SCHEMA_NOT_FOUND]")


class PravegaDialect(sqlalchemy_hive.HiveDialect):  # type: ignore[misc]
    """What SQLAlchemy asks for, in Spark's statements."""

    name = "pravega"
    statement_compiler = PravegaCompiler
    ddl_compiler = PravegaDDLCompiler
    type_compiler = PravegaTypeCompiler
    type_compiler_cls = PravegaTypeCompiler
    supports_statement_cache = True
    supports_comments = True
    inline_comments = True
    use_insertmanyvalues = True
    use_insertmanyvalues_wo_returning = True
    """Many rows of one `execute` are one statement, and so one commit, for a thousand of them."""
    construct_arguments: ClassVar = [(schema.Table, {"tblproperties": None})]
    colspecs: ClassVar = COLSPECS

    @classmethod
    def import_dbapi(cls) -> Any:
        """PyHive."""
        return hive

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        numbers = re.match(r"\d+(\.\d+)*", str(connection.scalar(text("SELECT version()"))))
        return tuple(map(int, numbers.group().split("."))) if numbers else ()

    def _get_default_schema_name(self, connection: Any) -> str:
        name = str(connection.scalar(text("SELECT current_database()")))
        # Spark quotes one that is no word.
        return name[1:-1].replace("``", "`") if name.startswith("`") else name

    def get_schema_names(self, connection: Any, **_: Any) -> list[str]:
        """The namespaces of the current catalog."""
        return [row[0] for row in connection.execute(text("SHOW NAMESPACES"))]

    def get_table_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """The tables of a namespace, without views."""
        views = set(self.get_view_names(connection, schema))
        rows = connection.execute(text("SHOW TABLES" + self._in(schema)))
        return [row.tableName for row in rows if not row.isTemporary and row.tableName not in views]

    def get_view_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """The views of a namespace; a Spark whose catalogs have none has none."""
        if self.server_version_info < _VIEWS_SINCE:
            return []
        rows = connection.execute(text("SHOW VIEWS" + self._in(schema)))
        return [row.viewName for row in rows if not row.isTemporary]

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> bool:
        """Whether there is a table or view of this name."""
        try:
            self._described(connection, table_name, schema)
        except exc.NoSuchTableError:
            return False
        return True

    def get_columns(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """A table's columns.

        Raises:
            NoSuchTableError: there is no such table.
        """
        described = self._described(connection, table_name, schema, **kw)
        wanted = text(f"SHOW TABLE EXTENDED{self._in(schema)} LIKE :name")
        shown = connection.execute(wanted.bindparams(bindparam("name", pattern_of(table_name))))
        filled = {name for row in shown if row.tableName == table_name for name in not_null(row.information)}
        return [
            {
                "name": name,
                "type": type_of(kind),
                "nullable": name not in filled,
                "default": described.defaults.get(name),
                "comment": comment or None,
            }
            for name, kind, comment in described.columns
        ]

    def get_pk_constraint(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """The primary key."""
        name, columns = self._described(connection, table_name, schema, **kw).key
        if self.server_version_info < KEYS_SINCE:
            rows = connection.execute(text(f"SHOW TBLPROPERTIES {self._name(table_name, schema)}"))
            columns = names_in(next((row.value for row in rows if row.key == "primary-key"), ""))
        return {"constrained_columns": columns, "name": name}

    def get_check_constraints(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[dict[str, str]]:
        """The CHECK constraints."""
        checks = self._described(connection, table_name, schema, **kw).checks
        return [{"name": name, "sqltext": condition} for name, condition in checks.items()]

    def get_unique_constraints(
        self, _connection: Any, _table_name: str, _schema: str | None = None, **_: Any
    ) -> list[Any]:
        """None: only a primary key is unique."""
        return []

    def get_indexes(self, _connection: Any, _table_name: str, _schema: str | None = None, **_: Any) -> list[Any]:
        """None: streams have no indexes."""
        return []

    def get_table_comment(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> dict[str, str | None]:
        """The comment of a table or view."""
        return {"text": self._described(connection, table_name, schema, **kw).details.get("Comment")}

    def get_view_definition(self, connection: Any, view_name: str, schema: str | None = None, **kw: Any) -> str:
        """A view's query.

        Raises:
            NoSuchTableError: there is no such view.
        """
        definition = self._described(connection, view_name, schema, **kw).details.get("View Text")
        if definition is None:
            raise exc.NoSuchTableError(f"{view_name} is a table")
        return definition

    @reflection.cache
    def _described(self, connection: Any, table: str, schema: str | None, **_: Any) -> Description:
        try:
            rows = connection.execute(text(f"DESCRIBE TABLE EXTENDED {self._name(table, schema)}")).fetchall()
        except exc.OperationalError as error:
            if any(condition in str(error.orig) for condition in _NOT_THERE):
                raise exc.NoSuchTableError(f"{schema}.{table}" if schema else table) from None
            raise
        return description_of((row[0], row[1], row[2]) for row in rows)

    def _name(self, table: str, schema: str | None) -> str:
        quote = self.identifier_preparer.quote_identifier
        return f"{quote(schema)}.{quote(table)}" if schema else str(quote(table))

    def _in(self, schema: str | None) -> str:
        return f" IN {self.identifier_preparer.quote_identifier(schema)}" if schema else ""
