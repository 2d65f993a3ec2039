"""Events of the official Java serializers, read by SQL where a task reads many batches of them."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from format_tools import FIXTURE, fixture_event, fixture_events, fixture_schema
from pyspark.sql import Row, SparkSession

from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.registry import SchemaInfo, SchemaRegistry

pytestmark = [pytest.mark.server, pytest.mark.spark]


def as_spark_has_it(name: str, number: int) -> tuple[object, ...]:
    event = fixture_event(number)
    # Java's schema says "array of integer" of a byte[].
    payload = list(event["payload"]) if name == "json" else event["payload"]
    point = event["point"]
    assert isinstance(point, dict)
    return (
        number, event["name"], event["value"], event["flag"], payload, event["tags"],
        dict(event["attrs"]), Row(**point), event["note"],
    )  # fmt: skip


@pytest.mark.parametrize("name", ["avro", "json", "proto"])
@pytest.mark.in_turn
def test_events_written_twice(
    spark: SparkSession, client: Client, registry: SchemaRegistry, namespace: str, name: str
) -> None:
    scope = namespace.removeprefix("pravega.").replace("_", "-")
    stream = Stream(scope, "readings")
    kind = json.loads((FIXTURE / f"{name}.registry.json").read_text())["group"]["serializationFormat"]
    type_name, data = fixture_schema(name)
    serialization_format = kind["serializationFormat"]
    compatibility = "Backward" if name == "avro" else "AllowAny"
    registry.create_group(scope, stream.name, serialization_format=serialization_format, compatibility=compatibility)
    schema = SchemaInfo(type=type_name, serialization_format=serialization_format, schema_data=data)
    version = registry.add_schema(scope, stream.name, schema)
    assert registry.encoding_id(scope, stream.name, version) == 0, "the fixture's events have the id 0"
    client.controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy.fixed(2)))
    events = fixture_events(name)
    keys = pa.array([f"k{number % 8}" for number in range(len(events))])
    for _ in range(2):
        with client.writer(stream) as writer:
            writer.write_batch(events, keys)

    columns = "id, name, value, flag, payload, tags, attrs, point, note"
    rows = spark.sql(f"SELECT {columns} FROM {namespace}.readings ORDER BY id").collect()

    expected = [as_spark_has_it(name, number) for number in range(len(events)) for _ in range(2)]
    assert [tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in rows] == expected
    totals = spark.sql(f"SELECT sum(point.x), min(point.y), count(attrs['a1']), max(note) FROM {namespace}.readings")
    count = len(events)
    assert totals.first() == (
        count * (count - 1),
        1 - count,
        2 * sum(number % 3 > 1 for number in range(count)),
        max(f"note é€ {number}" for number in range(count) if number % 7),
    )
