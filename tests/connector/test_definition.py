"""What a stream is as a table: from its group in the registry, or raw; and the options of reads and writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from client_tools import make_stream
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector import foreign_options
from pyspark_pravega.connector.bounds import Time, VersionBounds
from pyspark_pravega.connector.datasource import DefaultSource
from pyspark_pravega.connector.log import claim_ledger
from pyspark_pravega.connector.official import without_official
from pyspark_pravega.connector.option_names import (
    CATALOG_WRITE_KEYS,
    EPOCH,
    FROM_VERSION,
    MODE,
    OPTIONS,
    QUERY,
    READ_KEYS,
    STREAM,
    TABLE_READ_KEYS,
    TO_VERSION,
    WRITE_KEYS,
    shown,
)
from pyspark_pravega.connector.options import (
    DEFAULT_LEASE_MS,
    EventOptions,
    ReadOptions,
    WriteOptions,
    canonical,
    kept_lease_ms,
    parse_bad_events,
    stream_of,
)
from pyspark_pravega.connector.table.definition import load_definition
from pyspark_pravega.connector.table.encodings import writing_encodings
from pyspark_pravega.connector.table_names import stream_of_table
from pyspark_pravega.declared import name_among
from pyspark_pravega.errors import (
    ConfigurationError,
    InvalidNameError,
    RegistryUnavailableError,
    StreamNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.registry import SchemaInfo, SchemaRegistry
from pyspark_pravega.serde.native.native_codec import describe
from pyspark_pravega.serde.raw import RawCodec
from pyspark_pravega.settings import KEYS, Settings

server = pytest.mark.server
COLUMNS = StructType([StructField("id", LongType(), False), StructField("name", StringType(), True)])


@pytest.fixture
def registry(settings: Settings) -> Iterator[SchemaRegistry]:
    assert settings.schema_registry_uri
    with SchemaRegistry(settings.schema_registry_uri, timeout=30) as connected:
        yield connected


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "t", segments=2)


def schema_info(name: str, kind: str) -> SchemaInfo:
    record = {"type": "record", "name": name, "fields": [{"name": "x", "type": kind}]}
    return SchemaInfo(type=name, serialization_format="Avro", schema_data=json.dumps(record).encode())


@server
def test_a_stream_without_a_group_is_a_table_of_raw_events(client: Client, settings: Settings, stream: Stream) -> None:
    table = load_definition(client, settings, stream)
    assert table.schema == StructType([StructField("event", BinaryType(), False)])
    assert (table.format, table.registered, table.routing_key) == ("raw", None, None)
    assert isinstance(table.codec, RawCodec)
    assert table.for_writing() is table.codec
    assert table.configuration.scaling.min_segments == 2


@server
def test_without_a_registry_configured_a_stream_is_raw(client: Client, settings: Settings, stream: Stream) -> None:
    assert load_definition(client, replace(settings, schema_registry_uri=None), stream).format == "raw"


@server
def test_a_stream_with_a_group_has_the_columns_of_its_latest_schema(
    client: Client, settings: Settings, registry: SchemaRegistry, stream: Stream
) -> None:
    registry.create_group(stream.scope, stream.name, compatibility="AllowAny")
    registry.add_schema(stream.scope, stream.name, schema_info("R", "long"))
    registry.add_schema(stream.scope, stream.name, schema_info("R", "string"))
    table = load_definition(client, settings, stream)
    assert table.schema == StructType([StructField("x", StringType(), False)])
    assert table.format == "avro"
    assert describe(table.for_writing()).startswith("avro")


@server
def test_a_created_table_is_found_again_as_it_was_made(client: Client, settings: Settings, scope: str) -> None:
    created = Catalog(settings).tables.create([scope], "t", COLUMNS, [], {"routing_key": "ID", "team.owner": "us"})
    loaded = load_definition(client, settings, Stream(scope, "t"))
    assert loaded.schema == created.schema == COLUMNS
    assert loaded.properties == {"format": "avro", "routing-key": "id", "team.owner": "us"}
    assert loaded.routing_key == "id"


@server
def test_a_table_with_a_schema_needs_the_registry_configured(client: Client, settings: Settings, scope: str) -> None:
    Catalog(settings).tables.create([scope], "t", COLUMNS, [], {})
    with pytest.raises(ConfigurationError, match=f'schema of stream "{scope}/t" is in a schema registry: set schema-r'):
        load_definition(client, replace(settings, schema_registry_uri=None), Stream(scope, "t"))


@server
def test_a_registry_that_does_not_answer_is_named(client: Client, settings: Settings, stream: Stream) -> None:
    away = replace(settings, schema_registry_uri="http://127.0.0.1:1")
    with pytest.raises(RegistryUnavailableError, match=r"127\.0\.0\.1:1"):
        load_definition(client, away, stream)


@server
def test_a_group_without_a_schema_is_an_error_that_says_what_to_do(
    client: Client, settings: Settings, registry: SchemaRegistry, stream: Stream
) -> None:
    registry.create_group(stream.scope, stream.name)
    with pytest.raises(UnsupportedOperationError, match="has no schema yet: add one, or delete the group"):
        load_definition(client, settings, stream)


@server
@pytest.mark.parametrize("serialization_format", ["com.example.Mine"])
def test_a_group_of_another_format_is_an_error_that_names_it(
    client: Client, settings: Settings, registry: SchemaRegistry, stream: Stream, serialization_format: str
) -> None:
    registry.create_group(
        stream.scope, stream.name, serialization_format=serialization_format, compatibility="AllowAny"
    )
    text = json.dumps({"type": "object", "properties": {"x": {"type": "string"}}})
    schema = SchemaInfo(type="R", serialization_format=serialization_format, schema_data=text.encode())
    registry.add_schema(stream.scope, stream.name, schema)
    with pytest.raises(
        UnsupportedOperationError, match=f'events of stream "{stream}" are in format {serialization_format}'
    ):
        load_definition(client, settings, stream)


@server
def test_a_stream_that_is_not_there_is_named_whatever_else_is(
    client: Client, settings: Settings, registry: SchemaRegistry, scope: str
) -> None:
    missing = Stream(scope, "missing")
    registry.create_group(scope, "missing")
    claim_ledger(client, missing)
    with pytest.raises(StreamNotFoundError, match=f'stream "{missing}" does not exist'):
        load_definition(client, settings, missing)


# Options


def named(options: dict[str, str], **more: str) -> Stream:
    return stream_of(canonical(options, READ_KEYS, "read option"), Settings.resolve(options, environ=more))


def test_a_stream_is_named_with_its_scope_or_with_the_scope_from_elsewhere() -> None:
    assert named({"stream": "shop/orders"}) == Stream("shop", "orders")
    assert named({"stream": " shop/orders ", "scope": "other"}) == Stream("shop", "orders")
    assert named({"stream": "orders", "scope": "shop"}) == Stream("shop", "orders")
    assert named({"Stream": "orders"}, PRAVEGA_SCOPE="shop") == Stream("shop", "orders")
    assert named({"stream": "v1.orders", "scope": "shop"}) == Stream("shop", "v1.orders")


@pytest.mark.parametrize(
    "name", ["my_shop.all_orders", "my-shop.all-orders", "my_shop/all_orders", "pravega.my_shop.all_orders",
             "my_shop.`all_orders`", " my-shop/all-orders"]
)  # fmt: skip
@pytest.mark.parametrize("key", ["stream", "path"])
def test_a_table_is_named_in_either_way_wherever_one_is_named(key: str, name: str) -> None:
    """`load(name)` gives the option `path`. A default scope makes no difference to a name that has one."""
    meant = Stream("my-shop", "all-orders")
    assert named({key: name}) == named({key: name}, PRAVEGA_SCOPE="other") == meant
    assert parse_bad_events("bad-events", name) == parse_bad_events("bad-events", f"stream:{name}") == meant
    assert stream_of_table(name, scope="other", catalog="pravega") == meant


@pytest.mark.parametrize(("options", "why"), [({}, "is missing"), ({"stream": " "}, "is missing"),
                                              ({"stream": "orders"}, "named without a scope"),
                                              ({"stream": "/orders"}, "named without a scope")])  # fmt: skip
def test_a_stream_that_is_not_wholly_named_is_refused(options: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        named(options)


@pytest.mark.parametrize("name", ["shop/", "shop/a/b", "shop/a b", "shop.", "a.b.c.d", "shop.a`b", "`shop.a"])
def test_names_that_pravega_can_not_hold_are_refused(name: str) -> None:
    with pytest.raises(InvalidNameError):
        named({"stream": name})


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("steam", "stream"),
        ("controler", "controller-uri"),
        ("transaction_timeout", "transactionTimeoutMs"),
        ("rooting-key", "routingKey"),
    ],
)
def test_an_unknown_option_names_the_nearest_one(key: str, nearest: str) -> None:
    with pytest.raises(ConfigurationError, match=rf'unknown write option "{key}"; did you mean "{nearest}"\?'):
        canonical({key: "x"}, WRITE_KEYS, "write option")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"startingOffsets": "earliest"}, {"startStreamCut": "earliest"}),
        ({"endingoffsets": "latest"}, {"endStreamCut": "latest"}),
        ({"maxOffsetsPerTrigger": "9", "minOffsetsPerTrigger": "5"}, {"maxEventsPerTrigger": "9",
                                                                      "minEventsPerTrigger": "5"}),
        ({"path": "shop/t"}, {"stream": "shop/t"}),
    ],
)  # fmt: skip
def test_options_of_kafka_that_mean_the_same_are_taken(given: dict[str, str], meant: dict[str, str]) -> None:
    assert canonical(given, READ_KEYS, "read option") == meant
    first, own = next(iter(given)), next(iter(meant))
    with pytest.raises(ConfigurationError, match="mean the same, and have different values") as refused:
        canonical({**given, own: "other"}, READ_KEYS, "read option")
    assert f'"{own}"' in str(refused.value)
    assert first in str(refused.value) or first == first.lower()


KINDS = {
    "read without the catalog": READ_KEYS,
    "read of a table": TABLE_READ_KEYS,
    "write without the catalog": WRITE_KEYS,
    "write to a table": CATALOG_WRITE_KEYS,
    "read of a key-value table": KEYS,
}
OURS = {shown(option.name): option.name for option in OPTIONS} | {key: key for key in KEYS}
for word in (STREAM, QUERY, EPOCH, MODE):
    # They are words of sentences, too.
    del OURS[word]


@pytest.mark.parametrize("name", sorted(foreign_options.names()))
@pytest.mark.parametrize("kind", KINDS)
def test_each_option_of_other_sources_is_taken_or_told_its_twin(name: str, kind: str) -> None:
    """A message names what can be given in this kind of read or write, and nothing else."""
    known = KINDS[kind]
    if name_among(name, known) in known:
        # Delta Lake's `startingVersion` is one of ours where versions are told.
        return
    meant = foreign_options.twin(name, known)
    if meant is not None:
        assert canonical({name: "x"}, known, "read option") == {meant: "x"}
        return
    with pytest.raises(ConfigurationError, match=re.escape(f'option "{name}"')) as refused:
        canonical({name: "x"}, known, "read option")
    words = set(re.findall(r"[A-Za-z-]+", str(refused.value).partition(": ")[2]))
    assert {OURS[word] for word in words & OURS.keys()} <= known | {FROM_VERSION, TO_VERSION}
    # These two bound what another table tells, `t$changes`.
    assert not words & {"startingVersion"} or kind.startswith("read")


def kafka(*offsets: int) -> str:
    """Offsets as Kafka's source has them."""
    return json.dumps({"orders": {str(number): offset for number, offset in enumerate(offsets)}})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("startingOffsets", kafka(-2, -2), 'startStreamCut = "earliest"'),
        ("startingOffsets", kafka(-1), 'startStreamCut = "latest"'),
        ("startingOffsets", kafka(-2, -1), "startTimestamp"),
        ("startingOffsets", kafka(23, 7), "startTimestamp"),
        ("startingOffsets", '{"a": {"0": -2}, "b": {"0": -2, "1": -2}}', 'startStreamCut = "earliest"'),
        ("startingOffsets", '{"0": -2}', 'startStreamCut = "earliest"'),
        ("startingOffsets", '{"shop/a": {"0": -1}}', 'startStreamCut = "latest"'),
        ("startingOffsets", "-2", 'startStreamCut = "earliest"'),
        ("endingOffsets", "-1", 'endStreamCut = "latest"'),
        ("endingOffsets", kafka(-1, -1), 'endStreamCut = "latest"'),
        ("endingOffsets", kafka(5, 9), "endTimestamp"),
        ("startingOffsetsByTimestamp", kafka(1000, 1000), 'startTimestamp = "1000"'),
        ("startingOffsetsByTimestamp", kafka(3000, 1000), 'startTimestamp = "1000"'),
        ("endingOffsetsByTimestamp", kafka(3000, 1000), 'endTimestamp = "3000"'),
        ("stream-from-timestamp", "1700000000000", 'startTimestamp = "1700000000000"'),
        ("as-of-timestamp", "1700000000000", 'timestampAsOf = "2023-11-14T22:13:20.000Z"'),
        ("snapshot-id", "10963874102873", "versionAsOf"),
        ("startingOffsetsByTimestampStrategy", "latest", "leave it out"),
        ("maxRecordsPerPartition", "5", "minPartitions"),
        ("versionAsOf", "5", "catalog's table"),
        ("badRecordsPath", "/bad", "badEvents"),
    ],
)
def test_the_twin_is_told_with_the_value_that_was_given(name: str, value: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f'option "{name}"')) as refused:
        canonical({name: value}, READ_KEYS, "read option")
    assert words in str(refused.value)
    # What it recommends can be given, and is a bound.
    for key, own in re.findall(r'(\w+) = "([^"]+)"', str(refused.value)):
        if key != "timestampAsOf":
            ReadOptions.of_streams(canonical({key: own}, READ_KEYS, "read option"))


