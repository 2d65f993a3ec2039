"""What a stream is as a table: its columns, its format and its routing key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark_pravega.client import Client, Stream, StreamConfiguration
from pyspark_pravega.client.segments import current_ids
from pyspark_pravega.connector.log import Cleaning, State, open_ledger, settled_table
from pyspark_pravega.connector.options import EventOptions
from pyspark_pravega.connector.shared import shared_client, shared_registry
from pyspark_pravega.connector.table.dead_letters import DeadLetterSink
from pyspark_pravega.connector.table.encodings import RegistryEncodings, reading_encodings, writing_encodings
from pyspark_pravega.connector.table.faults import key_fault, without_fault
from pyspark_pravega.connector.table.properties import COMPRESSIONS, TableProperties
from pyspark_pravega.connector.table.registered import Registered, registered_in
from pyspark_pravega.connector.table.table_key import CHANGES, LOG, ChangeCodec, TableKey, key_of
from pyspark_pravega.errors import (
    ConfigurationError,
    GroupNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.registry import SchemaInfo, VersionInfo
from pyspark_pravega.serde.codec import Codec
from pyspark_pravega.serde.custom import CustomCodec, find
from pyspark_pravega.serde.documents import DocumentCodec
from pyspark_pravega.serde.formats import FORMATS, JSON, RAW, REGISTERED, STRING, Schema, registered_schema
from pyspark_pravega.serde.lenient import DROP_MALFORMED, FAIL_FAST, PERMISSIVE, TypeFilter
from pyspark_pravega.serde.raw import EVENT, RawCodec, StringCodec
from pyspark_pravega.settings import Settings
from pyspark_pravega.spark.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    VariantType,
)
from pyspark_pravega.together import Begun

CORRUPT_EVENTS = ("_corrupt_event", "_corrupt_record")
"""The second one is Spark's own name for such a column."""
METADATA_COLUMNS = StructType(
    [
        StructField("_stream", StringType(), False),
        StructField("_segment", LongType(), False),
        StructField("_offset", LongType(), False),
        StructField("_encoding_id", IntegerType(), True),
        StructField("_event_size", IntegerType(), False),
        *(StructField(name, BinaryType(), True) for name in CORRUPT_EVENTS),
    ]
)
"""Columns that every table has and shows only when asked: the stream, as `scope/name`, the segment's id, the offset of
the event's frame in it (bytes), the id of the schema it was written with, its payload's size (bytes), and in mode
permissive, under two names, the payload of an event that can't be decoded."""


