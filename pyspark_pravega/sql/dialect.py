"""SQLAlchemy's dialect `pravega`: PyHive's for Hive, with Spark's answers and Spark's types.

It needs `pip install 'pyspark-pravega[sqlalchemy]'`. An address is `pravega://user@host:port/namespace`.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from pyhive import hive, sqlalchemy_hive
from sqlalchemy import cast, exc, func, text, types

_TYPES: dict[str, type[types.TypeEngine[Any]]] = {
    "boolean": types.Boolean,
    "tinyint": types.SmallInteger,
    "smallint": types.SmallInteger,
    "int": types.Integer,
    "bigint": types.BigInteger,
    "float": types.Float,
    "double": types.Double,
    "string": types.String,
    "char": types.String,
    "varchar": types.String,
    "binary": types.LargeBinary,
    "date": sqlalchemy_hive.HiveDate,
    "timestamp": sqlalchemy_hive.HiveTimestamp,
    "timestamp_ntz": sqlalchemy_hive.HiveTimestamp,
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_DOUBLE_BITS = 24
"""A float of more bits is a double."""
_NOT_THERE = ("[TABLE_OR_VIEW_NOT_FOUND]", "[SCHEMA_NOT_FOUND]")


class _Timestamp(types.DateTime):
    """PyHive writes a text, which Spark doesn't store as a time unless it is told to."""

    def bind_expression(self, bindvalue: Any) -> Any:
        return cast(bindvalue, self)


class _Date(types.Date):
    """Likewise."""

    def bind_expression(self, bindvalue: Any) -> Any:
        return cast(bindvalue, self)


class _Decimal(types.Numeric[Any]):
    """PyHive doesn't write decimal numbers."""

    def bind_processor(self, dialect: Any) -> Any:  # noqa: ARG002
        return lambda value: None if value is None else str(value)

    def bind_expression(self, bindvalue: Any) -> Any:
        return cast(bindvalue, self)


class _Binary(types.LargeBinary):
    """PyHive would take bytes for UTF-8."""

    def bind_processor(self, dialect: Any) -> Any:  # noqa: ARG002
        return lambda value: None if value is None else bytes(value).hex()

    def bind_expression(self, bindvalue: Any) -> Any:
        return func.unhex(bindvalue)


class PravegaTypeCompiler(sqlalchemy_hive.HiveTypeCompiler):  # type: ignore[misc]
    """Types as Spark writes them; Hive's would lose digits."""

    def visit_NUMERIC(self, type_: Any, **_: Any) -> str:  # noqa: N802
        """A decimal number with its digits."""
        if type_.precision is None:
            return "DECIMAL(38, 18)"
        return f"DECIMAL({type_.precision}, {type_.scale or 0})"

    visit_DECIMAL = visit_NUMERIC  # noqa: N815

    def visit_FLOAT(self, type_: Any, **_: Any) -> str:  # noqa: N802
        """A number with a floating point: of 64 bits unless it is said to have fewer."""
        return "DOUBLE" if type_.precision is None or type_.precision > _DOUBLE_BITS else "FLOAT"

    def visit_DOUBLE(self, _type: Any, **_: Any) -> str:  # noqa: N802
        """A number of 64 bits."""
        return "DOUBLE"

    def visit_DATE(self, _type: Any, **_: Any) -> str:  # noqa: N802
        """A day."""
        return "DATE"


class PravegaDialect(sqlalchemy_hive.HiveDialect):  # type: ignore[misc]
    """What SQLAlchemy asks for, in Spark's statements."""

    name = "pravega"
    type_compiler = PravegaTypeCompiler
    type_compiler_cls = PravegaTypeCompiler
    supports_statement_cache = False
    colspecs: ClassVar = {
        types.DateTime: _Timestamp,
        types.Date: _Date,
        types.Float: types.Float,
        types.Numeric: _Decimal,
        types.LargeBinary: _Binary,
    }

    @classmethod
    def import_dbapi(cls) -> Any:
        """PyHive."""
        return hive

    def get_schema_names(self, connection: Any, **_: Any) -> list[str]:
        """The namespaces of the current catalog."""
        return [row[0] for row in connection.execute(text("SHOW NAMESPACES"))]

    def get_table_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """The tables of a namespace, without views."""
        views = set(self.get_view_names(connection, schema))
        rows = connection.execute(text("SHOW TABLES" + self._in(schema)))
        return [row.tableName for row in rows if not row.isTemporary and row.tableName not in views]

    def get_view_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """The views of a namespace."""
        rows = connection.execute(text("SHOW VIEWS" + self._in(schema)))
        return [row.viewName for row in rows if not row.isTemporary]

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> bool:
        """Whether there is a table or view of this name."""
        try:
            self._described(connection, table_name, schema)
        except exc.NoSuchTableError:
            return False
        return True

    def get_columns(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> list[Any]:
        """A table's columns.

        Raises:
            NoSuchTableError: there is no such table.
        """
        return [
            {"name": name, "type": _type(kind), "nullable": True, "default": None, "comment": comment or None}
            for name, kind, comment in self._described(connection, table_name, schema)
        ]

    def get_pk_constraint(self, _connection: Any, _table_name: str, _schema: str | None = None, **_: Any) -> Any:
        """None: streams have no keys."""
        return {"constrained_columns": [], "name": None}

    def get_indexes(self, _connection: Any, _table_name: str, _schema: str | None = None, **_: Any) -> list[Any]:
        """None: streams have no indexes."""
        return []

    def _described(self, connection: Any, table: str, schema: str | None) -> list[tuple[str, str, str]]:
        try:
            rows = connection.execute(text(f"DESCRIBE TABLE {self._name(table, schema)}")).fetchall()
        except exc.OperationalError as error:
            if any(condition in str(error.orig) for condition in _NOT_THERE):
                raise exc.NoSuchTableError(f"{schema}.{table}" if schema else table) from None
            raise
        columns = []
        for name, kind, comment in rows:
            # How the table is clustered comes after its columns.
            if not name or name.startswith("# "):
                break
            columns.append((name, kind, comment))
        return columns

    def _name(self, table: str, schema: str | None) -> str:
        quote = self.identifier_preparer.quote_identifier
        return f"{quote(schema)}.{quote(table)}" if schema else str(quote(table))

    def _in(self, schema: str | None) -> str:
        return f" IN {self.identifier_preparer.quote_identifier(schema)}" if schema else ""


def _type(name: str) -> Any:
    """SQLAlchemy's type for one that DESCRIBE names."""
    if match := _DECIMAL.match(name):
        return types.Numeric(int(match[1]), int(match[2]))
    match = re.match(r"\w+", name)
    # Arrays, maps and structs come as JSON.
    return _TYPES.get(match[0] if match else "", types.String)()
