"""A sandbox with authentication and TLS lets the right ones in, nobody else, and keeps its secrets."""

from __future__ import annotations

import base64
import hmac
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from class_archives import PRAVEGA, REGISTRY
from sandbox_tools import command
from server_tools import SHORT_TOKEN_TTL_S
from waiting import eventually

from pyspark_pravega.client.controller import controller_pb2 as messages
from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import Account, Sandbox, readiness, state
from pyspark_pravega.sandbox.readiness import Access
from pyspark_pravega.sandbox.security.certificates import Authority
from pyspark_pravega.security import Credentials, PasswordCredentials, Tls, TokenCredentials

pytestmark = pytest.mark.server

SERVICE = "/io.pravega.controller.stream.api.grpc.v1.ControllerService"


def port_of(uri: str) -> int:
    return int(uri.rpartition(":")[2])


def segment_store_port(sandbox: Sandbox) -> int:
    running = state.load(sandbox.data_dir)
    assert running
    return running.ports["segment_store"]


def access(sandbox: Sandbox) -> Access:
    assert sandbox.username
    assert sandbox.password
    return Access(
        credentials=PasswordCredentials(username=sandbox.username, password=sandbox.password),
        tls=Tls(ca=str(sandbox.tls_ca)) if sandbox.tls_ca else None,
    )


def as_user(sandbox: Sandbox, username: str) -> Access:
    credentials = PasswordCredentials(username=username, password=sandbox.password_of(username))
    return replace(access(sandbox), credentials=credentials)


def call(sandbox: Sandbox, who: Access, method: str, message: bytes) -> bytes:
    address = f"127.0.0.1:{port_of(sandbox.controller_uri)}"
    if who.tls:
        channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(who.tls.root_certificates()))
    else:
        channel = grpc.insecure_channel(address)
    with channel:
        answer: bytes = channel.unary_unary(f"{SERVICE}/{method}")(
            message, timeout=10, metadata=tuple(who.headers().items())
        )
        return answer


@pytest.fixture(params=["auth_sandbox", "secure_sandbox"])
def asking(request: pytest.FixtureRequest) -> Sandbox:
    """A sandbox that asks who you are: one without TLS, one with."""
    sandbox: Sandbox = request.getfixturevalue(request.param)
    return sandbox


def test_who_knows_the_password_is_let_in(asking: Sandbox) -> None:
    who = access(asking)
    assert readiness.controller_answers(port_of(asking.controller_uri), who) is None
    assert readiness.segment_store_answers(segment_store_port(asking), who) is None
    assert readiness.registry_answers(port_of(asking.schema_registry_uri), who) is None


@pytest.mark.parametrize(
    "credentials",
    [
        None,
        PasswordCredentials(username="admin", password="wrong"),
        PasswordCredentials(username="stranger", password="wrong"),
        TokenCredentials(token="nonsense"),
    ],
    ids=["nobody", "wrong password", "unknown user", "unknown method"],
)
def test_who_does_not_is_refused(asking: Sandbox, credentials: Credentials | None) -> None:
    who = replace(access(asking), credentials=credentials)
    answer = readiness.controller_answers(port_of(asking.controller_uri), who)
    assert answer == "the controller answered UNAUTHENTICATED"
    answer = readiness.registry_answers(port_of(asking.schema_registry_uri), who)
    assert answer == "the schema registry answered 401 to GET /ping"


def test_each_account_may_do_what_its_acl_says(asking: Sandbox) -> None:
    scope = messages.ScopeInfo(scope="byReader").SerializeToString()
    for username, may_list in (("reader", True), ("nobody", False)):
        who = as_user(asking, username)
        answer = readiness.controller_answers(port_of(asking.controller_uri), who)
        assert answer == (None if may_list else "the controller answered PERMISSION_DENIED")
        with pytest.raises(grpc.RpcError) as refused:
            call(asking, who, "createScope", scope)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert call(asking, as_user(asking, "admin"), "createScope", scope) == b""