@dataclass(frozen=True, kw_only=True)
class TableDefinition:
    """A stream as a table."""

    settings: Settings
    stream: Stream
    schema: StructType
    format: str
    """One of `serde.formats.FORMATS`, or a custom format (`serde.custom`)."""
    codec: Codec
    """Decodes; `for_writing` gives one that encodes."""
    properties: TableProperties = field(default_factory=TableProperties)
    """What was given at CREATE TABLE."""
    registered: tuple[SchemaInfo, VersionInfo] | None = None
    """The schema in the registry; None for events without one."""
    group_made: int = 0
    """When the group's first schema was added, in ms since 1970; 0 for events without one."""
    mode: str = FAIL_FAST
    """What becomes of events that can't be decoded: one of `serde.lenient.MODES`."""
    replaced_table: int = 0
    """The last version of the commit log that gave the table other columns and properties; 0 when there was none."""
    replaced_rows: int = 0
    """The last version that took the place of all rows, be it with the same ones; 0 when there was none."""
    added_checks: int = 0
    """How many CHECK constraints were added to the table since it was made."""
    analyzed: str | None = None
    """Which statistics of its columns there are; None for none."""
    cleaning: Cleaning | None = None
    """What that version, or a later one that replaced all rows, has left to be done."""
    has_lake: bool = False
    """Whether reads take rows of it from a lake, or have taken some."""
    types: TypeFilter | None = None
    """Which events are the table's, where the stream holds events of several types."""
    key: TableKey | None = None
    """What makes events changes of rows; None where each event is a row."""
    dead_letters: DeadLetterSink | None = None
    """Where bad events go, in mode drop-malformed; None where they are only counted."""
    is_log: bool = False
    """Whether these are the events of a table that has a key, as they are."""
    is_changes: bool = False
    """Whether what its versions have changed is read in place of its rows."""
    segments: tuple[int, ...] | None = None
    """Those that could be written to (none of a sealed stream), looked up before all else here: a stream that was made
    again never has them. None where nothing else was looked up."""
    encodings: RegistryEncodings | None = None
    """What the ids in events' headers stand for; None for events without a schema."""
    fault: ConfigurationError | None = None
    """Why nothing can be read or written: a property that is kept with the table means nothing here."""
    mode_fault: ConfigurationError | None = None
    """The same of its mode, with which it would be read."""

    @property
    def configuration(self) -> StreamConfiguration:
        """The stream's configuration, which the controller is asked for: few need it.

        Raises:
            StreamNotFoundError: there is no such stream any more.
        """
        return shared_client(self.settings).controller.stream_configuration(self.stream)

    @property
    def compatibility(self) -> str | None:
        """The registry's policy for the next schemas, which it is asked for; None for events without one.

        Raises:
            GroupNotFoundError: there are no schemas any more.
        """
        registry = None if self.registered is None or self.format not in FORMATS else shared_registry(self.settings)
        return None if registry is None else registry.group(self.stream.scope, self.stream.name).compatibility

    @property
    def schema_name(self) -> str:
        """The schema in the registry, by its type and its id there; empty for events without one."""
        return "" if self.registered is None else f"{self.registered[0].type} {self.registered[1].id}"

    @property
    def event_schema(self) -> StructType:
        """All fields of an event: of a table with a key there are some that aren't columns."""
        return self.schema if self.key is None else self.key.event_schema

    def as_log(self) -> TableDefinition:
        """The events of a table that has a key, as they are: a row for each.

        Raises:
            UnsupportedOperationError: the table has no key.
        """
        if self.key is None:
            raise UnsupportedOperationError(
                f'stream "{self.stream}" has no primary key, so each of its events is a row already: read the table '
                "itself"
            )
        return replace(self, key=None, is_log=True, schema=self.key.event_schema)

    def as_changes(self) -> TableDefinition:
        """What the table's versions have changed, which is only read."""
        return replace(self, is_changes=True)

    @property
    def changes_name(self) -> str:
        """The name in SQL of what the table's versions have changed."""
        return self.stream.name.replace("-", "_") + CHANGES

    @property
    def log_name(self) -> str:
        """The name in SQL of the events of a table that has a key."""
        return self.stream.name.replace("-", "_") + LOG

    def check_appended(self, what: str) -> None:
        """Refuse what needs a table to which rows are only ever appended.

        Args:
            what: what is asked for.

        Raises:
            UnsupportedOperationError: the table has a key, so its rows change.
        """
        if self.key is not None:
            raise UnsupportedOperationError(
                f'{what} of stream "{self.stream}" isn\'t possible: the table has a primary key, so its rows change. '
                f"Read its events, a row for each change, from `{self.log_name}`"
            )

    @property
    def routing_key(self) -> str | None:
        """The column whose values are the events' routing keys."""
        return self.properties.routing_key

    def with_mode(self, mode: str) -> TableDefinition:
        """The table with another mode. In mode permissive all columns may be null.

        Args:
            mode: one of `serde.lenient.MODES`.

        Raises:
            ConfigurationError: the table's rows can't be read so.
        """
        columns = self.schema
        if mode == PERMISSIVE:
            if self.key is not None:
                raise ConfigurationError(
                    f"mode {PERMISSIVE} gives a row of nulls for an event that can't be decoded, and stream "
                    f'"{self.stream}" has a primary key, which such a row hasn\'t: take {FAIL_FAST} or {DROP_MALFORMED}'
                )
            columns = StructType([StructField(f.name, f.dataType, True, f.metadata) for f in columns])
        return replace(self, mode=mode, schema=columns)

    def for_writing(self) -> Codec:
        """A codec that encodes rows by the table's latest schema.

        Raises:
            RegistryUnavailableError: the registry doesn't answer.
            UnsupportedOperationError: the table can only be read.
        """
        if self.is_changes:
            raise UnsupportedOperationError(
                f'"{self.changes_name}" tells what versions of stream "{self.stream}" have changed: write to the table '
                "itself"
            )
        if self.is_log:
            raise UnsupportedOperationError(
                f'the events of stream "{self.stream}" are changes of rows: write to the table itself'
            )
        if self.key is None:
            return self._codec_for_writing()
        if not self.key.is_written:
            raise UnsupportedOperationError(
                f'the events of stream "{self.stream}" are change records of another program (its property '
                f'"row-column" says so): the table can be read, and is written by that program'
            )
        operation = None if self.key.operation is None else self.key.event_schema[self.key.operation]
        if operation is not None and not operation.nullable and self.key.upsert is None:
            raise UnsupportedOperationError(
                f'each event of stream "{self.stream}" needs a value in "{operation.name}", which says what happened '
                'to its row: set the table property "upsert-value" to the one of rows that are written'
            )
        return ChangeCodec(self._codec_for_writing(), self.key)

    def _codec_for_writing(self) -> Codec:
        if self.registered is None:
            return self.codec
        schema, _ = self.registered
        if self.properties.encoding_header is False:
            return _codec(schema, RegistryEncodings(self.settings, self.stream), header=False)
        codec = COMPRESSIONS[self.properties.compression]
        encoding_id, encodings = writing_encodings(self.settings, self.stream, self.registered, codec, self.group_made)
        if self.format not in FORMATS:
            assert isinstance(self.codec, CustomCodec)
            return self.codec.writing(encoding_id)
        return _codec(schema, encodings, write_id=encoding_id)


