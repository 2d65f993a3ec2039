"""Protobuf's schemas: messages, whose fields are found by numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from google.protobuf import descriptor_pb2
from pyspark.sql.types import DataType, StructField, StructType

from pyspark_pravega.catalog.ddl import ColumnPosition
from pyspark_pravega.errors import InvalidNameError, SchemaError, UnsupportedOperationError
from pyspark_pravega.serde.formats import PROTOBUF, Schema, registered_schema, schema_for

Descriptor = descriptor_pb2.DescriptorProto


class Message:
    """Changes a message: numbers of fields stay as they are, and are never used again."""

    def __init__(self, schema: Schema, stream: str, earlier: Sequence[Schema]) -> None:
        self._schema, self._stream = schema, stream
        self._earlier = [message_of(one) for one in earlier]
        self._files = descriptor_pb2.FileDescriptorSet.FromString(schema.data)
        self._file, self._message = message_in(self._files, schema.type)

    def made(self) -> Schema:
        """The next schema."""
        return registered_schema("Protobuf", self._schema.type, self._files.SerializeToString(deterministic=True))

    def add(self, path: list[str], field: StructField, position: ColumnPosition | None) -> None:
        """Add a field."""
        if len(path) > 1 or position is not None:
            raise self._unable(path, "a column can only be added to the message itself, as its last one")
        if any(known.name.lower() == field.name.lower() for known in self._message.field):
            raise InvalidNameError(f'stream "{self._stream}" has a column "{field.name}" already')
        single = schema_for(PROTOBUF, StructType([field]), name=self._message.name, namespace=self._file.package)
        message = descriptor_pb2.FileDescriptorSet.FromString(single.data).file[0].message_type[0]
        there = {nested.name: nested for nested in self._message.nested_type}
        for nested in message.nested_type:
            if nested.name not in there:
                self._message.nested_type.add().CopyFrom(nested)
            elif there[nested.name] != nested:
                raise self._unable(path, f"the message has another type {nested.name} already")
        used = {number for message in (self._message, *self._earlier) for number in used_numbers(message)}
        one = self._message.field.add()
        one.CopyFrom(message.field[0])
        one.number = next_number(used)
        if one.proto3_optional:
            one.oneof_index = len(self._message.oneof_decl)
            self._message.oneof_decl.add(name=f"_{one.name}")

    def drop(self, path: list[str], *, if_exists: bool) -> None:
        """Drop a field."""
        field_index = next((i for i, known in enumerate(self._message.field) if [known.name] == path), None)
        if field_index is None:
            if if_exists:
                return
            raise InvalidNameError(f'stream "{self._stream}" has no column "{".".join(path)}" to drop')
        if len(self._message.field) == 1:
            raise UnsupportedOperationError(f'column "{path[0]}" is the only one of stream "{self._stream}"')
        gone = self._message.field[field_index]
        self._message.reserved_range.add(start=gone.number, end=gone.number + 1)
        if gone.HasField("oneof_index"):
            if not gone.proto3_optional:
                raise self._unable(path, "it is one of several alternatives (oneof)")
            index = gone.oneof_index
            del self._message.oneof_decl[index]
            for known in self._message.field:
                if known.HasField("oneof_index") and known.oneof_index > index:
                    known.oneof_index -= 1
        del self._message.field[field_index]

    def retype(self, path: list[str], kind: DataType) -> None:
        """Give a field another type."""
        raise self._unable(path, f"its type can't become {kind.simpleString()}: add a column of the new type")

    def comment(self, path: list[str], comment: str | None) -> None:
        """Give a field a comment, or take it away."""
        raise self._unable(path, f'a message\'s fields keep no comments, such as "{comment or ""}"')

    def allow_null(self, path: list[str]) -> None:
        """Let a field be null."""
        raise self._unable(path, "whether a field may be missing is fixed when it is made")

    def move(self, path: list[str], position: ColumnPosition) -> None:
        """Put a field elsewhere."""
        raise self._unable(path, f"a message's fields stay where they are, not {position}")

    def _unable(self, path: Sequence[str], why: str) -> UnsupportedOperationError:
        return UnsupportedOperationError(
            f'column "{".".join(path)}" of stream "{self._stream}", whose events are Protobuf, can\'t be changed so: '
            f"{why}"
        )


def continued(new: Schema, last: Schema, earlier: Sequence[Schema]) -> Schema:
    """A schema that was made of columns, as the next one of a group: the fields of columns that the last one has keep
    their numbers, and others get numbers that no field has had.

    Args:
        new: the schema.
        last: the group's last one.
        earlier: all of them.
    """
    files = descriptor_pb2.FileDescriptorSet.FromString(new.data)
    _, message = message_in(files, new.type)
    _continue(message, message_of(last), [message_of(one) for one in earlier])
    return Schema(format=new.format, type=new.type, data=files.SerializeToString(deterministic=True))


def _continue(message: Descriptor, last: Descriptor, before: Sequence[Descriptor]) -> None:
    known = {field.name: field.number for field in last.field}
    used = {number for one in (last, *before) for number in used_numbers(one)}
    for field in message.field:
        field.number = known.get(field.name) or next_number(used)
        used.add(field.number)
    for nested in message.nested_type:
        alike = [[one for one in other.nested_type if one.name == nested.name] for other in (last, *before)]
        if alike[0] and not nested.options.map_entry:
            _continue(nested, alike[0][0], [one for some in alike[1:] for one in some])


def used_numbers(message: Descriptor) -> set[int]:
    """The numbers of a message's fields, and the last ones of those that it has lost."""
    return {field.number for field in message.field} | {lost.end - 1 for lost in message.reserved_range}


def next_number(used: Iterable[int]) -> int:
    """The number of a field behind others. Those from 19000 on are Protobuf's own."""
    number = max(used, default=0) + 1
    return number + 1000 if 19000 <= number < 20000 else number


def message_of(schema: Schema) -> Descriptor:
    """The message that a schema's events are."""
    return message_in(descriptor_pb2.FileDescriptorSet.FromString(schema.data), schema.type)[1]


def message_in(
    files: descriptor_pb2.FileDescriptorSet, type_name: str
) -> tuple[descriptor_pb2.FileDescriptorProto, Descriptor]:
    """A message, and the file that it stands in.

    Args:
        files: the files.
        type_name: its full name; empty for the first one.

    Raises:
        SchemaError: it isn't there.
    """
    for file in files.file:
        for message in file.message_type:
            name = f"{file.package}.{message.name}" if file.package else message.name
            if name == type_name or not type_name:
                return file, message
    raise SchemaError(f"a Protobuf schema doesn't hold its message {type_name}")
