"""JSON Schemas as values: what a document of one holds, as far as it decides about columns.

Sources: JSON Schema drafts 4 to 2020-12, and draft 3 as the official serializers derive it from Java classes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark_pravega.errors import SchemaError, UnsupportedTypeError

SPARK_TYPE = "spark.type"
"""The keyword that keeps the Spark type where JSON Schema has none of its own."""
SPARK_NAME = "spark.name"
"""The keyword that keeps a column's name where the property has another one."""
NOT_NULL = "spark.not-null"
"""The keyword that says that an array's items or a map's values are never null."""

_MAX_DEPTH = 100
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_INTEGERS = ("tinyint", "smallint", "int")


@dataclass(frozen=True)
class Scalar:
    """A value of one of these kinds:

    `boolean`, `tinyint`, `smallint`, `int`, `bigint`, `float`, `double`, `decimal`, `string`; `json` (any value, as its
    text), `binary` (base64), `date`, `timestamp`, `timestamp_ntz` (ISO 8601), `timestamp_millis` (a number).
    """

    kind: str
    precision: int = 0
    scale: int = 0
    spark: str | None = None
    """The Spark type's name, where it is kept as this kind: intervals, times, VARIANT."""


@dataclass(frozen=True)
class Items:
    """An array."""

    item: JsonType
    nullable: bool
    is_map: bool = False
    """Whether its items are the entries of a map, objects of a key and a value."""


@dataclass(frozen=True)
class Entries:
    """An object that is a map."""

    value: JsonType
    nullable: bool


@dataclass(frozen=True)
class Property:
    """A property of an object."""

    name: str
    """The column's, or field's."""
    type: JsonType
    nullable: bool
    """Whether it may be null, or missing."""
    key: str
    """Its name in the object."""
    description: str | None = None
    spark: str | None = None
    """The Spark type's text, for CHAR and VARCHAR."""


@dataclass(frozen=True)
class Object:
    """An object with known properties."""

    properties: tuple[Property, ...]


JsonType: TypeAlias = Scalar | Items | Entries | Object
_ANY = Scalar("json")


