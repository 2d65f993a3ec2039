"""Tables of all formats on real servers: bad events in their modes, several types in a stream, groups made again."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from client_tools import append, framed
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType
from readers import rows_read

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.plans.scans import ScanRequest, plan_scan
from pyspark_pravega.catalog.shown import shown_properties
from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.connector.log.snapshot import take_snapshot
from pyspark_pravega.connector.options import EventOptions, ReadOptions, WriteOptions, parse_mode
from pyspark_pravega.connector.read.reader import BatchReader
from pyspark_pravega.connector.shared import shared_registry
from pyspark_pravega.connector.stream import FollowedPartition, RealTimeReader
from pyspark_pravega.connector.table.definition import TableDefinition, load_definition
from pyspark_pravega.connector.write.writer import BatchWriter
from pyspark_pravega.errors import ConfigurationError, EventDecodeError, UnsupportedOperationError
from pyspark_pravega.registry import SchemaInfo
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

COLUMNS = StructType([StructField("id", LongType()), StructField("name", StringType())])
FORMATS = ["avro", "json", "protobuf"]


def make(settings: Settings, scope: str, table_format: str, **properties: str) -> TableDefinition:
    return Catalog(settings).tables.create([scope], "t", COLUMNS, [], {"format": table_format, **properties})


def insert(table: TableDefinition, rows: Sequence[dict[str, Any]]) -> None:
    writer = BatchWriter(table, WriteOptions(transaction_timeout_ms=60_000))
    batch = pa.RecordBatch.from_pylist(list(rows), schema=table.for_writing().schema)
    writer.commit([writer.write(iter([batch]))])


def select(client: Client, table: TableDefinition, *columns: str) -> list[dict[str, Any]]:
    reader = BatchReader(table, take_snapshot(client, table.stream), columns)
    return rows_read(reader)


def spoil(client: Client, table: TableDefinition, *payloads: bytes) -> None:
    """Append events that aren't the table's."""
    (segment,) = client.controller.current_segments(table.stream).ids
    append(client, table.stream, segment, *map(framed, payloads))


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_real_time_read_knows_its_place_whatever_the_table_s_columns_are_called(
    client: Client, settings: Settings, scope: str, table_format: str
) -> None:
    names = ["_stream", "_segment", "_offset", "_at_segment", "_at_offset", "_is_row"]
    columns = StructType([StructField(name, LongType()) for name in names])
    table = Catalog(settings).tables.create([scope], "t", columns, [], {"format": table_format})
    rows = [dict.fromkeys(names, -7 * number) for number in range(3)]
    insert(table, rows)
    (batch,) = client.read(table.stream)
    begins = [batch.start + int(start) for start in batch.frames.starts]
    over, received = threading.Event(), list[tuple[Any, ...]]()

    def until() -> Iterator[None]:
        over.wait()
        yield from ()

    reader = RealTimeReader(table, names, ReadOptions())
    for rows_there in reader.read(FollowedPartition(table.stream, {batch.segment_id: 0}), until()):
        received += zip(*(column.to_pylist() for column in rows_there.columns), strict=True)
        if len(received) == len(rows):
            over.set()
    assert [dict(zip(names, row, strict=False)) for row in received] == rows
    ends = [*begins[1:], batch.end]
    assert [row[-3:] for row in received] == [(batch.segment_id, end, True) for end in ends]


@pytest.mark.parametrize("table_format", FORMATS)
def test_bad_events_in_each_mode(
    client: Client, settings: Settings, scope: str, table_format: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(settings, scope, table_format)
    insert(table, [{"id": 1, "name": "one"}])
    bad = b"\x01\0\0\0\0\xff\xff"
    spoil(client, table, bad)
    insert(table, [{"id": 2, "name": None}])

    with pytest.raises(EventDecodeError, match=rf"{scope}/t.*segment 0, offset \d+, encoding id 0\): \w+"):
        select(client, table, "id")

    permissive = table.with_mode("permissive")
    rows = select(client, permissive, "id", "name", "_corrupt_event", "_event_size")
    assert [(row["id"], row["name"], row["_corrupt_event"]) for row in rows] == [
        (1, "one", None),
        (None, None, bad),
        (2, None, None),
    ]
    assert rows[1]["_event_size"] == len(bad)

    with caplog.at_level(logging.WARNING):
        kept = select(client, table.with_mode(parse_mode("mode", "DROPMALFORMED")), "id", "_offset", "_corrupt_event")
    assert [row["id"] for row in kept] == [1, 2]
    assert [row["_offset"] for row in kept] == [row["_offset"] for row in select(client, permissive, "_offset")][::2]
    assert "1 events of segment 0" in caplog.text
    assert len(select(client, table.with_mode("drop-malformed"))) == 2


def test_the_mode_may_be_the_tables_or_the_reads(client: Client, settings: Settings, scope: str) -> None:
    table = make(settings, scope, "json", mode="permissive")
    spoil(client, table, b"{")
    loaded = load_definition(client, settings, table.stream)
    assert loaded.mode == "permissive"
    assert select(client, loaded, "id") == [{"id": None}]
    strict = load_definition(client, settings, table.stream, EventOptions.parse({"mode": "fail-fast"}))
    with pytest.raises(EventDecodeError):
        select(client, strict, "id")
    assert plan_scan(loaded, ScanRequest(columns=["id"], options={"mode": "drop-malformed"})).slices == 1
    with pytest.raises(ConfigurationError, match="must be one of fail-fast, permissive, drop-malformed"):
        plan_scan(loaded, ScanRequest(columns=["id"], options={"mode": "lenient"}))


def test_nulls_in_columns_that_spark_takes_for_not_null_are_refused(settings: Settings, scope: str) -> None:
    columns = StructType([StructField("id", LongType(), False), StructField("name", StringType())])
    table = Catalog(settings).tables.create([scope], "t", columns, [], {})
    assert plan_scan(table, ScanRequest(columns=["name"], options={"mode": "permissive"})).slices == 0
    with pytest.raises(ConfigurationError, match=r"id of stream .* can't be null: make \"mode\" a property"):
        plan_scan(table, ScanRequest(columns=["id"], options={"mode": "permissive"}))


class TestSeveralTypes:
    """As the official serializers write them into a group with allowMultipleTypes."""

    @pytest.fixture
    def stream(self, client: Client, settings: Settings, scope: str) -> Stream:
        registry = shared_registry(settings)
        assert registry is not None
        stream = Stream(scope, "events")
        client.controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy(min_segments=1)))
        registry.create_group(scope, "events", allow_multiple_types=True, compatibility="AllowAny")
        for name, field in (("Created", "customer"), ("Paid", "amount")):
            text = (
                f'{{"type": "record", "name": "{name}", "namespace": "shop", "fields": '
                f'[{{"name": "{field}", "type": ["null", "string"], "default": null}}]}}'
            )
            schema = SchemaInfo(type=f"shop.{name}", serialization_format="Avro", schema_data=text.encode())
            version = registry.add_schema(scope, "events", schema)
            encoding = registry.encoding_id(scope, "events", version)
            events = [b"\x01" + encoding.to_bytes(4, "big") + b"\x02\x06" + f"{name[0]}-{i}".encode() for i in range(3)]
            append(client, stream, 0, *map(framed, events))
        return stream

    def test_one_is_chosen(self, client: Client, settings: Settings, stream: Stream) -> None:
        for name, column in (("Created", "customer"), ("Paid", "amount")):
            table = load_definition(client, settings, stream, EventOptions.parse({"schema-type": f"shop.{name}"}))
            assert table.schema.fieldNames() == [column]
            rows = select(client, table, column, "_offset")
            assert [row[column] for row in rows] == [f"{name[0]}-{i}" for i in range(3)]
            assert len(select(client, table)) == 3

    def test_without_a_choice_others_are_errors_that_say_so(
        self, client: Client, settings: Settings, stream: Stream
    ) -> None:
        table = load_definition(client, settings, stream)
        with pytest.raises(EventDecodeError, match=r"of type shop.Created, and the table.* shop.Paid"):
            select(client, table, "amount")

    def test_a_type_that_is_not_there_is_named(self, client: Client, settings: Settings, stream: Stream) -> None:
        with pytest.raises(ConfigurationError, match=r'no events of type "shop.Payed".*did you mean "shop.Paid"'):
            load_definition(client, settings, stream, EventOptions.parse({"schema-type": "shop.Payed"}))


def test_a_group_that_was_made_again_is_another_one(client: Client, settings: Settings, scope: str) -> None:
    catalog = Catalog(settings)
    for name, value in (("id", 1), ("other", "x"), ("id", 3)):
        kind = LongType() if name == "id" else StringType()
        catalog.tables.create([scope], "t", StructType([StructField(name, kind)]), [], {})
        table = catalog.load_table([scope], "t")
        insert(table, [{name: value}])
        rows = select(client, catalog.load_table([scope], "t"), name, "_encoding_id")
        assert rows == [{name: value, "_encoding_id": 0}]
        catalog.relations.drop([scope], "t")


def test_reads_ask_the_registry_once_for_an_id(
    client: Client, settings: Settings, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(settings, scope, "json")
    insert(table, [{"id": 1, "name": None}])
    loaded = load_definition(client, settings, table.stream)
    assert len(select(client, loaded, "id")) == 1
    registry = shared_registry(settings)
    assert registry is not None
    # From here on the registry can't be reached.
    monkeypatch.setattr(registry, "_transport", None)
    assert select(client, loaded, "id", "name") == [{"id": 1, "name": None}]


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_format_of_one_s_own(
    client: Client, settings: Settings, scope: str, *, header: bool, compression: str
) -> None:
    if compression != "none" and not header:
        with pytest.raises(ConfigurationError, match="compressed events need their header"):
            make(settings, scope, "ini_format:Ini", compression=compression)
        return
    properties = {"encoding-header": "true", "compression": compression} if header else {}
    table = make(settings, scope, "ini_format:Ini", **properties, **{"ini.separator": "|"})
    insert(table, [{"id": 1, "name": "one"}, {"id": 2, "name": None}])
    loaded = load_definition(client, settings, table.stream)
    assert (loaded.format, loaded.schema) == ("ini_format:Ini", COLUMNS)
    assert select(client, loaded, "name", "id") == [{"name": "one", "id": 1}, {"name": None, "id": 2}]
    assert {row["_encoding_id"] for row in select(client, loaded, "_encoding_id")} == ({0} if header else {None})
    registry = shared_registry(settings)
    assert registry is not None
    assert registry.group(scope, "t").serialization_format == "ini_format:Ini"
    ((schema, _, _),) = registry.history(scope, "t")
    assert StructType.fromJson(json.loads(schema.text)) == COLUMNS
    shown = shown_properties(loaded)
    assert (shown["format"], shown["codec"]) == ("ini_format:Ini", "ini_format:Ini")
    assert "spark.columns" not in shown
    spoil(client, table, b"id=x")
    with pytest.raises(EventDecodeError, match=rf"{scope}/t.*offset \d+"):
        select(client, loaded, "id")
    assert len(select(client, loaded.with_mode("drop-malformed"), "id")) == 2
    assert Catalog(settings).relations.drop([scope], "t")


def test_a_format_of_one_s_own_needs_no_registry(
    client: Client, settings: Settings, scope: str, sandbox: Sandbox
) -> None:
    alone = Settings.resolve({"controller-uri": sandbox.controller_uri, "format-classes": "ini_format:Ini"})
    assert alone.schema_registry_uri is None
    table = make(alone, scope, "ini_format:Ini")
    insert(table, [{"id": 1, "name": "one"}])
    assert select(client, load_definition(client, alone, table.stream), "id", "name") == [{"id": 1, "name": "one"}]
    with pytest.raises(ConfigurationError, match="needs a schema registry"):
        Catalog(alone).tables.create([scope], "u", COLUMNS, [], {"format": "ini_format:Ini", "encoding-header": "true"})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_package:Ini", '"no_such_package:Ini" can\'t be imported by .* ModuleNotFoundError.* PYTHONPATH'),
        ("ini_format:Doubles", '"ini_format:Doubles" refuses the table: it has one column'),
        ("ini_format.Ini", "must be one of .* or package.module:Class"),
    ],
)
def test_a_class_that_can_not_be_used_leaves_no_table(settings: Settings, scope: str, name: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        make(settings, scope, name)
    assert Catalog(settings).relations.names([scope]) == []


def test_streams_of_others_in_a_format_of_one_s_own(client: Client, settings: Settings, scope: str) -> None:
    stream = Stream(scope, "measured")
    client.controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy(min_segments=1)))
    append(client, stream, 0, *map(framed, (b"id=1;name=a", b"id=2")))
    table = load_definition(client, settings, stream, EventOptions.parse({"format": "ini_format:Ini"}))
    assert select(client, table, "id", "name") == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    with pytest.raises(ConfigurationError, match="define its class method columns"):
        load_definition(client, settings, stream, EventOptions.parse({"format": "ini_format:Careless"}))

    registry = shared_registry(settings)
    assert registry is not None
    registered = Stream(scope, "registered")
    client.controller.create_stream(registered, StreamConfiguration(scaling=ScalingPolicy(min_segments=1)))
    registry.create_group(scope, "registered", serialization_format="com.example.Ini", compatibility="AllowAny")
    registry.add_schema(
        scope, "registered", SchemaInfo(type="ini", serialization_format="com.example.Ini", schema_data=b"-")
    )
    with pytest.raises(UnsupportedOperationError, match=r'com.example.Ini.* "format" = "package.module:Class"'):
        load_definition(client, settings, registered)
    table = load_definition(client, settings, registered, EventOptions.parse({"format": "ini_format:Ini"}))
    insert(table, [{"id": 3, "name": "c"}])
    assert select(client, table, "id", "_encoding_id") == [{"id": 3, "_encoding_id": 0}]


def test_raw_events_have_no_bad_ones(client: Client, settings: Settings, scope: str) -> None:
    columns = StructType([StructField("event", BinaryType(), False)])
    table = Catalog(settings).tables.create([scope], "t", columns, [], {"format": "binary", "mode": "drop-malformed"})
    spoil(client, table, b"", b"\xff")
    loaded = load_definition(client, settings, table.stream)
    assert select(client, loaded, "event", "_corrupt_event") == [
        {"event": payload, "_corrupt_event": None} for payload in (b"", b"\xff")
    ]
