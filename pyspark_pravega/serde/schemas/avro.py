"""Avro schemas as values: parsed once, names resolved, logical types that the specification calls invalid dropped.

Source: the Avro 1.12 specification, "Schema Declaration" and "Logical Types".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, TypeAlias

from pyspark_pravega.errors import SchemaError

SPARK_TYPE = "spark.type"
"""The property that keeps the Spark type where Avro has none of its own (TINYINT, SMALLINT, CHAR, VARCHAR)."""

SPARK_NAME = "spark.name"
"""The property of a field that keeps its column's name, where Avro allows no such name."""

VARIANT = "variant"
"""The logical type of a record that holds a VARIANT's bytes, as Iceberg writes it."""

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_LOGICAL = {
    "int": {"date", "time-millis"},
    "long": {
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "timestamp-nanos",
        "local-timestamp-millis",
        "local-timestamp-micros",
        "local-timestamp-nanos",
    },
    "string": {"uuid"},
    "bytes": {"decimal"},
    "fixed": {"decimal"},
}
_MAX_DEPTH = 100


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()
"""A field's default when it has none; null is a default like others."""


@dataclass(frozen=True)
class Primitive:
    """null, boolean, int, long, float, double, bytes or string."""

    kind: str
    logical: str | None = None
    precision: int = 0
    scale: int = 0
    spark: str | None = None


@dataclass(frozen=True)
class Fixed:
    """A fixed number of bytes."""

    name: str
    size: int
    logical: str | None = None
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True)
class Enum:
    """One of some symbols."""

    name: str
    symbols: tuple[str, ...]
    default: str | None = None


@dataclass(frozen=True)
class Array:
    """Items of one type."""

    items: AvroType
    is_map: bool = False
    """Whether it has the logical type `map`: its items are records of a key and a value, as Iceberg writes it."""


@dataclass(frozen=True)
class Map:
    """Strings to values of one type."""

    values: AvroType


@dataclass(frozen=True)
class Union:
    """One of several types."""

    branches: tuple[AvroType, ...]

    @property
    def members(self) -> tuple[AvroType, ...]:
        """The branches that aren't null."""
        return tuple(branch for branch in self.branches if branch != Primitive("null"))


@dataclass(frozen=True)
class Field:
    """A field of a record."""

    name: str
    """The column's name: the field's own, or what its property `spark.name` says."""
    type: AvroType
    default: Any = MISSING
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    spark: str | None = None
    legal_name: str = ""
    """The field's own name, where the column has another one."""

    @property
    def avro_name(self) -> str:
        """The name by which schemas are resolved."""
        return self.legal_name or self.name


@dataclass(frozen=True)
class Record:
    """Fields of several types."""

    name: str
    fields: tuple[Field, ...]
    logical: str | None = None

    @property
    def is_variant(self) -> bool:
        """Whether it holds the bytes of a VARIANT."""
        parts = [(field.name, field.type) for field in self.fields]
        return (
            self.logical == VARIANT
            and sorted(name for name, _ in parts) == ["metadata", "value"]
            and all(kind == Primitive("bytes") for _, kind in parts)
        )


@dataclass(frozen=True)
class Recursive:
    """A record within itself."""

    name: str
    named: Mapping[str, AvroType | None] = dataclass_field(compare=False, repr=False)

    @property
    def definition(self) -> Record:
        """The record."""
        record = self.named[self.name]
        assert isinstance(record, Record)
        return record


AvroType: TypeAlias = Primitive | Fixed | Enum | Array | Map | Union | Record | Recursive


def parse(text: str) -> AvroType:
    """Parse a schema.

    Args:
        text: the schema's JSON; a bare name of a primitive type is one, too.

    Returns:
        The schema, every name replaced by what it stands for.

    Raises:
        SchemaError: it isn't an Avro schema.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        if text in _PRIMITIVES:
            return Primitive(text)
        raise SchemaError(f"the Avro schema isn't JSON: {error}") from None
    except RecursionError:
        raise SchemaError("the Avro schema is nested too deeply") from None
    return _Parser().parse(value, "", 0)


def table_record(schema: AvroType) -> Record:
    """The record that a table's events are.

    Args:
        schema: their schema. A value of another type than record is the only field, `value`, of a record without name:
            both have the same bytes.
    """
    return schema if isinstance(schema, Record) else Record("", (Field("value", schema),))


def member_name(index: int) -> str:
    """The field that stands for a member of a union of several types, as Spark's own reader of Avro calls it."""
    return f"member{index}"


def column_name(field: Mapping[str, Any]) -> str:
    """The column that a field is.

    Args:
        field: its JSON.
    """
    own: str = field["name"]
    name = field.get(SPARK_NAME)
    return name if isinstance(name, str) and name else own


