"""What the tests of JSON and Protobuf share."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2

from pyspark_pravega.errors import SchemaNotFoundError
from pyspark_pravega.serde.codec import Codec
from pyspark_pravega.serde.encodings import WriterSchema
from pyspark_pravega.serde.json.json_codec import JsonCodec
from pyspark_pravega.serde.native.native_codec import faster
from pyspark_pravega.serde.protobuf.protobuf_codec import ProtobufCodec
from pyspark_pravega.serde.types import json_to_spark, protobuf_to_spark

FIXTURE = Path(__file__).parents[1] / "interop" / "fixture"


@dataclass
class Encodings:
    """Encoding ids from a dictionary."""

    schemas: dict[int, WriterSchema] = field(default_factory=lambda: {0: WriterSchema()})

    def writer_schema(self, encoding_id: int) -> WriterSchema:
        if encoding_id not in self.schemas:
            raise SchemaNotFoundError(f"there is no encoding {encoding_id}")
        return self.schemas[encoding_id]


def fixture_events(name: str) -> pa.Array:
    lines = (FIXTURE / f"{name}.b64").read_text().splitlines()
    return pa.array([base64.b64decode(line) for line in lines], type=pa.binary())


def fixture_schema(name: str) -> tuple[str, bytes]:
    """Type and data of a fixture's schema."""
    info = json.loads((FIXTURE / f"{name}.registry.json").read_text())["schemas"][0]["schemaInfo"]
    return info["type"], base64.b64decode(info["schemaData"])


def fixture_event(i: int) -> dict[str, Any]:
    """What `interop/README.md` says of event i."""
    return {
        "id": i,
        "name": f"name-{i}",
        "value": i / 2,
        "flag": i % 2 == 0,
        "payload": bytes((i + k) & 0xFF for k in range(i % 5)),
        "tags": [f"t{k}" for k in range(i % 4)],
        "attrs": [(f"a{k}", 10 * i + k) for k in range(i % 3)],
        "point": {"x": i, "y": -i},
        "note": None if i % 7 == 0 else f"note é€ {i}",
    }


def json_codec(properties: dict[str, Any], *required: str, write: int | None = None, **more: Any) -> Codec:
    text = json.dumps({"type": "object", "properties": properties, "required": list(required), **more})
    return faster(JsonCodec(text, json_to_spark(text), Encodings(), write))


def texts(*values: Any) -> pa.Array:
    """Values as JSON events; bytes are taken as they are."""
    return pa.array([v if isinstance(v, bytes) else json.dumps(v).encode() for v in values], type=pa.binary())


def file_set(text_format: str) -> bytes:
    """A FileDescriptorSet with one file, from its text format."""
    from google.protobuf import text_format as form

    files = descriptor_pb2.FileDescriptorSet()
    form.Parse(f"file {{ {text_format} }}", files)
    return files.SerializeToString()


def protobuf_codec(data: bytes, name: str = "", write: int | None = None, **encodings: Any) -> Codec:
    return faster(ProtobufCodec(data, name, protobuf_to_spark(data, name), Encodings(**encodings), write))
