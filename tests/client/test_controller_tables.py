"""Key-value tables on a real controller."""

from __future__ import annotations

import uuid

import pytest
from client_tools import eventually, make_stream

from pyspark_pravega.client import (
    Client,
    Controller,
    Stream,
    StreamConfiguration,
    TransactionState,
)
from pyspark_pravega.errors import (
    InvalidNameError,
    KeyValueTableNotFoundError,
)

server = pytest.mark.server
LEASE_MS = 60_000


@pytest.fixture
def controller(client: Client) -> Controller:
    return client.controller


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "t")


def in_state(controller: Controller, stream: Stream, transaction: uuid.UUID, state: TransactionState) -> None:
    eventually(lambda: controller.transaction_state(stream, transaction) is state)


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
def test_the_longest_name_of_a_key_value_table_is_shorter_than_others(controller: Controller, scope: str) -> None:
    assert controller.create_key_value_table(scope, "x" * 250, partitions=1, key_bytes=8)
    assert controller.create_stream(Stream(scope, "x" * 255), StreamConfiguration())
    with pytest.raises(InvalidNameError, match="at most 250"):
        controller.create_key_value_table(scope, "x" * 251, partitions=1, key_bytes=8)
