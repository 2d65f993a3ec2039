"""The schema registry's calls against a real one."""

from __future__ import annotations

import itertools
import json
import pickle
import socket
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any

import pytest

from pyspark_pravega.deadlines import deadline
from pyspark_pravega.errors import (
    ConfigurationError,
    DeadlineExceededError,
    GroupNotFoundError,
    IncompatibleSchemaError,
    InvalidNameError,
    OperationFailedError,
    RegistryUnavailableError,
    SchemaError,
    SchemaNotFoundError,
)
from pyspark_pravega.registry import EncodingInfo, GroupProperties, SchemaInfo, SchemaRegistry, VersionInfo, transport

server = pytest.mark.server


@pytest.fixture
def scope() -> str:
    """A namespace of the test's own."""
    return f"test-{uuid.uuid4().hex[:12]}"


def avro(*fields: tuple[str, Any], name: str = "shop.Order", **more: Any) -> SchemaInfo:
    """A record schema; a field with the type "?x" is a nullable x with a default."""
    described = [
        {"name": field, "type": ["null", kind[1:]], "default": None}
        if str(kind).startswith("?")
        else {"name": field, "type": kind}
        for field, kind in fields
    ]
    text = json.dumps({"type": "record", "name": name, "fields": described})
    return SchemaInfo(type=name, serialization_format="Avro", schema_data=text.encode(), **more)


