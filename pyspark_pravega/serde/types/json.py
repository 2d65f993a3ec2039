"""Which JSON Schema a Spark type is written with, and which Spark type a JSON Schema is read as."""

from __future__ import annotations

import json
from typing import Any

from pyspark_pravega.errors import UnsupportedTypeError
from pyspark_pravega.serde.schemas import json as json_schema
from pyspark_pravega.serde.schemas.json import NOT_NULL, SPARK_TYPE
from pyspark_pravega.serde.types.common import (
    CHAR_VARCHAR,
    Names,
    entry_of,
    is_plain_key,
    is_text,
    kept_lengths,
    map_of,
    named_type,
    spark_name,
    unsupported,
    with_lengths,
)
from pyspark_pravega.spark.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

_COLUMN = "spark.column"
"""The keyword that keeps the name of the column that is the whole document."""
_DRAFT = "http://json-schema.org/draft-07/schema#"
_SIMPLE: dict[type[DataType], dict[str, Any]] = {
    BooleanType: {"type": "boolean"},
    ByteType: {"type": "integer", SPARK_TYPE: "tinyint", "minimum": -(2**7), "maximum": 2**7 - 1},
    ShortType: {"type": "integer", SPARK_TYPE: "smallint", "minimum": -(2**15), "maximum": 2**15 - 1},
    IntegerType: {"type": "integer", SPARK_TYPE: "int", "minimum": -(2**31), "maximum": 2**31 - 1},
    LongType: {"type": "integer"},
    FloatType: {"type": "number", SPARK_TYPE: "float"},
    DoubleType: {"type": "number"},
    BinaryType: {"type": "string", "contentEncoding": "base64"},
    DateType: {"type": "string", "format": "date"},
    TimestampType: {"type": "string", "format": "date-time"},
    TimestampNTZType: {"type": "string", SPARK_TYPE: "timestamp_ntz"},
}
_READ: dict[str, DataType] = {
    "boolean": BooleanType(),
    "tinyint": ByteType(),
    "smallint": ShortType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "json": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_millis": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
}


def spark_to_json(schema: StructType, *, name: str) -> str:
    """The JSON Schema for a table.

    Args:
        schema: the table's columns.
        name: the table's (stream's) name, which becomes the title.

    Returns:
        The text of a schema of draft 7. Columns that are NOT NULL are required. A single column of type VARIANT is the
        whole document, whatever it is.

    Raises:
        UnsupportedTypeError: a column's type can't be written; the message names the column.
    """
    if not schema.fields:
        raise UnsupportedTypeError("a table needs at least one column")
    if len(schema.fields) == 1 and isinstance(schema[0].dataType, VariantType):
        return json.dumps({"$schema": _DRAFT, "title": name, **_document(schema[0])})
    return json.dumps({"$schema": _DRAFT, "title": name, **_object(schema, "")})


def json_to_spark(schema_text: str) -> StructType:
    """The columns of a table whose events have a JSON Schema.

    Args:
        schema_text: the schema's JSON.

    Returns:
        The columns. A property is NOT NULL when it is required and its type doesn't include null. A schema of other
        documents than objects with properties has one column of type VARIANT, which is the document.

    Raises:
        SchemaError: it isn't a JSON Schema.
        UnsupportedTypeError: a property has no counterpart; the message names it.
    """
    schema = json_schema.parse(schema_text)
    if not isinstance(schema, json_schema.Object):
        return StructType([_document_column(json.loads(schema_text))])
    return _struct(schema, "")


def is_document(schema_text: str) -> bool:
    """Whether the documents of a JSON Schema are one column of type VARIANT.

    Args:
        schema_text: the schema's JSON.
    """
    return not isinstance(json_schema.parse(schema_text), json_schema.Object)


def _document(field: StructField) -> dict[str, Any]:
    value: dict[str, Any] = {SPARK_TYPE: "variant", _COLUMN: field.name}
    if not field.nullable:
        value[NOT_NULL] = True
    comment = field.metadata.get("comment")
    if comment:
        value["description"] = comment
    return value


def _document_column(schema: Any) -> StructField:
    keywords = schema if isinstance(schema, dict) else {}
    name, comment = keywords.get(_COLUMN), keywords.get("description")
    metadata = {"comment": comment} if isinstance(comment, str) and _COLUMN in keywords else None
    return StructField(name if isinstance(name, str) else "value", VariantType(), not keywords.get(NOT_NULL), metadata)


