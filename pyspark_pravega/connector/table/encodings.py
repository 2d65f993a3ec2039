"""The schemas that a stream's events were written with, from the schema registry."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pyspark_pravega.client import Stream
from pyspark_pravega.connector.shared import shared_registry
from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.serde.encodings import WriterSchema
from pyspark_pravega.settings import Settings

_KEPT = 4096


@dataclass(frozen=True)
class RegistryEncodings:
    """Looks encoding ids up in the group of a stream; can be pickled, and connects where it is used."""

    settings: Settings
    stream: Stream
    group_made: int | None = None
    """When the group's first schema was added (ms since 1970). Ids restart at 0 when a group is deleted and made again,
    so what is known of them is known of one incarnation of the group; None: nothing is kept."""

    def writer_schema(self, encoding_id: int) -> WriterSchema:
        """The schema and codec behind an encoding id. A process asks the registry once for each.

        Args:
            encoding_id: the id in an event's header.

        Raises:
            SchemaNotFoundError: the group doesn't know the id.
            RegistryUnavailableError: the registry doesn't answer.
        """
        if self.group_made is None:
            return _look_up(self.settings, self.stream, encoding_id)
        return _kept(self.settings, self.stream, self.group_made, encoding_id)


@lru_cache(maxsize=_KEPT)
def _kept(settings: Settings, stream: Stream, group_made: int, encoding_id: int) -> WriterSchema:
    del group_made
    return _look_up(settings, stream, encoding_id)


def _look_up(settings: Settings, stream: Stream, encoding_id: int) -> WriterSchema:
    registry = shared_registry(settings)
    if registry is None:
        raise ConfigurationError(
            f'the events of stream "{stream}" have schemas in a schema registry: set schema-registry-uri '
            "(or PRAVEGA_SCHEMA_REGISTRY_URI)"
        )
    found = registry.encoding(stream.scope, stream.name, encoding_id)
    schema = found.schema
    return WriterSchema(
        schema_text=schema.text if schema.serialization_format in ("Avro", "Json") else "",
        codec=found.codec,
        type=schema.type,
        schema_data=schema.schema_data,
    )
