"""The schemas that a stream's events were written with, from the schema registry."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_pravega.client import Stream
from pyspark_pravega.connector.shared import shared_registry
from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.serde.encodings import WriterSchema
from pyspark_pravega.settings import Settings


@dataclass(frozen=True)
class RegistryEncodings:
    """Looks encoding ids up in the group of a stream; can be pickled, and connects where it is used."""

    settings: Settings
    stream: Stream

    def writer_schema(self, encoding_id: int) -> WriterSchema:
        """The schema and codec behind an encoding id.

        Args:
            encoding_id: the id in an event's header.

        Raises:
            SchemaNotFoundError: the group doesn't know the id.
            RegistryUnavailableError: the registry doesn't answer.
        """
        registry = shared_registry(self.settings)
        if registry is None:
            raise ConfigurationError(
                f'the events of stream "{self.stream}" have schemas in a schema registry: set schema-registry-uri '
                "(or PRAVEGA_SCHEMA_REGISTRY_URI)"
            )
        found = registry.encoding(self.stream.scope, self.stream.name, encoding_id)
        schema = found.schema
        of_text = schema.serialization_format in ("Avro", "Json")
        return WriterSchema(
            schema_text=schema.text if of_text else "",
            codec=found.codec,
            type=schema.type,
            schema_data=schema.schema_data,
        )
