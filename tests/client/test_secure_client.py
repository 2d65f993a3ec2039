"""The client against servers that ask who it is, with TLS and without; wrong users, authorities, names, old tokens."""

from __future__ import annotations

import base64
import json
import logging
import operator
import pickle
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from client_tools import Proxy, append, content, framed, make_stream
from waiting import eventually

from pyspark_pravega.client import Client, Controller, Stream
from pyspark_pravega.client.connections.connection import Connection
from pyspark_pravega.client.events.reader import plan
from pyspark_pravega.client.key_value.table import NOT_EXISTS, KeyValueTable
from pyspark_pravega.client.names import Access
from pyspark_pravega.client.segments.large_events import append_large
from pyspark_pravega.client.segments.reading import read_range, segment_state
from pyspark_pravega.client.segments.writing import SegmentWriter
from pyspark_pravega.client.state.synchronizer import StateSynchronizer
from pyspark_pravega.errors import AuthenticationError, CertificateError, ControllerUnavailableError, PravegaError
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.sandbox.security.certificates import Authority
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

SCOPE = "guarded"


def settings_of(sandbox: Sandbox, **changes: str | None) -> Settings:
    """As the sandbox's environment says, with changes to the options."""
    options = Settings.resolve(environ=sandbox.environment()).to_options() | {"timeout": "30"}
    for key, value in changes.items():
        name = key.replace("_", "-")
        options.pop(name, None)
        if value is not None:
            options[name] = value
    return Settings.resolve(options, environ={})


@pytest.fixture(params=["plain", "auth_sandbox", "secure_sandbox"])
def any_sandbox(request: pytest.FixtureRequest, sandbox: Sandbox) -> Sandbox:
    """Plain, with authentication (and short-lived tokens), with authentication and TLS."""
    return sandbox if request.param == "plain" else request.getfixturevalue(request.param)


@pytest.fixture(params=["auth_sandbox", "secure_sandbox"])
def guarded(request: pytest.FixtureRequest) -> Sandbox:
    """With authentication; with TLS, too."""
    running: Sandbox = request.getfixturevalue(request.param)
    return running


def fresh(client: Client, name: str, *, segments: int = 1) -> Stream:
    client.controller.create_scope(SCOPE)
    return make_stream(client, SCOPE, f"{name}-{time.time_ns()}", segments=segments)


def append_until_tokens_have_expired(client: Client, stream: Stream) -> None:
    """Write and read while tokens expire and are renewed."""
    writer, whole = SegmentWriter(client.pool, stream, 0), b""
    tokens = set[str]()
    number = 0
    while len(tokens) < 3:
        block = framed(b"%d" % number)
        writer.append(block, 1)
        writer.flush()
        whole += block
        tokens.add(client.pool.tokens.get(stream))
        number += 1
        time.sleep(0.5)
        # A connection that was made with an old token asks for a new one when it is needed.
        assert b"".join(read_range(client.pool, stream, 0, 0, len(whole))) == whole
    writer.close()


def expiry(token: str) -> float:
    """When a token ends, a JWT, in seconds since 1970."""
    payload = token.split(".")[1]
    return float(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])


def use_tokens_that_have_expired(client: Client, stream: Stream) -> None:
    """Read and write with tokens that look fresh and aren't."""
    append(client, stream, 0, framed(b"x"))
    for access in (False, True):
        client.pool.tokens.get(stream, write=access)
    # As if the clock of this machine were far behind: the tokens look fresh.
    cache = client.pool.tokens._cache
    for key, (token, _) in list(cache.items()):
        cache[key] = token, float("inf")
    old = {token for token, _ in cache.values()}
    eventually(lambda: all(time.time() > expiry(token) + 1 for token in old))
    assert segment_state(client.pool, stream, 0).write_offset == 9
    append(client, stream, 0, framed(b"y"))
    assert b"".join(read_range(client.pool, stream, 0, 0, 18)) == framed(b"x") + framed(b"y")
    assert client.pool.tokens.get(stream) not in old


@dataclass(frozen=True)
class Expiring:
    """What takes as long as a token is valid, beside the other tests; the last ones ask how it ended."""

    renewed: Future[None]
    replaced: Future[None]


@pytest.fixture(scope="module", autouse=True)
def expiring(auth_sandbox: Sandbox) -> Iterator[Expiring]:
    settings = settings_of(auth_sandbox)
    with Client(settings) as renewing, Client(settings) as replacing, ThreadPoolExecutor(2) as threads:
        streams = fresh(renewing, "expiring"), fresh(replacing, "late")
        yield Expiring(
            renewed=threads.submit(append_until_tokens_have_expired, renewing, streams[0]),
            replaced=threads.submit(use_tokens_that_have_expired, replacing, streams[1]),
        )


