"""What SQL knows of a table's columns beyond their types: DEFAULT values and CHECK constraints.

Both are SQL texts, which Spark evaluates. They are kept with the table's properties in its commit log, under names that
nobody sees among the properties.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pyspark_pravega.errors import ConfigurationError, TableChangedError, UnsupportedOperationError
from pyspark_pravega.serde.formats import REGISTERED
from pyspark_pravega.serde.schemas import avro
from pyspark_pravega.spark.types import StructField, StructType
from pyspark_pravega.values import literal

DEFAULTS, CHECKS = "_defaults", "_checks"
"""The properties that keep them: an object of column and SQL, and a list of constraints."""
CURRENT_DEFAULT, EXISTS_DEFAULT = "CURRENT_DEFAULT", "EXISTS_DEFAULT"
"""Where Spark's JSON of a schema has a column's default, for rows to come and for rows that are there."""
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'")
_FIELD = re.compile(r"\s*\.\s*(?:`((?:[^`]|``)+)`|(\w+))")
_FIELDS = re.compile(rf"(?:{_FIELD.pattern})*")
_NULL = re.compile(r"\s+IS\s+(?:NOT\s+)?NULL\b", re.IGNORECASE)
_NUMBERS, _TEXTS = frozenset({"int", "long", "float", "double"}), frozenset({"string"})


@dataclass(frozen=True, kw_only=True)
class Check:
    """A CHECK constraint."""

    name: str
    condition: str
    """As SQL."""
    enforced: bool = True
    """Whether Spark checks it; else it only says what its writer has promised."""

    def names(self, column: str, *fields: str) -> bool:
        """Whether the condition may be about a column, or about a field of a struct.

        Args:
            column: the column's name.
            fields: the names of the struct's field, and of one within it, and so on. A condition about a whole struct
                is about all of its fields, unless it only asks whether the struct is null.
        """
        text = _STRING.sub(" ", self.condition)
        for reference in re.finditer(rf"(?<!\w){re.escape(column)}(?!\w)`?", text, re.IGNORECASE):
            behind = text[reference.end() :]
            if fields and _NULL.match(behind):
                continue
            path = _FIELDS.match(behind)
            assert path is not None
            within = [quoted.replace("``", "`") or plain for quoted, plain in _FIELD.findall(path[0])]
            if all(one.lower() == other.lower() for one, other in zip(within, fields, strict=False)):
                return True
        return False


def split_defaults(schema: StructType) -> tuple[StructType, dict[str, str]]:
    """Columns without their defaults, and these.

    Args:
        schema: columns as Spark has them, with defaults in their metadata.

    Returns:
        The columns, and column name to SQL.
    """
    columns, defaults = [], {}
    for field in schema:
        metadata = dict(field.metadata or {})
        metadata.pop(EXISTS_DEFAULT, None)
        default = metadata.pop(CURRENT_DEFAULT, None)
        if default is not None:
            defaults[field.name] = default
        columns.append(StructField(field.name, field.dataType, field.nullable, metadata))
    return StructType(columns), defaults


def with_defaults(schema: StructType, defaults: Mapping[str, str]) -> StructType:
    """Columns with their defaults in their metadata, where Spark looks for them.

    Args:
        schema: the columns.
        defaults: column name to SQL.
    """
    return StructType(
        [
            StructField(f.name, f.dataType, f.nullable, {**(f.metadata or {}), CURRENT_DEFAULT: defaults[f.name]})
            if f.name in defaults
            else f
            for f in schema
        ]
    )


def with_rules(
    properties: Mapping[str, str], *, defaults: Mapping[str, str] | None = None, checks: Iterable[Check] | None = None
) -> dict[str, str]:
    """Properties with other defaults or constraints.

    Args:
        properties: the table's properties.
        defaults: column name to SQL; None leaves them as they are.
        checks: likewise.
    """
    changed = dict(properties)
    texts: dict[str, Any] = {}
    if defaults is not None:
        texts[DEFAULTS] = dict(defaults)
    if checks is not None:
        texts[CHECKS] = [asdict(check) for check in checks]
    for key, content in texts.items():
        changed.pop(key, None)
        if content:
            changed[key] = json.dumps(content)
    return changed


def added_check(checks: Iterable[Check], new: Check, stream: object) -> tuple[Check, ...]:
    """Constraints with one more.

    Args:
        checks: those that are there.
        new: the other one.
        stream: the stream, for messages.

    Raises:
        ConfigurationError: there is one of that name.
    """
    there = tuple(checks)
    if any(check.name.lower() == new.name.lower() for check in there):
        raise ConfigurationError(f'stream "{stream}" has a constraint "{new.name}" already: give another name')
    return (*there, new)


def check_enforced(checks: Iterable[Check], known: Collection[str] | None, stream: object) -> None:
    """Refuse a write whose rows no engine would check against the table's constraints.

    Args:
        checks: the table's constraints.
        known: the names of the constraints that Spark has put into the statement's plan; None where Spark does no
            such thing: with streaming queries, and without the catalog.
        stream: the stream, for messages.

    Raises:
        UnsupportedOperationError: no engine checks them.
        TableChangedError: one was added after the statement was analysed.
    """
    enforced = [check.name for check in checks if check.enforced]
    if enforced and known is None:
        raise UnsupportedOperationError(
            f'stream "{stream}" has CHECK constraints ({", ".join(enforced)}), which Spark checks in INSERT and in '
            "batch writes through the catalog only: in a streaming query write with foreachBatch, each batch by "
            "batch.writeTo(table).append()"
        )
    missing = [name for name in enforced if name not in (known or ())]
    if missing:
        raise TableChangedError(
            f'stream "{stream}" was given CHECK constraints ({", ".join(missing)}) after this write was planned: '
            "nothing was written; run the statement again"
        )


def avro_defaults(serialization_format: str, data: bytes) -> dict[str, str]:
    """The defaults of an Avro schema that are values other than null, of columns of plain types.

    Args:
        serialization_format: the registry's name of the format; of other formats there are none.
        data: the schema.

    Returns:
        Column name to SQL.
    """
    if serialization_format != REGISTERED["avro"]:
        return {}
    schema = json.loads(data)
    fields = schema.get("fields", []) if isinstance(schema, dict) else []
    literals = {avro.column_name(field): _literal(field["type"], field.get("default")) for field in fields}
    return {name: literal for name, literal in literals.items() if literal is not None}


def _literal(kind: Any, value: Any) -> str | None:
    """An Avro default as SQL; None where it is null, or of a type that has no literal of the same meaning."""
    if isinstance(kind, list):
        kind = kind[0]  # A default is of a union's first branch.
    if isinstance(kind, dict):
        if kind.get("type") != "enum" and set(kind) != {"type"}:
            return None
        kind = "string" if kind["type"] == "enum" else kind["type"]
    if kind == "boolean" and isinstance(value, bool):
        return str(value).upper()
    if kind in _NUMBERS and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return repr(value)
    if kind in _TEXTS and isinstance(value, str):
        return literal(value)
    return None