def _object(schema: StructType, path: str) -> dict[str, Any]:
    names = Names(path)
    properties = {}
    for field in schema.fields:
        names.add(field.name)
        properties[field.name] = _property(field, f"{path}{field.name}")
    required = [field.name for field in schema.fields if not field.nullable]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _property(field: StructField, path: str) -> dict[str, Any]:
    value = _nullable(_type(field.dataType, path), field.nullable)
    comment = field.metadata.get("comment")
    if comment:
        value["description"] = comment
    spark = kept_lengths(field)
    if spark:
        value[SPARK_TYPE] = spark
    return value


def _type(kind: DataType, path: str) -> dict[str, Any]:
    simple = _SIMPLE.get(type(kind))
    if simple is not None:
        return dict(simple)
    if is_text(kind, path):
        return {"type": "string"}
    if isinstance(kind, DecimalType):
        if kind.scale < 0 or kind.scale > kind.precision:
            raise UnsupportedTypeError(
                f'column "{path}" is {kind.simpleString()}: only decimals with a scale from 0 to the precision can be '
                "kept; use another DECIMAL or DOUBLE"
            )
        return {"type": "number", SPARK_TYPE: f"decimal({kind.precision},{kind.scale})"}
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": _inner(kind.elementType, kind.containsNull, f"{path}.element")}
    if isinstance(kind, MapType):
        if not is_plain_key(kind.keyType):
            entry = _object(entry_of(kind.keyType, kind.valueType, kind.valueContainsNull), f"{path}.")
            return {"type": "array", SPARK_TYPE: "map", "items": {**entry, NOT_NULL: True}}
        values = _inner(kind.valueType, kind.valueContainsNull, f"{path}.value")
        return {"type": "object", "additionalProperties": values}
    spark = spark_name(kind)
    if spark is not None:
        return {"type": "integer", SPARK_TYPE: spark}
    if isinstance(kind, VariantType):
        return {SPARK_TYPE: "variant"}
    if isinstance(kind, StructType):
        if not kind.fields:
            raise UnsupportedTypeError(f'column "{path}" is a STRUCT without fields, which JSON Schema can\'t tell')
        return _object(kind, f"{path}.")
    raise unsupported(kind, path, "JSON")


def _inner(kind: DataType, nullable: bool, path: str) -> dict[str, Any]:
    value = _nullable(_type(kind, path), nullable)
    if not nullable:
        value[NOT_NULL] = True
    return value


def _nullable(value: dict[str, Any], nullable: bool) -> dict[str, Any]:
    if nullable and "type" in value:
        value["type"] = [value["type"], "null"]
    return value


def _struct(schema: json_schema.Object, path: str) -> StructType:
    names = Names(path, "properties")
    fields = []
    for one in schema.properties:
        names.add(one.name)
        metadata: dict[str, Any] = {}
        if one.description:
            metadata["comment"] = one.description
        kind = _spark(one.type, f"{path}{one.name}")
        lengths = with_lengths(kind, one.spark)
        if lengths:
            metadata[CHAR_VARCHAR] = lengths
        fields.append(StructField(one.name, kind, one.nullable, metadata or None))
    return StructType(fields)


def _spark(kind: json_schema.JsonType, path: str) -> DataType:
    if isinstance(kind, json_schema.Items):
        item = _spark(kind.item, f"{path}.element")
        if kind.is_map and not kind.nullable and isinstance(item, StructType):
            map_type = map_of(item)
            if map_type is not None and not is_plain_key(map_type.keyType):
                return map_type
        return ArrayType(item, kind.nullable)
    if isinstance(kind, json_schema.Entries):
        return MapType(StringType(), _spark(kind.value, f"{path}.value"), kind.nullable)
    if isinstance(kind, json_schema.Object):
        return _struct(kind, f"{path}.")
    if kind.kind == "decimal":
        return DecimalType(kind.precision, kind.scale)
    if kind.kind == "bigint" and (own_type := named_type(kind.spark)) is not None:
        return own_type
    if kind.kind == "json" and kind.spark == "variant":
        return VariantType()
    return _READ[kind.kind]
