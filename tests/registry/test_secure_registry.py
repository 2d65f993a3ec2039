"""The registry's calls when it asks who you are, and shows a certificate."""

from __future__ import annotations

import json
import pickle
import socket
import ssl
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyspark_pravega.errors import (
    AuthenticationError,
    CertificateError,
    ConfigurationError,
    OperationFailedError,
    PravegaError,
)
from pyspark_pravega.registry import SchemaInfo, SchemaRegistry
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.sandbox.security.certificates import Authority
from pyspark_pravega.security import Credentials, PasswordCredentials, Tls, TokenCredentials

server = pytest.mark.server

RECORD = {"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "long"}]}
ORDER = SchemaInfo(type="shop.Order", serialization_format="Avro", schema_data=json.dumps(RECORD).encode())


def user(sandbox: Sandbox, name: str) -> PasswordCredentials:
    return PasswordCredentials(username=name, password=sandbox.password_of(name))


def connect(sandbox: Sandbox, credentials: Credentials | None, tls: Tls | None = None) -> SchemaRegistry:
    trusted = tls or Tls(ca=str(sandbox.tls_ca) if sandbox.tls_ca else None)
    return SchemaRegistry(sandbox.schema_registry_uri, timeout=20, credentials=credentials, tls=trusted)


@pytest.fixture(params=["auth_sandbox", "secure_sandbox"])
def asking(request: pytest.FixtureRequest) -> Sandbox:
    """A registry that asks who you are: one without TLS, one with."""
    sandbox: Sandbox = request.getfixturevalue(request.param)
    return sandbox


@server
def test_who_knows_the_password_may_do_everything(asking: Sandbox) -> None:
    with connect(asking, user(asking, "admin")) as registry:
        assert registry.create_group("shop", "orders")
        version = registry.add_schema("shop", "orders", ORDER)
        assert registry.encoding_id("shop", "orders", version) == 0
        with pickle.loads(pickle.dumps(registry)) as copy:
            assert copy.latest_schema("shop", "orders") == (ORDER, version)
        with connect(asking, user(asking, "reader")) as reader:
            assert reader.latest_schema("shop", "orders") == (ORDER, version)
        registry.delete_group("shop", "orders")


@server
def test_changes_succeed_also_when_the_registrys_own_token_has_expired(auth_sandbox: Sandbox) -> None:
    # The registry is given tokens for some seconds, as everybody is there.
    with connect(auth_sandbox, user(auth_sandbox, "admin")) as registry:
        number = 0
        while "Auth Check Failed UpdateTableEntries" not in auth_sandbox.registry_log.read_text() or number < 3:
            assert registry.create_group("expiring", f"g{number}")
            version = registry.add_schema("expiring", f"g{number}", ORDER)
            assert registry.encoding_id("expiring", f"g{number}", version) == 0
            number += 1
            time.sleep(1)


@server
@pytest.mark.parametrize(
    ("credentials", "message"),
    [
        (None, "wants credentials: set username and password"),
        (PasswordCredentials(username="admin", password="sesame-open"), "refused the credentials: check username"),
        (TokenCredentials(token="sesame-open"), "refused the credentials: check username and password, or the token"),
    ],
)
def test_who_does_not_is_told_what_to_set(asking: Sandbox, credentials: Credentials | None, message: str) -> None:
    with connect(asking, credentials) as registry, pytest.raises(AuthenticationError, match=message) as refused:
        registry.create_group("shop", "orders")
    assert str(refused.value).startswith('can\'t create group "shop/orders": ')
    assert asking.schema_registry_uri in str(refused.value)
    assert "sesame-open" not in "".join(traceback.format_exception(refused.value))


@server
def test_a_user_without_a_permission_is_told_so(asking: Sandbox) -> None:
    message = 'create group "shop/byReader": the user has no permission'
    with connect(asking, user(asking, "reader")) as reader, pytest.raises(AuthenticationError, match=message):
        reader.create_group("shop", "byReader")


@server
def test_a_certificate_is_believed_only_with_its_authority(secure_sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "other.pem").write_bytes(Authority().certificate)
    for tls in (Tls(), Tls(ca=str(tmp_path / "other.pem"))):
        message = r"self.signed certificate.*set tls-ca \(or PRAVEGA_TLS_CA\)"
        admin = user(secure_sandbox, "admin")
        with connect(secure_sandbox, admin, tls) as registry, pytest.raises(CertificateError, match=message):
            registry.ping()
    with pytest.raises(ConfigurationError, match=r"tls-ca .*can't be used"):
        connect(secure_sandbox, None, Tls(ca=str(tmp_path / "missing.pem")))


@contextmanager
def answering(authority: Authority, name: str, answer: bytes, folder: Path) -> Iterator[int]:
    """A server with a certificate for a name, which answers each request with the same bytes and what it was sent."""
    certificate = authority.issue(name)
    (folder / "chain").write_bytes(certificate.chain)
    (folder / "key").write_bytes(certificate.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "chain", folder / "key")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    plain, _ = listening.accept()
                except OSError:
                    return
                try:
                    with context.wrap_socket(plain, server_side=True) as connection:
                        connection.sendall(answer + connection.recv(65536))
                except OSError:
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_the_name_in_a_certificate_counts_unless_it_is_switched_off(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    with answering(authority, "registry.example", b"HTTP/1.0 200 OK\r\n\r\n", tmp_path) as port:
        for validate_hostname in (True, False):
            tls = Tls(ca=str(tmp_path / "ca.pem"), validate_hostname=validate_hostname)
            with SchemaRegistry(f"https://localhost:{port}", timeout=10, tls=tls) as registry:
                if validate_hostname:
                    with pytest.raises(CertificateError, match="Hostname mismatch"):
                        registry.ping()
                else:
                    registry.ping()


@pytest.mark.parametrize("credentials", [
    PasswordCredentials(username="ann", password="sesame-open"), TokenCredentials(token="sesame-open"),
])  # fmt: skip
def test_a_server_that_repeats_what_it_was_sent_shows_no_secret(credentials: Credentials, tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    with answering(authority, "localhost", b"HTTP/1.0 500 Oops\r\n\r\n", tmp_path) as port:
        tls = Tls(ca=str(tmp_path / "ca.pem"))
        with (
            SchemaRegistry(f"https://localhost:{port}", timeout=10, credentials=credentials, tls=tls) as registry,
            pytest.raises(OperationFailedError, match=r"Authorization: \.\.\.") as failed,
        ):
            registry.ping()
    assert_no_secret(failed.value, credentials)


@pytest.mark.parametrize("token", ["sesame\nopen", "sesame-öpen", "sesame\0"])
def test_a_token_that_no_header_can_hold_is_refused_and_not_shown(token: str) -> None:
    credentials = TokenCredentials(token=token)
    with (
        SchemaRegistry("http://127.0.0.1:1", credentials=credentials) as registry,
        pytest.raises(ConfigurationError, match="must be of printable ASCII") as refused,
    ):
        registry.ping()
    assert "sesame" not in "".join(traceback.format_exception(refused.value))


def assert_no_secret(error: PravegaError, credentials: Credentials) -> None:
    text = "".join(traceback.format_exception(error))
    for secret in ("sesame-open", credentials.authorization().partition(" ")[2]):
        assert secret not in text
