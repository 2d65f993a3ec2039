"""A table's schema in the registry: its first one, the ones that come behind, and what decides about them."""

from __future__ import annotations

import json

from pyspark.sql.types import StructType

from pyspark_pravega.catalog.base import CatalogBase
from pyspark_pravega.catalog.properties import check_compatibility
from pyspark_pravega.catalog.statements import primary_keys
from pyspark_pravega.catalog.statements.evolution import check_still_readable, continued, revised, rule
from pyspark_pravega.catalog.statements.replacing import Replacing, without
from pyspark_pravega.catalog.statements.tables import schema_info
from pyspark_pravega.catalog.statements.uses import check_fields
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.log import create_ledger, open_ledger
from pyspark_pravega.connector.option_names import FORMAT, ROUTING_KEY
from pyspark_pravega.connector.table import COMPATIBILITY, PINNED_SCHEMA
from pyspark_pravega.errors import ConfigurationError, GroupNotFoundError, IncompatibleSchemaError
from pyspark_pravega.registry import SchemaInfo, VersionInfo
from pyspark_pravega.serde.formats import REGISTERED, SYNONYMS, Schema, registered_schema, schema_for


class Schemas:
    """Adds schemas to a table's group."""

    def __init__(self, base: CatalogBase, replacing: Replacing) -> None:
        """Serve a catalog.

        Args:
            base: the cluster, the registry, and what was looked up.
            replacing: finishes what a replacement has left.
        """
        self._base, self._replacing = base, replacing

    def register(
        self,
        stream: Stream,
        *,
        table_format: str,
        text: str | None = None,
        columns: StructType | None = None,
        compatibility: str | None = None,
    ) -> VersionInfo:
        """Give a stream its first schema, or its next one.

        Args:
            stream: the stream.
            table_format: `avro`, `json` or `protobuf`.
            text: the schema, Avro's or a JSON Schema; else `columns`.
            columns: a table's columns.
            compatibility: the policy of a group that is made.

        Returns:
            The schema's version.

        Raises:
            ConfigurationError: what is given doesn't go together.
            SchemaError: it isn't a schema, or the registry refuses it.
        """
        new_schema = schema_of(stream, table_format, text, columns)
        earlier = [one for one in self.earlier(stream, new_schema.type) if one.format == new_schema.format]
        if columns is not None:
            new_schema = continued(new_schema, earlier)
        new_schema.columns()
        check_still_readable(earlier, earlier[-1] if earlier else None, new_schema, stream=str(stream))
        ledger = open_ledger(self._base.client, stream)
        properties = {} if ledger is None else ledger.properties()
        primary_keys.check_key_schema(properties, new_schema.columns(), stream)
        if earlier:
            check_fields(stream, properties, earlier[-1].columns(), new_schema.columns())
        registry = self._base.registry_of(stream)
        scope, group = stream.scope, stream.name
        policy = check_compatibility(new_schema.format, {COMPATIBILITY: compatibility} if compatibility else {})
        new = registry.create_group(
            scope, group, serialization_format=REGISTERED[new_schema.format], compatibility=policy
        )
        try:
            version = self.add(stream, new_schema)
        except Exception:
            if new:
                registry.delete_group(scope, group)
            raise
        names = new_schema.columns().fieldNames()

        def changed(before: dict[str, str]) -> dict[str, str]:
            # A routing key of the bytes that events were so far goes with them.
            goes = not earlier and before.get(ROUTING_KEY) not in names
            gone = {PINNED_SCHEMA, ROUTING_KEY} if goes else {PINNED_SCHEMA}
            return {**without(before, gone), FORMAT: new_schema.format}

        create_ledger(self._base.client, stream).change_properties(changed)
        self._base.forget(stream)
        return version

    def set_compatibility(self, stream: Stream, policy: str) -> str:
        """Change the policy that decides about a group's next schemas.

        Args:
            stream: the stream.
            policy: its name.

        Returns:
            The policy so far.

        Raises:
            ConfigurationError: there is no such policy, or the stream has no schema.
        """
        definition = self._replacing.finish_left(self._base.definition(stream, age_s=0))
        before = definition.compatibility
        if before is None:
            raise ConfigurationError(
                f'stream "{stream}" has no schema that could be compatible: give it one with CALL register_schema'
            )
        wanted = check_compatibility(definition.format, {COMPATIBILITY: policy})
        self._base.registry_of(stream).update_compatibility(stream.scope, stream.name, wanted)
        self._base.forget(stream)
        return before

    def add(self, stream: Stream, schema: Schema) -> VersionInfo:
        """Make a schema the latest one of a stream's group.

        Raises:
            IncompatibleSchemaError: the group's policy forbids it.
        """
        registry = self._base.registry_of(stream)
        scope, group = stream.scope, stream.name
        history = registry.schemas(scope, group)
        newest = history[-1][1].id if history else -1
        try:
            version = registry.add_schema(scope, group, schema_info(schema))
            # To the registry objects whose properties stand in another order are the same.
            if version.id < newest or not self._is_kept(stream, version, schema):
                version = registry.add_schema(scope, group, schema_info(revised(schema, newest + 1)))
        except IncompatibleSchemaError:
            properties = registry.group(scope, group)
            types = {known.type for known, _ in history}
            if properties.serialization_format != REGISTERED[schema.format]:
                raise
            if schema.type not in types and not properties.allow_multiple_types:
                raise IncompatibleSchemaError(
                    f'the events of stream "{stream}" are of type {", ".join(sorted(types))}, and can\'t be of type '
                    f"{schema.type}, too: name the schema so"
                ) from None
            policy = properties.compatibility
            raise IncompatibleSchemaError(
                f'the compatibility policy of stream "{stream}" is {policy}, which forbids this change: it allows '
                f"{rule(policy)}. Change the table otherwise, or its policy: ALTER TABLE ... SET TBLPROPERTIES "
                "('compatibility' = 'AllowAny')"
            ) from None
        return version

    def _is_kept(self, stream: Stream, version: VersionInfo, schema: Schema) -> bool:
        """Whether a version of the group has just the columns of a schema that was added."""
        known = self._base.registry_of(stream).schemas(stream.scope, stream.name)
        kept = next(info for info, there in known if there.id == version.id)
        return _registered(kept).columns() == schema.columns()

    def earlier(self, stream: Stream, type_name: str) -> list[Schema]:
        """All schemas of a type that a stream's group has; none where there is no group."""
        try:
            known = self._base.registry_of(stream).schemas(stream.scope, stream.name, type_name)
        except GroupNotFoundError:
            return []
        return [_registered(info) for info, _ in known]