def parse(text: str) -> JsonType:
    """Parse a schema.

    Args:
        text: the schema's JSON.

    Returns:
        What its documents hold. What JSON Schema leaves open (any type, unions, tuples), and an
        object within itself, is a Scalar of kind `json`.

    Raises:
        SchemaError: it isn't a JSON Schema.
        UnsupportedTypeError: a property refers to another document, or is always null.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise SchemaError(f"the JSON Schema isn't JSON: {error}") from None
    except RecursionError:
        raise SchemaError("the JSON Schema is nested too deeply") from None
    if not isinstance(value, (dict, bool)):
        raise SchemaError("a JSON Schema is an object, true or false")
    return _Parser(value).parse(value, "", ())[0]


def column_name(key: str, schema: Any) -> str:
    """The column that a property is.

    Args:
        key: its name in the object.
        schema: its schema.
    """
    name = schema.get(SPARK_NAME) if isinstance(schema, dict) else None
    return name if isinstance(name, str) and name else key


class _Parser:
    def __init__(self, root: Any) -> None:
        self._root = root

    def parse(self, schema: Any, path: str, within: tuple[str, ...]) -> tuple[JsonType, bool]:
        """The type, and whether null is one of its values."""
        if len(within) > _MAX_DEPTH:
            raise SchemaError(f"the JSON Schema is nested more than {_MAX_DEPTH} levels deep")
        if isinstance(schema, bool) or not schema:
            return _ANY, True
        if not isinstance(schema, dict):
            raise SchemaError(f'the JSON Schema of "{path}" isn\'t an object: {json.dumps(schema)[:200]}')
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if reference in within:
                # Spark has no recursive types.
                return _ANY, True
            return self.parse(self._resolve(reference, path), path, (*within, reference))
        within = (*within, "")
        for combined in ("anyOf", "oneOf"):
            if isinstance(schema.get(combined), list):
                return self._any_of(schema[combined], path, within)
        allof = schema.get("allOf")
        if isinstance(allof, list) and len(allof) == 1:
            return self.parse(allof[0], path, within)
        return self._typed(schema, path, within)

    def _typed(self, schema: Mapping[str, Any], path: str, within: tuple[str, ...]) -> tuple[JsonType, bool]:
        if schema.get(SPARK_TYPE) == "variant":
            return Scalar("json", spark="variant"), False
        kind = schema.get("type")
        nullable = False
        if isinstance(kind, list):
            nullable = "null" in kind
            others = [one for one in kind if one != "null"]
            if sorted(map(str, others)) == ["integer", "number"]:
                others = ["number"]
            if len(others) != 1:
                return _ANY, True
            kind = others[0]
        if kind is None:
            kind, nullable = _implied(schema)
        if not isinstance(kind, str):
            return _ANY, True
        if kind == "object":
            return self._object(schema, path, within), nullable
        if kind == "array":
            items = schema.get("items", True)
            if isinstance(items, list) or "prefixItems" in schema:
                return _ANY, True
            item, _ = self.parse(items, f"{path}.element", within)
            return Items(item, not _is_not_null(items), schema.get(SPARK_TYPE) == "map"), nullable
        if kind in ("boolean", "integer", "number", "string"):
            return _scalar(kind, schema), nullable
        if kind == "null":
            raise UnsupportedTypeError(f'property "{path}" is always null; Spark has no such columns')
        if kind == "any":
            return _ANY, True
        raise SchemaError(f'the JSON Schema of "{path}" has an unknown type: {kind}')

    def _object(self, schema: Mapping[str, Any], path: str, within: tuple[str, ...]) -> JsonType:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            required = schema.get("required")
            names = set(required) if isinstance(required, list) else set()
            prefix = f"{path}." if path else ""
            return Object(tuple(self._property(key, of, prefix, names, within) for key, of in properties.items()))
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            value, _ = self.parse(values, f"{path}.value", within)
            return Entries(value, not _is_not_null(values))
        return _ANY

    def _property(self, key: str, schema: Any, prefix: str, required: set[str], within: tuple[str, ...]) -> Property:
        name = column_name(key, schema)
        kind, null = self.parse(schema, f"{prefix}{name}", within)
        keywords: Mapping[str, Any] = schema if isinstance(schema, dict) else {}
        # In draft 3 a property says by itself that it is required.
        nullable = null or not (key in required or keywords.get("required") is True)
        description, spark = keywords.get("description"), keywords.get(SPARK_TYPE)
        lengths = spark if isinstance(spark, str) and re.search(r"(var)?char\(", spark) else None
        return Property(name, kind, nullable, key, description if isinstance(description, str) else None, lengths)

    def _any_of(self, schemas: list[Any], path: str, within: tuple[str, ...]) -> tuple[JsonType, bool]:
        others = [one for one in schemas if not (isinstance(one, dict) and one.get("type") == "null")]
        if len(others) != 1:
            return _ANY, True
        kind, nullable = self.parse(others[0], path, within)
        return kind, nullable or len(others) < len(schemas)

    def _resolve(self, reference: str, path: str) -> Any:
        if not reference.startswith("#"):
            raise UnsupportedTypeError(
                f'property "{path}" refers to another document, {reference}; only references within the schema '
                "can be followed"
            )
        node = self._root
        for part in filter(None, reference[1:].split("/")):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or key not in node:
                raise SchemaError(f'the JSON Schema has no {reference}, to which "{path}" refers')
            node = node[key]
        return node


def _scalar(kind: str, schema: Mapping[str, Any]) -> Scalar:
    spark = schema.get(SPARK_TYPE)
    if kind == "boolean":
        return Scalar("boolean")
    if kind == "integer":
        if schema.get("format") == "utc-millisec":
            return Scalar("timestamp_millis")
        if schema.get("format") == "int32" and spark is None:
            return Scalar("int")
        return (
            Scalar(spark) if spark in _INTEGERS else Scalar("bigint", spark=spark if isinstance(spark, str) else None)
        )
    if kind == "number":
        match = _DECIMAL.fullmatch(spark) if isinstance(spark, str) else None
        if match and 0 <= int(match[2]) <= int(match[1]) <= 38 and int(match[1]):
            return Scalar("decimal", int(match[1]), int(match[2]))
        return Scalar("float" if spark == "float" else "double")
    if spark in ("timestamp_ntz", "binary"):
        return Scalar(spark)
    if schema.get("contentEncoding") == "base64":
        return Scalar("binary")
    formats = {"date": "date", "date-time": "timestamp"}
    return Scalar(formats.get(str(schema.get("format")), "string"))


def _implied(schema: Mapping[str, Any]) -> tuple[str | None, bool]:
    """The type of a schema that names none, and whether null is one of its values."""
    for key, kind in (("properties", "object"), ("additionalProperties", "object"), ("items", "array")):
        if key in schema:
            return kind, False
    values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else []
    texts = [one for one in values if one is not None] if isinstance(values, list) else []
    if texts and all(isinstance(one, str) for one in texts):
        return "string", len(texts) < len(values)
    return None, True


def _is_not_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get(NOT_NULL) is True