@pytest.mark.parametrize("value", ["earliest", "latest", '{"0": 120}', '{"shop/a": {"0": 120}}', "a-cut", "1"])
def test_kafka_s_words_for_bounds_take_our_values(value: str) -> None:
    assert canonical({"startingOffsets": value}, TABLE_READ_KEYS, "read option") == {"startStreamCut": value}


def test_a_time_means_the_rows_or_the_versions_whichever_are_read() -> None:
    for first, last in (("startTimestamp", "endTimestamp"), ("startingTimestamp", "ending_timestamp")):
        given = {first: "1000", last: "2000"}
        rows, versions = (ReadOptions.of_table(given, versions=versions) for versions in (False, True))
        assert (rows.start, rows.end, rows.versions) == (Time(1000), Time(2000), VersionBounds())
        assert not versions.has_bounds
        assert versions.versions == VersionBounds(from_timestamp=1_000_000, to_timestamp=2_000_000)
        assert ReadOptions.of_streams(canonical(given, READ_KEYS, "read option")) == rows
    with pytest.raises(ConfigurationError, match="mean the same here"):
        ReadOptions.of_table({"startTimestamp": "1000", "startingTimestamp": "2000"})


def test_an_option_like_no_other_lists_them_all() -> None:
    with pytest.raises(ConfigurationError, match=r"known are: .*, controller-uri, .*, timeout"):
        canonical({"zzz": "x"}, READ_KEYS, "read option")


