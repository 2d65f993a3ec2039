"""`spark.read.format("pravega")` and `df.write.format("pravega")`: the connector without the catalog."""

from __future__ import annotations

from pyspark_pravega import settings as connection
from pyspark_pravega.client import Stream
from pyspark_pravega.connector import key_value
from pyspark_pravega.connector.key_value import KeyValueDefinition, KeyValueReader, Wanted, find_key_value, no_stream
from pyspark_pravega.connector.official import (
    MetadataReader,
    asks_to_create,
    create_missing,
    event_rows,
    metadata_schema,
    new_stream,
    not_there,
    streaming_options,
    takes_events,
    without_official,
)
from pyspark_pravega.connector.option_names import (
    FORMAT,
    MAKING_KEYS,
    METADATA,
    OFFICIAL_WRITE_KEYS,
    READ_KEYS,
    STREAM,
    STREAMED,
    WRITE_KEYS,
    writes_own,
)
from pyspark_pravega.connector.options import (
    EventOptions,
    ReadOptions,
    WriteOptions,
    canonical,
    stream_of,
    streams_of,
)
from pyspark_pravega.connector.plain import told_plainly
from pyspark_pravega.connector.read import OFFICIAL_COLUMNS, resolve_extents
from pyspark_pravega.connector.shared import shared_client, statement_settings
from pyspark_pravega.connector.stream import PravegaStreamReader, RefusedStreamReader, SnapshotReader, check_alike
from pyspark_pravega.connector.table import (
    CORRUPT_EVENTS,
    METADATA_COLUMNS,
    TableDefinition,
    TableProperties,
    check_planned,
    document_definition,
    load_definition,
    raw_definition,
)
from pyspark_pravega.connector.write import BatchWriter, EpochWriter, with_dead_letters
from pyspark_pravega.errors import (
    ConfigurationError,
    NotFoundError,
    PravegaError,
    StreamNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.serde.custom import is_custom
from pyspark_pravega.serde.formats import FORMATS, JSON, RAW, STRING, SYNONYMS
from pyspark_pravega.serde.lenient import PERMISSIVE
from pyspark_pravega.serde.types import same_names
from pyspark_pravega.settings import Settings
from pyspark_pravega.spark.datasource import (
    WRITES_ARROW,
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark_pravega.spark.types import StructType


class DefaultSource(DataSource):
    """The data source that Spark finds under the name `pravega`."""

    @classmethod
    def name(cls) -> str:
        """`pravega`."""
        return "pravega"

    @told_plainly()
    def schema(self) -> StructType:
        """The stream's columns: those of its schema, or for raw events those of the official Spark connector.

        Raises:
            ConfigurationError: an option is unknown, missing or malformed.
            StreamNotFoundError: there is no such stream.
        """
        if STREAMED in self.options:
            return self._streamed_schema()
        options = canonical(self.options, READ_KEYS, "read option")
        if METADATA in options:
            return metadata_schema(options)
        new_stream(options)
        bounds = ReadOptions.of_streams(options)
        try:
            definitions = self._relations(options)
        except NotFoundError as error:
            if not (asks_to_create(options) and create_missing(options)):
                raise not_there(error, options) from None
            definitions = self._definitions(options)
        if isinstance(definitions, KeyValueDefinition):
            return definitions.schema
        definition = definitions[0]
        # Here, because Spark asks for this when the query is defined.
        resolve_extents(shared_client(definition.settings), [one.stream for one in definitions], bounds)
        if definition.format in (RAW, STRING):
            return StructType([*definition.schema.fields, *OFFICIAL_COLUMNS.fields])
        if definition.mode != PERMISSIVE:
            return definition.schema
        own = definition.schema.fieldNames()
        corrupt = [one for one in METADATA_COLUMNS if one.name in CORRUPT_EVENTS and one.name not in own]
        return StructType([*definition.schema.fields, *corrupt])

    @told_plainly()
    def reader(self, schema: StructType) -> DataSourceReader:
        """A read of the streams as they are now, or of what lies between the bounds that the options name.

        Args:
            schema: what `schema` gave.
        """
        options = canonical(self.options, READ_KEYS, "read option")
        if METADATA in options:
            return MetadataReader(statement_settings(options), options)
        definitions = self._relations(options, schema)
        if isinstance(definitions, KeyValueDefinition):
            return KeyValueReader(definitions, schema.fieldNames(), Wanted())
        read = ReadOptions.of_streams(options)
        definitions = [with_dead_letters(one, read.events) for one in definitions]
        return SnapshotReader(definitions, schema.fieldNames(), read)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A streaming read; one that can't be says so when Spark first asks it for something.

        Args:
            schema: what `schema` gave.
        """
        try:
            return self._stream_reader(schema)
        except PravegaError as error:
            return RefusedStreamReader(error)

    @told_plainly()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A write in one transaction.

        Args:
            schema: the rows' columns.
            overwrite: whether to replace what is there, which a stream can't.
        """
        definition, options = self._writable(schema)
        if overwrite:
            raise UnsupportedOperationError(f'stream "{definition.stream}" can\'t be overwritten: use mode("append")')
        return BatchWriter(definition, options)

    @told_plainly()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """A streaming query's write, each micro-batch in one transaction.

        Args:
            schema: the rows' columns.
            overwrite: whether to replace what is there, as in output mode complete, which a stream can't.
        """
        definition, options = self._writable(schema)
        if not WRITES_ARROW:
            raise UnsupportedOperationError(
                f'stream "{definition.stream}" can\'t be written to by writeStream.format("pravega") before Spark 4.1: '
                "use writeStream.toTable with its name in a catalog"
            )
        if overwrite:
            raise UnsupportedOperationError(
                f'stream "{definition.stream}" can\'t be overwritten: use outputMode("append") or outputMode("update")'
            )
        return EpochWriter(definition, options)

    def _stream_reader(self, schema: StructType) -> PravegaStreamReader:
        options = canonical(self.options, READ_KEYS, "read option")
        if METADATA in options:
            raise ConfigurationError('option "metadata" is for batch reads: use spark.read')
        options = streaming_options(options, self.options)
        definitions = self._relations(options, schema)
        if isinstance(definitions, KeyValueDefinition):
            raise no_stream(definitions.stream)
        for definition in definitions:
            definition.check_appended("a streaming read")
        read = ReadOptions.of_streams(options)
        definitions = [with_dead_letters(one, read.events, streamed=True) for one in definitions]
        return PravegaStreamReader(definitions, schema.fieldNames(), read)

    def _streamed_schema(self) -> StructType:
        """The columns for a streaming query that is being defined: all that is wrong with its read is said here."""
        source = DefaultSource({key: value for key, value in self.options.items() if key != STREAMED})
        if METADATA in canonical(source.options, READ_KEYS, "read option"):
            source._stream_reader(StructType())
        columns = source.schema()
        source._stream_reader(columns)
        return columns

    def _writable(self, schema: StructType) -> tuple[TableDefinition, WriteOptions]:
        given = canonical(writes_own(self.options), WRITE_KEYS | OFFICIAL_WRITE_KEYS, "write option")
        new_stream(given)
        options = without_official(given)
        # Before a stream is made for the rows.
        parsed = WriteOptions.parse(options)
        try:
            definition = self._definition(options)
        except NotFoundError as error:
            if (table := self._key_value(options, frozenset(options))) is not None:
                raise table.refuse(
                    'a write by format("pravega") to', "put its rows by a catalog, as in df.writeTo(...).append()"
                ) from None
            if not takes_events(schema) and isinstance(error, StreamNotFoundError):
                raise StreamNotFoundError(
                    f"{error}: make a table with the rows' columns by CREATE TABLE; a write without the catalog makes "
                    "streams of events only, from rows with the columns event and, if wanted, routing_key"
                ) from None
            if not create_missing(given):
                raise
            definition = self._definition(options)
        events = event_rows(definition, schema)
        if events is not None:
            return events, parsed
        meant = same_names(schema.fieldNames(), definition.schema.fieldNames())
        missing = [f.name for f in definition.schema if not f.nullable and f.name not in meant]
        unknown = [name for name, column in zip(schema.fieldNames(), meant, strict=True) if column is None]
        if missing or unknown:
            raise ConfigurationError(
                f'the rows don\'t have the columns of stream "{definition.stream}" '
                f"({', '.join(definition.schema.fieldNames())}): "
                + "; ".join([f"{name} is missing" for name in missing] + [f"{name} is unknown" for name in unknown])
            )
        return definition, parsed

    def _relations(
        self, options: dict[str, str], planned: StructType | None = None
    ) -> list[TableDefinition] | KeyValueDefinition:
        """The streams that the options name; or the key-value table."""
        try:
            return self._definitions(options, planned)
        except StreamNotFoundError:
            table = self._key_value(options, connection.KEYS | MAKING_KEYS | {STREAM})
            if table is None:
                raise
        if planned is not None:
            columns = StructType([*key_value.METADATA_COLUMNS, *table.schema])
            check_planned(table.stream, planned, planned.fieldNames(), columns)
        return table

    def _key_value(self, options: dict[str, str], known: frozenset[str]) -> KeyValueDefinition | None:
        """The key-value table that the options name; None where they name streams that aren't there."""
        settings = statement_settings(options)
        streams = streams_of(options, settings)
        for stream in streams:
            table = find_key_value(shared_client(settings), settings, stream)
            if table is None:
                continue
            if len(streams) > 1:
                raise table.refuse("a read of several streams, one of them", "read it alone, and join or unite the two")
            canonical(options, known, "read option of a key-value table")
            return table
        return None

    def _definitions(self, options: dict[str, str], planned: StructType | None = None) -> list[TableDefinition]:
        settings = statement_settings(options)
        definitions = [self._load(options, settings, stream) for stream in streams_of(options, settings)]
        check_alike(definitions)
        if planned is not None:
            columns = StructType([*OFFICIAL_COLUMNS, *METADATA_COLUMNS, *definitions[0].schema])
            check_planned(definitions[0].stream, planned, planned.fieldNames(), columns)
        return definitions

    def _definition(self, options: dict[str, str]) -> TableDefinition:
        settings = statement_settings(options)
        return self._load(options, settings, stream_of(options, settings))

    def _load(self, options: dict[str, str], settings: Settings, stream: Stream) -> TableDefinition:
        client = shared_client(settings)
        given = options.get(FORMAT, "")
        wanted = SYNONYMS.get(given.lower(), given.lower())
        custom = bool(given) and wanted not in FORMATS
        if custom and not is_custom(given):
            raise ConfigurationError(
                f'option "format" must be one of {", ".join(FORMATS)}, or package.module:Class, not "{given}"'
            )
        if wanted in (RAW, STRING):
            # Whether there is such a stream.
            client.controller.stream_configuration(stream)
            return raw_definition(settings, stream, TableProperties(), text=wanted == STRING)
        definition = load_definition(client, settings, stream, EventOptions.parse(options))
        if wanted == JSON and definition.format == RAW and not definition.properties:
            return document_definition(settings, stream)
        if wanted and not custom and wanted != definition.format:
            raise ConfigurationError(
                f'the events of stream "{stream}" are in format {definition.format}, not in {wanted}, which option '
                '"format" asks for'
            )
        return definition
