"""What the tests of the Avro codec share: a source of schemas, and fastavro as the second opinion."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import Any

import fastavro
import pyarrow as pa

from pyspark_pravega.errors import SchemaNotFoundError
from pyspark_pravega.serde.avro.avro_codec import AvroCodec
from pyspark_pravega.serde.codec import Codec
from pyspark_pravega.serde.encodings import WriterSchema
from pyspark_pravega.serde.native.native_codec import faster
from pyspark_pravega.serde.types import avro_to_spark


@dataclass
class Encodings:
    """Encoding ids from a dictionary."""

    schemas: dict[int, WriterSchema] = field(default_factory=dict)

    def writer_schema(self, encoding_id: int) -> WriterSchema:
        if encoding_id not in self.schemas:
            raise SchemaNotFoundError(f"there is no encoding {encoding_id}")
        return self.schemas[encoding_id]


def record(*fields: dict[str, Any], name: str = "R") -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


def column(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def datum(schema: str, value: Any) -> bytes:
    """A datum by fastavro."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return out.getvalue()


def event(encoding_id: int, body: bytes) -> bytes:
    return b"\x01" + encoding_id.to_bytes(4, "big") + body


def events(*payloads: bytes) -> pa.Array:
    return pa.array(payloads, type=pa.binary())


def codec(reader: str, *writers: str, write: int | None = 0, compression: str = "") -> Codec:
    """A codec as tables use it. Encoding ids 0, 1, ... are of the writers' schemas; without any, of the reader's."""
    schemas = {i: WriterSchema(schema_text=text, codec=compression) for i, text in enumerate(writers or (reader,))}
    return faster(AvroCodec(reader, avro_to_spark(reader), Encodings(schemas), write))


def read(reader: str, writer: str, *values: Any) -> list[dict[str, Any]]:
    """Values written by fastavro in one schema, as our codec reads them in another."""
    table_codec = codec(reader, writer, write=None)
    batch = table_codec.decode(events(*(event(0, datum(writer, value)) for value in values)), table_codec.schema.names)
    batch.validate(full=True)
    assert batch.schema.equals(table_codec.schema, check_metadata=True)
    return list(batch.to_pylist())