def test_options_of_writes_are_not_options_of_reads() -> None:
    with pytest.raises(ConfigurationError, match='unknown read option "routing-key"'):
        canonical({"routing-key": "x"}, READ_KEYS, "read option")


def test_write_options_have_defaults_and_any_spelling() -> None:
    assert WriteOptions.parse({}) == WriteOptions(transaction_timeout_ms=DEFAULT_LEASE_MS)
    assert WriteOptions.parse({}, lease_ms=20_000).transaction_timeout_ms == 20_000
    # A lease is renewed each third of it: what is left then must be longer than servers are waited for.
    assert [kept_lease_ms(timeout) for timeout in (10.0, 180.0, 3600.0)] == [60_000, 270_000, 600_000]
    parsed = WriteOptions.parse({"Routing_Key": "k", "transaction.timeout.ms": " 10000 "})
    assert parsed == WriteOptions(routing_key="k", transaction_timeout_ms=10_000)


@server
def test_ids_to_write_with_are_those_of_the_group_that_is_there(
    client: Client, settings: Settings, registry: SchemaRegistry, stream: Stream
) -> None:
    """Ids begin anew with a group that is made again, and none of before is remembered."""
    infos = {name: schema_info(name, "long") for name in ("a", "b")}

    def make_group(*names: str) -> None:
        registry.create_group(
            stream.scope, stream.name, serialization_format="Avro", compatibility="AllowAny", allow_multiple_types=True
        )
        for name in names:
            version = registry.add_schema(stream.scope, stream.name, infos[name])
            registry.encoding_id(stream.scope, stream.name, version, "")

    ids = []
    for names in (("b", "a"), ("a",)):
        make_group(*names)
        for _ in range(2):
            definition = load_definition(client, settings, stream, EventOptions.parse({"schema-type": "a"}))
            assert definition.registered is not None
            written_as, encodings = writing_encodings(
                settings, stream, definition.registered, "", definition.group_made
            )
            ids.append(written_as)
            registered = registry.encoding(stream.scope, stream.name, written_as).schema
            assert encodings.writer_schema(written_as).schema_text == registered.text
        registry.delete_group(stream.scope, stream.name)
    assert ids == [1, 1, 0, 0]