ONE = avro(("id", "long"))
TWO = avro(("id", "long"), ("customer", "?string"))


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Results of calls that several threads make in the same moment."""
    start = threading.Barrier(count)

    def run(i: int) -> Any:
        start.wait()
        return work(i)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@server
def test_a_registry_that_is_there_answers(registry: SchemaRegistry) -> None:
    registry.ping()


@server
def test_a_group_is_what_it_was_created_as(registry: SchemaRegistry, scope: str) -> None:
    assert registry.create_group(
        scope,
        "orders-1.eu",
        compatibility="Full",
        allow_multiple_types=True,
        properties={"owner": "é"},
    )
    assert registry.group(scope, "orders-1.eu") == GroupProperties(
        serialization_format="Avro",
        compatibility="Full",
        allow_multiple_types=True,
        properties={"owner": "é"},
    )


@server
def test_creating_a_group_again_changes_nothing(registry: SchemaRegistry, scope: str) -> None:
    assert registry.create_group(scope, "g") is True
    assert registry.create_group(scope, "g", compatibility="AllowAny") is False
    assert registry.group(scope, "g").compatibility == "Backward"


@server
@pytest.mark.parametrize("serialization_format", ["Json", "Protobuf", "Any", "com.example.Mine"])
def test_groups_of_other_formats(registry: SchemaRegistry, scope: str, serialization_format: str) -> None:
    registry.create_group(scope, "g", serialization_format=serialization_format, compatibility="AllowAny")
    assert registry.group(scope, "g").serialization_format == serialization_format
    with pytest.raises(ConfigurationError, match='only "AllowAny" and "DenyAll"'):
        registry.create_group(scope, "h", serialization_format=serialization_format)


@server
def test_of_32_creators_at_once_none_fails_and_at_most_one_has_made_it(registry: SchemaRegistry, scope: str) -> None:
    answers = at_once(32, lambda i: registry.create_group(scope, "g"))
    assert answers.count(True) <= 1
    assert registry.group(scope, "g").compatibility == "Backward"
    assert registry.latest_schema(scope, "g") is None


@server
def test_groups_are_listed_over_pages_each_once(registry: SchemaRegistry, scope: str) -> None:
    names = {f"g{i}" for i in range(123)}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: registry.create_group(scope, name), sorted(names)))
    listed = [name for name, _ in registry.groups(scope)]
    assert sorted(listed) == sorted(names)
    assert list(registry.groups(f"{scope}-other")) == []


@server
def test_a_deleted_group_is_gone_and_its_ids_begin_anew(registry: SchemaRegistry, scope: str) -> None:
    for schema in (ONE, TWO):
        registry.create_group(scope, "g")
        version = registry.add_schema(scope, "g", schema)
        assert (version.id, registry.encoding_id(scope, "g", version)) == (0, 0)
        assert registry.encoding(scope, "g", 0).schema == schema
        registry.delete_group(scope, "g")
        registry.delete_group(scope, "g")
        with pytest.raises(GroupNotFoundError):
            registry.group(scope, "g")


@server
def test_a_schema_keeps_its_version(registry: SchemaRegistry, scope: str) -> None:
    registry.create_group(scope, "g")
    first = registry.add_schema(scope, "g", ONE)
    assert first == VersionInfo(type="shop.Order", serialization_format="Avro", version=0, id=0)
    second = registry.add_schema(scope, "g", TWO)
    assert (second.version, second.id) == (1, 1)
    assert registry.add_schema(scope, "g", ONE) == first
    assert registry.schemas(scope, "g") == [(ONE, first), (TWO, second)]
    assert registry.latest_schema(scope, "g") == (TWO, second)
    assert registry.latest_schema(scope, "g", "shop.Order") == (TWO, second)


@server
def test_32_writers_of_one_schema_share_a_version_and_an_encoding(registry: SchemaRegistry, scope: str) -> None:
    registry.create_group(scope, "g")
    versions = at_once(32, lambda i: registry.add_schema(scope, "g", ONE))
    assert len(set(versions)) == 1
    assert set(at_once(32, lambda i: registry.encoding_id(scope, "g", versions[0]))) == {0}


@server
def test_the_latest_schema_of_each_type_and_of_all(registry: SchemaRegistry, scope: str) -> None:
    registry.create_group(scope, "g", compatibility="AllowAny", allow_multiple_types=True)
    registry.add_schema(scope, "g", avro(("a", "int"), name="shop.A"))
    newest_b = registry.add_schema(scope, "g", avro(("b", "int"), name="shop.B"))
    newest = registry.add_schema(scope, "g", avro(("a", "int"), ("c", "?int"), name="shop.A"))
    latest = registry.latest_schema(scope, "g")
    assert latest is not None
    assert latest[1] == newest
    latest_b = registry.latest_schema(scope, "g", "shop.B")
    assert latest_b is not None
    assert latest_b[1] == newest_b
    assert registry.latest_schema(scope, "g", "shop.Unknown") is None


@server
@pytest.mark.parametrize(
    "other",
    [
        avro(("id", "string")),
        avro(("id", "long"), ("required", "int")),
        avro(("id", "long"), name="shop.Other"),
        SchemaInfo(type="shop.Order", serialization_format="Json", schema_data=b"{}"),
    ],
)
def test_what_the_group_does_not_take_is_an_incompatible_schema(
    registry: SchemaRegistry, scope: str, other: SchemaInfo
) -> None:
    registry.create_group(scope, "g")
    registry.add_schema(scope, "g", ONE)
    with pytest.raises(IncompatibleSchemaError, match=f'"{scope}/g"'):
        registry.add_schema(scope, "g", other)
    assert len(registry.schemas(scope, "g")) == 1


@server
def test_what_is_no_schema_is_said_to_be_none(registry: SchemaRegistry, scope: str) -> None:
    registry.create_group(scope, "g")
    broken = SchemaInfo(type="shop.Order", serialization_format="Avro", schema_data=b'{"type":"record"')
    with pytest.raises(SchemaError, match="can't read the schema"):
        registry.add_schema(scope, "g", broken)


@server
def test_an_encoding_is_a_schema_and_a_codec(registry: SchemaRegistry, scope: str) -> None:
    registry.create_group(scope, "g")
    version = registry.add_schema(scope, "g", ONE)
    assert registry.codecs(scope, "g") == []
    with pytest.raises(ConfigurationError, match="application/x-gzip"):
        registry.encoding_id(scope, "g", version, "application/x-gzip")
    registry.add_codec(scope, "g", "application/x-gzip")
    registry.add_codec(scope, "g", "application/x-gzip")
    assert registry.codecs(scope, "g") == ["application/x-gzip"]
    plain = registry.encoding_id(scope, "g", version)
    packed = registry.encoding_id(scope, "g", version, "application/x-gzip")
    assert plain != packed
    assert registry.encoding(scope, "g", plain) == EncodingInfo(schema=ONE, version=version)
    assert registry.encoding(scope, "g", packed).codec == "application/x-gzip"


@server
def test_encodings_that_are_not_there(registry: SchemaRegistry, scope: str) -> None:
    registry.create_group(scope, "g")
    with pytest.raises(SchemaNotFoundError, match="no encoding 3"):
        registry.encoding(scope, "g", 3)
    missing = VersionInfo(type="shop.Order", serialization_format="Avro", version=4, id=4)
    with pytest.raises(SchemaNotFoundError, match="version 4"):
        registry.encoding_id(scope, "g", missing)


@server
@pytest.mark.parametrize(
    "call",
    [
        lambda registry, scope: registry.group(scope, "none"),
        lambda registry, scope: registry.add_schema(scope, "none", ONE),
        lambda registry, scope: registry.latest_schema(scope, "none"),
        lambda registry, scope: registry.latest_schema(scope, "none", "shop.Order"),
        lambda registry, scope: registry.schemas(scope, "none"),
        lambda registry, scope: registry.encoding(scope, "none", 0),
        lambda registry, scope: registry.encoding_id(
            scope, "none", VersionInfo(type="t", serialization_format="Avro", version=0, id=0)
        ),
        lambda registry, scope: registry.codecs(scope, "none"),
        lambda registry, scope: registry.add_codec(scope, "none", "c"),
    ],
)
def test_an_unknown_group_is_named(
    registry: SchemaRegistry, scope: str, call: Callable[[SchemaRegistry, str], Any]
) -> None:
    with pytest.raises(GroupNotFoundError, match=f'"{scope}/none"'):
        call(registry, scope)


@server
def test_namespaces_are_apart(registry: SchemaRegistry, scope: str) -> None:
    registry.create_group(scope, "g")
    with pytest.raises(GroupNotFoundError):
        registry.group(f"{scope}-2", "g")


@server
def test_a_registry_can_be_pickled(registry: SchemaRegistry) -> None:
    with pickle.loads(pickle.dumps(registry)) as again:
        again.ping()
        assert (again.uri, again.timeout) == (registry.uri, registry.timeout)


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_names_that_no_path_can_hold_are_refused(name: str) -> None:
    with SchemaRegistry("http://127.0.0.1:1") as registry, pytest.raises(InvalidNameError):
        registry.delete_group("scope", name)


def test_nobody_at_the_address_is_found_out_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    # Not when the timeout is over: the test's own comes before it.
    with (
        SchemaRegistry(f"http://127.0.0.1:{port}", timeout=3000) as registry,
        pytest.raises(RegistryUnavailableError, match=r'group "s/g".*can\'t be reached.*schema-registry-uri'),
    ):
        registry.group("s", "g")


def test_a_registry_that_is_started_again_is_waited_for_up_to_the_timeout() -> None:
    """Not so one that has never answered: its address may be wrong."""

    class Group(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    def serve(port: int) -> HTTPServer:
        server = HTTPServer(("127.0.0.1", port), Group)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def stop(server: HTTPServer) -> None:
        server.shutdown()
        server.server_close()

    first = serve(0)
    with SchemaRegistry(f"http://127.0.0.1:{first.server_port}", timeout=3000) as registry:
        with pytest.raises(GroupNotFoundError):
            registry.group("s", "g")
        stop(first)
        with ThreadPoolExecutor(1) as threads:
            # More tries than a connection that is only lost gets.
            asked = threads.submit(registry.group, "s", "g")
            with pytest.raises(TimeoutError):
                asked.result(timeout=2)
            second = serve(first.server_port)
            with pytest.raises(GroupNotFoundError):
                asked.result()
        stop(second)
    third = serve(0)
    with SchemaRegistry(f"http://127.0.0.1:{third.server_port}", timeout=0.3) as registry:
        with pytest.raises(GroupNotFoundError):
            registry.group("s", "g")
        stop(third)
        with pytest.raises(RegistryUnavailableError, match=r'group "s/g".*can\'t be reached since .*has died'):
            registry.group("s", "g")


def test_a_registry_that_falls_silent_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "ATTEMPT_S", 0.5)
    silent = threading.Event()

    class Frozen(BaseHTTPRequestHandler):
        """Answers, then takes a request and says nothing, and then answers again."""

        calls = 0

        def do_GET(self) -> None:
            """As a registry answers a ping."""
            Frozen.calls += 1
            if Frozen.calls == 2:
                silent.wait(30)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Frozen)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with SchemaRegistry(f"http://127.0.0.1:{server.server_port}") as registry:
            registry.ping()
            registry.ping()
            assert Frozen.calls == 3
    finally:
        silent.set()
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_host_without_an_address_is_unavailable() -> None:
    with SchemaRegistry("http://registry.invalid:9092") as registry, pytest.raises(RegistryUnavailableError):
        registry.ping()


@pytest.mark.parametrize(
    "call",
    [
        lambda registry: registry.ping(),
        lambda registry: registry.create_group("s", "g"),
        lambda registry: registry.group("s", "g"),
        lambda registry: list(registry.groups("s")),
        lambda registry: registry.add_schema("s", "g", ONE),
        lambda registry: registry.encoding("s", "g", 0),
    ],
)
def test_a_host_that_accepts_and_never_answers_costs_no_more_than_the_timeout(
    call: Callable[[SchemaRegistry], Any],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as dead:
        uri = f"http://127.0.0.1:{dead.getsockname()[1]}"
        with (
            SchemaRegistry(uri, timeout=0.3) as registry,
            pytest.raises(RegistryUnavailableError, match="no answer in time"),
        ):
            call(registry)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", OperationFailedError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", OperationFailedError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", OperationFailedError),
        (b"HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n", OperationFailedError),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", RegistryUnavailableError),
        (b"SSH-2.0-OpenSSH\r\n", RegistryUnavailableError),
        (b"", RegistryUnavailableError),
    ],
)
def test_something_else_at_the_address_is_an_error_of_ours(answer: bytes, error: type[Exception]) -> None:
    with answering(itertools.repeat(answer)) as uri, SchemaRegistry(uri, timeout=1) as registry, pytest.raises(error):
        registry.group("s", "g")


@contextmanager
def answering(answers: Iterable[bytes]) -> Iterator[str]:
    """The address of somebody who accepts one connection after another, says something and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:

        def serve() -> None:
            for answer in answers:
                try:
                    connection, _ = stranger.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{stranger.getsockname()[1]}"
        finally:
            stranger.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_call_is_tried_again_where_that_may_help() -> None:
    """A registry that starts anew: connections that end, a gateway that knows of nobody, an error that passes."""
    failures = [b"", b"HTTP/1.1 503 Busy\r\n\r\n", b"HTTP/1.1 500 Oops\r\n\r\n", b"", b"HTTP/1.1 502 Bad\r\n\r\n"]
    with (
        answering([*failures, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]) as uri,
        SchemaRegistry(uri) as registry,
    ):
        registry.ping()


