"""What the schema registry keeps: groups, schemas, versions, encodings; as values, and as its JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CREATION = "pyspark-pravega.creation"
"""The property of a group that holds a mark of the call that made it, so that this call knows its own group."""


@dataclass(frozen=True, kw_only=True)
class GroupProperties:
    """What a group was created with."""

    serialization_format: str
    """`Avro`, `Protobuf`, `Json`, `Any`, or the full type name of a custom format."""
    compatibility: str
    """The policy's name: `AllowAny`, `DenyAll`, `Backward`, ..., or `Advanced`."""
    allow_multiple_types: bool = False
    """Whether the group takes schemas of more than one type (record name)."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Free text of the creator's."""
    creation: str = field(default="", compare=False)
    """The mark of the call that made it, if it was a call of this package."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> GroupProperties:
        """Read the registry's answer."""
        properties = dict(value.get("properties") or {})
        creation = properties.pop(CREATION, "")
        return cls(
            serialization_format=_format_name(value["serializationFormat"]),
            compatibility=value["compatibility"]["policy"],
            allow_multiple_types=value["allowMultipleTypes"],
            properties=properties,
            creation=creation,
        )


@dataclass(frozen=True, kw_only=True)
class SchemaInfo:
    """A schema as it was registered."""

    type: str
    """The name of the schema's object: an Avro record's full name, a Protobuf message's."""
    serialization_format: str
    """`Avro`, `Protobuf`, `Json`, `Any`, or the full type name of a custom format."""
    schema_data: bytes
    """The schema itself: UTF-8 text for Avro and JSON, a FileDescriptorSet for Protobuf."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Free text of the creator's; no part of the schema's identity."""

    @property
    def text(self) -> str:
        """The schema as text (Avro and JSON)."""
        return self.schema_data.decode()

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SchemaInfo:
        """Read the registry's answer."""
        return cls(
            type=value["type"],
            serialization_format=_format_name(value["serializationFormat"]),
            schema_data=base64.b64decode(value["schemaData"]),
            properties=dict(value.get("properties") or {}),
        )

    def to_json(self) -> dict[str, Any]:
        """The request body that registers it."""
        return {
            "type": self.type,
            "serializationFormat": format_json(self.serialization_format),
            "schemaData": base64.b64encode(self.schema_data).decode(),
            "properties": dict(self.properties),
        }


@dataclass(frozen=True, kw_only=True)
class VersionInfo:
    """A schema's place in its group."""

    type: str
    """The schema's type, see SchemaInfo."""
    serialization_format: str
    """The schema's format, see SchemaInfo."""
    version: int
    """0, 1, 2, ... within the schemas of that format and type."""
    id: int
    """0, 1, 2, ... within the group; begins anew when the group is deleted and created again."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> VersionInfo:
        """Read the registry's answer."""
        return cls(
            type=value["type"],
            serialization_format=_format_name(value["serializationFormat"]),
            version=value["version"],
            id=value["id"],
        )

    def to_json(self) -> dict[str, Any]:
        """The request form; `serializationFormat`, which the swagger file lacks, is required."""
        return {
            "type": self.type,
            "serializationFormat": self.serialization_format,
            "version": self.version,
            "id": self.id,
        }


@dataclass(frozen=True, kw_only=True)
class EncodingInfo:
    """What an encoding id in an event's header stands for."""

    schema: SchemaInfo
    """The schema the event was written with."""
    version: VersionInfo
    """Its version."""
    codec: str = ""
    """The name of the compression of the event's body; `""` is none."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> EncodingInfo:
        """Read the registry's answer."""
        return cls(
            schema=SchemaInfo.from_json(value["schemaInfo"]),
            version=VersionInfo.from_json(value["versionInfo"]),
            codec=(value.get("codecType") or {}).get("name") or "",
        )


BUILT_IN_FORMATS = frozenset({"Avro", "Protobuf", "Json", "Any"})


def format_json(name: str) -> dict[str, str]:
    """A format's request form: a name the registry doesn't know is the full type name of a custom one."""
    if name in BUILT_IN_FORMATS:
        return {"serializationFormat": name}
    return {"serializationFormat": "Custom", "fullTypeName": name}


def _format_name(value: Any) -> str:
    # VersionInfo carries the bare full type name, everything else an object.
    if isinstance(value, str):
        return value
    name = value.get("fullTypeName") or value["serializationFormat"]
    return str(name)


def schemas_from_json(answer: Any) -> list[tuple[SchemaInfo, VersionInfo]]:
    """Schemas and versions, oldest first, of an answer's JSON."""
    both = [
        (SchemaInfo.from_json(entry["schemaInfo"]), VersionInfo.from_json(entry["versionInfo"]))
        for entry in answer.get("schemas") or []
    ]
    return sorted(both, key=lambda entry: entry[1].id)


History = list[tuple[SchemaInfo, VersionInfo, int]]
"""Schemas of a group, their versions, and when they were added (ms since 1970), oldest first."""


def history_from_json(answer: Any) -> History:
    """Schemas, versions and times (ms since 1970), oldest first, of an answer's JSON."""
    entries = [
        (
            SchemaInfo.from_json(entry["schemaInfo"]),
            VersionInfo.from_json(entry["versionInfo"]),
            int(entry.get("timestamp") or 0),
        )
        for entry in answer.get("history") or []
    ]
    return sorted(entries, key=lambda entry: entry[1].id)


def page_from_json(answer: Any) -> tuple[dict[str, GroupProperties], str | None]:
    """Groups by name, and where the next page begins, of an answer's JSON."""
    groups = {name: GroupProperties.from_json(value) for name, value in (answer.get("groups") or {}).items()}
    return groups, answer.get("continuationToken")
