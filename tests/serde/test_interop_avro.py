"""1000 events that the official Java serializers wrote: every field is what `interop/README.md` says."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from pathlib import Path

import pyarrow as pa
import pytest
from avro_tools import Encodings

from pyspark_pravega.serde.avro.avro_codec import AvroCodec
from pyspark_pravega.serde.encodings import WriterSchema
from pyspark_pravega.serde.types import avro_to_spark

FIXTURE = Path(__file__).parents[1] / "interop" / "fixture"


@pytest.fixture(scope="module")
def payloads() -> pa.Array:
    lines = (FIXTURE / "avro.b64").read_text().splitlines()
    return pa.array([base64.b64decode(line) for line in lines], type=pa.binary())


@pytest.fixture(scope="module")
def codec() -> AvroCodec:
    registry = json.loads((FIXTURE / "avro.registry.json").read_text())
    text = base64.b64decode(registry["schemas"][0]["schemaInfo"]["schemaData"]).decode()
    return AvroCodec(text, avro_to_spark(text), Encodings({0: WriterSchema(schema_text=text)}), 0)


def test_every_field_of_every_event(payloads: pa.Array, codec: AvroCodec) -> None:
    rows = codec.decode(payloads, codec.schema.names).to_pylist()
    assert sorted(row["id"] for row in rows) == list(range(1000))
    for row in rows:
        i = row["id"]
        assert row == {
            "id": i,
            "name": f"name-{i}",
            "value": i / 2,
            "flag": i % 2 == 0,
            "payload": bytes((i + k) & 0xFF for k in range(i % 5)),
            "tags": [f"t{k}" for k in range(i % 4)],
            "attrs": [(f"a{k}", 10 * i + k) for k in range(i % 3)],
            "point": {"x": i, "y": -i},
            "note": None if i % 7 == 0 else f"note é€ {i}",
            "day": datetime.date(1970, 1, 1) + datetime.timedelta(days=20_000 + i),
            "at": datetime.datetime(2023, 11, 14, 22, 13, 20, i, tzinfo=datetime.UTC),
            "price": decimal.Decimal(i).scaleb(-2),
        }


def test_rows_are_written_as_java_writes_them(payloads: pa.Array, codec: AvroCodec) -> None:
    assert codec.encode(codec.decode(payloads, codec.schema.names)).equals(payloads)
