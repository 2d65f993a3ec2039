"""Reads without Spark: columns, metadata, large events, and bytes that are no events."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from client_tools import append, framed
from connector_tools import raw_table
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log.snapshot import take_snapshot
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.read import reader
from pyspark_pravega.connector.read.reader import OFFICIAL_COLUMNS, ROW_MARKER, BatchReader, output_schema
from pyspark_pravega.connector.table.definition import METADATA_COLUMNS, TableDefinition, raw_definition
from pyspark_pravega.connector.write.writer import BatchWriter
from pyspark_pravega.errors import EventDecodeError, WireError
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

COLUMNS = StructType([StructField("id", LongType(), False), StructField("name", StringType(), True)])


@pytest.fixture
def raw(client: Client, settings: Settings, scope: str) -> TableDefinition:
    return raw_table(client, settings, scope, segments=1)


@pytest.fixture
def avro(settings: Settings, scope: str) -> TableDefinition:
    """A table of one segment with three rows."""
    table = Catalog(settings).tables.create([scope], "t", COLUMNS, [], {})
    writer = BatchWriter(table, WriteOptions(transaction_timeout_ms=60_000))
    rows = pa.record_batch({"id": pa.array([1, 2, 3]), "name": pa.array(["one", None, "three"])}, table.codec.schema)
    writer.commit([writer.write(iter([rows]))])
    return table


def batches(client: Client, table: TableDefinition, columns: Sequence[str]) -> list[pa.RecordBatch]:
    reader = BatchReader(table, take_snapshot(client, table.stream), columns)
    return [batch for partition in reader.partitions() for batch in reader.read(partition)]


def rows(client: Client, table: TableDefinition, *columns: str) -> list[tuple[Any, ...]]:
    values = []
    for batch in batches(client, table, columns):
        batch.validate(full=True)
        assert tuple(batch.schema.names) == columns
        values += list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return values


def test_columns_come_in_the_order_asked_for(client: Client, avro: TableDefinition) -> None:
    assert rows(client, avro, "id", "name") == [(1, "one"), (2, None), (3, "three")]
    assert rows(client, avro, "name", "id") == [("one", 1), (None, 2), ("three", 3)]
    assert rows(client, avro, "name") == [("one",), (None,), ("three",)]


def test_metadata_columns_may_stand_anywhere_among_them(client: Client, avro: TableDefinition) -> None:
    values = rows(client, avro, "_event_size", "id", "_offset", "_segment", "name", "_encoding_id")
    assert [(id_, name) for _, id_, _, _, name, _ in values] == [(1, "one"), (2, None), (3, "three")]
    offset = 0
    for size, _, at, segment, _, encoding_id in values:
        assert (at, segment, encoding_id) == (offset, 0, 0)
        offset += 8 + size
    assert offset == take_snapshot(client, avro.stream).size


def test_metadata_alone_can_be_read(client: Client, avro: TableDefinition) -> None:
    assert [segment for (segment,) in rows(client, avro, "_segment")] == [0, 0, 0]


def test_without_columns_the_rows_are_still_counted(client: Client, avro: TableDefinition) -> None:
    markers = batches(client, avro, [])
    assert sum(batch.num_rows for batch in markers) == 3
    assert output_schema(avro, []) == ROW_MARKER
    assert markers[0].schema.names == ROW_MARKER.fieldNames()


def test_the_schema_of_a_read_is_that_of_its_columns(avro: TableDefinition) -> None:
    wanted = ["_offset", "name", "scope"]
    assert output_schema(avro, wanted) == StructType(
        [METADATA_COLUMNS["_offset"], COLUMNS["name"], OFFICIAL_COLUMNS[0]]
    )


def test_raw_events_have_the_official_connector_s_columns(client: Client, raw: TableDefinition) -> None:
    append(client, raw.stream, 0, framed(b"one"), framed(b""))
    stream = raw.stream
    assert rows(client, raw, "event", "scope", "stream", "segment_id", "offset", "_encoding_id") == [
        (b"one", stream.scope, stream.name, 0, 0, None),
        (b"", stream.scope, stream.name, 0, 11, None),
    ]


def test_an_empty_stream_has_no_partitions(client: Client, raw: TableDefinition) -> None:
    reader = BatchReader(raw, take_snapshot(client, raw.stream), ["event"])
    assert reader.partitions() == []
    # Spark reads a stand-in then.
    assert list(reader.read(InputPartition(None))) == []


def test_segments_without_events_have_no_partition(client: Client, settings: Settings, scope: str) -> None:
    table = raw_table(client, settings, scope, segments=3)
    append(client, table.stream, 1, framed(b"one"))
    reader = BatchReader(table, take_snapshot(client, table.stream), ["event"])
    assert [partition.value for partition in reader.partitions()] == [1]


def test_a_snapshot_is_read_as_it_was_taken_whatever_comes_after(client: Client, raw: TableDefinition) -> None:
    append(client, raw.stream, 0, framed(b"before"))
    reader = BatchReader(raw, take_snapshot(client, raw.stream), ["event"])
    append(client, raw.stream, 0, framed(b"after"))
    (partition,) = reader.partitions()
    assert [batch.column(0).to_pylist() for batch in reader.read(partition)] == [[b"before"]]


def test_events_larger_than_a_read_request_are_read_whole(client: Client, raw: TableDefinition) -> None:
    events = [b"a", b"b" * (8 << 20), b"c", b"d" * ((1 << 20) - 8), b"", b"e" * (3 << 20), b"f" * ((2 << 20) - 8), b"g"]
    append(client, raw.stream, 0, *map(framed, events))
    values = rows(client, raw, "event", "_offset", "_event_size")
    assert [event for event, _, _ in values] == events
    assert [size for _, _, size in values] == [len(event) for event in events]
    offsets = [sum(len(event) + 8 for event in events[:i]) for i in range(len(events))]
    assert [offset for _, offset, _ in values] == offsets


def test_events_are_found_wherever_an_answer_of_the_server_is_cut(client: Client, raw: TableDefinition) -> None:
    events = [b"x" * (i % 2000) for i in range(8000)]
    append(client, raw.stream, 0, b"".join(map(framed, events)))
    assert [event for (event,) in rows(client, raw, "event")] == events
    assert len(batches(client, raw, ["event"])) > 3


# Bytes that are no events


def as_raw(client: Client, settings: Settings, stream: Stream) -> TableDefinition:
    return raw_definition(settings, stream, {})


def test_an_event_that_can_not_be_decoded_is_found_by_its_place(client: Client, avro: TableDefinition) -> None:
    before = take_snapshot(client, avro.stream).size
    append(client, avro.stream, 0, framed(b"\x01" + struct.pack(">i", 0) + b"\x02\x02\xff\xff\xff\xff\xff"))
    with pytest.raises(
        EventDecodeError,
        match=rf'an event of stream "{avro.stream}" can\'t be decoded \(segment 0, offset {before}, encoding id 0\): ',
    ):
        rows(client, avro, "id", "name")


def test_an_event_of_an_unknown_encoding_names_the_encoding(client: Client, avro: TableDefinition) -> None:
    append(client, avro.stream, 0, framed(b"\x01" + struct.pack(">i", 77) + b"\x02\x00"))
    with pytest.raises(Exception, match=r"encoding (id )?77"):
        rows(client, avro, "id")


@pytest.mark.parametrize("event", [b"", b"text", b"\x01\x00"])
def test_an_event_without_an_encoding_id_can_not_be_decoded(
    client: Client, avro: TableDefinition, event: bytes
) -> None:
    before = take_snapshot(client, avro.stream).size
    append(client, avro.stream, 0, framed(event))
    with pytest.raises(EventDecodeError, match=rf"segment 0, offset {before}\): "):
        rows(client, avro, "id")


def test_events_that_can_not_be_decoded_can_be_read_as_bytes(
    client: Client, settings: Settings, avro: TableDefinition
) -> None:
    append(client, avro.stream, 0, framed(b"text"))
    assert rows(client, as_raw(client, settings, avro.stream), "event")[-1] == (b"text",)


@pytest.mark.parametrize("junk", [b"\xff" * 20, struct.pack(">ii", 1, 4) + b"four", struct.pack(">ii", 0, -1) + b"x"])
def test_bytes_that_are_no_frame_are_an_error_that_says_where(
    client: Client, raw: TableDefinition, junk: bytes
) -> None:
    append(client, raw.stream, 0, framed(b"fine") + junk)
    with pytest.raises(EventDecodeError, match=rf'of segment 0 of stream "{raw.stream}": '):
        rows(client, raw, "event")


@pytest.mark.parametrize("length", [100, 1 << 30])
def test_a_segment_that_ends_within_an_event_is_an_error(client: Client, raw: TableDefinition, length: int) -> None:
    append(client, raw.stream, 0, framed(b"fine") + struct.pack(">ii", 0, length) + b"x" * 50)
    with pytest.raises(WireError, match=rf'segment 0 of stream "{raw.stream}" holds 58 bytes before offset 70'):
        rows(client, raw, "event")


@pytest.mark.parametrize("nested", [False, True], ids=["columns", "fields of a struct"])
def test_batches_of_many_columns_have_few_rows(
    client: Client, settings: Settings, scope: str, monkeypatch: pytest.MonkeyPatch, nested: bool
) -> None:
    monkeypatch.setattr(reader, "_MOST_VALUES", 1_000)
    fields = [StructField(f"c{number}", LongType()) for number in range(50)]
    kind = StructType([StructField("all", StructType(fields))] if nested else fields)
    table = Catalog(settings).tables.create([scope], "t", kind, [], {"format": "protobuf"})
    writer = BatchWriter(table, WriteOptions(transaction_timeout_ms=60_000))
    values = [{"all": {"c7": number}} if nested else {"c7": number} for number in range(95)]
    given = pa.RecordBatch.from_pylist(values, schema=table.for_writing().schema)
    writer.commit([writer.write(iter([given]))])
    whole = batches(client, table, kind.fieldNames())
    most = 19 if nested else 20
    assert [batch.num_rows for batch in whole] == [most] * (95 // most) + [95 % most] * bool(95 % most)
    assert pa.Table.from_batches(whole).to_pylist() == given.to_pylist()
    # Where few of the columns are wanted, all rows may come at once; metadata fits its rows.
    column = "all" if nested else "c7"
    offsets = [row[1] for row in rows(client, table, column, "_offset")]
    assert offsets == [row[0] for row in rows(client, table, "_offset")]
    assert [batch.num_rows for batch in batches(client, table, ["_offset"])] == [95]
