"""Key-value tables on a real controller."""

from __future__ import annotations

import pickle

import pytest

from pyspark_pravega.client import (
    Client,
    Controller,
    Stream,
    StreamConfiguration,
)
from pyspark_pravega.client.connections import KnownEndpoints
from pyspark_pravega.client.key_value.table import NOT_EXISTS, KeyValueTable
from pyspark_pravega.client.policies import KeyValueTableConfiguration
from pyspark_pravega.errors import (
    ConfigurationError,
    InvalidNameError,
    KeyValueTableNotFoundError,
    SegmentNotFoundError,
)
from pyspark_pravega.sandbox.ports import free_ports
from pyspark_pravega.settings import Settings

server = pytest.mark.server


@pytest.fixture
def controller(client: Client) -> Controller:
    return client.controller


@server
def test_key_value_tables_are_made_listed_and_deleted(controller: Controller, scope: str) -> None:
    names = [f"kv{i}" for i in range(12)]
    for name in names:
        assert controller.create_key_value_table(scope, name, partitions=1, key_bytes=16) is True
    assert controller.create_key_value_table(scope, names[0], partitions=1, key_bytes=16) is False
    assert sorted(controller.list_key_value_tables(scope)) == sorted(names)
    assert list(controller.list_streams(scope)) == []
    assert len(controller.key_value_table_segments(scope, names[0]).ids) == 1
    assert controller.delete_key_value_table(scope, names[0]) is True
    assert controller.delete_key_value_table(scope, names[0]) is False
    assert sorted(controller.list_key_value_tables(scope)) == sorted(names[1:])
    with pytest.raises(KeyValueTableNotFoundError, match=f'"{scope}/{names[0]}" does not exist'):
        controller.key_value_table_segments(scope, names[0])


@server
def test_a_table_that_is_made_again_is_another_one(client: Client, scope: str) -> None:
    controller, key = client.controller, bytes(16)
    controller.create_key_value_table(scope, "kv", partitions=1, key_bytes=16)
    first = KeyValueTable.reopened(client.pool, scope, "kv", key=key)
    first.put([(key, NOT_EXISTS, b"first")])
    # Now it is known where it is.
    again = KeyValueTable.reopened(client.pool, scope, "kv", key=key)
    (entry,) = again.get([key])
    assert entry is not None
    assert entry.value == b"first"

    assert controller.delete_key_value_table(scope, "kv")
    with pytest.raises(KeyValueTableNotFoundError):
        KeyValueTable.reopened(client.pool, scope, "kv", key=key)
    controller.create_key_value_table(scope, "kv", partitions=1, key_bytes=16)
    controller.create_key_value_table(scope, "kv", partitions=1, key_bytes=16)
    with pytest.raises(SegmentNotFoundError):
        first.get([key])
    second = KeyValueTable.reopened(client.pool, scope, "kv", key=key)
    assert second.get([key]) == [None]
    assert second.segments.ids != first.segments.ids


@server
def test_places_are_for_other_processes(client: Client, settings: Settings, scope: str) -> None:
    """Who is told where a table is asks no controller, and finds it out where that is wrong."""
    controller, key = client.controller, bytes(16)
    controller.create_key_value_table(scope, "told", partitions=1, key_bytes=16)
    table = KeyValueTable.reopened(client.pool, scope, "told", key=key)
    table.put([(key, NOT_EXISTS, b"told")])
    known: KnownEndpoints = pickle.loads(pickle.dumps(client.pool.known_endpoints(table.segments.stream)))
    assert known.endpoints
    with Client(settings) as other:
        other.pool.believe(known)
        entries = KeyValueTable.reopened(other.pool, scope, "told", key=key).get([key])
        assert [entry and entry.value for entry in entries] == [b"told"]
    assert controller.delete_key_value_table(scope, "told")
    controller.create_key_value_table(scope, "told", partitions=1, key_bytes=16)
    nowhere = {segment: ("127.0.0.1", free_ports(1)[0]) for segment in known.endpoints}
    for wrong in (known, KnownEndpoints(tables=known.tables, endpoints=nowhere)):
        with Client(settings) as other:
            other.pool.believe(wrong)
            assert KeyValueTable.reopened(other.pool, scope, "told", key=key).get([key]) == [None]


@server
def test_the_longest_name_of_a_key_value_table_is_shorter_than_others(controller: Controller, scope: str) -> None:
    assert controller.create_key_value_table(scope, "x" * 250, partitions=1, key_bytes=8)
    assert controller.create_stream(Stream(scope, "x" * 255), StreamConfiguration())
    with pytest.raises(InvalidNameError, match="at most 250"):
        controller.create_key_value_table(scope, "x" * 251, partitions=1, key_bytes=8)


@server
def test_a_table_tells_how_it_was_made(controller: Controller, scope: str) -> None:
    sizes = {"partitions": 3, "key_bytes": 8, "secondary_key_bytes": 4}
    assert controller.create_key_value_table(scope, "kv", **sizes, rollover_size_bytes=1 << 20)
    # The server keeps the rollover size to itself.
    assert controller.key_value_table_configuration(scope, "kv") == KeyValueTableConfiguration(**sizes)
    segments = controller.key_value_table_segments(scope, "kv")
    assert len(segments.ids) == 3
    assert segments.stream == Stream(scope, "kv_kvtable")
    with pytest.raises(KeyValueTableNotFoundError, match=f'key-value table "{scope}/none" does not exist'):
        controller.key_value_table_configuration(scope, "none")
    with pytest.raises(KeyValueTableNotFoundError):
        controller.key_value_table_configuration("test-nowhere", "none")


@server
def test_keys_are_as_long_as_the_server_can_hold_or_refused(client: Client, scope: str) -> None:
    with pytest.raises(ConfigurationError, match="at most 256 bytes, not 257"):
        client.controller.create_key_value_table(scope, "kv", partitions=1, key_bytes=257)
    assert client.controller.create_key_value_table(scope, "kv", partitions=1, key_bytes=256)
    table = KeyValueTable(client.pool, scope, "kv")
    table.put([(b"k" * 256, NOT_EXISTS, b"value")])
    (entry,) = table.get([b"k" * 256])
    assert entry is not None
    assert entry.value == b"value"
