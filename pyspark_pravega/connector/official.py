"""What Pravega's own Spark connector does, so that its programs run: making streams, telling of them, its rows."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from pyspark_pravega import values
from pyspark_pravega.client import RetentionPolicy, ScalingPolicy, StreamConfiguration
from pyspark_pravega.client.positions import watermarks
from pyspark_pravega.connector import option_names as keys
from pyspark_pravega.connector.options import stream_of, streams_of, writer_mode
from pyspark_pravega.connector.plain import told_plainly
from pyspark_pravega.connector.read import OFFICIAL_COLUMNS
from pyspark_pravega.connector.shared import shared_client, statement_settings
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import (
    ConfigurationError,
    NotFoundError,
    StreamNotFoundError,
    UnsupportedTypeError,
    did_you_mean,
)
from pyspark_pravega.serde.formats import JSON, RAW, STRING, SYNONYMS
from pyspark_pravega.serde.raw import EVENT, KEY_COLUMN, EventCodec
from pyspark_pravega.settings import Settings
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.datasource import DataSourceReader, InputPartition
from pyspark_pravega.spark.types import BinaryType, LongType, StringType, StructField, StructType

_SCHEMAS = {
    "streaminfo": StructType(
        [StructField("head_stream_cut", StringType()), StructField("tail_stream_cut", StringType())]
    ),
    "watermarks": StructType(
        [
            StructField("lower_time", LongType(), False),
            StructField("upper_time", LongType(), False),
            StructField("stream_cut", StringType(), False),
        ]
    ),
    "streams": StructType([StructField("scope_name", StringType()), StructField("stream_name", StringType())]),
}
_THEIRS = frozenset(
    {
        *("controller", "scope", "stream", "start_stream_cut", "end_stream_cut", "transaction_timeout_ms"),
        *(keys.dashed(key).replace("-", "_") for key in keys.OFFICIAL_READ_KEYS | keys.OFFICIAL_WRITE_KEYS),
    }
)
"""The options of Pravega's own Spark connector, as it spells them."""


def metadata_schema(options: Mapping[str, str]) -> StructType:
    """The columns of a read with the option `metadata`.

    Raises:
        ConfigurationError: its value isn't known.
    """
    return _SCHEMAS[_kind(options)]


