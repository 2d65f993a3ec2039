"""The controller's calls against a real one."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from client_tools import append, content, eventually, framed, host, make_stream, scale, truncate

from pyspark_pravega.client import (
    Client,
    Controller,
    RetentionPolicy,
    RetentionType,
    ScaleType,
    ScalingPolicy,
    SegmentRange,
    Stream,
    StreamConfiguration,
    TransactionState,
)
from pyspark_pravega.client.writing import SegmentWriter
from pyspark_pravega.errors import (
    ControllerUnavailableError,
    InvalidNameError,
    KeyValueTableNotFoundError,
    OperationFailedError,
    ScopeNotEmptyError,
    ScopeNotFoundError,
    StreamNotFoundError,
    TransactionError,
)
from pyspark_pravega.settings import Settings

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


# Scopes


@server
def test_creating_a_scope_again_changes_nothing(controller: Controller) -> None:
    name = f"test-{uuid.uuid4().hex[:12]}"
    assert not controller.scope_exists(name)
    assert controller.create_scope(name) is True
    assert controller.create_scope(name) is False
    assert controller.scope_exists(name)


@server
def test_scopes_are_listed_without_those_of_pravega_itself(controller: Controller) -> None:
    made = [f"test-{uuid.uuid4().hex[:12]}" for _ in range(3)]
    for name in made:
        controller.create_scope(name)
    listed = list(controller.list_scopes())
    assert set(made) <= set(listed)
    assert len(set(listed)) == len(listed)
    assert not [name for name in listed if name.startswith("_")]
    assert controller.scope_exists("_system")


@server
def test_a_scope_that_is_gone_is_gone(controller: Controller, scope: str) -> None:
    assert controller.delete_scope(scope) is True
    assert not controller.scope_exists(scope)
    assert controller.delete_scope(scope) is False
    assert controller.create_scope(scope) is True


@server
def test_a_scope_with_a_stream_is_not_deleted_and_still_takes_key_value_tables(client: Client, scope: str) -> None:
    stream = make_stream(client, scope, "t")
    with pytest.raises(ScopeNotEmptyError, match=f'scope "{scope}" is not empty'):
        client.controller.delete_scope(scope)
    assert client.controller.create_key_value_table(scope, "kv", partitions=1, key_bytes=8)
    client.controller.seal_stream(stream)
    client.controller.delete_stream(stream)
    with pytest.raises(ScopeNotEmptyError):
        client.controller.delete_scope(scope)
    assert client.controller.delete_key_value_table(scope, "kv")
    assert client.controller.delete_scope(scope)


# Streams


@server
def test_streams_are_listed_over_pages_each_once_without_those_of_pravega_itself(client: Client, scope: str) -> None:
    names = {f"s{i}" for i in range(40)}
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: make_stream(client, scope, name), sorted(names)))
    listed = list(client.controller.list_streams(scope))
    assert set(listed) == names
    assert len(listed) == len(names)


@server
def test_a_scope_s_hidden_streams_are_there_and_not_listed(client: Client, scope: str) -> None:
    make_stream(client, scope, "t")
    assert client.controller.create_key_value_table(scope, "kv", partitions=1, key_bytes=8)
    # Pravega itself keeps a stream of marks beside each stream.
    assert client.controller.current_segments(Stream(scope, "_MARKt")).ids
    assert list(client.controller.list_streams(scope)) == ["t"]


@server
def test_an_empty_scope_has_no_streams(controller: Controller, scope: str) -> None:
    assert list(controller.list_streams(scope)) == []
    assert list(controller.list_key_value_tables(scope)) == []


@server
def test_a_missing_scope_is_named(controller: Controller) -> None:
    missing = Stream(f"test-{uuid.uuid4().hex[:12]}", "t")
    expected = f'scope "{missing.scope}" does not exist'
    with pytest.raises(ScopeNotFoundError, match=expected):
        list(controller.list_streams(missing.scope))
    with pytest.raises(ScopeNotFoundError, match=expected):
        controller.create_stream(missing, StreamConfiguration())
    with pytest.raises(ScopeNotFoundError, match=expected):
        controller.create_key_value_table(missing.scope, "kv", partitions=1, key_bytes=8)


CONFIGURATIONS = [
    StreamConfiguration(),
    StreamConfiguration(scaling=ScalingPolicy(min_segments=3)),
    StreamConfiguration(
        scaling=ScalingPolicy(
            scale_type=ScaleType.BY_EVENTS_PER_SECOND, target_rate=100, scale_factor=2, min_segments=2
        ),
        retention=RetentionPolicy(retention_type=RetentionType.SIZE, minimum=1 << 30),
    ),
    StreamConfiguration(
        scaling=ScalingPolicy(scale_type=ScaleType.BY_KILOBYTES_PER_SECOND, target_rate=9, scale_factor=3),
        retention=RetentionPolicy(retention_type=RetentionType.TIME, minimum=60_000, maximum=3_600_000),
        tags=("a", "ü"),
        timestamp_aggregation_timeout=5_000,
        rollover_size_bytes=1 << 24,
    ),
]


@server
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_stream_keeps_the_configuration_it_was_created_with(
    controller: Controller, scope: str, configuration: StreamConfiguration
) -> None:
    stream = Stream(scope, "t")
    assert controller.create_stream(stream, configuration) is True
    assert controller.stream_configuration(stream) == configuration
    assert len(controller.current_segments(stream).ids) == configuration.scaling.min_segments


@server
def test_creating_a_stream_again_changes_nothing(controller: Controller, stream: Stream) -> None:
    before = controller.stream_configuration(stream)
    other = StreamConfiguration(scaling=ScalingPolicy(min_segments=4), tags=("new",))
    assert controller.create_stream(stream, other) is False
    assert controller.stream_configuration(stream) == before


@server
def test_of_many_who_create_a_stream_at_once_one_has_made_it(controller: Controller, scope: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(
            threads.map(lambda _: controller.create_stream(Stream(scope, "t"), StreamConfiguration()), range(8))
        )
    assert made.count(True) >= 1
    assert list(controller.list_streams(scope)) == ["t"]


@server
def test_a_stream_is_deleted_only_when_it_is_sealed(controller: Controller, stream: Stream) -> None:
    with pytest.raises(OperationFailedError, match=f'stream "{stream}" must be sealed'):
        controller.delete_stream(stream)
    controller.seal_stream(stream)
    controller.seal_stream(stream)
    assert controller.delete_stream(stream) is True
    assert controller.delete_stream(stream) is False


@server
def test_a_stream_made_again_has_none_of_the_old_one_s_events(client: Client, stream: Stream) -> None:
    append(client, stream, 0, framed(b"old"))
    client.controller.seal_stream(stream)
    client.controller.delete_stream(stream)
    assert client.controller.create_stream(stream, StreamConfiguration())
    (segment_id,) = client.controller.current_segments(stream).ids
    assert segment_id > 0
    assert content(client.pool, stream, segment_id) == b""


MISSING: list[Callable[[Controller, Stream], Any]] = [
    lambda controller, stream: controller.stream_configuration(stream),
    lambda controller, stream: controller.seal_stream(stream),
    lambda controller, stream: controller.current_segments(stream),
    lambda controller, stream: controller.head(stream),
    lambda controller, stream: controller.segments_from(stream, {0: 0}),
    lambda controller, stream: controller.begin_transaction(stream, lease_ms=LEASE_MS),
    lambda controller, stream: controller.scale(stream, [0], [(0.0, 1.0)], now_ms=1),
]


@server
@pytest.mark.parametrize("call", MISSING)
@pytest.mark.parametrize("where", ["here", "test-nowhere"])
def test_a_missing_stream_is_named(
    controller: Controller, scope: str, call: Callable[[Controller, Stream], Any], where: str
) -> None:
    stream = Stream(scope if where == "here" else where, "missing")
    with pytest.raises(StreamNotFoundError, match=f'stream "{stream}" does not exist'):
        call(controller, stream)


# Segments


@server
def test_the_segments_of_a_stream_share_the_key_space(client: Client, scope: str) -> None:
    stream = make_stream(client, scope, "t", segments=4)
    segments = client.controller.current_segments(stream)
    assert segments.stream == stream
    assert segments.ranges == tuple(SegmentRange(segment_id=i, min_key=i / 4, max_key=(i + 1) / 4) for i in range(4))
    assert client.controller.head(stream) == dict.fromkeys(range(4), 0)
    assert client.controller.segments_from(stream, dict.fromkeys(range(4), 0)) == (0, 1, 2, 3)


@server
def test_a_scale_replaces_segments_by_ones_of_the_next_epoch(client: Client, scope: str) -> None:
    stream = make_stream(client, scope, "t", segments=2)
    scale(client, stream, [1], [(0.5, 0.75), (0.75, 1.0)])
    two, three = 1 << 32 | 2, 1 << 32 | 3
    assert client.controller.current_segments(stream).ranges == (
        SegmentRange(segment_id=0, min_key=0.0, max_key=0.5),
        SegmentRange(segment_id=two, min_key=0.5, max_key=0.75),
        SegmentRange(segment_id=three, min_key=0.75, max_key=1.0),
    )
    assert client.controller.head(stream) == {0: 0, 1: 0}
    assert client.controller.segments_from(stream, {0: 0, 1: 0}) == (0, 1, two, three)
    assert client.controller.segments_from(stream, {0: 0, two: 0, three: 0}) == (0, two, three)


@server
def test_the_head_moves_with_truncation(client: Client, settings: Settings, stream: Stream) -> None:
    append(client, stream, 0, framed(b"one"), framed(b"two"))
    truncate(settings, stream, {0: 11})
    assert client.controller.head(stream) == {0: 11}
    scale(client, stream, [0], [(0.0, 1.0)])
    truncate(settings, stream, {1 << 32 | 1: 0})
    assert client.controller.head(stream) == {1 << 32 | 1: 0}
    assert client.controller.segments_from(stream, client.controller.head(stream)) == (1 << 32 | 1,)


@server
def test_a_sealed_stream_has_no_current_segments_and_keeps_its_old_ones(client: Client, stream: Stream) -> None:
    client.controller.seal_stream(stream)
    assert client.controller.current_segments(stream).ids == ()
    assert client.controller.segments_from(stream, client.controller.head(stream)) == (0,)


@server
@pytest.mark.parametrize(
    ("sealed", "ranges"), [([0], [(0.0, 1.0)]), ([0], [(0.0, 0.4)]), ([99], [(0.0, 0.5)]), ([0, 1], [(0.0, 1.0)])]
)
def test_a_scale_that_does_not_fit_is_refused(
    client: Client, scope: str, sealed: list[int], ranges: list[tuple[float, float]]
) -> None:
    stream = make_stream(client, scope, "t", segments=2)
    with pytest.raises(OperationFailedError, match=f'refused to scale stream "{stream}"'):
        client.controller.scale(stream, sealed, ranges, now_ms=time.time_ns() // 1_000_000)
    assert client.controller.current_segments(stream).ids == (0, 1)


@server
def test_the_segment_store_of_a_segment_can_be_reached(controller: Controller, stream: Stream) -> None:
    socket.create_connection(controller.endpoint(stream, 0), 10).close()


# Transactions


@server
def test_a_transaction_goes_from_open_to_committed(client: Client, controller: Controller, stream: Stream) -> None:
    transaction = controller.begin_transaction(stream, lease_ms=LEASE_MS)
    assert transaction.epoch == 0
    assert transaction.segments == controller.current_segments(stream)
    assert controller.transaction_state(stream, transaction.id) is TransactionState.OPEN
    writer = SegmentWriter(client.pool, stream, 0, segment=transaction.segment_name(0))
    writer.append(framed(b"event"), 1)
    writer.flush()
    writer.close()
    controller.ping_transaction(stream, transaction.id, lease_ms=LEASE_MS)
    assert content(client.pool, stream, 0) == b""
    controller.commit_transaction(stream, transaction.id)
    in_state(controller, stream, transaction.id, TransactionState.COMMITTED)
    assert content(client.pool, stream, 0) == framed(b"event")


@server
def test_committing_twice_is_harmless(controller: Controller, stream: Stream) -> None:
    transaction = controller.begin_transaction(stream, lease_ms=LEASE_MS).id
    controller.commit_transaction(stream, transaction)
    controller.commit_transaction(stream, transaction)
    in_state(controller, stream, transaction, TransactionState.COMMITTED)
    controller.commit_transaction(stream, transaction)
    assert controller.transaction_state(stream, transaction) is TransactionState.COMMITTED


@server
def test_an_aborted_transaction_stays_aborted(client: Client, controller: Controller, stream: Stream) -> None:
    transaction = controller.begin_transaction(stream, lease_ms=LEASE_MS)
    assert controller.abort_transaction(stream, transaction.id) is True
    in_state(controller, stream, transaction.id, TransactionState.ABORTED)
    controller.abort_transaction(stream, transaction.id)
    with pytest.raises(TransactionError, match=f'{transaction.id} on stream "{stream}" was aborted'):
        controller.commit_transaction(stream, transaction.id)
    with pytest.raises(TransactionError, match=r"can't be kept open: it was aborted, or its lease ran out"):
        controller.ping_transaction(stream, transaction.id, lease_ms=LEASE_MS)
    assert controller.transaction_state(stream, transaction.id) is TransactionState.ABORTED


@server
def test_a_committed_transaction_stays_committed(controller: Controller, stream: Stream) -> None:
    transaction = controller.begin_transaction(stream, lease_ms=LEASE_MS).id
    controller.commit_transaction(stream, transaction)
    assert controller.abort_transaction(stream, transaction) is False
    in_state(controller, stream, transaction, TransactionState.COMMITTED)
    assert controller.abort_transaction(stream, transaction) is False
    with pytest.raises(TransactionError, match="can't be kept open: it is committed"):
        controller.ping_transaction(stream, transaction, lease_ms=LEASE_MS)


@server
def test_a_transaction_nobody_began_is_unknown(controller: Controller, stream: Stream) -> None:
    never = uuid.UUID(int=12345)
    assert controller.transaction_state(stream, never) is TransactionState.UNKNOWN
    assert controller.abort_transaction(stream, never) is False
    for call in (
        lambda: controller.commit_transaction(stream, never),
        lambda: controller.ping_transaction(stream, never, lease_ms=LEASE_MS),
    ):
        with pytest.raises(TransactionError, match=str(never)):
            call()


@server
@pytest.mark.parametrize("lease_ms", [0, 9_999, 600_001, -1])
def test_a_lease_beyond_the_server_s_limits_is_refused(controller: Controller, stream: Stream, lease_ms: int) -> None:
    with pytest.raises(TransactionError, match=f"with a lease of {lease_ms} ms"):
        controller.begin_transaction(stream, lease_ms=lease_ms)


@server
@pytest.mark.parametrize("lease_ms", [10_000, 600_000])
def test_leases_at_the_server_s_limits_are_taken(controller: Controller, stream: Stream, lease_ms: int) -> None:
    transaction = controller.begin_transaction(stream, lease_ms=lease_ms).id
    controller.ping_transaction(stream, transaction, lease_ms=lease_ms)
    assert controller.abort_transaction(stream, transaction)


@server
def test_a_sealed_stream_takes_no_transactions(controller: Controller, stream: Stream) -> None:
    controller.seal_stream(stream)
    with pytest.raises(TransactionError, match=f'no transaction could be begun on stream "{stream}"'):
        controller.begin_transaction(stream, lease_ms=LEASE_MS)


@server
def test_a_transaction_outlives_a_scale_and_is_of_the_epoch_it_began_in(client: Client, stream: Stream) -> None:
    controller = client.controller
    before = controller.begin_transaction(stream, lease_ms=LEASE_MS)
    scale(client, stream, [0], [(0.0, 0.5), (0.5, 1.0)])
    after = controller.begin_transaction(stream, lease_ms=LEASE_MS)
    assert (before.epoch, after.epoch) == (0, 1)
    assert (before.segments.ids, after.segments.ids) == ((0,), (1 << 32 | 1, 1 << 32 | 2))
    writer = SegmentWriter(client.pool, stream, 0, segment=before.segment_name(0))
    writer.append(framed(b"event"), 1)
    writer.flush()
    writer.close()
    for transaction in (before, after):
        controller.commit_transaction(stream, transaction.id)
        in_state(controller, stream, transaction.id, TransactionState.COMMITTED)
    ids = controller.segments_from(stream, controller.head(stream))
    assert b"".join(content(client.pool, stream, segment_id) for segment_id in ids) == framed(b"event")


# Key-value tables


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


# Names and addresses


NAMED: list[tuple[str, Callable[[Controller, str], Any]]] = [
    ("scope", lambda controller, name: controller.create_scope(name)),
    ("scope", lambda controller, name: controller.create_stream(Stream(name, "t"), StreamConfiguration())),
    ("stream", lambda controller, name: controller.create_stream(Stream("s", name), StreamConfiguration())),
    (
        "key-value table",
        lambda controller, name: controller.create_key_value_table("s", name, partitions=1, key_bytes=8),
    ),
]


@pytest.mark.parametrize(("kind", "call"), NAMED)
@pytest.mark.parametrize("name", ["", "_hidden", "a b", "a/b", "ä", "x" * 256])
def test_names_that_pravega_can_not_hold_are_refused_without_asking_it(
    kind: str, call: Callable[[Controller, str], Any], name: str
) -> None:
    with Controller("tcp://nowhere.invalid:1") as controller, pytest.raises(InvalidNameError, match=kind):
        call(controller, name)


def never_answers(connection: socket.socket) -> None:
    del connection


def test_a_controller_that_does_not_answer_is_unavailable_within_the_time_out() -> None:
    with host(never_answers) as (name, port), Controller(f"tcp://{name}:{port}", timeout=0.5) as controller:
        begun = time.monotonic()
        with pytest.raises(ControllerUnavailableError, match=rf"no Pravega controller answers at tcp://{name}:{port}"):
            controller.scope_exists("s")
        with pytest.raises(ControllerUnavailableError):
            list(controller.list_scopes())
        assert time.monotonic() - begun < 10


def test_a_controller_that_is_not_there_is_unavailable_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with Controller(f"tcp://127.0.0.1:{port}", timeout=30) as controller:
        begun = time.monotonic()
        with pytest.raises(ControllerUnavailableError, match=r"check the address \(option controller-uri"):
            controller.scope_exists("s")
        assert time.monotonic() - begun < 20


def test_a_host_that_speaks_something_else_is_no_controller() -> None:
    def http(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        connection.close()

    with (
        host(http) as (name, port),
        Controller(f"tcp://{name}:{port}", timeout=5) as controller,
        pytest.raises(ControllerUnavailableError, match=f"tcp://{name}:{port}"),
    ):
        controller.scope_exists("s")


@server
def test_threads_may_share_a_controller(controller: Controller, scope: str) -> None:
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: controller.scope_exists(scope), range(200)))
    assert answers == [True] * 200