@pytest.mark.parametrize("mode", ["EXACTLY_ONCE", " Exactly-Once "])
def test_a_writer_mode_is_the_same_in_any_of_its_spellings(mode: str) -> None:
    assert WriteOptions.parse({"query": "load", "epoch": "1", "writer-mode": mode}).writer_mode == "exactly-once"
    assert without_official({"exactlyOnce": "true", "writer-mode": mode}) == {"writer-mode": mode}
    with pytest.raises(ConfigurationError, match="contradict each other"):
        without_official({"exactlyOnce": "false", "writer-mode": mode})


@pytest.mark.parametrize("text", ["stream:shop.a b", "shop.a b", "stream:shop/a/b"])
def test_a_name_that_pravega_can_t_hold_is_told_with_the_option(text: str) -> None:
    with pytest.raises(InvalidNameError, match=f'"badEvents" .{text}.: .*may hold only'):
        EventOptions.parse({"bad-events": text})


def test_two_spellings_of_an_option_do_not_contradict_each_other() -> None:
    given = {"failOnDataLoss": "false", "fail-on-data-loss": "false"}
    assert canonical(given, READ_KEYS, "read option") == {"failOnDataLoss": "false"}
    with pytest.raises(ConfigurationError, match='"failOnDataLoss" is given in two spellings'):
        canonical({**given, "fail_on_data_loss": "true"}, READ_KEYS, "read option")


@pytest.mark.parametrize("text", ["", " ", "a/b", "_x"])
def test_a_subscriber_s_name_is_checked_where_it_enters(text: str) -> None:
    with pytest.raises(InvalidNameError, match=f'"subscriber" .{text}.: .*reader group name'):
        ReadOptions.parse({"subscriber": text})
    assert ReadOptions.parse({"subscriber": "a-b.c"}).subscriber == "a-b.c"


@server
@pytest.mark.parametrize("wrong", [{"writerMode": "twice"}, {"epoch": "1"}, {"transactionTimeoutMs": "1"}])
def test_a_write_with_a_wrong_option_makes_no_stream(
    client: Client, settings: Settings, scope: str, wrong: dict[str, str]
) -> None:
    options = {"controller": settings.controller_uri, "stream": f"{scope}/made", **wrong}
    source = DefaultSource(options)
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        source.writer(StructType([StructField("event", StringType(), False)]), overwrite=False)
    assert not client.controller.stream_exists(Stream(scope, "made"))
