"""What one of Pravega's key-value tables is as a table of SQL: the columns of its keys and those of its values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from pyspark_pravega.client import Client, KeyValueTable, Stream
from pyspark_pravega.client.names import StreamSegments
from pyspark_pravega.client.policies import KeyValueTableConfiguration
from pyspark_pravega.connector.key_value.key_layout import KeyLayout
from pyspark_pravega.connector.key_value.properties import SCHEMA, KeyValueProperties
from pyspark_pravega.connector.option_names import FORMAT
from pyspark_pravega.connector.options import EventOptions
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.store import NamespaceStore, is_internal
from pyspark_pravega.connector.table import TableDefinition, TableProperties, raw_definition, schema_definition
from pyspark_pravega.errors import (
    AuthenticationError,
    ConfigurationError,
    GroupNotFoundError,
    KeyValueTableNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.serde.codec import Codec
from pyspark_pravega.serde.encodings import WriterSchema
from pyspark_pravega.serde.formats import RAW, REGISTERED, STRING, Schema, registered_schema, schema_for
from pyspark_pravega.serde.raw import EVENT
from pyspark_pravega.settings import Settings
from pyspark_pravega.spark.types import BinaryType, LongType, StructField, StructType
from pyspark_pravega.together import together

KEY, SECONDARY_KEY, VALUE = "key", "secondary_key", "value"
"""The columns of a table that somebody else has made, and of which nothing more is known."""
VERSION = "_entry_version"
"""The metadata column with an entry's version."""
METADATA_COLUMNS = StructType([StructField(VERSION, LongType(), False)])


@dataclass(frozen=True)
class _NoEncodings:
    """Of values without headers: their schema is the table's own."""

    table: str

    def writer_schema(self, encoding_id: int) -> WriterSchema:
        """See `EncodingSource`.

        Raises:
            UnsupportedOperationError: always.
        """
        raise UnsupportedOperationError(
            f'a value of key-value table "{self.table}" has a header of the schema registry (encoding {encoding_id}), '
            f'and the table keeps its schema itself: unset "{SCHEMA}", so that the registry\'s is taken'
        )


@dataclass(frozen=True, kw_only=True)
class KeyValueDefinition:
    """A key-value table as a table of SQL. Can be pickled."""

    settings: Settings
    stream: Stream
    """Its scope and name."""
    segments: StreamSegments
    configuration: KeyValueTableConfiguration
    layout: KeyLayout
    values: TableDefinition
    """What its values are, taken as events of a stream."""
    schema: StructType
    properties: KeyValueProperties = field(default_factory=KeyValueProperties)
    """What was given at CREATE TABLE and ALTER TABLE; without those of a table before of this name."""

    @property
    def is_plain(self) -> bool:
        """Whether a value is the value of one column, `value`."""
        return self.values.format in (RAW, STRING)

    @property
    def value_columns(self) -> list[str]:
        """The fields of a value: a key's column may be among them, too."""
        return [VALUE] if self.is_plain else self.values.schema.fieldNames()

    def open(self) -> KeyValueTable:
        """The table itself, by this process's client."""
        client = shared_client(self.settings)
        return KeyValueTable(client.pool, self.stream.scope, self.stream.name, segments=self.segments)

    def encoded(self, codec: Codec, rows: pa.RecordBatch) -> pa.Array:
        """The values of rows.

        Args:
            codec: of `values.for_writing()`.
            rows: with the table's columns.

        Raises:
            EventEncodeError: a value doesn't fit its column.
        """
        columns = [rows.column(name) for name in self.value_columns]
        names = [EVENT] if self.is_plain else self.value_columns
        return codec.encode(pa.RecordBatch.from_arrays(columns, names=names))

    def decoded(self, values: pa.Array, columns: Sequence[str]) -> dict[str, pa.Array]:
        """Columns of values.

        Args:
            values: an Arrow binary array.
            columns: the wanted columns, all of them the values'.

        Raises:
            BadEventError: one can't be decoded.
        """
        fields = [EVENT] if self.is_plain and columns else list(columns)
        return dict(zip(columns, self.values.codec.decode(values, fields).columns, strict=True))

    def refuse(self, what: str, instead: str) -> UnsupportedOperationError:
        """The error of what can't be done with a key-value table.

        Args:
            what: what was asked for, as the beginning of a sentence.
            instead: what can be done.
        """
        return UnsupportedOperationError(f'{what} key-value table "{self.stream}" isn\'t possible: {instead}')


def no_stream(stream: Stream) -> UnsupportedOperationError:
    """The error of what is for streams, where there is a key-value table.

    Args:
        stream: the table's scope and name.
    """
    return UnsupportedOperationError(
        f'"{stream}" is a key-value table, which has neither versions nor a history: time travel, CHANGES, streaming '
        "reads, metadata tables and procedures are for streams. A table with a PRIMARY KEY and without 'table-type' "
        "is one, whose rows change, too"
    )


def find_key_value(client: Client, settings: Settings, stream: Stream) -> KeyValueDefinition | None:
    """A key-value table by its name.

    Args:
        client: the cluster.
        settings: where the schema registry is.
        stream: the table's scope and name.

    Returns:
        None where there is none that SQL shows this user.

    Raises:
        ConfigurationError: as `_load`.
    """
    if is_internal(stream.name):
        return None
    try:
        return _load(client, settings, stream, NamespaceStore(client, stream.scope).table(stream.name))
    except (KeyValueTableNotFoundError, AuthenticationError):
        # Without rights to a table, Pravega doesn't tell whether there is one.
        return None