def load_definition(
    client: Client,
    settings: Settings,
    stream: Stream,
    events: EventOptions | None = None,
    *,
    keyed: bool = True,
    staged: Mapping[str, str] | None = None,
    with_faults: bool = False,
) -> TableDefinition:
    """Find out what a stream is as a table.

    Args:
        client: the cluster.
        settings: where the schema registry is.
        stream: the stream.
        events: what is stronger than the table's properties, if anything is.
        keyed: whether the rows are those of the table's key, where it has one; else each event is one.
        staged: the properties that the table is to have; those that it has when None.
        with_faults: whether properties that mean nothing here become the table's faults, so that they can be shown and
            changed; else they are errors.

    Raises:
        StreamNotFoundError: there is no such stream.
        ConfigurationError: its events have schemas, and no registry is configured; or an option is wrong.
        UnsupportedOperationError: its events are in a format that can't be read yet.
        UnsupportedTypeError: its schema has a type that can't be mapped.
    """
    events = events or EventOptions()
    located = Begun(lambda: current_ids(client.pool, stream))
    try:
        ledger = open_ledger(client, stream)
    finally:
        # That there is no such stream is said first. And which stream it is comes before what it holds: so all else is
        # of this stream, or of a later one.
        segments = located.result()
    texts, state = ({}, State()) if ledger is None else settled_table(client, ledger)
    properties = TableProperties(texts if staged is None else staged, of=f'stream "{stream}"')

    def define(properties: TableProperties) -> TableDefinition:
        return schema_definition(settings, stream, properties, events)

    try:
        definition = define(properties)
    except ConfigurationError as error:
        if not with_faults:
            raise
        has_registry = shared_registry(settings) is not None
        bare = partial(raw_definition, settings, stream, properties)
        definition, fault = without_fault(properties, define, bare, error, has_registry=has_registry)
        definition = replace(definition, properties=properties, fault=fault)
    definition = replace(
        definition,
        replaced_table=state.replaced_table,
        replaced_rows=state.replaced_rows,
        added_checks=state.added_checks,
        analyzed=state.analyzed,
        cleaning=state.cleaning,
        has_lake=state.has_lake,
        segments=tuple(segments),
    )
    try:
        definition = with_key(definition) if keyed and definition.fault is None else definition
    except ConfigurationError as error:
        if not with_faults:
            raise
        definition = replace(definition, fault=key_fault(properties, error))
    try:
        mode = events.mode or properties.mode or (DROP_MALFORMED if properties.bad_events else None)
        return definition.with_mode(mode) if mode else definition
    except ConfigurationError as error:
        if not with_faults:
            raise
        return replace(definition, mode_fault=error)


def schema_definition(
    settings: Settings,
    stream: Stream,
    properties: TableProperties,
    events: EventOptions,
) -> TableDefinition:
    """What the schemas of a stream's events make of it, or those of a key-value table's values.

    Args:
        settings: where the schema registry is.
        stream: the stream; its scope and name are those of the group.
        properties: the table's properties.
        events: what is stronger than these.

    Raises:
        As `load_definition`.
    """
    properties.check_kind_of_lake()
    custom = next((name for name in (events.format, properties.format) if name and name not in FORMATS), "")
    type_name = properties.schema_type if events.schema_type is None else events.schema_type
    registered = registered_in(settings, stream, properties, type_name, custom)
    if custom:
        return _custom_definition(settings, stream, properties, custom, registered)
    if registered is None:
        return raw_definition(settings, stream, properties, text=properties.format == STRING)
    schema = _schema(registered.schema)
    columns = schema.columns()
    encodings = reading_encodings(settings, stream, (registered.schema, registered.version), registered.group_made)
    types = None
    if registered.multiple:
        types = TypeFilter(encodings, registered.schema.type, others_are_errors=type_name is None)
    return TableDefinition(
        settings=settings,
        stream=stream,
        schema=columns,
        format=schema.format,
        codec=schema.codec(columns, encodings),
        properties=properties,
        registered=(registered.schema, registered.version),
        group_made=registered.group_made,
        types=types,
        encodings=encodings,
    )


