"""A routing key leads to the same segment here and in the Java client, also after the stream has been scaled."""

from __future__ import annotations

import base64
import itertools
import time

import pyarrow as pa
import pytest
from interop_tools import KEYS, events_by_segment, insert, select
from pyspark.sql.types import StringType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import Bucket
from pyspark_pravega.client import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.names import segment_epoch
from pyspark_pravega.client.routing import key_fractions, segment_indexes
from pyspark_pravega.settings import Settings
from tests.jars.java_client import JavaPrograms

pytestmark = [pytest.mark.server, pytest.mark.dropped]

SEGMENTS = 5


def make_uneven(catalog: Catalog, stream: Stream) -> None:
    """Replace a stream's middle segment by three of different sizes."""
    controller = catalog.client.controller
    ranges = controller.current_segments(stream).ranges
    middle = ranges[SEGMENTS // 2]
    width = middle.max_key - middle.min_key
    borders = [middle.min_key, middle.min_key + width / 16, middle.min_key + width / 2, middle.max_key]
    parts = list(itertools.pairwise(borders))
    epoch = controller.scale(stream, [middle.segment_id], parts, now_ms=time.time_ns() // 1_000_000)
    while not controller.is_scaled(stream, epoch):
        time.sleep(0.05)


def segments_by_java(catalog: Catalog, java: JavaPrograms, stream: Stream) -> dict[str, int]:
    """Key to the segment that Java's client chose for it."""
    lines = [base64.b64encode(key.encode()).decode() for key in KEYS]
    java.run("interop.RoutingWrite", stream.scope, stream.name, stdin="\n".join(lines) + "\n")
    return {
        event.decode(): segment_id
        for segment_id, events in events_by_segment(catalog.settings, stream).items()
        for event in events
    }


def test_every_key_leads_to_the_segment_that_java_chooses(
    catalog: Catalog, settings: Settings, scope: str, java: JavaPrograms
) -> None:
    assert len(set(KEYS)) == 10_000
    theirs = Stream(scope, "theirs")
    catalog.client.controller.create_stream(theirs, StreamConfiguration(scaling=ScalingPolicy(min_segments=SEGMENTS)))
    columns = StructType([StructField("key", StringType(), nullable=False)])
    bucket = Bucket(columns=("key",), buckets=SEGMENTS)
    table = catalog.tables.create([scope], "ours", columns, [bucket], {})
    make_uneven(catalog, theirs)
    make_uneven(catalog, table.stream)

    chosen = segments_by_java(catalog, java, theirs)
    insert(table, [{"key": key} for key in KEYS])

    ranges = catalog.client.controller.current_segments(theirs).ranges
    computed = [ranges[index].segment_id for index in segment_indexes(key_fractions(pa.array(KEYS)), ranges)]
    assert dict(zip(KEYS, computed, strict=True)) == chosen
    assert {row["key"]: row["_segment"] for row in select(table, ["key", "_segment"])} == chosen
    assert {segment_epoch(segment) for segment in chosen.values()} == {0, 1}
    assert len(set(chosen.values())) == len(ranges) == SEGMENTS + 2
