"""SQLAlchemy's types, and those of Spark that PyHive's answers hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Any

from pyhive import sqlalchemy_hive
from sqlalchemy import cast, exc, func, types

_NAMED: dict[str, type[types.TypeEngine[Any]]] = {
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
    "date": types.Date,
    "timestamp": sqlalchemy_hive.HiveTimestamp,
    "timestamp_ntz": sqlalchemy_hive.HiveTimestamp,
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_DOUBLE_BITS = 24
"""A float of more bits is a double."""


def type_of(name: str) -> types.TypeEngine[Any]:
    """SQLAlchemy's type for one that DESCRIBE names; arrays, maps and structs come as texts of JSON.

    Args:
        name: as Spark writes it, such as `decimal(10,2)`.
    """
    if match := _DECIMAL.match(name):
        return types.Numeric(int(match[1]), int(match[2]))
    match = re.match(r"\w+", name)
    return _NAMED.get(match[0] if match else "", types.String)()


class _Timestamp(types.DateTime):
    """PyHive writes a text, which Spark doesn't store as a time unless it is told to."""

    def bind_expression(self, bindvalue: Any) -> Any:
        return cast(bindvalue, self)


class _Date(types.Date):
    """PyHive writes a text, and hands one on."""

    def bind_expression(self, bindvalue: Any) -> Any:
        return cast(bindvalue, self)

    def result_processor(self, dialect: Any, coltype: object) -> Callable[[Any], date | None]:  # noqa: ARG002
        return lambda value: date.fromisoformat(value) if isinstance(value, str) else value


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


class _JsonIndex(types.JSON.JSONIndexType):
    """A field's name, or an element's number, as a path of Spark's functions."""

    def bind_processor(self, dialect: Any) -> Any:  # noqa: ARG002
        return lambda value: "$" + _step(value)


class _JsonPath(types.JSON.JSONPathType):
    """Several of them, from the outside in."""

    def bind_processor(self, dialect: Any) -> Any:  # noqa: ARG002
        return lambda value: "$" + "".join(map(_step, value))


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if "'" in step:
        raise exc.StatementError(f"a path into JSON can't name {step!r}: it holds a quote", None, None, None)
    return f"['{step}']"


COLSPECS: dict[type[types.TypeEngine[Any]], type[types.TypeEngine[Any]]] = {
    types.DateTime: _Timestamp,
    types.Date: _Date,
    types.Float: types.Float,
    types.Numeric: _Decimal,
    types.LargeBinary: _Binary,
    types.JSON.JSONIndexType: _JsonIndex,
    types.JSON.JSONPathType: _JsonPath,
}
"""What stands for SQLAlchemy's own types."""


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

    def visit_JSON(self, _type: Any, **_: Any) -> str:  # noqa: N802
        """A text: the Thrift server has no JSON."""
        return "STRING"

    def visit_TIME(self, _type: Any, **_: Any) -> str:  # noqa: N802
        """A time of the day, which the Thrift server doesn't know."""
        raise exc.CompileError("Spark's Thrift server has no TIME: take a String, or a DateTime")
