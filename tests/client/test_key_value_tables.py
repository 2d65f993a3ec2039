"""Key-value tables: entries with versions, changed only under conditions."""

from __future__ import annotations

import random
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from client_tools import Proxy, pool_to
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.client import Client
from pyspark_pravega.client.key_value.partitions import Span
from pyspark_pravega.client.key_value.table import ANY_VERSION, NOT_EXISTS, Entry, KeyValueTable
from pyspark_pravega.errors import (
    ConfigurationError,
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
    assert table.put([]) == []
    table.remove([])
    assert list(table.iterate_keys()) == []
    assert list(table.iterate_entries()) == []


def test_an_entry_changes_only_from_the_version_named(table: KeyValueTable) -> None:
    (first,) = table.put([(A, NOT_EXISTS, b"one")])
    (second,) = table.put([(A, first, b"two")])
    assert second != first
    for version in (first, NOT_EXISTS):
        with pytest.raises(ConflictError, match=f'"{table}" has been changed: key {A.hex()}'):
            table.put([(A, version, b"three")])
    assert table.get([A]) == [Entry(value=b"two", version=second)]
    table.put([(A, ANY_VERSION, b"three")])
    assert [entry and entry.value for entry in table.get([A])] == [b"three"]


def test_an_entry_that_is_not_there_has_no_version_to_change_from(table: KeyValueTable) -> None:
    with pytest.raises(ConflictError, match=f'"{table}" (is gone|has been changed): key {A.hex()}'):
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
    outcomes = set()
    unclear: list[bool] = []
    for allowance in range(40, 400, 9):
        table.put([(A, ANY_VERSION, b"old")])
        (before,) = table.get([A])
        assert before is not None
        with Proxy(target, allowance) as proxy, pool_to(settings, proxy.address) as pool:
            through = KeyValueTable(pool, scope, "kv")
            try:
                (version,) = through.put([(A, before.version, b"new")])
                outcomes.add("made")
                assert table.get([A]) == [Entry(value=b"new", version=version)]
            except SegmentStoreUnavailableError as error:
                words = f'a change of key {A.hex()} in key-value table "{scope}/kv" may or may not have been made'
                unclear.append(words in str(error))
                (after,) = table.get([A])
                assert after is not None
                assert after.value in (b"old", b"new")
                outcomes.add("unknown")
    assert outcomes == {"made", "unknown"}
    assert all(unclear)


PRIMARY, SECONDARY = 4, 3


def key(primary: int, secondary: int) -> bytes:
    return struct.pack(">I", primary) + secondary.to_bytes(SECONDARY)


@pytest.fixture
def wide(client: Client, scope: str) -> KeyValueTable:
    """Of several partitions, with secondary keys."""
    assert client.controller.create_key_value_table(
        scope, "wide", partitions=4, key_bytes=PRIMARY, secondary_key_bytes=SECONDARY
    )
    return KeyValueTable(client.pool, scope, "wide")


def test_entries_of_all_partitions_are_found_in_the_order_asked_for(wide: KeyValueTable) -> None:
    for primary in range(40):
        wide.put([(key(primary, s), NOT_EXISTS, b"%d.%d" % (primary, s)) for s in range(3)])
    keys = [key(primary, s) for primary in range(41) for s in range(4)]
    random.Random(1).shuffle(keys)
    for entry_key, entry in zip(keys, wide.get(keys), strict=True):
        primary, secondary = struct.unpack(">I", entry_key[:4])[0], int.from_bytes(entry_key[4:])
        if primary < 40 and secondary < 3:
            assert entry is not None
            assert entry.value == b"%d.%d" % (primary, secondary)
        else:
            assert entry is None


def test_a_change_that_spans_partitions_is_refused_before_anything_is_sent(wide: KeyValueTable) -> None:
    keys = [key(primary, 0) for primary in range(40)]
    with pytest.raises(ConfigurationError, match=rf'"{wide}" spans \d partitions .* the keys of one primary key'):
        wide.put([(each, NOT_EXISTS, b"") for each in keys])
    with pytest.raises(ConfigurationError, match="spans"):
        wide.remove([(each, ANY_VERSION) for each in keys])
    assert wide.get(keys) == [None] * 40


def test_a_key_shorter_than_a_primary_key_has_no_partition(wide: KeyValueTable) -> None:
    with pytest.raises(ConfigurationError, match=r"has 2 bytes; keys of .* begin with a primary key of 4 bytes"):
        wide.get([b"ab"])


def test_keys_and_entries_come_in_order_from_all_partitions(wide: KeyValueTable) -> None:
    versions = {
        key(p, s): wide.put([(key(p, s), NOT_EXISTS, b"v%d" % p)])[0] for p in range(0, 300, 5) for s in range(2)
    }
    assert list(wide.iterate_keys()) == sorted(versions.items())
    expected = [
        (k, Entry(value=b"v%d" % struct.unpack(">I", k[:4])[0], version=v)) for k, v in sorted(versions.items())
    ]
    assert list(wide.iterate_entries()) == expected


def test_keys_are_chosen_by_prefix_and_range(wide: KeyValueTable) -> None:
    all_keys = [key(p, s) for p in (0, 1, 255, 256, 2**32 - 1) for s in (0, 1, 2**24 - 1)]
    for each in all_keys:
        wide.put([(each, NOT_EXISTS, each)])
    bounds = [None, b"", b"\0\0\1", key(1, 0), key(1, 1), key(255, 2), b"\xff", key(2**32 - 1, 2**24 - 1)]
    for prefix in (b"", b"\0", b"\0\0\0", key(1, 0)[:4], key(1, 0)[:6], key(1, 1), b"\xff" * 4, b"\7"):
        for start in bounds:
            for stop in bounds:
                expected = [
                    k
                    for k in sorted(all_keys)
                    if k.startswith(prefix) and (start is None or k >= start) and (stop is None or k < stop)
                ]
                assert [k for k, _ in wide.iterate_keys(prefix=prefix, start=start, stop=stop)] == expected
    assert [(k, e.value) for k, e in wide.iterate_entries(prefix=b"\0\0")] == [(k, k) for k in sorted(all_keys)[:12]]


@given(st.binary(max_size=2), st.none() | st.binary(max_size=2), st.none() | st.binary(max_size=2))
def test_a_span_holds_what_its_bounds_say(prefix: bytes, start: bytes | None, stop: bytes | None) -> None:
    span = Span.of(2, prefix=prefix, start=start, stop=stop)
    every = [i.to_bytes(2) for i in range(0, 1 << 16, 17)] + [b"\xff\xff", prefix.ljust(2, b"\0")]
    for each in every:
        expected = each.startswith(prefix) and (start is None or each >= start) and (stop is None or each < stop)
        assert (bool(span) and span.first <= each <= span.last) == expected


def test_a_bound_longer_than_a_key_is_refused(wide: KeyValueTable) -> None:
    for name in ("prefix", "start", "stop"):
        bounds: dict[str, Any] = {name: bytes(8)}
        with pytest.raises(ConfigurationError, match="has 8 bytes, more than a key, which has 7"):
            wide.iterate_keys(**bounds)


def test_many_keys_are_iterated_while_others_come_and_go(table: KeyValueTable) -> None:
    stay = [b"s%04d" % i for i in range(3000)]
    leave = [b"l%04d" % i for i in range(500)]
    for begin in range(0, 3000, 1000):
        table.put([(k, NOT_EXISTS, k) for k in stay[begin : begin + 1000]])
    table.put([(k, NOT_EXISTS, k) for k in leave])
    keys = []
    for k, entry in table.iterate_entries():
        keys.append(k)
        assert entry.value == k
        if len(keys) == 100:
            table.remove([(each, ANY_VERSION) for each in leave[50:]])
            table.put([(b"z%04d" % i, NOT_EXISTS, b"z%04d" % i) for i in range(10)])
    assert [k for k in keys if k[:1] == b"s"] == stay
    assert keys == sorted(set(keys))


def test_entries_of_any_size_are_iterated(table: KeyValueTable) -> None:
    """60 MB: servers answer with pages as long as they like."""
    keys = [b"%05d" % i for i in range(60)]
    for begin in range(0, 60, 15):
        table.put([(k, NOT_EXISTS, k * 200_000) for k in keys[begin : begin + 15]])
    iterated = []
    for k, entry in table.iterate_entries():
        assert entry.value == k * 200_000
        iterated.append(k)
    assert iterated == keys
    assert [len(entry.value) for entry in table.get(keys) if entry] == [1_000_000] * 60


def test_a_change_of_more_than_a_server_takes_is_refused_before_it_is_sent(table: KeyValueTable) -> None:
    with pytest.raises(ConfigurationError, match=f'"{table}" has 17000493 bytes'):
        table.put([(b"%05d" % i, NOT_EXISTS, bytes(1_000_000)) for i in range(17)])
    with pytest.raises(OperationFailedError, match="too large"):
        table.put([(A, NOT_EXISTS, bytes(1 << 20))])
    assert list(table.iterate_keys()) == []


def test_iterating_goes_on_after_lost_connections(
    client: Client, settings: Settings, scope: str, table: KeyValueTable
) -> None:
    segments = client.controller.key_value_table_segments(scope, "kv")
    target = client.controller.endpoint(segments.stream, segments.ids[0])
    keys = [b"%05d" % i for i in range(6000)]
    table.put([(k, NOT_EXISTS, k) for k in keys])
    with Proxy(target) as proxy, pool_to(settings, proxy.address) as pool:
        iterated = []
        for k, entry in KeyValueTable(pool, scope, "kv").iterate_entries():
            assert entry.value == k
            iterated.append(k)
            if len(iterated) % 200 == 0:
                proxy.cut_all()
        assert iterated == keys
        assert proxy.connections > 5
