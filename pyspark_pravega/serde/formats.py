"""The formats that a table's events can be in, each by its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.serde.avro import AvroCodec
from pyspark_pravega.serde.codec import Codec
from pyspark_pravega.serde.documents import DocumentCodec
from pyspark_pravega.serde.encodings import EncodingSource
from pyspark_pravega.serde.json import JsonCodec
from pyspark_pravega.serde.native import faster
from pyspark_pravega.serde.protobuf import ProtobufCodec
from pyspark_pravega.serde.schemas import avro as avro_schema
from pyspark_pravega.serde.schemas import json as json_schema
from pyspark_pravega.serde.schemas import protobuf as protobuf_schema
from pyspark_pravega.serde.schemas.fields import enum_columns, field_ids, field_shapes
from pyspark_pravega.serde.stored import StoredCodec, stored_columns
from pyspark_pravega.serde.types import (
    avro_to_spark,
    has_keys,
    is_document,
    is_plain_key,
    json_to_spark,
    protobuf_to_spark,
    spark_to_avro,
    spark_to_json,
    spark_to_protobuf,
)
from pyspark_pravega.spark.types import StructType

AVRO, JSON, PROTOBUF, RAW, STRING = "avro", "json", "protobuf", "raw", "string"
FORMATS = (AVRO, JSON, PROTOBUF, RAW, STRING)
"""What the table property `format` may be; `binary` is another word for raw."""
REGISTERED = {AVRO: "Avro", JSON: "Json", PROTOBUF: "Protobuf"}
"""Formats with schemas, and what the schema registry calls them."""
SYNONYMS = {"binary": RAW}


@dataclass(frozen=True, kw_only=True)
class Schema:
    """A table's schema as the registry keeps it."""

    format: str
    """`avro`, `json` or `protobuf`, or a custom format."""
    type: str
    """An Avro record's or Protobuf message's full name; free text for others."""
    data: bytes
    """UTF-8 text, or a FileDescriptorSet; Spark's JSON of the columns for a custom format."""

    def columns(self) -> StructType:
        """The columns of a table with that schema.

        Raises:
            SchemaError: it can't be a table's; the message says why.
        """
        if self.format == PROTOBUF:
            return protobuf_to_spark(self.data, self.type)
        return (avro_to_spark if self.format == AVRO else json_to_spark)(self.data.decode())

    def field_ids(self) -> dict[tuple[str, ...], str]:
        """By what events know each column, and each field of a struct: see `field_ids`."""
        return dict(field_ids(self._parsed))

    def enum_columns(self) -> set[str]:
        """The columns whose values are names of an enum: see `enum_columns`."""
        return set(enum_columns(self._parsed))

    def field_shapes(self) -> dict[str, str]:
        """In what shape events hold each column: see `field_shapes`."""
        return dict(field_shapes(self._parsed))

    @cached_property
    def _parsed(self) -> object:
        if self.format == PROTOBUF:
            return protobuf_schema.parse(self.data, self.type)
        return (avro_schema.parse if self.format == AVRO else json_schema.parse)(self.data.decode())

    def stored_columns(self, columns: StructType) -> StructType:
        """The columns as the format's own codec knows them, which has no place for some types.

        Args:
            columns: the table's columns.
        """
        return stored_columns(
            columns, is_map=has_keys if self.format == PROTOBUF else is_plain_key, variant_is_text=self.format == JSON
        )

    def codec(
        self, columns: StructType, encodings: EncodingSource, *, write_id: int | None = None, header: bool = True
    ) -> Codec:
        """What decodes events to that schema's columns, and encodes them.

        Args:
            columns: what `columns` gave.
            encodings: looks encoding ids up.
            write_id: the encoding id of what is written; None for reading only, or for events without headers.
            header: whether events have headers; only JSON and Protobuf can do without.
        """
        return self._codec(columns, encodings, write_id, header, faster)

    def plain_codec(
        self, columns: StructType, encodings: EncodingSource, *, write_id: int | None = None, header: bool = True
    ) -> Codec:
        """As `codec`, but never native."""
        return self._codec(columns, encodings, write_id, header, lambda plain: plain)

    def _codec(
        self,
        columns: StructType,
        encodings: EncodingSource,
        write_id: int | None,
        header: bool,
        choose: Callable[[Codec], Codec],
    ) -> Codec:
        if self.format == JSON and is_document(self.data.decode()):
            return DocumentCodec(columns, encodings, write_id)
        stored = self.stored_columns(columns)
        plain: Codec
        if self.format == PROTOBUF:
            plain = ProtobufCodec(self.data, self.type, stored, encodings, write_id)
        elif self.format == JSON:
            plain = JsonCodec(self.data.decode(), stored, encodings, write_id)
        else:
            plain = AvroCodec(self.data.decode(), stored, encodings, write_id, header)
        codec = choose(plain)
        return codec if stored == columns else StoredCodec(codec, columns)


def schema_for(table_format: str, columns: StructType, *, name: str, namespace: str) -> Schema:
    """The schema for a new table.

    Args:
        table_format: `avro`, `json` or `protobuf`, or a custom format.
        columns: the table's columns.
        name: the stream.
        namespace: the scope.

    Raises:
        UnsupportedTypeError: a column's type or name can't be written in the format.
    """
    if table_format == PROTOBUF:
        full_name, data = spark_to_protobuf(columns, name=name, namespace=namespace)
        return Schema(format=PROTOBUF, type=full_name, data=data)
    if table_format == JSON:
        text = spark_to_json(columns, name=name)
        return Schema(format=JSON, type=f"{namespace}.{name}", data=text.encode())
    if table_format != AVRO:
        return Schema(format=table_format, type=f"{namespace}.{name}", data=columns.json().encode())
    text = spark_to_avro(columns, name=name, namespace=namespace)
    return Schema(format=AVRO, type=_record_name(text), data=text.encode())


def registered_schema(serialization_format: str, type_name: str, data: bytes) -> Schema:
    """A schema that the registry holds.

    Args:
        serialization_format: as the registry calls it.
        type_name: its type.
        data: its bytes.

    Raises:
        UnsupportedOperationError: it is of a custom format.
    """
    event_format = {name: ours for ours, name in REGISTERED.items()}.get(serialization_format)
    if event_format is None:
        raise UnsupportedOperationError(
            f"the events are in format {serialization_format}; Avro, JSON and Protobuf can be read, and raw events"
        )
    return Schema(format=event_format, type=type_name, data=data)


def _record_name(text: str) -> str:
    record = json.loads(text)
    space, name = record.get("namespace"), str(record["name"])
    return f"{space}.{name}" if space else name