@pytest.mark.in_turn
def test_everything_works_however_the_servers_are_secured(any_sandbox: Sandbox) -> None:
    with Client(settings_of(any_sandbox)) as client:
        stream = fresh(client, "all", segments=2)
        with client.writer(stream) as writer:
            writer.write_batch([b"%d" % i for i in range(1000)], [f"{i}" for i in range(1000)])
        with client.transaction(stream) as transaction:
            transaction.write_batch([b"1000"])
        events = sorted(int(event) for batch in client.read(stream) for event in batch.payloads.to_pylist())
        assert events == list(range(1001))
        with client.follow(stream) as tail, client.writer(stream) as writer:
            writer.write(b"new")
            writer.flush()
            batch = tail.poll(10)
        assert batch is not None
        assert batch.payloads.to_pylist() == [b"new"]
        table = f"t{time.time_ns()}"
        client.controller.create_key_value_table(SCOPE, table, partitions=1, key_bytes=1)
        entries = KeyValueTable(client.pool, SCOPE, table)
        entries.put([(b"k", NOT_EXISTS, b"v")])
        (entry,) = entries.get([b"k"])
        assert entry is not None
        assert entry.value == b"v"
        with StateSynchronizer(client, fresh(client, "state"), initial=0, apply=operator.add) as state:
            state.update(lambda _: [5])
            assert state.fetch() == 5
        large = fresh(client, "large")
        append_large(client.pool, large, 0, [bytes(9 << 20)])
        assert segment_state(client.pool, large, 0).write_offset == (9 << 20) + 8
        assert stream.name in list(client.controller.list_streams(SCOPE))


def refused(settings: Settings) -> PravegaError:
    with Client(settings) as client, pytest.raises(PravegaError) as caught:
        client.controller.scope_exists(SCOPE)
    return caught.value


def test_without_credentials_nobody_gets_in(guarded: Sandbox) -> None:
    error = refused(settings_of(guarded, username=None, password=None))
    assert isinstance(error, AuthenticationError)
    assert "set username and password (or PRAVEGA_USERNAME and PRAVEGA_PASSWORD)" in str(error)


