"""Protobuf events: `0x01 | int32 encoding id | message`, or the bare message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from google.protobuf import message_factory
from google.protobuf.message import DecodeError

from pyspark_pravega.errors import IncompatibleSchemaError
from pyspark_pravega.serde.encodings import EncodingSource, WriterSchema
from pyspark_pravega.serde.one_by_one import OneByOneCodec, ReadRow, UnfitError
from pyspark_pravega.serde.protobuf import read as protobuf_read
from pyspark_pravega.serde.protobuf import write as protobuf_write
from pyspark_pravega.serde.schemas import protobuf as protobuf_schema
from pyspark_pravega.serde.schemas.protobuf import Field, Message
from pyspark_pravega.spark.types import StructType

_WIDER = {
    "int32": ("int64",),
    "uint32": ("uint64", "int64"),
    "sint32": ("sint64",),
    "bool": ("int32", "int64", "uint32", "uint64"),
    "enum": ("int32", "int64"),
    "string": ("bytes",),
    "bytes": ("string",),
}


class ProtobufCodec(OneByOneCodec):
    """Events that are Protobuf messages, whose fields are a table's columns; others are passed over.

    Args:
        schema_data: a FileDescriptorSet.
        type_name: the message's full name; empty for the first one.
        spark_schema: the table's columns, as `protobuf_to_spark(schema_data, type_name)` gives them.
        encodings: looks encoding ids up.
        write_encoding_id: the id for what is written; None: without header.
    """

    _made_of = ("data", "type_name")

    def __init__(
        self,
        schema_data: bytes,
        type_name: str,
        spark_schema: StructType,
        encodings: EncodingSource,
        write_encoding_id: int | None = None,
    ) -> None:
        self.data, self.type_name = schema_data, type_name
        super().__init__(spark_schema, encodings, write_encoding_id)

    def _prepare(self) -> None:
        super()._prepare()
        self.message = protobuf_schema.parse(self.data, self.type_name)
        self._make = message_factory.GetMessageClass(protobuf_schema.descriptor(self.data, self.type_name))

    def check(self, _encoding_id: int, schema: WriterSchema) -> None:
        """Raise IncompatibleSchemaError unless messages of that schema can be read as the table's."""
        if schema.schema_data and schema.schema_data != self.data:
            check_readable(protobuf_schema.parse(schema.schema_data, schema.type), self.message, "")

    def _reader(self, names: Sequence[str]) -> ReadRow:
        getters = protobuf_read.columns(self.message, names)

        def read(body: bytes, encoding_id: int | None) -> Sequence[Any]:
            if encoding_id is not None and self._known_encodings[encoding_id].codec:
                body = protobuf_read.cut(body)
            message = self._make()
            try:
                message.ParseFromString(body)
                return [get(message) for get in getters]
            except (DecodeError, UnicodeDecodeError) as error:
                raise UnfitError(f"it isn't a message {self.message.name}: {error}") from None

        return read

    def _bodies(self, rows: pa.RecordBatch) -> Sequence[bytes]:
        return protobuf_write.messages(self.message, self._make, rows)


def check_readable(writer: Message, reader: Message, path: str) -> None:
    """Raise IncompatibleSchemaError unless each field that both have is of types that go together.

    Args:
        writer: what events were written as.
        reader: the table's.
        path: the message, with a dot behind it.
    """
    written = {field.number: field for field in writer.fields}
    for field in reader.fields:
        theirs = written.get(field.number)
        if theirs is None:
            continue
        if not _readable(theirs, field):
            raise IncompatibleSchemaError(
                f'field {field.number} was written as {theirs.kind} "{path}{theirs.name}", which can\'t be read as '
                f'{field.kind} "{path}{field.name}"'
            )
        if theirs.message is not None and field.message is not None and not theirs.message.recursive:
            check_readable(theirs.message, field.message, f"{path}{field.name}.")


def _readable(writer: Field, reader: Field) -> bool:
    if "map" in (writer.label, reader.label) and writer.label != reader.label:
        return False
    return writer.kind == reader.kind or reader.kind in _WIDER.get(writer.kind, ())
