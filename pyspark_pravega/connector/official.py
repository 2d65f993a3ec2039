"""What Pravega's own Spark connector does beyond reading and writing: making streams, and telling of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_pravega import values
from pyspark_pravega.client import Client, RetentionPolicy, ScalingPolicy, StreamConfiguration
from pyspark_pravega.client.positions import watermarks
from pyspark_pravega.connector import options as keys
from pyspark_pravega.connector.options import stream_of, streams_of
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.errors import ConfigurationError, did_you_mean
from pyspark_pravega.settings import Settings

_SCHEMAS = {
    "streaminfo": StructType(
        [StructField("head_stream_cut", StringType(), False), StructField("tail_stream_cut", StringType(), False)]
    ),
    "watermarks": StructType(
        [
            StructField("lower_time", LongType(), False),
            StructField("upper_time", LongType(), False),
            StructField("stream_cut", StringType(), False),
        ]
    ),
    "streams": StructType([StructField("scope", StringType(), False), StructField("stream", StringType(), False)]),
}


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


def without_official(options: Mapping[str, str]) -> dict[str, str]:
    """A write's options, with those of Pravega's own Spark connector told in our words.

    A commit here always waits until it can be read, so the options about that have no effect.

    Args:
        options: canonical options.

    Raises:
        ConfigurationError: `exactly-once` is neither true nor false, or contradicts `writer-mode`.
    """
    ours = {key: value for key, value in options.items() if key not in keys.OFFICIAL_WRITE_KEYS}
    if keys.ONCE in options:
        mode = keys.EXACTLY_ONCE if values.flag(keys.ONCE, options[keys.ONCE]) else keys.AT_LEAST_ONCE
        if ours.setdefault(keys.WRITER_MODE, mode) != mode:
            raise ConfigurationError(
                f'options "{keys.ONCE}" = {options[keys.ONCE]} and "{keys.WRITER_MODE}" = {ours[keys.WRITER_MODE]} '
                "contradict each other: give one of them"
            )
    return ours


def create_missing(options: Mapping[str, str]) -> None:
    """Make the scope and the stream if they aren't there and options allow it: never unless asked to.

    Args:
        options: canonical options.

    Raises:
        ConfigurationError: an option about making a stream is malformed.
    """
    may_scope = values.flag(keys.CREATE_SCOPE, options.get(keys.CREATE_SCOPE, "false"))
    may_stream = values.flag(keys.CREATE_STREAM, options.get(keys.CREATE_STREAM, "false"))
    if not may_scope and not may_stream:
        return
    configuration = _configuration(options)
    settings = Settings.resolve(options)
    client: Client = shared_client(settings)
    for stream in streams_of(options, settings):
        if may_scope:
            client.controller.create_scope(stream.scope)
        if may_stream and not client.controller.stream_exists(stream):
            client.controller.create_stream(stream, configuration)


def _configuration(options: Mapping[str, str]) -> StreamConfiguration:
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