@pytest.mark.parametrize(
    "changes",
    [
        {"password": "hunter2"},
        {"username": "somebody"},
        {"username": None, "password": None, "auth_token": "hunter2"},
        {"username": None, "password": None, "auth_method": "Basic", "auth_token": "hunter2"},
    ],
)
def test_wrong_credentials_are_refused_and_not_shown(
    guarded: Sandbox, changes: dict[str, str | None], caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_of(guarded, **changes)
    with caplog.at_level(logging.DEBUG):
        error = refused(settings)
    assert isinstance(error, AuthenticationError)
    assert "refused the credentials" in str(error) or "can't make sense of" in str(error)
    text = f"{error!r} {settings!r} {settings.credentials()!r} {caplog.text}"
    for secret in ("hunter2", settings.password):
        assert not secret or secret not in text


def test_credentials_may_lie_in_a_file(guarded: Sandbox, tmp_path: Path) -> None:
    plain = settings_of(guarded)
    file = tmp_path / "credentials"
    file.write_text(f"username={plain.username}\npassword={plain.password}\n")
    settings = settings_of(guarded, username=None, password=None, credentials_file=str(file))
    assert str(plain.password) not in pickle.dumps(settings).decode("latin-1")
    with Client(settings) as client:
        append(client, stream := fresh(client, "file"), 0, framed(b"x"))
        assert content(client.pool, stream, 0) == framed(b"x")


def test_a_reader_reads_and_does_not_write(guarded: Sandbox) -> None:
    with Client(settings_of(guarded)) as owner:
        stream = fresh(owner, "read")
        append(owner, stream, 0, framed(b"x"))
    reading = settings_of(guarded, username="reader", password=guarded.password_of("reader"))
    with Client(reading) as client:
        assert [len(batch) for batch in client.read(stream, start={0: 0}, end={0: 9})] == [1]
        with pytest.raises(AuthenticationError, match="no permission"):
            client.controller.create_scope("another")
        assert [len(batch) for batch in client.read(stream)] == [1]
        with pytest.raises(AuthenticationError), client.writer(stream) as writer:
            writer.write(b"y")


def test_who_may_do_nothing_is_told_so(guarded: Sandbox) -> None:
    with Client(settings_of(guarded)) as owner:
        stream = fresh(owner, "nothing")
    nobody = settings_of(guarded, username="nobody", password=guarded.password_of("nobody"))
    with Client(nobody) as client, pytest.raises(AuthenticationError, match="no permission for"):
        list(client.read(stream))


def test_a_token_for_another_stream_is_refused(guarded: Sandbox) -> None:
    with Client(settings_of(guarded)) as client:
        stream, other = fresh(client, "mine"), fresh(client, "other")
        token = client.controller.delegation_token(other, Access.READ_WRITE)
        client.pool.tokens._cache[stream, False] = token, float("inf")
        with pytest.raises(AuthenticationError, match="refused the delegation token") as caught:
            segment_state(client.pool, stream, 0)
        assert token not in str(caught.value)


def test_an_authority_that_is_not_known_is_not_trusted(secure_sandbox: Sandbox, tmp_path: Path) -> None:
    authority = Authority()
    other = tmp_path / "ca.pem"
    other.write_bytes(authority.certificate)
    error = refused(settings_of(secure_sandbox, tls_ca=str(other)))
    assert isinstance(error, CertificateError)
    assert "set tls-ca (or PRAVEGA_TLS_CA)" in str(error)
    assert isinstance(refused(settings_of(secure_sandbox, tls_ca=None)), CertificateError)


OTHER_NAME = "127.0.0.2"
"""An address of this machine that isn't in the certificates."""


def test_a_certificate_for_another_host_is_not_trusted_unless_that_is_allowed(secure_sandbox: Sandbox) -> None:
    right = settings_of(secure_sandbox)
    with (
        Client(right) as client,
        Proxy(right.controllers[0], address=OTHER_NAME) as to_controller,
        Proxy(client.controller.endpoint(stream := fresh(client, "names"), 0), address=OTHER_NAME) as to_store,
    ):
        uri = f"tls://{OTHER_NAME}:{to_controller.address[1]}"
        error = refused(settings_of(secure_sandbox, controller_uri=uri))
        assert isinstance(error, CertificateError)
        assert "use the host name that it was made for" in str(error)
        with pytest.raises(CertificateError, match=rf"segment store {OTHER_NAME}:\d+ isn't trusted"):
            Connection(*to_store.address, timeout=5, tls=right.tls)

        lenient = settings_of(secure_sandbox, controller_uri=uri, validate_hostname="false")
        with Client(lenient) as other, Connection(*to_store.address, timeout=5, tls=lenient.tls) as connection:
            assert connection.is_sound()
            assert other.controller.stream_exists(stream)
        # An unknown authority is refused all the same.
        error = refused(settings_of(secure_sandbox, controller_uri=uri, validate_hostname="false", tls_ca=None))
        assert isinstance(error, CertificateError)


def test_a_server_without_tls_is_unavailable_over_tls(sandbox: Sandbox, secure_sandbox: Sandbox) -> None:
    uri = sandbox.controller_uri.replace("tcp:", "tls:")
    with Controller(uri, timeout=3, tls=settings_of(secure_sandbox).tls) as controller, pytest.raises(PravegaError):
        controller.scope_exists(SCOPE)


def test_who_asks_a_server_with_tls_without_it_is_told_at_once(secure_sandbox: Sandbox) -> None:
    uri = secure_sandbox.controller_uri.replace("tls:", "tcp:")
    with (
        Controller(uri, timeout=3000) as controller,
        pytest.raises(ControllerUnavailableError, match=rf"at {uri} wants TLS: write tls:// instead of tcp://"),
    ):
        controller.scope_exists(SCOPE)


def test_a_plan_can_be_handed_on_without_a_secret(guarded: Sandbox) -> None:
    settings = settings_of(guarded)
    with Client(settings) as client:
        stream = fresh(client, "plan")
        append(client, stream, 0, framed(b"x"))
        (part,) = plan(client, stream)
        transaction = client.controller.begin_transaction(stream, lease_ms=30_000)
        for handed_on in (part, transaction):
            assert str(settings.password).encode() not in pickle.dumps(handed_on)
        assert json.dumps(dict(client.controller.head(stream)))


# The last ones: what they ask about has been running since the first test.


def test_a_token_that_expires_is_renewed(expiring: Expiring) -> None:
    expiring.renewed.result()


def test_a_token_that_was_kept_too_long_is_replaced(expiring: Expiring) -> None:
    expiring.replaced.result()
