"""Which Protobuf message a table's events are, and which Spark types a message is read as."""

from __future__ import annotations

import re
from typing import Any

from google.protobuf import descriptor_pb2

from pyspark_pravega.errors import UnsupportedTypeError
from pyspark_pravega.serde.schemas import protobuf
from pyspark_pravega.serde.schemas.protobuf import MAP, NOT_NULL, TIMESTAMP, VARIANT
from pyspark_pravega.serde.types.common import (
    CHAR_VARCHAR,
    Names,
    entry_of,
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
    CharType,
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
    VarcharType,
    VariantType,
)

_Proto = descriptor_pb2.FieldDescriptorProto
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_SIMPLE: dict[type[DataType], tuple[str, str | None]] = {
    BooleanType: ("bool", None),
    ByteType: ("int32", "tinyint"),
    ShortType: ("int32", "smallint"),
    IntegerType: ("int32", None),
    LongType: ("int64", None),
    FloatType: ("float", None),
    DoubleType: ("double", None),
    BinaryType: ("bytes", None),
    DateType: ("int32", "date"),
    TimestampType: ("message", TIMESTAMP),
    TimestampNTZType: ("int64", "timestamp_ntz"),
}
_READ: dict[str, DataType] = {
    "bool": BooleanType(),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), IntegerType()),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), LongType()),
    **dict.fromkeys(("uint64", "fixed64"), DecimalType(20, 0)),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "enum": StringType(),
    "bytes": BinaryType(),
    "timestamp": TimestampType(),
}
_HINTS: dict[tuple[str, str], DataType] = {
    ("int32", "tinyint"): ByteType(),
    ("int32", "smallint"): ShortType(),
    ("int32", "date"): DateType(),
    ("int64", "timestamp_ntz"): TimestampNTZType(),
}
_KEYS = (StringType, BooleanType, ByteType, ShortType, IntegerType, LongType)


def spark_to_protobuf(schema: StructType, *, name: str, namespace: str) -> tuple[str, bytes]:
    """The Protobuf message for a table.

    Args:
        schema: the table's columns.
        name: the table's (stream's) name.
        namespace: its namespace (scope). Characters that Protobuf names can't hold become `_` in both.

    Returns:
        The message's full name, and a FileDescriptorSet of proto3 with it. Nullable columns are `optional`. The set is
        one file that imports nothing, because the official generic deserializer can't follow imports; so timestamps
        are messages of the file's own, with the fields of google.protobuf.Timestamp.

    Raises:
        UnsupportedTypeError: a column's type or name can't be written; the message names the column.
    """
    if not schema.fields:
        raise UnsupportedTypeError("a table needs at least one column")
    package = ".".join(sanitised(part) for part in namespace.split(".") if part)
    message = sanitised(name)
    file_set = descriptor_pb2.FileDescriptorSet()
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=package, syntax="proto3")
    full_name = f"{package}.{message}" if package else message
    writer = _Writer(_free_name({field.name for field in schema.fields}, "Timestamp"), full_name)
    root = writer.message(schema, message, full_name, "")
    if writer.timestamps:
        root.nested_type.append(_timestamp(writer.timestamp))
    file.message_type.append(root)
    file_set.file.append(file)
    return full_name, file_set.SerializeToString(deterministic=True)


def protobuf_to_spark(schema_data: bytes, type_name: str) -> StructType:
    """The columns of a table whose events are Protobuf messages.

    Args:
        schema_data: a FileDescriptorSet.
        type_name: the message's full name; empty for the first one.

    Returns:
        The columns. Fields without presence are NOT NULL, because they have a default; repeated fields are arrays and
        maps, never null.

    Raises:
        SchemaError: it isn't a set, or there's no such message.
        UnsupportedTypeError: a field has no counterpart; the message names the field.
    """
    return _struct(protobuf.parse(schema_data, type_name), "")