def test_delegation_tokens_are_signed_with_a_key_of_its_own_and_valid_as_long_as_asked_for(
    auth_sandbox: Sandbox,
) -> None:
    who = access(auth_sandbox)
    call(auth_sandbox, who, "createScope", messages.ScopeInfo(scope="tokens").SerializeToString())
    stream = messages.StreamInfo(scope="tokens", stream="s", access_operation=5)
    policy = messages.ScalingPolicy(min_num_segments=1)
    config = messages.StreamConfig(stream_info=stream, scaling_policy=policy)
    call(auth_sandbox, who, "createStream", config.SerializeToString())
    segments = messages.SegmentRanges.FromString(
        call(auth_sandbox, who, "getCurrentSegments", stream.SerializeToString())
    )
    head, payload, signature = segments.delegation_token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    assert claims["exp"] - claims["iat"] == SHORT_TOKEN_TTL_S
    key = (auth_sandbox.data_dir / "private" / "signing-key").read_bytes()
    assert len(key) == 64
    signed = hmac.digest(key, f"{head}.{payload}".encode(), "sha512")
    assert base64.urlsafe_b64decode(signature + "==") == signed


def test_they_have_the_archives_of_their_classes(asking: Sandbox) -> None:
    for archive, pid in ((PRAVEGA, asking.pravega_pid), (REGISTRY, asking.registry_pid)):
        file = archive.file()
        if file is None or not file.exists():
            pytest.skip("no archives of classes have been made: make classes")
        assert str(file) in Path(f"/proc/{pid}/maps").read_text(), f"{pid} runs without {file}"


def test_the_class_of_the_standalone_is_the_same_for_all_and_has_no_secret(
    secure_sandbox: Sandbox, auth_sandbox: Sandbox
) -> None:
    first, second = (
        Path(f"/proc/{running.pravega_pid}/environ").read_text().partition("CLASSPATH=")[2].partition(":")[0]
        for running in (secure_sandbox, auth_sandbox)
    )
    assert first == second
    with zipfile.ZipFile(first) as jar:
        code = jar.read("io/pravega/local/InProcPravegaCluster.class")
    for running in (secure_sandbox, auth_sandbox):
        assert (running.data_dir / "private" / "signing-key").read_bytes() not in code


def test_a_certificate_of_another_authority_is_refused(secure_sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "other.pem").write_bytes(Authority().certificate)
    who = replace(access(secure_sandbox), tls=Tls(ca=str(tmp_path / "other.pem")))
    assert "UNAVAILABLE" in (readiness.controller_answers(port_of(secure_sandbox.controller_uri), who) or "")
    for answer in (
        readiness.segment_store_answers(segment_store_port(secure_sandbox), who),
        readiness.registry_answers(port_of(secure_sandbox.schema_registry_uri), who),
    ):
        assert "certificate verify failed" in (answer or "")


def test_another_host_name_is_refused(secure_sandbox: Sandbox) -> None:
    # 127.0.0.2 is this machine, too, but the certificate doesn't bear that name.
    context = Tls(ca=str(secure_sandbox.tls_ca)).ssl_context()
    for host, believed in (("127.0.0.1", True), ("127.0.0.2", False)):
        address = ("127.0.0.1", port_of(secure_sandbox.controller_uri))
        with socket.create_connection(address, timeout=10) as connection:
            if believed:
                context.wrap_socket(connection, server_hostname=host).close()
            else:
                with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
                    context.wrap_socket(connection, server_hostname=host)


