"""The schemas that a stream's events were written with, from the schema registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache

from pyspark_pravega.client import Stream
from pyspark_pravega.connector.shared import shared_registry
from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.registry import EncodingInfo, SchemaInfo, VersionInfo
from pyspark_pravega.serde import compression
from pyspark_pravega.serde.encodings import WriterSchema
from pyspark_pravega.settings import Settings

_KEPT = 4096
_IDS: dict[tuple[Settings, Stream, int, int, str], int] = {}
"""Encoding ids by schema and codec. A group that is there never changes them."""


_CHECK: ContextVar[Callable[[int], None] | None] = ContextVar("check", default=None)


@contextmanager
def looks_checked(check: Callable[[int], None]) -> Iterator[None]:
    """Have the encoding ids checked that are looked up in a `with` block.

    Args:
        check: called with each, before events of it are decoded; what it raises ends the decoding.
    """
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


@dataclass(frozen=True)
class RegistryEncodings:
    """Looks encoding ids up in the group of a stream; can be pickled, and connects where it is used."""

    settings: Settings
    stream: Stream
    group_made: int | None = None
    """When the group's first schema was added (ms since 1970). Ids restart at 0 when a group is deleted and made again,
    so what is known of them is known of one incarnation of the group; None: nothing is kept."""
    known: tuple[tuple[int, WriterSchema], ...] = ()
    """What needn't be looked up: the table's own schema."""

    def writer_schema(self, encoding_id: int) -> WriterSchema:
        """The schema and codec behind an encoding id. A process asks the registry once for each.

        Args:
            encoding_id: the id in an event's header.

        Raises:
            SchemaNotFoundError: the group doesn't know the id.
            RegistryUnavailableError: the registry doesn't answer.
        """
        for known_id, schema in self.known:
            if known_id == encoding_id:
                return schema
        info = self.looked_up(encoding_id)
        check = _CHECK.get()
        if check is not None:
            check(encoding_id)
        return written_with(info.schema, info.codec)

    def looked_up(self, encoding_id: int) -> EncodingInfo:
        """What the registry knows of an encoding id, see `writer_schema`."""
        if self.group_made is None:
            return _look_up(self.settings, self.stream, encoding_id)
        return _kept(self.settings, self.stream, self.group_made, encoding_id)


@lru_cache(maxsize=_KEPT)
def _kept(settings: Settings, stream: Stream, group_made: int, encoding_id: int) -> EncodingInfo:
    del group_made
    return _look_up(settings, stream, encoding_id)


def _look_up(settings: Settings, stream: Stream, encoding_id: int) -> EncodingInfo:
    registry = shared_registry(settings)
    if registry is None:
        raise ConfigurationError(
            f'the events of stream "{stream}" have schemas in a schema registry: set schema-registry-uri '
            "(or PRAVEGA_SCHEMA_REGISTRY_URI)"
        )
    return registry.encoding(stream.scope, stream.name, encoding_id)


def written_with(schema: SchemaInfo, codec: str) -> WriterSchema:
    """What an encoding id stands for.

    Args:
        schema: the registered schema.
        codec: as of `WriterSchema`.
    """
    return WriterSchema(
        schema_text=schema.text if schema.serialization_format in ("Avro", "Json") else "",
        codec=codec,
        type=schema.type,
        schema_data=schema.schema_data,
    )


def reading_encodings(
    settings: Settings, stream: Stream, registered: tuple[SchemaInfo, VersionInfo], group_made: int
) -> RegistryEncodings:
    """Encodings that know the ids by which this process has written a schema, so that workers needn't ask for them.

    Args:
        settings: where the registry is.
        stream: the stream.
        registered: the schema.
        group_made: as of `RegistryEncodings`.
    """
    schema, version = registered
    ids = ((_IDS.get((settings, stream, group_made, version.id, codec)), codec) for codec in compression.CODECS)
    known = tuple((known_id, written_with(schema, codec)) for known_id, codec in ids if known_id is not None)
    return RegistryEncodings(settings, stream, group_made, known)


def writing_encodings(
    settings: Settings, stream: Stream, registered: tuple[SchemaInfo, VersionInfo], codec: str, group_made: int
) -> tuple[int, RegistryEncodings]:
    """The encoding id to write a schema with, and encodings that know it.

    Args:
        settings: where the registry is.
        stream: the stream.
        registered: the schema.
        codec: as of `WriterSchema`.
        group_made: as of `RegistryEncodings`.

    Raises:
        RegistryUnavailableError: the registry doesn't answer.
    """
    schema, version = registered
    key = (settings, stream, group_made, version.id, codec)
    encoding_id = _IDS.get(key)
    if encoding_id is None:
        registry = shared_registry(settings)
        assert registry is not None
        if codec:
            registry.add_codec(stream.scope, stream.name, codec)
        encoding_id = registry.encoding_id(stream.scope, stream.name, version, codec)
        if len(_IDS) >= _KEPT:
            _IDS.clear()
        _IDS[key] = encoding_id
    known = ((encoding_id, written_with(schema, codec)),)
    return encoding_id, RegistryEncodings(settings, stream, group_made, known)
