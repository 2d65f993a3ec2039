"""Protobuf events: `0x01 | int32 encoding id | message`, or the bare message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from google.protobuf import message_factory
from google.protobuf.message import DecodeError
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_pravega.errors import IncompatibleSchemaError
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.serde.codec import batch_of, first_bad, subschema
from pyspark_pravega.serde.encodings import EncodingSource, Known, WriterSchema, with_header, without_headers
from pyspark_pravega.serde.json import UnfitError
from pyspark_pravega.serde.protobuf import read as protobuf_read
from pyspark_pravega.serde.protobuf import write as protobuf_write
from pyspark_pravega.serde.schemas import protobuf as protobuf_schema
from pyspark_pravega.serde.schemas.protobuf import Field, Message
from pyspark_pravega.serde.types import arrow_safe, fit

_WIDER = {
    "int32": ("int64",),
    "uint32": ("uint64", "int64"),
    "sint32": ("sint64",),
    "bool": ("int32", "int64", "uint32", "uint64"),
    "enum": ("int32", "int64"),
    "string": ("bytes",),
    "bytes": ("string",),
}


class ProtobufCodec:
    """Events that are Protobuf messages, whose fields are a table's columns; others are passed over.

    No message begins with 0x01, so events with and without headers may be mixed.

    Args:
        schema_data: a FileDescriptorSet.
        type_name: the message's full name; empty for the first one.
        spark_schema: the table's columns, as `protobuf_to_spark(schema_data, type_name)` gives them.
        encodings: looks encoding ids up.
        write_encoding_id: the id for what is written; None: without header.
    """

    def __init__(
        self,
        schema_data: bytes,
        type_name: str,
        spark_schema: StructType,
        encodings: EncodingSource,
        write_encoding_id: int | None = None,
    ) -> None:
        self.data, self.type_name = schema_data, type_name
        self.encodings = encodings
        self.write_id = write_encoding_id
        self._schema = to_arrow_schema(arrow_safe(spark_schema), timezone="UTC")
        self._prepare()

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("data", "type_name", "encodings", "write_id", "_schema")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def _prepare(self) -> None:
        self.message = protobuf_schema.parse(self.data, self.type_name)
        self._make = message_factory.GetMessageClass(protobuf_schema.descriptor(self.data, self.type_name))
        self._known_encodings = Known(self.encodings, self.check)

    @property
    def schema(self) -> pa.Schema:
        """See Codec."""
        return self._schema

    def check(self, _encoding_id: int, schema: WriterSchema) -> None:
        """Raise IncompatibleSchemaError unless messages of that schema can be read as the table's."""
        if schema.schema_data and schema.schema_data != self.data:
            check_readable(protobuf_schema.parse(schema.schema_data, schema.type), self.message, "")

    def decode(self, payloads: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """See Codec."""
        schema = subschema(self._schema, columns)
        if not columns:
            return batch_of([], schema, len(payloads))
        try:
            return self._decode(payloads, schema)
        except BadEventError as error:
            # Headers are looked at before bodies are.
            raise first_bad(lambda events: self._decode(events, schema), payloads, error) from error.__cause__

    def _decode(self, payloads: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
        plain, ids, present = self._known_encodings.plain(payloads)
        getters = protobuf_read.columns(self.message, schema.names)
        values: list[list[Any]] = [[] for _ in getters]
        for row, body in enumerate(without_headers(plain, present).to_pylist()):
            encoding_id = int(ids[row]) if present[row] else None
            try:
                if encoding_id is not None and self._known_encodings[encoding_id].codec:
                    body = protobuf_read.cut(body)
                message = self._make()
                message.ParseFromString(body)
                for get, of_column in zip(getters, values, strict=True):
                    of_column.append(get(message))
            except (DecodeError, UnicodeDecodeError, UnfitError) as error:
                what = "" if isinstance(error, UnfitError) else f"it isn't a message {self.message.name}: "
                reason = f"{what}{error}"
                raise BadEventError(reason, index=row, encoding_id=encoding_id) from None
        arrays = [pa.array(of_column, type=field.type) for of_column, field in zip(values, schema, strict=True)]
        return batch_of(arrays, schema, len(payloads))

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """See Codec."""
        bodies = protobuf_write.messages(self.message, self._make, fit(batch, self._schema))
        return pa.array(with_header(bodies, self.write_id, self._known_encodings), type=pa.binary())


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