class _Writer:
    def __init__(self, timestamp: str, root: str) -> None:
        self.timestamp, self._root = timestamp, root
        self.timestamps = False

    def message(self, schema: StructType, name: str, full_name: str, path: str) -> descriptor_pb2.DescriptorProto:
        message = descriptor_pb2.DescriptorProto(name=name)
        names = Names(path)
        _check_entries(schema, path)
        for number, field in enumerate(schema.fields, 1):
            where = f"{path}{field.name}"
            if not _NAME.fullmatch(field.name):
                raise UnsupportedTypeError(
                    f'column "{where}" can\'t be a field of a Protobuf message: names are made of the letters A-Z '
                    f'and a-z, digits and _, and don\'t begin with a digit; name it "{sanitised(field.name)}", '
                    "for example"
                )
            names.add(field.name)
            # 19000 to 19999 are Protobuf's own.
            self._field(message, field, number if number < 19000 else number + 1000, full_name, where)
        # Optional fields' oneofs come last, as protoc wants it. It derives their names in the same way.
        names_there = {one.name for one in message.field} | {one.name for one in message.nested_type}
        for one in message.field:
            if one.proto3_optional:
                one.oneof_index = len(message.oneof_decl)
                oneof = f"_{one.name}"
                while oneof in names_there:
                    oneof = f"X{oneof}"
                names_there.add(oneof)
                message.oneof_decl.add(name=oneof)
        return message

    def _field(
        self, message: descriptor_pb2.DescriptorProto, field: StructField, number: int, full_name: str, path: str
    ) -> None:
        one = message.field.add(name=field.name, number=number, json_name=field.name, label=_Proto.LABEL_OPTIONAL)
        kind = field.dataType
        if isinstance(kind, ArrayType):
            one.label = _Proto.LABEL_REPEATED
            self._single(message, one, kind.elementType, full_name, f"{path}.element")
        elif isinstance(kind, MapType) and not has_keys(kind.keyType):
            one.label = _Proto.LABEL_REPEATED
            entry = entry_of(kind.keyType, kind.valueType, kind.valueContainsNull)
            self._single(message, one, entry, full_name, path)
            protobuf.set_option(one, MAP)
        elif isinstance(kind, MapType):
            self._map(message, one, kind, full_name, path)
        else:
            self._single(message, one, kind, full_name, path)
            if one.type == _Proto.TYPE_MESSAGE:
                if not field.nullable:
                    hint = f"{TIMESTAMP} " if isinstance(kind, TimestampType) else ""
                    hint = f"{VARIANT} " if isinstance(kind, VariantType) else hint
                    protobuf.set_option(one, f"{hint}{NOT_NULL}")
            else:
                one.proto3_optional = field.nullable
        spark = kept_lengths(field)
        if spark:
            protobuf.set_option(one, spark)

    def _single(
        self, message: descriptor_pb2.DescriptorProto, one: Any, kind: DataType, full_name: str, path: str
    ) -> None:
        if type(kind) in _SIMPLE:
            plain, spark = _SIMPLE[type(kind)]
            one.type = _Proto.Type.Value(f"TYPE_{plain.upper()}")
            if isinstance(kind, TimestampType):
                one.type_name = f".{self._root}.{self.timestamp}"
                self.timestamps = True
            if spark:
                protobuf.set_option(one, spark)
        elif is_text(kind, path):
            one.type = _Proto.TYPE_STRING
        elif isinstance(kind, DecimalType):
            if kind.scale < 0 or kind.scale > kind.precision:
                raise UnsupportedTypeError(
                    f'column "{path}" is {kind.simpleString()}: only decimals with a scale from 0 to the precision '
                    "can be kept; use another DECIMAL or DOUBLE"
                )
            one.type = _Proto.TYPE_STRING
            protobuf.set_option(one, f"decimal({kind.precision},{kind.scale})")
        elif (spark_type := spark_name(kind)) is not None:
            one.type = _Proto.TYPE_INT64
            protobuf.set_option(one, spark_type)
        elif isinstance(kind, VariantType):
            message.nested_type.append(_variant(self._type_name(message, one, full_name)))
            protobuf.set_option(one, VARIANT)
        elif isinstance(kind, StructType):
            name = self._type_name(message, one, full_name)
            message.nested_type.append(self.message(kind, name, f"{full_name}.{name}", f"{path}."))
        elif isinstance(kind, (ArrayType, MapType)):
            raise UnsupportedTypeError(
                f'column "{path}" is {kind.simpleString().upper()} within an ARRAY or MAP, which Protobuf doesn\'t '
                "have; put it into a STRUCT"
            )
        else:
            raise unsupported(kind, path, "Protobuf")

    def _type_name(self, message: descriptor_pb2.DescriptorProto, one: Any, full_name: str) -> str:
        name = _free(message, f"{''.join(part.capitalize() for part in one.name.split('_'))}Type")
        one.type = _Proto.TYPE_MESSAGE
        one.type_name = f".{full_name}.{name}"
        return name

    def _map(self, message: descriptor_pb2.DescriptorProto, one: Any, kind: MapType, full_name: str, path: str) -> None:
        name = _entry_name(one.name)
        entry = message.nested_type.add(name=name)
        entry.options.map_entry = True
        for number, (part, of) in enumerate((("key", kind.keyType), ("value", kind.valueType)), 1):
            inner = entry.field.add(name=part, number=number, json_name=part, label=_Proto.LABEL_OPTIONAL)
            # Types within an entry are kept beside it.
            within = message if isinstance(of, (StructType, VariantType)) else entry
            self._single(within, inner, of, full_name, f"{path}.{part}")
        one.label = _Proto.LABEL_REPEATED
        one.type = _Proto.TYPE_MESSAGE
        one.type_name = f".{full_name}.{name}"


def _entry_name(name: str) -> str:
    """The name of the message with the entries of a map: protoc derives it, and readers that make classes expect it."""
    return f"{''.join(part[:1].upper() + part[1:] for part in name.split('_'))}Entry"


