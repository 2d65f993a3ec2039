"""Protobuf messages as values: what a FileDescriptorSet says about one, as far as it decides about columns.

Sources: descriptor.proto, and the Protobuf encoding guide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    unknown_fields,
    wrappers_pb2,
)
from google.protobuf.message import DecodeError

from pyspark_pravega.errors import SchemaError

SPARK_TYPE_OPTION = 50731
"""The number of the field option that keeps the Spark type where Protobuf has none of its own; it is a string. Numbers
from 50000 to 99999 are for use within an organization; others' readers keep the option without knowing it."""
NOT_NULL = "not null"
"""What that option ends with for a field with a message that is always there."""
TIMESTAMP = "timestamp"
"""What that option begins with for a message of the fields of google.protobuf.Timestamp."""

VARIANT = "variant"
"""What that option begins with for a message of a VARIANT's bytes."""
MAP = "map"
"""What that option is for a repeated message that is a map's entry, where Protobuf has no such keys."""

_MAX_DEPTH = 100
_WELL_KNOWN = {
    module.DESCRIPTOR.name: module.DESCRIPTOR
    for module in (
        any_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )
}
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_KINDS = {
    number: name.removeprefix("TYPE_").lower() for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
}


@dataclass(frozen=True)
class Field:
    """A field of a message."""

    name: str
    number: int
    kind: str
    """`int32`, `sint64`, `string`, `enum`, `message` ..., as descriptor.proto calls them; besides `timestamp` for
    google.protobuf.Timestamp, `wrapper` for google.protobuf.Int64Value and the like."""
    label: str
    """`one`, `many` or `map`."""
    presence: bool
    """Whether to be absent is something else than to have the default value."""
    required: bool
    """Whether it must be there."""
    oneof: str | None = None
    """The oneof it is a member of."""
    spark: str | None = None
    """The Spark type, where the field's option tells one."""
    message: Message | None = None
    """The message's, the wrapper's or the map entry's type; None within itself."""
    enum: tuple[tuple[int, str], ...] = ()
    """The enum's numbers and names."""
    enum_default: int = 0
    """The number that is meant where none is given."""
    packed: bool = False
    """Whether its items are written without a tag for each."""
    utf8: bool = True
    """Whether strings that aren't UTF-8 are refused even where nobody looks at them, as they are in proto3."""
    closed: bool = False
    """Whether numbers that the enum doesn't have are unknown fields, as they are in proto2."""


@dataclass(frozen=True)
class Message:
    """A message type."""

    name: str
    """Its full name."""
    fields: tuple[Field, ...]
    recursive: bool = False
    """Whether it was met within itself; its fields aren't told again then."""


def pool(data: bytes) -> descriptor_pool.DescriptorPool:
    """The types of a FileDescriptorSet.

    Args:
        data: the set. Google's own files (timestamp.proto ...) may be missing.

    Raises:
        SchemaError: it isn't a set, or lacks a file that another one imports.
    """
    files = _files(data)
    types = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(name: str, importer: str) -> None:
        if name in added:
            return
        added.add(name)
        if name not in files:
            if name not in _WELL_KNOWN:
                raise SchemaError(
                    f'the FileDescriptorSet lacks the file "{name}", which "{importer}" imports: register the whole '
                    "set (protoc --include_imports --descriptor_set_out)"
                )
            types.AddSerializedFile(_WELL_KNOWN[name].serialized_pb)
            return
        file = files[name]
        for imported in file.dependency:
            add(imported, name)
        try:
            types.AddSerializedFile(file.SerializeToString())
        except (TypeError, ValueError) as error:
            raise SchemaError(f'the file "{name}" of the FileDescriptorSet is wrong: {error}') from None

    for name in files:
        add(name, name)
    return types


def parse(data: bytes, type_name: str) -> Message:
    """A message type of a FileDescriptorSet.

    Args:
        data: the set.
        type_name: the message's full name; empty for the first message of the first file.

    Raises:
        SchemaError: it isn't such a set, or has no such message.
    """
    return _message(descriptor(data, type_name), (), _Syntaxes())


def descriptor(data: bytes, type_name: str) -> Any:
    """The runtime's descriptor of a message type; arguments and errors as `parse`."""
    types = pool(data)
    if not type_name:
        first = next((file for file in _files(data).values() if file.message_type), None)
        if first is None:
            raise SchemaError("the FileDescriptorSet has no message")
        type_name = ".".join(filter(None, (first.package, first.message_type[0].name)))
    try:
        return types.FindMessageTypeByName(type_name)
    except KeyError:
        raise SchemaError(f'the FileDescriptorSet has no message "{type_name}"') from None