def _load(
    client: Client, settings: Settings, stream: Stream, stored: Mapping[str, object] | None
) -> KeyValueDefinition:
    """Find out what a key-value table is as a table.

    Args:
        client: the cluster.
        settings: where the schema registry is.
        stream: the table's scope and name.
        stored: what the scope keeps about it: `properties`, and `made`, which table of this name it is about.

    Raises:
        KeyValueTableNotFoundError: there is no such table.
        ConfigurationError: its properties don't fit its keys, or its values have schemas and no registry is configured.
    """
    table, configuration = together(
        lambda: KeyValueTable(client.pool, stream.scope, stream.name),
        lambda: client.controller.key_value_table_configuration(stream.scope, stream.name),
    )
    segments = replace(table.segments, token="")
    properties: Mapping[str, str] = {}
    if stored is not None and stored["made"] == made_as(segments):
        assert isinstance(stored["properties"], dict)
        properties = stored["properties"]
    return key_value_definition(settings, stream, segments, configuration, properties)


def key_value_definition(
    settings: Settings,
    stream: Stream,
    segments: StreamSegments,
    configuration: KeyValueTableConfiguration,
    texts: Mapping[str, str],
) -> KeyValueDefinition:
    """What properties make of a key-value table; see `_load`."""
    properties = KeyValueProperties(texts)
    layout = _layout(configuration, properties)
    values = _values(settings, stream, properties)
    fields = {column.name: column for column in layout.schema}
    plain = values.format in (RAW, STRING)
    for column in values.schema:
        name = VALUE if plain else column.name
        if name not in fields:
            fields[name] = StructField(name, column.dataType, column.nullable, column.metadata)
        elif fields[name].dataType != column.dataType:
            raise ConfigurationError(
                f'column "{name}" of key-value table "{stream}" is {fields[name].dataType.simpleString()} in the key '
                f"and {column.dataType.simpleString()} in the values: give the key's column another name, or that type"
            )
    if VERSION in fields:
        raise ConfigurationError(
            f'key-value table "{stream}" can\'t have a column "{VERSION}": that is the name of entries\' versions'
        )
    names = [name for name in properties.columns if name in fields]
    names += [name for name in fields if name not in names]
    return KeyValueDefinition(
        settings=settings,
        stream=stream,
        segments=segments,
        configuration=configuration,
        layout=layout,
        values=values,
        schema=StructType([fields[name] for name in names]),
        properties=properties,
    )


def made_as(segments: StreamSegments) -> str:
    """Which table of its name it is: one that is deleted and made again has segments of other names."""
    return segments.stream.segment_name(segments.ids[0])


def own_schema(table_format: str, columns: StructType, stream: Stream) -> Schema:
    """The schema of a new table's values.

    Args:
        table_format: `avro`, `json` or `protobuf`.
        columns: of the values.
        stream: the table's scope and name.

    Raises:
        UnsupportedTypeError: a type has no place in the format.
    """
    return schema_for(table_format, columns, name=stream.name, namespace=stream.scope)


def schema_of_text(table_format: str, text: str, stream: Stream) -> Schema:
    """The schema of a table's values that a property gives.

    Args:
        table_format: `avro` or `json`.
        text: the schema.
        stream: the table's scope and name.

    Raises:
        ConfigurationError: it is none.
    """
    if table_format not in ("avro", "json"):
        raise ConfigurationError(
            f'"{SCHEMA}" goes with "{FORMAT}" = avro or json; schemas of other formats are taken from the registry, '
            f'from group "{stream.name}" of namespace "{stream.scope}"'
        )
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f'the schema for key-value table "{stream}" isn\'t JSON: {error}') from None
    name = document.get("name", "") if isinstance(document, dict) and table_format == "avro" else str(stream)
    return registered_schema(REGISTERED[table_format], name, text.encode())


def _layout(configuration: KeyValueTableConfiguration, properties: KeyValueProperties) -> KeyLayout:
    total = configuration.key_bytes + configuration.secondary_key_bytes
    columns = properties.key_columns if properties.key is None else list(properties.key)
    if columns is not None:
        return KeyLayout.of(columns, properties.key_bytes, total=total)
    widths = {KEY: configuration.key_bytes}
    if configuration.secondary_key_bytes:
        widths[SECONDARY_KEY] = configuration.secondary_key_bytes
    return KeyLayout.of([StructField(name, BinaryType(), False) for name in widths], widths)


def _values(settings: Settings, stream: Stream, properties: KeyValueProperties) -> TableDefinition:
    table_format, of_events = properties.format, TableProperties(properties)
    schema = None
    if table_format is not None and properties.value_columns is not None:
        schema = own_schema(table_format, properties.value_columns, stream)
    elif table_format is not None and properties.schema is not None:
        schema = schema_of_text(table_format, properties.schema, stream)
    if schema is not None:
        columns = schema.columns()
        return TableDefinition(
            settings=settings,
            stream=stream,
            schema=columns,
            format=schema.format,
            codec=schema.codec(columns, _NoEncodings(str(stream)), header=False),
            properties=of_events,
        )
    if table_format in (RAW, STRING):
        return raw_definition(settings, stream, of_events, text=table_format == STRING)
    values = schema_definition(settings, stream, of_events, EventOptions())
    if table_format in REGISTERED and values.registered is None:
        raise GroupNotFoundError(
            f'the values of key-value table "{stream}" are {table_format}, and group "{stream.name}" in namespace '
            f'"{stream.scope}" of the schema registry isn\'t there: bring it back'
        )
    return values