def _check_entries(schema: StructType, path: str) -> None:
    """Refuse maps whose entries have the name of another column, or of another one's entries."""
    others = {field.name: field.name for field in schema.fields}
    for field in schema.fields:
        if isinstance(field.dataType, MapType) and has_keys(field.dataType.keyType):
            entry = _entry_name(field.name)
            if entry in others:
                raise UnsupportedTypeError(
                    f'columns "{path}{others[entry]}" and "{path}{field.name}" can\'t be fields of one Protobuf '
                    f'message: it calls the entries of the map "{field.name}" {entry}, and this name is taken; rename '
                    "one of them"
                )
            others[entry] = field.name


def has_keys(kind: DataType) -> bool:
    """Whether Protobuf has maps with keys of a type."""
    return isinstance(kind, (*_KEYS, CharType, VarcharType))


def is_variant(field: protobuf.Field) -> bool:
    """Whether a field's message holds the bytes of a VARIANT."""
    assert field.message is not None
    parts = [(one.name, one.kind, one.label) for one in field.message.fields]
    is_marked = field.spark is not None and field.spark.startswith(VARIANT)
    return is_marked and parts == [("value", "bytes", "one"), ("metadata", "bytes", "one")]


def _variant(name: str) -> descriptor_pb2.DescriptorProto:
    message = descriptor_pb2.DescriptorProto(name=name)
    for number, part in enumerate(("value", "metadata"), 1):
        message.field.add(name=part, number=number, json_name=part, label=_Proto.LABEL_OPTIONAL, type=_Proto.TYPE_BYTES)
    return message


def _free(message: descriptor_pb2.DescriptorProto, name: str) -> str:
    return _free_name({one.name for one in message.nested_type} | {one.name for one in message.field}, name)


def _free_name(names: set[str], name: str) -> str:
    free, number = name, 2
    while free in names:
        free, number = f"{name}{number}", number + 1
    return free


def _timestamp(name: str) -> descriptor_pb2.DescriptorProto:
    message = descriptor_pb2.DescriptorProto(name=name)
    for number, (part, kind) in enumerate((("seconds", _Proto.TYPE_INT64), ("nanos", _Proto.TYPE_INT32)), 1):
        message.field.add(name=part, number=number, json_name=part, label=_Proto.LABEL_OPTIONAL, type=kind)
    return message


def _struct(message: protobuf.Message, path: str) -> StructType:
    if message.recursive:
        raise UnsupportedTypeError(
            f'field "{path.removesuffix(".")}" holds the message {message.name} within itself; Spark has no '
            "recursive types"
        )
    names = Names(path, "fields")
    fields = []
    for field in message.fields:
        names.add(field.name)
        where = f"{path}{field.name}"
        kind = field_type(field, where)
        own_lengths = field.spark if field.spark and re.search(r"(var)?char\(", field.spark) else None
        lengths = with_lengths(kind, own_lengths)
        metadata = {CHAR_VARCHAR: lengths} if lengths else None
        fields.append(StructField(field.name, kind, is_nullable(field), metadata))
    return StructType(fields)


def is_nullable(field: protobuf.Field) -> bool:
    """Whether a field's column may be null."""
    return field.label == "one" and field.presence and not field.required and not (field.spark or "").endswith(NOT_NULL)


def field_type(field: protobuf.Field, path: str) -> DataType:
    """The Spark type of a field.

    Args:
        field: the field.
        path: its name, for messages.

    Raises:
        UnsupportedTypeError: it has none.
    """
    if field.label == "map":
        assert field.message is not None
        key, value = field.message.fields
        return MapType(_single(key, f"{path}.key"), _single(value, f"{path}.value"), True)
    if field.label == "many":
        map_type = None
        if field.message is not None and field.kind == "message" and field.spark == MAP:
            map_type = map_of(_struct(field.message, f"{path}."))
        if map_type is not None and not has_keys(map_type.keyType):
            return map_type
        return ArrayType(_single(field, f"{path}.element"), True)
    return _single(field, path)


def _single(field: protobuf.Field, path: str) -> DataType:
    hint = _HINTS.get((field.kind, field.spark or ""))
    if hint is not None:
        return hint
    own_type = named_type(field.spark) if field.kind == "int64" else None
    if own_type is not None:
        return own_type
    if field.kind == "message" and is_variant(field):
        return VariantType()
    if field.kind == "string" and field.spark:
        match = _DECIMAL.fullmatch(field.spark)
        if match and int(match[2]) <= int(match[1]) <= 38 and int(match[1]):
            return DecimalType(int(match[1]), int(match[2]))
    if field.kind == "wrapper":
        assert field.message is not None
        return _single(field.message.fields[0], path)
    if field.kind == "message":
        assert field.message is not None
        return _struct(field.message, f"{path}.")
    if field.kind == "group":
        raise UnsupportedTypeError(f'field "{path}" is a group, which is not supported; use a message')
    return _READ[field.kind]
