"""Tables of this package's own, for the official programs to read and to be compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from readers import rows_read

from pyspark_pravega.client import Stream
from pyspark_pravega.client.segments.reading import read_range
from pyspark_pravega.connector.log.snapshot import take_snapshot
from pyspark_pravega.connector.log.tail import take_tail
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.read.reader import BatchReader
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.connector.write.writer import BatchWriter
from pyspark_pravega.frames import framing
from pyspark_pravega.settings import Settings

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
ODD = ["", " ", "\t", "\0", "a\0", "\uffff", "\ufeff", "é", "e\u0301", "日本語", "🚀", FAMILY, "k" * 5000, "🚀" * 999]
KEYS = [*ODD, *(f"{'🚀é日x'[i % 4] * (i % 40)}{i}" for i in range(10_000 - len(ODD)))]
"""Routing keys of all sorts, emoji among them."""


def insert(definition: TableDefinition, rows: Sequence[dict[str, Any]]) -> None:
    """What INSERT does, as one task."""
    writer = BatchWriter(definition, WriteOptions())
    batch = pa.RecordBatch.from_pylist(list(rows), schema=definition.for_writing().schema)
    writer.commit([writer.write(iter([batch]))])


def select(definition: TableDefinition, columns: Sequence[str]) -> list[dict[str, Any]]:
    """What SELECT does, partition by partition."""
    snapshot = take_snapshot(shared_client(definition.settings), definition.stream)
    reader = BatchReader(definition, snapshot, columns)
    return rows_read(reader)


def events_by_segment(settings: Settings, stream: Stream) -> dict[int, list[bytes]]:
    """Payloads as they lie in the segments."""
    client = shared_client(settings)
    tail = take_tail(client, stream)
    assert tail is not None
    by_segment = {}
    for part in tail.parts:
        data = b"".join(read_range(client.pool, stream, part.segment_id, part.start, part.end))
        frames = framing.split(data)
        assert frames.consumed == len(data)
        by_segment[part.segment_id] = frames.payloads.to_pylist()
    return by_segment
