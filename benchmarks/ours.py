"""What this package does, without Spark, in this process."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from benchmarks.events import ROUTING_KEY, SCHEMA, batches, make_rows
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import Bucket
from pyspark_pravega.client.segments.reading import read_range
from pyspark_pravega.connector.log.snapshot import take_snapshot
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.read.partitions import SlicePartition
from pyspark_pravega.connector.read.reader import BatchReader
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.connector.write.writer import BatchWriter
from pyspark_pravega.frames import framing
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

THREADS = 2
SEGMENTS = 4
_RAW = StructType([StructField("event", BinaryType())])


class Ours:
    """A scope with tables of the benchmark's events."""

    def __init__(self, catalog: Catalog, scope: str) -> None:
        self._catalog, self.scope = catalog, scope
        self._tables = 0

    def create_table(self, schema: StructType = SCHEMA, routing_key: str = ROUTING_KEY) -> TableDefinition:
        """A new table of `SEGMENTS` segments.

        Args:
            schema: its columns.
            routing_key: one of them.
        """
        self._tables += 1
        bucket = Bucket(columns=(routing_key,), buckets=SEGMENTS)
        return self._catalog.tables.create([self.scope], f"t{self._tables}", schema, [bucket], {})

    @contextmanager
    def fresh_stream(self) -> Iterator[str]:
        """The name of a new table, dropped afterwards: the sandbox keeps all events in its memory."""
        name = self.create_table().stream.name
        yield name
        self.drop_table(name)

    def fresh_checked(self, events: int) -> Callable[[], AbstractContextManager[str]]:
        """Fresh streams that must hold so many events when they are dropped.

        Args:
            events: how many.
        """

        @contextmanager
        def stage() -> Iterator[str]:
            with self.fresh_stream() as stream:
                yield stream
                count = self.read_events(stream)
                if count != events:
                    raise AssertionError(f"there are {count:,} events instead of {events:,}")

        return stage

    def drop_table(self, stream: str) -> None:
        """Delete a table with its events."""
        self._catalog.relations.drop([self.scope], stream)

    def write(self, stream: str, rows: pa.RecordBatch, events: int) -> int:
        """Write as one task and commit; returns the number of events."""
        definition = self._load(stream)
        writer = BatchWriter(definition, WriteOptions())
        writer.commit([writer.write(batches(rows, events))])
        return events

    def read_columns(self, stream: str, columns: Sequence[str]) -> int:
        """Decode columns of all events; returns the number of rows."""
        definition = self._load(stream)
        reader = BatchReader(definition, take_snapshot(self._catalog.client, definition.stream), columns)

        def count(partition: SlicePartition) -> int:
            return sum(batch.num_rows for batch in reader.read(partition))

        partitions = [part for part in reader.partitions() if isinstance(part, SlicePartition)]
        with ThreadPoolExecutor(THREADS) as threads:
            return sum(threads.map(count, partitions))

    def read_events(self, stream: str) -> int:
        """Read all bytes and find the events in them; returns their number."""
        return sum(self._each_segment(stream, _count_events))

    def read_bytes(self, stream: str) -> int:
        """Read all bytes and look at none; returns their number, frames included."""
        return sum(self._each_segment(stream, lambda pieces: sum(map(len, pieces))))

    def cpu_seconds(self) -> float:
        """User and system time of this process so far."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    def _each_segment(self, stream: str, use: Callable[[Iterator[memoryview]], int]) -> list[int]:
        definition, pool = self._load(stream), self._catalog.client.pool
        slices = take_snapshot(self._catalog.client, definition.stream).parts
        with ThreadPoolExecutor(THREADS) as threads:
            return list(
                threads.map(
                    lambda part: use(read_range(pool, definition.stream, part.segment_id, part.start, part.end)), slices
                )
            )

    def _load(self, stream: str) -> TableDefinition:
        return self._catalog.load_table([self.scope], stream)


@dataclass(frozen=True)
class TwoTables:
    """The same events in two tables of `SEGMENTS` segments: with columns, and as bytes."""

    ours: Ours
    decoded: str
    """The stream of the table with columns."""
    raw: str
    rows: pa.RecordBatch
    """The different rows."""
    payloads: pa.RecordBatch
    """The different rows as raw events."""


def make_two_tables(sandbox: Sandbox, scope: str, size: int, events: int) -> TwoTables:
    """Make the tables and fill them.

    Args:
        sandbox: the servers.
        scope: a new one.
        size: bytes of an event without its frame, on average.
        events: how many each table gets.
    """
    settings = Settings.resolve(
        {"controller-uri": sandbox.controller_uri, "schema-registry-uri": sandbox.schema_registry_uri, "timeout": "120"}
    )
    catalog = Catalog(settings)
    catalog.namespaces.create([scope])
    ours = Ours(catalog, scope)
    decoded = ours.create_table().stream.name
    codec = catalog.load_table([scope], decoded).for_writing()
    rows = make_rows(codec, size)
    ours.write(decoded, rows, events)
    raw = catalog.tables.create([scope], "raw", _RAW, [], {"format": "raw", "segments": str(SEGMENTS)})
    payloads = pa.RecordBatch.from_arrays([codec.encode(rows)], schema=raw.for_writing().schema)
    ours.write(raw.stream.name, payloads, events)
    return TwoTables(ours, decoded, raw.stream.name, rows, payloads)


def _count_events(pieces: Iterator[memoryview]) -> int:
    count, rest = 0, b""
    for piece in pieces:
        chunk: bytes | memoryview = rest + bytes(piece) if rest else piece
        frames = framing.split(chunk)
        count += len(frames.payloads)
        rest = bytes(memoryview(chunk)[frames.consumed :])
    return count
