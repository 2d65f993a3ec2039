"""Scopes, names that are refused, and controllers that don't answer."""

from __future__ import annotations

import contextlib
import socket
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import grpc
import pytest
from client_tools import host, make_stream

from pyspark_pravega.client import (
    Client,
    Controller,
    Stream,
    StreamConfiguration,
    TransactionState,
)
from pyspark_pravega.client.controller import messages
from pyspark_pravega.client.controller.rpc import ControllerRpc
from pyspark_pravega.client.reader_groups import ReaderGroup, ReaderGroupRetention, ReaderGroupStream
from pyspark_pravega.errors import (
    ControllerUnavailableError,
    InvalidNameError,
    ScopeNotEmptyError,
    UnsupportedOperationError,
)
from pyspark_pravega.settings import Settings

server = pytest.mark.server


MANUAL = ReaderGroupRetention.MANUAL


def group(scope: str, name: str) -> ReaderGroup:
    return ReaderGroup(scope=scope, name=name, streams=(ReaderGroupStream(stream=Stream("s", "t")),))


@pytest.fixture
def controller(client: Client) -> Controller:
    return client.controller


@server
def test_creating_a_scope_again_changes_nothing(controller: Controller) -> None:
    name = f"test-{uuid.uuid4().hex[:12]}"
    assert not controller.scope_exists(name)
    assert controller.create_scope(name) is True
    assert controller.create_scope(name) is False
    assert controller.scope_exists(name)


@server
def test_scopes_are_listed_without_those_of_pravega_itself(controller: Controller) -> None:
    names = [f"test-{uuid.uuid4().hex[:12]}" for _ in range(3)]
    for name in names:
        controller.create_scope(name)
    listed = list(controller.list_scopes())
    assert set(names) <= set(listed)
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


@server
def test_a_scope_is_deleted_with_all_that_it_holds(client: Client, scope: str) -> None:
    controller = client.controller
    streams = [make_stream(client, scope, f"s{i}", segments=2) for i in range(4)]
    controller.seal_stream(streams[0])
    transaction = controller.begin_transaction(streams[1], lease_ms=60_000)
    for name in ("kv1", "kv2"):
        controller.create_key_value_table(scope, name, partitions=1, key_bytes=8)
    controller.create_reader_group(
        ReaderGroup(scope=scope, name="g", streams=(ReaderGroupStream(stream=streams[2]),), retention=MANUAL)
    )
    assert controller.delete_scope(scope, recursive=True) is True
    assert not controller.scope_exists(scope)
    assert controller.delete_scope(scope, recursive=True) is False
    # Nothing of it is left for one of the same name.
    assert controller.create_scope(scope) is True
    assert list(controller.list_streams(scope)) == list(controller.list_key_value_tables(scope)) == []
    assert controller.transaction_state(streams[1], transaction.id) is TransactionState.ABORTED
    assert controller.create_key_value_table(scope, "kv1", partitions=1, key_bytes=8)
    assert controller.create_stream(streams[0], StreamConfiguration())


@server
def test_what_others_have_called_as_nobody_should_goes_with_its_scope(
    client: Client, settings: Settings, scope: str
) -> None:
    rpc = ControllerRpc(settings.controller_uri, timeout=settings.timeout)
    hidden = Stream(scope, "_hidden")
    # The server takes such names; this client doesn't ask it to.
    assert rpc.status("createStream", messages.configuration_message(hidden, StreamConfiguration())) == 0
    rpc.close()
    with pytest.raises(InvalidNameError):
        client.controller.create_stream(hidden, StreamConfiguration())
    assert list(client.controller.list_streams(scope)) == []
    with pytest.raises(ScopeNotEmptyError):
        client.controller.delete_scope(scope)
    assert client.controller.delete_scope(scope, recursive=True)


NAMED: list[tuple[str, Callable[[Controller, str], Any]]] = [
    ("scope", lambda controller, name: controller.create_scope(name)),
    ("scope", lambda controller, name: controller.create_stream(Stream(name, "t"), StreamConfiguration())),
    ("stream", lambda controller, name: controller.create_stream(Stream("s", name), StreamConfiguration())),
    (
        "key-value table",
        lambda controller, name: controller.create_key_value_table("s", name, partitions=1, key_bytes=8),
    ),
    ("scope", lambda controller, name: controller.create_key_value_table(name, "t", partitions=1, key_bytes=8)),
    ("reader group", lambda controller, name: controller.create_reader_group(group("s", name))),
    ("scope", lambda controller, name: controller.create_reader_group(group(name, "g"))),
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
        with pytest.raises(ControllerUnavailableError, match=rf"no Pravega controller answers at tcp://{name}:{port}"):
            controller.scope_exists("s")
        with pytest.raises(ControllerUnavailableError):
            list(controller.list_scopes())


@server
@pytest.mark.parametrize("has_answered", [False, True])
def test_a_controller_that_holds_a_call_is_left_for_another_one(settings: Settings, has_answered: bool) -> None:
    """However long calls may take: a frozen one would hold each for so long."""
    stops = threading.Event()

    def freezes(connection: socket.socket) -> None:
        with socket.create_connection((real.hostname or "", real.port or 0)) as onward:
            forward = threading.Thread(target=pump, args=(connection, onward), daemon=True)
            forward.start()
            pump(onward, connection)

    def pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if stops.is_set():
                    stops_for_ever.wait()
                target.sendall(data)

    stops_for_ever = threading.Event()
    real = urlsplit(settings.controller_uri)
    with (
        host(freezes) as (name, port),
        Controller(f"tcp://{name}:{port},{real.hostname}:{real.port}", timeout=3000) as controller,
    ):
        if has_answered:
            assert not controller.scope_exists("not-there")
        stops.set()
        # The test's own limit comes long before that of the calls.
        assert not controller.scope_exists("not-there")
        assert not controller.scope_exists("not-there")
        stops_for_ever.set()


def test_a_controller_that_is_not_there_is_unavailable_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    # Not when the timeout is over: the test's own comes before it.
    with (
        Controller(f"tcp://127.0.0.1:{port}", timeout=3000) as controller,
        pytest.raises(ControllerUnavailableError, match=r"check the address \(option controller-uri"),
    ):
        controller.scope_exists("s")


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


def test_a_call_that_an_older_controller_lacks_is_refused_with_the_version_that_has_it() -> None:
    older = grpc.server(ThreadPoolExecutor(1))
    port = older.add_insecure_port("127.0.0.1:0")
    older.start()
    with (
        Controller(f"tcp://127.0.0.1:{port}", timeout=5) as controller,
        pytest.raises(
            UnsupportedOperationError, match=r"know listCompletedTransactions: Pravega 0\.12 or newer is needed$"
        ),
    ):
        controller.completed_transactions(Stream("s", "t"))
    older.stop(None)


@server
def test_threads_may_share_a_controller(controller: Controller, scope: str) -> None:
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: controller.scope_exists(scope), range(200)))
    assert answers == [True] * 200
