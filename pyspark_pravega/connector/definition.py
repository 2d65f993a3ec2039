"""What a stream is as a table: its columns, its format and its routing key."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from pyspark_pravega.client import Client, Stream, StreamConfiguration
from pyspark_pravega.connector.encodings import RegistryEncodings
from pyspark_pravega.connector.ledger import open_ledger
from pyspark_pravega.connector.shared import shared_registry
from pyspark_pravega.errors import (
    ConfigurationError,
    GroupNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.registry import SchemaInfo, VersionInfo
from pyspark_pravega.serde import compression
from pyspark_pravega.serde.codec import Codec
from pyspark_pravega.serde.formats import RAW, REGISTERED, STRING, Schema, registered_schema
from pyspark_pravega.serde.raw import EVENT, RawCodec, StringCodec
from pyspark_pravega.settings import Settings

COMPRESSIONS = {"none": compression.NONE, "gzip": compression.GZIP, "snappy": compression.SNAPPY}
"""What the table property `compression` may be, and what the schema registry calls it."""

METADATA_COLUMNS = StructType(
    [
        StructField("_segment", LongType(), False),
        StructField("_offset", LongType(), False),
        StructField("_encoding_id", IntegerType(), True),
        StructField("_event_size", IntegerType(), False),
    ]
)
"""Columns that every table has and shows only when asked: the segment's id, the offset of the event's frame in it
(bytes), the id of the schema it was written with, and its payload's size (bytes)."""


@dataclass(frozen=True, kw_only=True)
class TableDefinition:
    """A stream as a table."""

    settings: Settings
    stream: Stream
    schema: StructType
    format: str
    """One of `serde.formats.FORMATS`."""
    codec: Codec
    """Decodes; `for_writing` gives one that encodes."""
    configuration: StreamConfiguration
    properties: dict[str, str] = field(default_factory=dict)
    """What was given at CREATE TABLE."""
    registered: tuple[SchemaInfo, VersionInfo] | None = None
    """The schema in the registry; None for events without one."""

    @property
    def routing_key(self) -> str | None:
        """The column whose values are the events' routing keys."""
        return self.properties.get("routing-key")

    def for_writing(self) -> Codec:
        """A codec that encodes rows by the table's latest schema.

        Raises:
            RegistryUnavailableError: the registry doesn't answer.
        """
        if self.registered is None:
            return self.codec
        encodings = RegistryEncodings(self.settings, self.stream)
        schema, version = self.registered
        if self.properties.get("encoding-header") == "false":
            return _schema(schema).codec(self.schema, encodings, header=False)
        registry = shared_registry(self.settings)
        assert registry is not None
        scope, group = self.stream.scope, self.stream.name
        codec = COMPRESSIONS[self.properties.get("compression", "none")]
        if codec:
            registry.add_codec(scope, group, codec)
        encoding_id = registry.encoding_id(scope, group, version, codec)
        return _schema(schema).codec(self.schema, encodings, write_id=encoding_id)


def load_definition(client: Client, settings: Settings, stream: Stream) -> TableDefinition:
    """Find out what a stream is as a table.

    Args:
        client: the cluster.
        settings: where the schema registry is.
        stream: the stream.

    Raises:
        StreamNotFoundError: there is no such stream.
        ConfigurationError: its events have schemas, and no registry is configured.
        UnsupportedOperationError: its events are in a format that can't be read yet.
        UnsupportedTypeError: its schema has a type that can't be mapped.
    """
    configuration = client.controller.stream_configuration(stream)
    ledger = open_ledger(client, stream)
    properties = ledger.properties() if ledger is not None else {}
    found = _registered(settings, stream, properties)
    if found is None:
        return raw_definition(settings, stream, configuration, properties, text=properties.get("format") == STRING)
    schema = _schema(found[0])
    columns = schema.columns()
    return TableDefinition(
        settings=settings,
        stream=stream,
        schema=columns,
        format=schema.format,
        codec=schema.codec(columns, RegistryEncodings(settings, stream)),
        configuration=configuration,
        properties=properties,
        registered=found,
    )


def raw_definition(
    settings: Settings,
    stream: Stream,
    configuration: StreamConfiguration,
    properties: dict[str, str],
    *,
    text: bool = False,
) -> TableDefinition:
    """A stream whose events are taken as they are: one column `event`.

    Args:
        settings: the connection.
        stream: the stream.
        configuration: its configuration.
        properties: the table's properties.
        text: whether the column is a STRING, else it is BINARY.
    """
    return TableDefinition(
        settings=settings,
        stream=stream,
        schema=StructType([StructField(EVENT, StringType() if text else BinaryType(), False)]),
        format=STRING if text else RAW,
        codec=StringCodec() if text else RawCodec(),
        configuration=configuration,
        properties=properties,
    )


def _registered(
    settings: Settings, stream: Stream, properties: dict[str, str]
) -> tuple[SchemaInfo, VersionInfo] | None:
    registry = shared_registry(settings)
    if registry is None:
        if properties.get("format", RAW) in REGISTERED:
            raise ConfigurationError(
                f'the schema of stream "{stream}" is in a schema registry: set schema-registry-uri '
                "(or PRAVEGA_SCHEMA_REGISTRY_URI)"
            )
        return None
    try:
        group = registry.group(stream.scope, stream.name)
        latest = registry.latest_schema(stream.scope, stream.name)
    except GroupNotFoundError:
        return None
    if latest is None:
        raise UnsupportedOperationError(
            f'group "{stream.name}" in namespace "{stream.scope}" of the schema registry has no schema yet: '
            "add one, or delete the group to read the stream's events as bytes"
        )
    if latest[0].serialization_format not in REGISTERED.values():
        raise UnsupportedOperationError(
            f'the events of stream "{stream}" are in format {group.serialization_format}; '
            "Avro, JSON and Protobuf can be read, and raw events of streams without a group"
        )
    return latest


def _schema(registered: SchemaInfo) -> Schema:
    return registered_schema(registered.serialization_format, registered.type, registered.schema_data)