def option(field: Any) -> str | None:
    """The Spark type that a field's option tells.

    Args:
        field: a field's descriptor.
    """
    if not field.has_options:
        return None
    fields: Any = unknown_fields.UnknownFieldSet(field.GetOptions())
    values = [one.data for one in fields if one.field_number == SPARK_TYPE_OPTION and isinstance(one.data, bytes)]
    # Of an option that is given more than once the last one counts.
    return values[-1].decode(errors="replace") if values else None


def set_option(field: descriptor_pb2.FieldDescriptorProto, text: str) -> None:
    """Tell a field's Spark type in its options."""
    raw = text.encode()
    tag, out = SPARK_TYPE_OPTION << 3 | 2, bytearray()
    for number in (tag, len(raw)):
        while number > 0x7F:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number)
    field.options.MergeFromString(bytes(out) + raw)


def _files(data: bytes) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    try:
        file_set = descriptor_pb2.FileDescriptorSet.FromString(data)
    except DecodeError as error:
        raise SchemaError(f"the Protobuf schema isn't a FileDescriptorSet: {error}") from None
    return {file.name: file for file in file_set.file}


class _Syntaxes:
    """Which files are of proto3. The runtime tells it of a copy of the file only, so each file is asked once."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def is_proto3(self, file: Any) -> bool:
        if file.name not in self._known:
            copy = descriptor_pb2.FileDescriptorProto()
            file.CopyToProto(copy)
            self._known[file.name] = copy.syntax not in ("", "proto2")
        return self._known[file.name]


def _message(message_type: Any, within: tuple[str, ...], syntaxes: _Syntaxes) -> Message:
    name = message_type.full_name
    if name in within:
        return Message(name, (), recursive=True)
    if len(within) > _MAX_DEPTH:
        raise SchemaError(f"the Protobuf schema is nested more than {_MAX_DEPTH} levels deep")
    return Message(name, tuple(_field(field, (*within, name), syntaxes) for field in message_type.fields))


def _field(field: Any, within: tuple[str, ...], syntaxes: _Syntaxes) -> Field:
    inner, kind = field.message_type, _KINDS[field.type]
    label = "one"
    if inner is not None and inner.GetOptions().map_entry:
        label = "map"
    elif field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED:
        label = "many"
    spark = option(field)
    if inner is not None and _is_timestamp(inner, spark):
        kind = "timestamp"
    elif inner is not None and inner.full_name in _WRAPPERS:
        kind = "wrapper"
    oneof = field.containing_oneof
    # An optional field of proto3 is the only member of a oneof made for it.
    alone = oneof is not None and len(oneof.fields) == 1 and oneof.name == f"_{field.name}"
    enum = field.enum_type
    return Field(
        name=field.name,
        number=field.number,
        kind=kind,
        label=label,
        presence=label == "one" and field.has_presence,
        required=bool(field.is_required) if hasattr(field, "is_required") else field.label == field.LABEL_REQUIRED,
        oneof=oneof.name if oneof is not None and not alone else None,
        spark=spark,
        message=_message(inner, within, syntaxes) if inner is not None else None,
        enum=tuple((value.number, value.name) for value in enum.values) if enum is not None else (),
        enum_default=field.default_value if enum is not None and label == "one" else 0,
        packed=label == "many" and _is_packed(field, syntaxes),
        utf8=syntaxes.is_proto3(field.file),
        closed=enum is not None and enum.is_closed,
    )


def _is_timestamp(message: Any, spark: str | None) -> bool:
    if message.full_name == "google.protobuf.Timestamp":
        return True
    is_marked = spark is not None and spark.startswith(TIMESTAMP)
    return is_marked and {"seconds", "nanos"} <= {field.name for field in message.fields}


def _is_packed(field: Any, syntaxes: _Syntaxes) -> bool:
    if field.type in (field.TYPE_STRING, field.TYPE_BYTES, field.TYPE_MESSAGE, field.TYPE_GROUP):
        return False
    is_packed = getattr(field, "is_packed", None)
    if is_packed is not None:
        return bool(is_packed)
    options = field.GetOptions()
    return bool(options.packed) if options.HasField("packed") else syntaxes.is_proto3(field.file)