def schema_of(stream: Stream, table_format: str, text: str | None, columns: StructType | None) -> Schema:
    """The schema that a stream is to be given, by its text or by columns.

    Args:
        stream: the stream.
        table_format: `avro`, `json` or `protobuf`.
        text: the schema, Avro's or a JSON Schema; else `columns`.
        columns: a table's columns.

    Raises:
        ConfigurationError: what is given doesn't go together.
    """
    wanted = SYNONYMS.get(table_format.lower(), table_format.lower())
    if wanted not in REGISTERED:
        raise ConfigurationError(
            f'a schema is of format {", ".join(REGISTERED)}, not "{table_format}": streams of raw or string '
            "events have none"
        )
    if (text is None) == (columns is None):
        raise ConfigurationError(f'a schema for stream "{stream}" is given by its text or by columns, one of them')
    if columns is not None:
        return schema_for(wanted, columns, name=stream.name, namespace=stream.scope)
    assert text is not None
    if wanted == "protobuf":
        raise ConfigurationError("a Protobuf schema is no text: give columns, or register it in the registry")
    return _from_text(wanted, text, stream)


def _registered(info: SchemaInfo) -> Schema:
    return registered_schema(info.serialization_format, info.type, info.schema_data)


def _from_text(table_format: str, text: str, stream: Stream) -> Schema:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f'the schema for stream "{stream}" isn\'t JSON: {error}') from None
    name = f"{stream.scope}.{stream.name}"
    if table_format == "avro" and isinstance(document, dict):
        space = document.get("namespace")
        name = document.get("name", "")
        name = f"{space}.{name}" if space and "." not in name else name
    return registered_schema(REGISTERED[table_format], name, text.encode())