class MetadataReader(DataSourceReader):
    """`metadata=StreamInfo`: a stream's head and tail, as texts of the Java client; `Watermarks`: its watermarks, times
    in ms; `Streams`: a scope's streams."""

    def __init__(self, settings: Settings, options: Mapping[str, str]) -> None:
        """Plan a read.

        Args:
            settings: where the cluster is.
            options: canonical options.
        """
        self._settings, self._options = settings, dict(options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows; there is one partition."""
        del partition
        with told_plainly():
            kind = _kind(self._options)
            schema = to_arrow_schema(_SCHEMAS[kind])
            rows = [dict(zip(schema.names, row, strict=True)) for row in self._rows(kind)]
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    def _rows(self, kind: str) -> list[tuple[str | int, ...]]:
        client = shared_client(self._settings)
        if kind == "streams":
            scope = self._settings.scope
            if not scope:
                raise ConfigurationError('option "metadata" = Streams lists a scope: set option "scope"')
            return [(scope, name) for name in sorted(client.controller.list_streams(scope))]
        stream = stream_of(self._options, self._settings)
        if kind == "streaminfo":
            return [(client.controller.head(stream).to_text(), client.tail(stream).to_text())]
        return [(mark.lower_ms, mark.upper_ms, mark.cut.to_text()) for mark in watermarks(client.pool, stream)]


def streaming_options(options: Mapping[str, str], given: Mapping[str, str]) -> keys.Given:
    """A streaming read's options in our words, with that connector's default where only its options are used.

    There a query without a checkpoint begins at the streams' tails.

    Args:
        options: canonical options.
        given: the same as the user wrote them.
    """
    ours = keys.Given(
        {key: value for key, value in options.items() if key != keys.APPROX_BYTES}, keys.words_of(options)
    )
    if keys.APPROX_BYTES in options and keys.MAX_BYTES not in ours:
        ours[keys.MAX_BYTES] = options[keys.APPROX_BYTES]
        ours.words[keys.MAX_BYTES] = keys.APPROX_BYTES
    names = {key.lower() for key in given}
    if {"scope", "stream"} <= names <= _THEIRS and not {keys.START_CUT, keys.END_CUT} & options.keys():
        ours[keys.START_CUT] = "latest"
    return ours


def takes_events(rows: StructType) -> bool:
    """Whether rows can be written to a stream without a schema: they have a column `event`.

    Args:
        rows: their columns.
    """
    return EVENT in rows.fieldNames()


def event_rows(definition: TableDefinition, rows: StructType) -> TableDefinition | None:
    """A stream without a schema as a sink of `event`, STRING or BINARY, and, if the rows have it, `routing_key`.

    The columns that a read adds to events may be among the rows; they aren't written.

    Args:
        definition: what the stream is as a table.
        rows: their columns.

    Returns:
        The table with the columns that are written; None when it has a schema, or the rows have other columns.

    Raises:
        UnsupportedTypeError: a column has another type.
    """
    names = set(rows.fieldNames())
    if definition.format not in (RAW, STRING) or EVENT not in names:
        return None
    if names - {EVENT, KEY_COLUMN, *OFFICIAL_COLUMNS.fieldNames()}:
        return None
    for name, kinds in ((EVENT, (StringType, BinaryType)), (KEY_COLUMN, (StringType,))):
        if name in names and not isinstance(rows[name].dataType, kinds):
            raise UnsupportedTypeError(
                f'column "{name}" of the rows for stream "{definition.stream}" is of type '
                f"{rows[name].dataType.simpleString()}: cast it, as in CAST({name} AS STRING)"
            )
    columns = StructType([rows[name] for name in (EVENT, KEY_COLUMN) if name in names])
    return replace(definition, schema=columns, codec=EventCodec())


def without_official(options: Mapping[str, str]) -> keys.Given:
    """A write's options, with those of Pravega's own Spark connector told in our words.

    A commit here always waits until it can be read, so the options about that have no effect.

    Args:
        options: canonical options.

    Raises:
        ConfigurationError: `exactly-once` is neither true nor false, or contradicts `writer-mode`.
    """
    own = {key: value for key, value in options.items() if key not in keys.OFFICIAL_WRITE_KEYS}
    ours = keys.Given(own, keys.words_of(options))
    if keys.ONCE in options:
        mode = keys.EXACTLY_ONCE if values.flag(keys.ONCE, options[keys.ONCE]) else keys.AT_LEAST_ONCE
        if writer_mode(keys.shown(keys.WRITER_MODE), ours.setdefault(keys.WRITER_MODE, mode)) != mode:
            raise ConfigurationError(
                f'options "{keys.ONCE}" = {options[keys.ONCE]} and "{keys.shown(keys.WRITER_MODE)}" = '
                f"{ours[keys.WRITER_MODE]} contradict each other: give one of them"
            )
    return ours


def asks_to_create(options: Mapping[str, str]) -> bool:
    """Whether a read makes the streams that aren't there: one of the options about that says so.

    Args:
        options: canonical options.
    """
    return bool(options.keys() & keys.MAKING_KEYS)


def not_there(error: NotFoundError, options: Mapping[str, str]) -> NotFoundError:
    """An error about a stream that a read doesn't find, with the nearest name of the scope.

    Args:
        error: what is missing.
        options: canonical options.
    """
    if not isinstance(error, StreamNotFoundError):
        return error
    settings = statement_settings(options)
    controller = shared_client(settings).controller
    words = str(error)
    for stream in streams_of(options, settings):
        with suppress(NotFoundError):
            names = [name for name in controller.list_streams(stream.scope) if not name.startswith("_")]
            near = difflib.get_close_matches(stream.name, names, n=1) if stream.name not in names else []
            words += f'; did you mean "{stream.scope}/{near[0]}"?' if near else ""
    return StreamNotFoundError(f'{words} (a read makes a stream only with the option "{keys.CREATE_STREAM}" = true)')


def create_missing(options: Mapping[str, str]) -> bool:
    """Make the streams that aren't there, and their scopes, unless options forbid it.

    A stream that is made so has no schema, so none is made where options ask for one.

    Args:
        options: canonical options.

    Returns:
        Whether anything was made.

    Raises:
        ConfigurationError: an option about making a stream is malformed.
        ScopeNotFoundError: a scope isn't there, and must not be made.
    """
    may_scope = values.flag(keys.CREATE_SCOPE, options.get(keys.CREATE_SCOPE, "true"))
    may_stream = values.flag(keys.CREATE_STREAM, options.get(keys.CREATE_STREAM, "true"))
    wanted = options.get(keys.FORMAT, RAW).lower()
    if keys.SCHEMA_TYPE in options or SYNONYMS.get(wanted, wanted) not in (RAW, STRING, JSON):
        return False
    configuration, is_new = new_stream(options), False
    settings = statement_settings(options)
    controller = shared_client(settings).controller
    for stream in streams_of(options, settings):
        if may_scope and not controller.scope_exists(stream.scope):
            is_new = controller.create_scope(stream.scope) or is_new
        if may_stream and not controller.stream_exists(stream):
            is_new = controller.create_stream(stream, configuration) or is_new
    return is_new


def new_stream(options: Mapping[str, str]) -> StreamConfiguration:
    """What a stream will be like that a read or a write makes.

    Args:
        options: canonical options.

    Raises:
        ConfigurationError: an option about making a stream is malformed, or two contradict each other.
    """

    def number(key: str) -> int | None:
        return None if key not in options else values.number(key, options[key], least=1)

    segments, factor = number(keys.DEFAULT_SEGMENTS) or 1, number(keys.DEFAULT_FACTOR) or 2
    rate_of_bytes, rate_of_events = number(keys.DEFAULT_BYTES_RATE), number(keys.DEFAULT_EVENTS_RATE)
    if rate_of_bytes and rate_of_events:
        raise ConfigurationError(
            f'options "{keys.DEFAULT_BYTES_RATE}" and "{keys.DEFAULT_EVENTS_RATE}" can\'t be given together'
        )
    scaling = ScalingPolicy.fixed(segments)
    if rate_of_bytes:
        scaling = ScalingPolicy.by_kilobytes_per_second(
            max(1, rate_of_bytes // 1024), factor=factor, min_segments=segments
        )
    elif rate_of_events:
        scaling = ScalingPolicy.by_events_per_second(rate_of_events, factor=factor, min_segments=segments)
    milliseconds, size = number(keys.DEFAULT_RETENTION_MS), number(keys.DEFAULT_RETENTION_BYTES)
    retention = StreamConfiguration().retention
    if milliseconds:
        retention = RetentionPolicy.by_time(milliseconds)
    elif size:
        retention = RetentionPolicy.by_size(size)
    return StreamConfiguration(scaling=scaling, retention=retention)


def _kind(options: Mapping[str, str]) -> str:
    kind = options[keys.METADATA].strip().lower()
    if kind not in _SCHEMAS:
        raise ConfigurationError(
            f'option "metadata" must be StreamInfo, Watermarks or Streams, not "{options[keys.METADATA]}"'
            f"{did_you_mean(kind, ('StreamInfo', 'Watermarks', 'Streams'))}"
        )
    return kind