def with_key(definition: TableDefinition) -> TableDefinition:
    """A table with the key that its properties name, if they do.

    Args:
        definition: what the stream is, each event a row.

    Raises:
        ConfigurationError: the properties don't go with its events.
    """
    # Without its schema nothing is known of the events: their readers are told that.
    if definition.format == RAW:
        return definition
    key_and_schema = key_of(definition.properties, definition.schema, definition.stream)
    if key_and_schema is None:
        return definition
    key, schema = key_and_schema
    return replace(definition, key=key, schema=schema)


def check_schema_is_there(definition: TableDefinition) -> None:
    """Refuse to read events with columns, or write them, as if they were bytes, or with properties that mean nothing
    here.

    Args:
        definition: what the stream is as a table.

    Raises:
        ConfigurationError: a property that is kept with the table means nothing here.
        GroupNotFoundError: the table was made with a schema, and the schema is gone.
    """
    if definition.fault is not None:
        raise definition.fault
    made_as = definition.properties.format
    if made_as in REGISTERED and definition.format == RAW:
        raise GroupNotFoundError(
            f'the events of stream "{definition.stream}" are {made_as}, and its group in the schema registry is gone: '
            "when a DROP TABLE was interrupted, run it again; else bring the group back"
        )


def raw_definition(
    settings: Settings,
    stream: Stream,
    properties: Mapping[str, str],
    *,
    text: bool = False,
) -> TableDefinition:
    """A stream whose events are taken as they are: one column `event`.

    Args:
        settings: the connection.
        stream: the stream.
        properties: the table's properties.
        text: whether the column is a STRING, else it is BINARY.
    """
    return TableDefinition(
        settings=settings,
        stream=stream,
        schema=StructType([StructField(EVENT, StringType() if text else BinaryType(), False)]),
        format=STRING if text else RAW,
        codec=StringCodec() if text else RawCodec(),
        properties=TableProperties(properties),
    )


def document_definition(settings: Settings, stream: Stream) -> TableDefinition:
    """A stream whose events are JSON texts without a schema: one column `value`, a VARIANT.

    Args:
        settings: the connection.
        stream: the stream.
    """
    columns = StructType([StructField("value", VariantType(), True)])
    return TableDefinition(
        settings=settings,
        stream=stream,
        schema=columns,
        format=JSON,
        codec=DocumentCodec(columns, RegistryEncodings(settings, stream)),
    )


def _custom_definition(
    settings: Settings,
    stream: Stream,
    properties: TableProperties,
    name: str,
    registered: Registered | None,
) -> TableDefinition:
    columns = properties.columns
    if columns is None:
        own_columns = find(name, settings.allows_format).columns(properties.texts)
        if own_columns is None:
            raise ConfigurationError(
                f'stream "{stream}" wasn\'t made by CREATE TABLE with format "{name}", so that class must tell its '
                "columns: define its class method columns(properties)"
            )
        columns = own_columns
    header = properties.encoding_header if properties.encoding_header is not None else registered is not None
    encodings = (
        RegistryEncodings(settings, stream, registered.group_made) if header and registered is not None else None
    )
    if header and encodings is None:
        raise ConfigurationError(
            f'the events of stream "{stream}" have headers with encoding ids, and its group isn\'t there: set '
            "schema-registry-uri (or PRAVEGA_SCHEMA_REGISTRY_URI)"
        )
    return TableDefinition(
        settings=settings,
        stream=stream,
        schema=columns,
        format=name,
        codec=CustomCodec(name, columns, properties.texts, encodings, header=header, allows=settings.allows_format),
        properties=properties,
        registered=(registered.schema, registered.version) if header and registered is not None else None,
        group_made=0 if registered is None else registered.group_made,
    )


def _schema(registered: SchemaInfo) -> Schema:
    return registered_schema(registered.serialization_format, registered.type, registered.schema_data)


def _codec(
    registered: SchemaInfo, encodings: RegistryEncodings, *, write_id: int | None = None, header: bool = True
) -> Codec:
    schema = _schema(registered)
    return schema.codec(schema.columns(), encodings, write_id=write_id, header=header)
