"""Key-value tables: entries with versions, changed only under conditions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from client_tools import Proxy, pool_to

from pyspark_pravega.client import Client
from pyspark_pravega.client.tables import ANY_VERSION, NOT_EXISTS, Entry, KeyValueTable
from pyspark_pravega.errors import (
    ConflictError,
    KeyValueTableNotFoundError,
    OperationFailedError,
    SegmentStoreUnavailableError,
)
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

A, B, C = b"key-a", b"key-b", b"key-c"


@pytest.fixture
def table(client: Client, scope: str) -> KeyValueTable:
    assert client.controller.create_key_value_table(scope, "kv", partitions=1, key_bytes=5)
    return KeyValueTable(client.pool, scope, "kv")


def test_an_entry_is_found_under_its_key_with_its_version(table: KeyValueTable) -> None:
    versions = table.put([(A, NOT_EXISTS, b"one"), (B, NOT_EXISTS, b"")])
    assert table.get([B, C, A]) == [
        Entry(value=b"", version=versions[1]),
        None,
        Entry(value=b"one", version=versions[0]),
    ]


def test_asking_for_nothing_gives_nothing(table: KeyValueTable) -> None:
    assert table.get([]) == []
    table.remove([])


def test_an_entry_changes_only_from_the_version_named(table: KeyValueTable) -> None:
    (first,) = table.put([(A, NOT_EXISTS, b"one")])
    (second,) = table.put([(A, first, b"two")])
    assert second != first
    for version in (first, NOT_EXISTS):
        with pytest.raises(ConflictError, match="has been changed"):
            table.put([(A, version, b"three")])
    assert table.get([A]) == [Entry(value=b"two", version=second)]
    table.put([(A, ANY_VERSION, b"three")])
    assert [entry and entry.value for entry in table.get([A])] == [b"three"]


def test_an_entry_that_is_not_there_has_no_version_to_change_from(table: KeyValueTable) -> None:
    with pytest.raises(ConflictError):
        table.put([(A, 1, b"one")])
    assert table.get([A]) == [None]


def test_a_change_of_several_entries_is_made_whole_or_not_at_all(table: KeyValueTable) -> None:
    table.put([(A, NOT_EXISTS, b"one")])
    with pytest.raises(ConflictError):
        table.put([(B, NOT_EXISTS, b"new"), (A, NOT_EXISTS, b"new")])
    assert [entry and entry.value for entry in table.get([A, B])] == [b"one", None]


def test_an_entry_is_removed_only_at_the_version_named(table: KeyValueTable) -> None:
    (first,) = table.put([(A, NOT_EXISTS, b"one")])
    (second,) = table.put([(A, first, b"two")])
    with pytest.raises(ConflictError):
        table.remove([(A, first)])
    table.remove([(A, second)])
    assert table.get([A]) == [None]
    table.put([(A, NOT_EXISTS, b"again")])


def test_removing_what_is_not_there_is_harmless_for_any_version(table: KeyValueTable) -> None:
    table.put([(A, NOT_EXISTS, b"one")])
    table.remove([(B, ANY_VERSION), (A, ANY_VERSION)])
    assert table.get([A, B]) == [None, None]


def test_large_values_are_kept(table: KeyValueTable) -> None:
    value = bytes(range(256)) * 3500
    table.put([(A, NOT_EXISTS, value)])
    assert [entry and entry.value for entry in table.get([A])] == [value]


def test_a_key_of_another_length_is_refused_by_the_server(table: KeyValueTable) -> None:
    with pytest.raises(OperationFailedError):
        table.put([(b"short", NOT_EXISTS, b""), (b"too long", NOT_EXISTS, b"")])


def test_of_many_who_change_an_entry_at_once_one_wins_each_time(table: KeyValueTable) -> None:
    table.put([(A, NOT_EXISTS, b"0")])

    def count_up(_: int) -> None:
        while True:
            (entry,) = table.get([A])
            assert entry is not None
            try:
                table.put([(A, entry.version, str(int(entry.value) + 1).encode())])
                return
            except ConflictError:
                continue

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(count_up, range(64)))
    assert [entry and entry.value for entry in table.get([A])] == [b"64"]


def test_a_table_that_is_not_there_is_named(client: Client, scope: str) -> None:
    with pytest.raises(KeyValueTableNotFoundError, match=f'"{scope}/nothing" does not exist'):
        KeyValueTable(client.pool, scope, "nothing")


def test_changes_are_made_though_the_idle_connection_was_closed(
    client: Client, settings: Settings, scope: str, table: KeyValueTable
) -> None:
    segments = client.controller.key_value_table_segments(scope, "kv")
    target = client.controller.endpoint(segments.stream, segments.ids[0])
    with Proxy(target) as proxy, pool_to(settings, proxy.address) as pool:
        through = KeyValueTable(pool, scope, "kv")
        (first,) = through.put([(A, NOT_EXISTS, b"one")])
        proxy.cut_all()
        (second,) = through.put([(A, first, b"two")])
        proxy.cut_all()
        assert through.get([A]) == [Entry(value=b"two", version=second)]
        proxy.cut_all()
        through.remove([(A, second)])
        assert through.get([A]) == [None]


def test_a_change_whose_answer_is_lost_is_not_made_a_second_time(
    client: Client, settings: Settings, scope: str, table: KeyValueTable
) -> None:
    segments = client.controller.key_value_table_segments(scope, "kv")
    target = client.controller.endpoint(segments.stream, segments.ids[0])
    seen = set()
    for allowance in range(40, 400, 9):
        table.put([(A, ANY_VERSION, b"old")])
        (before,) = table.get([A])
        assert before is not None
        with Proxy(target, allowance) as proxy, pool_to(settings, proxy.address) as pool:
            through = KeyValueTable(pool, scope, "kv")
            try:
                (version,) = through.put([(A, before.version, b"new")])
                seen.add("made")
                assert table.get([A]) == [Entry(value=b"new", version=version)]
            except SegmentStoreUnavailableError:
                (after,) = table.get([A])
                assert after is not None
                assert after.value in (b"old", b"new")
                seen.add("unknown")
    assert seen == {"made", "unknown"}
