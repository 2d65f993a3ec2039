"""Which Avro type a Spark type is written as, and which Spark type an Avro type is read as."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from pyspark_pravega.errors import UnsupportedTypeError
from pyspark_pravega.serde.schemas import avro
from pyspark_pravega.serde.schemas.avro import SPARK_NAME, VARIANT
from pyspark_pravega.serde.types.common import (
    CHAR_VARCHAR,
    MAX_PRECISION,
    SPARK_TYPE,
    Names,
    entry_of,
    is_plain_key,
    is_text,
    kept_lengths,
    map_of,
    named_type,
    sanitised,
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
    TimeType,
    VariantType,
)

_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIMPLE: dict[type[DataType], Any] = {
    BooleanType: "boolean",
    ByteType: {"type": "int", SPARK_TYPE: "tinyint"},
    ShortType: {"type": "int", SPARK_TYPE: "smallint"},
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    BinaryType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}


def spark_to_avro(schema: StructType, *, name: str, namespace: str) -> str:
    """The Avro schema for a table.

    Args:
        schema: the table's columns.
        name: the table's (stream's) name.
        namespace: its namespace (scope). Characters that Avro names can't hold become `_` in both.

    Returns:
        The text of a record schema. Nullable columns are unions with null and have the default null, so that
        they may be added and dropped later.

    Raises:
        UnsupportedTypeError: a column's type or name can't be written; the message names the column.
    """
    if not schema.fields:
        raise UnsupportedTypeError("a table needs at least one column")
    record = sanitised(name)
    space = ".".join(sanitised(part) for part in namespace.split(".") if part)
    writer = _Writer(names={record})
    value = writer.record(schema, record, "")
    return json.dumps({"type": "record", "name": record, **({"namespace": space} if space else {}), **value})


def avro_to_spark(schema_text: str) -> StructType:
    """The columns of a table whose events have an Avro schema.

    Args:
        schema_text: the schema's JSON.

    Returns:
        The columns. Fields' `doc` are their comments. A schema of another type than record has one column, `value`.

    Raises:
        SchemaError: it isn't an Avro schema.
        UnsupportedTypeError: a field has no counterpart; the message names the field.
    """
    return _struct(avro.table_record(avro.parse(schema_text)), "")


class _Writer:
    def __init__(self, names: set[str]) -> None:
        self._names = names

    def record(self, schema: StructType, name: str, path: str) -> dict[str, Any]:
        names = Names(path)
        for column in schema.fieldNames():
            names.add(column)
        taken = {column for column in schema.fieldNames() if _AVRO_NAME.fullmatch(column)}
        fields = []
        for field in schema.fields:
            legal = field.name
            if legal not in taken:
                legal = free_name(sanitised(field.name), taken)
                taken.add(legal)
            fields.append(self._field(field, legal, f"{name}_{legal}", f"{path}{field.name}"))
        return {"fields": fields}

    def _field(self, field: StructField, legal: str, name: str, path: str) -> dict[str, Any]:
        kind = self._type(field.dataType, name, path)
        value: dict[str, Any] = {"name": legal, "type": ["null", kind] if field.nullable else kind}
        if legal != field.name:
            value[SPARK_NAME] = field.name
        if field.nullable:
            value["default"] = None
        comment = field.metadata.get("comment")
        if comment:
            value["doc"] = comment
        spark = kept_lengths(field)
        if spark:
            value[SPARK_TYPE] = spark
        return value

    def _type(self, kind: DataType, name: str, path: str) -> Any:
        simple = _SIMPLE.get(type(kind))
        if simple is not None:
            return simple
        if is_text(kind, path):
            return "string"
        if isinstance(kind, DecimalType):
            if kind.scale < 0 or kind.scale > kind.precision:
                raise UnsupportedTypeError(
                    f'column "{path}" is {kind.simpleString()}: Avro has decimals only with a scale from '
                    "0 to the precision; use another DECIMAL or DOUBLE"
                )
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": kind.precision,
                "scale": kind.scale,
            }
        if isinstance(kind, ArrayType):
            item = self._type(kind.elementType, f"{name}_element", f"{path}.element")
            return {"type": "array", "items": ["null", item] if kind.containsNull else item}
        spark = spark_name(kind)
        if spark is not None:
            logical = {"logicalType": "time-micros"} if isinstance(kind, TimeType) else {}
            return {"type": "long", **logical, SPARK_TYPE: spark}
        if isinstance(kind, VariantType):
            fields = [{"name": part, "type": "bytes"} for part in ("metadata", "value")]
            return {"type": "record", "name": self._unique(name), "logicalType": VARIANT, "fields": fields}
        if isinstance(kind, MapType) and not is_plain_key(kind.keyType):
            unique = self._unique(f"{name}_entry")
            entry = entry_of(kind.keyType, kind.valueType, kind.valueContainsNull)
            items = {"type": "record", "name": unique, **self.record(entry, unique, f"{path}.")}
            return {"type": "array", "logicalType": "map", "items": items}
        if isinstance(kind, MapType):
            value = self._type(kind.valueType, f"{name}_value", f"{path}.value")
            return {"type": "map", "values": ["null", value] if kind.valueContainsNull else value}
        if isinstance(kind, StructType):
            unique = self._unique(name)
            return {"type": "record", "name": unique, **self.record(kind, unique, f"{path}.")}
        raise unsupported(kind, path, "Avro")

    def _unique(self, name: str) -> str:
        unique = free_name(name, self._names)
        self._names.add(unique)
        return unique


def free_name(name: str, taken: Collection[str]) -> str:
    """A name, with a number behind it where it is taken.

    Args:
        name: the wanted one.
        taken: those that are taken.
    """
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def _struct(record: avro.Record, path: str) -> StructType:
    fields: list[StructField] = []
    names = Names(path, "fields")
    for field in record.fields:
        where = f"{path}{field.name}"
        names.add(field.name)
        kind, nullable = _spark(field.type, where)
        metadata: dict[str, Any] = {}
        if field.doc:
            metadata["comment"] = field.doc
        lengths = with_lengths(kind, field.spark)
        if lengths:
            metadata[CHAR_VARCHAR] = lengths
        fields.append(StructField(field.name, kind, nullable, metadata or None))
    return StructType(fields)


def _spark(kind: avro.AvroType, path: str) -> tuple[DataType, bool]:
    """The Spark type and whether it is nullable."""
    if isinstance(kind, avro.Union):
        others = [branch for branch in kind.branches if branch != avro.Primitive("null")]
        nullable = len(others) < len(kind.branches)
        if len(others) == 1:
            return _spark(others[0], path)[0], nullable
        if not others:
            raise UnsupportedTypeError(f'field "{path}" is always null; Spark has no such columns')
        members = [(avro.member_name(i), branch) for i, branch in enumerate(others)]
        return StructType(
            [StructField(name, _spark(one, f"{path}.{name}")[0], True) for name, one in members]
        ), nullable
    if isinstance(kind, avro.Recursive):
        # Spark has no recursive types.
        return VariantType(), False
    if isinstance(kind, avro.Array):
        item, contains_null = _spark(kind.items, f"{path}.element")
        if kind.is_map and not contains_null and isinstance(item, StructType):
            map_type = map_of(item)
            if map_type is not None and not is_plain_key(map_type.keyType):
                return map_type, False
        return ArrayType(item, contains_null), False
    if isinstance(kind, avro.Map):
        value, contains_null = _spark(kind.values, f"{path}.value")
        return MapType(StringType(), value, contains_null), False
    if isinstance(kind, avro.Record):
        if kind.is_variant:
            return VariantType(), False
        return _struct(kind, f"{path}."), False
    if isinstance(kind, avro.Enum):
        return StringType(), False
    if kind.logical == "decimal":
        if kind.precision > MAX_PRECISION:
            raise UnsupportedTypeError(
                f'field "{path}" is a decimal of {kind.precision} digits; Spark has decimals of {MAX_PRECISION} at most'
            )
        return DecimalType(kind.precision, kind.scale), False
    if isinstance(kind, avro.Fixed):
        return BinaryType(), False
    return _primitive(kind, path), False


def _primitive(kind: avro.Primitive, path: str) -> DataType:
    if kind.kind == "null":
        raise UnsupportedTypeError(f'field "{path}" is always null; Spark has no such columns')
    if kind.kind == "int" and kind.logical is None and kind.spark in ("tinyint", "smallint"):
        return ByteType() if kind.spark == "tinyint" else ShortType()
    own_type = named_type(kind.spark) if kind.kind == "long" else None
    if own_type is not None:
        return own_type
    if kind.logical == "date":
        return DateType()
    if kind.logical in ("timestamp-millis", "timestamp-micros"):
        return TimestampType()
    if kind.logical in ("local-timestamp-millis", "local-timestamp-micros"):
        return TimestampNTZType()
    plain: dict[str, DataType] = {
        "boolean": BooleanType(),
        "int": IntegerType(),
        "long": LongType(),
        "float": FloatType(),
        "double": DoubleType(),
        "bytes": BinaryType(),
        "string": StringType(),
    }
    return plain[kind.kind]