def describe(schema: AvroType) -> str:
    """A type's name, for messages."""
    if isinstance(schema, Primitive):
        return schema.logical or schema.kind
    if isinstance(schema, Union):
        return f"[{', '.join(describe(branch) for branch in schema.branches)}]"
    if isinstance(schema, (Array, Map)):
        return type(schema).__name__.lower()
    return f"{type(schema).__name__.lower()} {schema.name}"


class _Parser:
    def __init__(self) -> None:
        # None while a type is being parsed: to meet its name then is recursion.
        self._named: dict[str, AvroType | None] = {}

    def parse(self, value: Any, namespace: str, depth: int) -> AvroType:
        if depth > _MAX_DEPTH:
            raise SchemaError(f"the Avro schema is nested more than {_MAX_DEPTH} levels deep")
        if isinstance(value, str):
            return Primitive(value) if value in _PRIMITIVES else self._reference(value, namespace)
        if isinstance(value, list):
            return Union(tuple(self.parse(branch, namespace, depth + 1) for branch in value))
        if not isinstance(value, dict) or "type" not in value:
            raise SchemaError(f"this isn't an Avro schema: {_short(value)}")
        kind = value["type"]
        if not isinstance(kind, str):
            return self.parse(kind, namespace, depth + 1)
        if kind in _PRIMITIVES:
            return self._primitive(kind, value)
        if kind == "array":
            return Array(self.parse(_get(value, "items"), namespace, depth + 1), value.get("logicalType") == "map")
        if kind == "map":
            return Map(self.parse(_get(value, "values"), namespace, depth + 1))
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(kind, value, namespace, depth)
        return self._reference(kind, namespace)

    def _reference(self, name: str, namespace: str) -> AvroType:
        for full in dict.fromkeys((_full_name(name, namespace), name)):
            if full in self._named:
                return self._named[full] or Recursive(full, self._named)
        raise SchemaError(f'the Avro schema has no type "{name}"')

    def _primitive(self, kind: str, value: Mapping[str, Any]) -> Primitive:
        logical, precision, scale = _logical(kind, value, None)
        spark = value.get(SPARK_TYPE)
        return Primitive(kind, logical, precision, scale, spark if isinstance(spark, str) else None)

    def _define(self, kind: str, value: Mapping[str, Any], namespace: str, depth: int) -> AvroType:
        name = _get(value, "name")
        own_namespace = value.get("namespace")
        full = _full_name(str(name), own_namespace if isinstance(own_namespace, str) else namespace)
        if full in self._named:
            raise SchemaError(f'the Avro schema defines "{full}" twice')
        self._named[full] = None
        definition: AvroType
        if kind == "enum":
            symbols = _get(value, "symbols")
            if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
                raise SchemaError(f'the symbols of enum "{full}" must be a list of names')
            definition = Enum(full, tuple(symbols), value.get("default"))
        elif kind == "fixed":
            size = _get(value, "size")
            if not isinstance(size, int) or size < 0:
                raise SchemaError(f'the size of fixed "{full}" must be a number of bytes')
            definition = Fixed(full, size, *_logical("fixed", value, size))
        else:
            inner = full.rpartition(".")[0]
            fields = _get(value, "fields")
            if not isinstance(fields, list):
                raise SchemaError(f'the fields of record "{full}" must be a list')
            logical = value.get("logicalType")
            definition = Record(
                full,
                tuple(self._field(field, full, inner, depth) for field in fields),
                logical if isinstance(logical, str) else None,
            )
            names = [field.avro_name for field in definition.fields]
            if len(set(names)) != len(names):
                raise SchemaError(f'record "{full}" has two fields of one name')
        self._named[full] = definition
        return definition

    def _field(self, value: Any, record: str, namespace: str, depth: int) -> Field:
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise SchemaError(f'record "{record}" has a field without a name')
        doc, spark = value.get("doc"), value.get(SPARK_TYPE)
        name = column_name(value)
        return Field(
            name=name,
            type=self.parse(_get(value, "type"), namespace, depth + 1),
            default=value.get("default", MISSING),
            aliases=tuple(value.get("aliases") or ()),
            doc=doc if isinstance(doc, str) else None,
            spark=spark if isinstance(spark, str) else None,
            legal_name=value["name"] if name != value["name"] else "",
        )


def _logical(kind: str, value: Mapping[str, Any], size: int | None) -> tuple[str | None, int, int]:
    logical = value.get("logicalType")
    if logical not in _LOGICAL.get(kind, ()):
        return None, 0, 0
    if logical != "decimal":
        return str(logical), 0, 0
    precision, scale = value.get("precision"), value.get("scale", 0)
    # An invalid logical type is to be ignored, says the specification: the bytes stay bytes.
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or precision < 1:
        return None, 0, 0
    if size is not None and 10**precision - 1 >= 2 ** (8 * size - 1 if size else 0):
        return None, 0, 0
    return "decimal", precision, scale


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _get(value: Mapping[str, Any], key: str) -> Any:
    if key not in value:
        raise SchemaError(f'the Avro schema lacks "{key}": {_short(value)}')
    return value[key]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:200] + "..."