@pytest.mark.parametrize(
    ("name", "expired", "error"),
    [
        ("localhost", False, None),
        ("pravega.example", False, "Hostname mismatch"),
        ("localhost", True, "certificate has expired"),
    ],
)
def test_certificates_for_tests_can_be_issued(
    secure_sandbox: Sandbox, tmp_path: Path, name: str, expired: bool, error: str | None
) -> None:
    certificate = secure_sandbox.authority.issue(name, expired=expired)
    (tmp_path / "chain").write_bytes(certificate.chain)
    (tmp_path / "key").write_bytes(certificate.key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "chain", tmp_path / "key")
    client = Tls(ca=str(secure_sandbox.tls_ca)).ssl_context()
    # A handshake in memory: what one side writes, the other one reads.
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    theirs = server.wrap_bio(to_server, to_client, server_side=True)

    def shake_hands() -> None:
        for side in (ours, theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass

    if error is None:
        shake_hands()
        assert ours.version() == "TLSv1.3"
    else:
        with pytest.raises(ssl.SSLCertVerificationError, match=error):
            shake_hands()


def test_who_speaks_without_tls_hears_nothing(secure_sandbox: Sandbox) -> None:
    who = replace(access(secure_sandbox), tls=None)
    assert "UNAVAILABLE" in (readiness.controller_answers(port_of(secure_sandbox.controller_uri), who) or "")
    assert readiness.segment_store_answers(segment_store_port(secure_sandbox), who) is not None
    assert readiness.registry_answers(port_of(secure_sandbox.schema_registry_uri), who) is not None


def test_the_environment_tells_all_that_a_program_needs(secure_sandbox: Sandbox) -> None:
    port, registry_port = port_of(secure_sandbox.controller_uri), port_of(secure_sandbox.schema_registry_uri)
    public = {
        "PRAVEGA_CONTROLLER_URI": f"tls://127.0.0.1:{port}",
        "PRAVEGA_SCHEMA_REGISTRY_URI": f"https://127.0.0.1:{registry_port}",
        "PRAVEGA_TLS_CA": str(secure_sandbox.data_dir / "private" / "ca.pem"),
    }
    secret = {"PRAVEGA_USERNAME": "admin", "PRAVEGA_PASSWORD": secure_sandbox.password}
    assert secure_sandbox.environment(secrets=False) == public
    assert secure_sandbox.environment() == public | secret


def secrets_of(sandbox: Sandbox) -> list[str]:
    accounts = (sandbox.data_dir / "private" / "accounts").read_text().splitlines()
    *users, servers = [line.partition(":")[0] for line in accounts]
    assert len(users) >= 3
    passwords = {user: sandbox.password_of(user) for user in users}
    settings = (sandbox.data_dir / "pravega.properties").read_text().splitlines()
    (passwords[servers],) = [line.partition("=")[2] for line in settings if ".credentials.pwd=" in line]
    tokens = [base64.b64encode(f"{user}:{password}".encode()).decode() for user, password in passwords.items()]
    return [*passwords.values(), *tokens, (sandbox.data_dir / "private" / "signing-key").read_text()]


def test_no_secret_shows_in_the_process_list_or_the_logs(asking: Sandbox) -> None:
    """However much is logged: the servers without TLS log all that they can."""
    call(asking, access(asking), "createScope", messages.ScopeInfo(scope="logged").SerializeToString())
    assert readiness.registry_answers(port_of(asking.schema_registry_uri), access(asking)) is None
    text = asking.pravega_log.read_text() + asking.registry_log.read_text()
    for pid in (asking.pravega_pid, asking.registry_pid):
        text += Path(f"/proc/{pid}/cmdline").read_text() + Path(f"/proc/{pid}/environ").read_text()
    assert "LocalPravegaEmulator" in text
    assert (" DEBUG " in text) == (asking.tls_ca is None)
    for secret in secrets_of(asking):
        assert secret not in text


def test_only_the_owner_may_read_the_files(asking: Sandbox) -> None:
    assert stat.S_IMODE((asking.data_dir / "private").stat().st_mode) == 0o700
    files = [*(asking.data_dir / "private").iterdir(), *asking.data_dir.glob("*.properties")]
    files.append(asking.data_dir / "sandbox.json")
    assert len(files) > 4
    for file in files:
        if file.is_file():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_a_state_does_not_show_its_password(secure_sandbox: Sandbox) -> None:
    running = state.load(secure_sandbox.data_dir)
    assert running
    assert running.password == secure_sandbox.password
    assert str(secure_sandbox.password) not in repr(running)
    assert str(secure_sandbox.password) not in repr(Account("a", password=secure_sandbox.password))


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("data")
    yield folder
    run("stop", "--data-dir", folder)


@pytest.mark.in_turn
def test_from_the_command_line(folder: Path) -> None:
    # A start that was killed half-way leaves secrets behind; the next one makes its own.
    victim = subprocess.Popen(command("start", "--auth", "--data-dir", folder), stdout=subprocess.DEVNULL)
    eventually(lambda: (folder / "sandbox.json").exists())
    killed_state = state.load(folder)
    assert killed_state
    half_made = (folder / "private" / "accounts").read_text()
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    eventually(lambda: killed_state.health() is state.Health.NOT_RUNNING)
    assert (folder / "private").exists()

    # What Pravega's own client reads is the user's, and not for the servers to speak to each other with.
    others = {"pravega_client_auth_method": "Bearer", "pravega_client_auth_token": "another's"}
    arguments = ("--auth", "--tls", "--username", "ann", "--detach", "--heap", "512m", "--data-dir", folder)
    started = run("start", *arguments, **others)
    assert started.returncode == 0, started.stderr
    assert (folder / "private" / "accounts").read_text() != half_made
    exports = run("status", "--env", "--data-dir", folder)
    environment = dict(line.removeprefix("export ").split("=", 1) for line in exports.stdout.splitlines())
    password = environment.pop("PRAVEGA_PASSWORD")
    assert environment.pop("PRAVEGA_USERNAME") == "ann"
    assert started.stdout.splitlines() == [f"export {name}={value}" for name, value in environment.items()]
    status = run("status", "--data-dir", folder)
    assert "user             ann" in status.stdout
    assert environment["PRAVEGA_TLS_CA"] in status.stdout
    for output in (started.stdout, started.stderr, status.stdout, status.stderr):
        assert password not in output
    again = run("start", "--data-dir", folder)
    assert again.returncode == 1
    assert password not in again.stderr
    who = Access(
        credentials=PasswordCredentials(username="ann", password=password),
        tls=Tls(ca=environment["PRAVEGA_TLS_CA"]),
    )
    assert readiness.controller_answers(port_of(environment["PRAVEGA_CONTROLLER_URI"]), who) is None
    assert readiness.registry_answers(port_of(environment["PRAVEGA_SCHEMA_REGISTRY_URI"]), who) is None

    assert run("stop", "--data-dir", folder).returncode == 0
    assert sorted(path.name for path in folder.iterdir()) == ["data", "lock", "pravega.log", "schema-registry.log"]


def test_stop_removes_what_a_killed_start_left(tmp_path: Path) -> None:
    victim = subprocess.Popen(command("start", "--auth", "--data-dir", tmp_path), stdout=subprocess.DEVNULL)
    eventually(lambda: (tmp_path / "sandbox.json").exists())
    killed_state = state.load(tmp_path)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    eventually(lambda: killed_state and killed_state.health() is state.Health.NOT_RUNNING)
    assert (tmp_path / "private").exists()
    assert run("stop", "--data-dir", tmp_path).returncode == 0
    assert not (tmp_path / "private").exists()


def test_stop_leaves_a_start_alone_that_is_under_way(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    with state.lock(tmp_path) or pytest.fail("no lock"):
        assert run("stop", "--data-dir", tmp_path).returncode == 0
        assert (tmp_path / "private").exists()


def test_a_given_password_is_taken() -> None:
    sandbox = Sandbox(auth=True, password="päss: wörd")
    assert (sandbox.username, sandbox.password) == ("admin", "päss: wörd")
    assert Sandbox(auth=True).password != Sandbox(auth=True).password


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"password": "x"}, "say auth=True"),
        ({"accounts": [Account("a")]}, "say auth=True"),
        ({"auth": True, "accounts": [Account("admin")]}, 'two accounts of the name "admin"'),
        ({"auth": True, "accounts": [Account("sandbox-servers")]}, 'two accounts of the name "sandbox-servers"'),
        ({"auth": True, "token_ttl_s": 0}, "token_ttl_s must be between 1 and 2147483647, not 0"),
    ],
)
def test_accounts_that_cannot_be_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        Sandbox(**arguments)


@pytest.mark.parametrize("name", ["", "a:b", "a b", "a\nb", "#a"])
def test_a_name_that_the_file_of_accounts_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(SandboxError, match="can't be a user's name"):
        Account(name)


@pytest.mark.parametrize("acl", ["prn::*", "prn::*,WRITE", "everything,READ", "prn::*,READ\nx:y:prn::*,READ"])
def test_an_acl_that_pravega_would_not_understand_is_refused(acl: str) -> None:
    with pytest.raises(SandboxError, match='the ACL of user "a" must be made of'):
        Account("a", acl)


def test_what_is_missing_for_certificates_is_named() -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from pyspark_pravega.sandbox import Sandbox\n"
        "Sandbox(auth=True)\n"
        "Sandbox(tls=True)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert "pip install 'pyspark-pravega[sandbox]'" in ran.stderr
    assert "line 4, in <module>" in ran.stderr