def test_a_registry_that_waits_for_pravega_is_waited_for() -> None:
    """What its store says then; another error with the same status isn't tried for as long."""
    store, other = b"updateEntries in table: _schemaregistry/groups/0", b"Oops"
    failed = {text: b"HTTP/1.1 500 Oops\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text) for text in (store, other)}
    done = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    with answering([*[failed[store]] * (transport.MAX_FAILURES + 2), done]) as uri, SchemaRegistry(uri) as registry:
        registry.ping()
    for text, error, words in ((store, RegistryUnavailableError, "Pravega"), (other, OperationFailedError, "500")):
        with (
            answering(itertools.repeat(failed[text])) as uri,
            SchemaRegistry(uri, timeout=2) as registry,
            pytest.raises(error, match=words),
        ):
            registry.ping()


def test_a_deadline_of_the_caller_ends_a_call() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as dead,
        SchemaRegistry(f"http://127.0.0.1:{dead.getsockname()[1]}", timeout=3000) as registry,
        pytest.raises(DeadlineExceededError),
        deadline(0.2),
    ):
        registry.group("s", "g")


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_is_a_positive_number(timeout: float) -> None:
    with pytest.raises(ConfigurationError, match="timeout"):
        SchemaRegistry("http://localhost:9092", timeout=timeout)
