"""What the schema registry knows of a stream: which schema its events have."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_pravega.client import Stream
from pyspark_pravega.connector.option_names import SCHEMA_TYPE
from pyspark_pravega.connector.shared import shared_registry
from pyspark_pravega.connector.table.properties import TableProperties
from pyspark_pravega.errors import (
    ConfigurationError,
    GroupNotFoundError,
    UnsupportedOperationError,
    did_you_mean,
)
from pyspark_pravega.registry import GroupProperties, SchemaInfo, SchemaRegistry, VersionInfo
from pyspark_pravega.serde.formats import REGISTERED
from pyspark_pravega.settings import Settings
from pyspark_pravega.together import together

_History = list[tuple[SchemaInfo, VersionInfo, int]]
"""As of `SchemaRegistry.history`."""
_KEPT = 4096
"""Of so many groups it is remembered what they were created with."""


@dataclass(frozen=True, kw_only=True)
class Registered:
    """What the registry knows of a stream."""

    schema: SchemaInfo
    version: VersionInfo
    multiple: bool
    """Whether there may be events of other types."""
    group_made: int
    """When the first schema was added, in ms since 1970."""


def registered_in(
    settings: Settings,
    stream: Stream,
    properties: TableProperties,
    type_name: str | None,
    custom: str,
) -> Registered | None:
    """What the registry knows of a stream's events; None where they have no schema there.

    Args:
        settings: where the registry is.
        stream: the stream.
        properties: the table's properties.
        type_name: the wanted events' type; None for all.
        custom: a custom format, if it is one.

    Raises:
        ConfigurationError: there is no registry, or there are no events of that type.
        UnsupportedOperationError: there is no schema, or none that can be read.
    """
    if custom and properties.encoding_header is False:
        return None
    registry = shared_registry(settings)
    if registry is None:
        if properties.format in REGISTERED:
            raise ConfigurationError(
                f'the schema of stream "{stream}" is in a schema registry: set schema-registry-uri '
                "(or PRAVEGA_SCHEMA_REGISTRY_URI)"
            )
        return None
    try:
        group, history = _group_and_history(registry, stream)
    except GroupNotFoundError:
        return None
    if not history:
        raise UnsupportedOperationError(
            f'group "{stream.name}" in namespace "{stream.scope}" of the schema registry has no schema yet: '
            "add one, or delete the group to read the stream's events as bytes"
        )
    of_type = [entry for entry in history if type_name in (None, entry[0].type)]
    # The last schema that counts, where later ones don't yet.
    pinned = properties.pinned_schema
    if pinned is not None:
        of_type = [entry for entry in of_type if entry[1].id <= pinned] or of_type
    if not of_type:
        types = {schema.type for schema, _, _ in history}
        raise ConfigurationError(
            f'stream "{stream}" has no events of type "{type_name}", which "{SCHEMA_TYPE}" asks for'
            f"{did_you_mean(type_name or '', types)}"
        )
    schema, version, _ = of_type[-1]
    if schema.serialization_format not in REGISTERED.values() and not custom:
        raise UnsupportedOperationError(
            f'the events of stream "{stream}" are in format {group.serialization_format}; '
            "Avro, JSON and Protobuf can be read, raw events of streams without a group, and what a class of your own "
            'decodes: option "format" = "package.module:Class"'
        )
    return Registered(
        schema=schema,
        version=version,
        multiple=group.allow_multiple_types,
        group_made=history[0][2],
    )


def _group_and_history(registry: SchemaRegistry, stream: Stream) -> tuple[GroupProperties, _History]:
    """A stream's group, and all of its schemas. What the group was created with doesn't change, so that is asked for
    once; its policy may have been replaced meanwhile.
    """
    key = namespace, name = stream.scope, stream.name
    known = registry.known_groups.get(key)
    if known is None:
        group, history = together(lambda: registry.group(namespace, name), lambda: registry.history(namespace, name))
    else:
        group, before = known
        history = registry.history(namespace, name)
        # One that was made again has another first schema.
        if not history or history[0] != before[0]:
            group = registry.group(namespace, name)
    if history:
        if len(registry.known_groups) >= _KEPT:
            registry.known_groups.clear()
        registry.known_groups[key] = group, history[:1]
    return group, history
