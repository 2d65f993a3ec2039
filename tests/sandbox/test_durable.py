"""A sandbox that keeps its data: what was acknowledged is there again, however the servers have ended."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from client_tools import append, content, framed, make_stream
from sandbox_tools import command
from waiting import eventually

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.errors import PravegaError, SandboxError
from pyspark_pravega.frames import framing
from pyspark_pravega.registry import SchemaInfo, SchemaRegistry
from pyspark_pravega.sandbox import Sandbox, data
from pyspark_pravega.sandbox.processes import ProcessId
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.in_turn]

_LIMIT_S = 300
_SCOPE = "kept"
_SCHEMA = SchemaInfo(type="row", serialization_format="Json", schema_data=b'{"type": "object"}')


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=_LIMIT_S, check=False)


def start(folder: Path, *more: object) -> dict[str, str]:
    """What to set for programs that use it."""
    answer = run("start", "--detach", "--heap", "512m", "--data-dir", folder, *more)
    assert answer.returncode == 0, answer.stderr
    exports = run("status", "--env", "--data-dir", folder).stdout
    return dict(line.removeprefix("export ").split("=", 1) for line in exports.splitlines())


def servers(folder: Path) -> dict[str, ProcessId]:
    processes = json.loads((folder / "sandbox.json").read_text())["servers"]
    return {name: ProcessId(**process) for name, process in processes.items()}


def kill(folder: Path) -> None:
    killed = list(servers(folder).values())
    for process in killed:
        process.send(signal.SIGKILL)
    eventually(lambda: not any(process.alive() for process in killed))


@contextmanager
def connected(environment: Mapping[str, str], timeout_s: int = 60) -> Iterator[Client]:
    with Client(Settings.resolve({"timeout": str(timeout_s)}, environ=environment)) as client:
        yield client


def registry(environment: Mapping[str, str]) -> SchemaRegistry:
    return SchemaRegistry(environment["PRAVEGA_SCHEMA_REGISTRY_URI"])


class Writing:
    """Appends one number after another, and notes which ones were acknowledged, until there is no server any more."""

    def __init__(self, environment: Mapping[str, str], stream: Stream, first: int) -> None:
        self.acknowledged: list[int] = []
        self._environment, self._stream, self._next = environment, stream, first
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with connected(self._environment, timeout_s=5) as client:
            try:
                while True:
                    append(client, self._stream, 0, framed(str(self._next).encode()))
                    self.acknowledged.append(self._next)
                    self._next += 1
            except PravegaError:
                pass

    def end(self) -> int:
        """Wait for its end; the next number that wasn't tried."""
        self._thread.join()
        return self._next + 1


def numbers(client: Client, stream: Stream) -> list[int]:
    return [int(event) for event in framing.split(content(client.pool, stream, 0)).payloads.to_pylist()]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "sandbox"
    for name in ("sandbox", "moved"):
        run("stop", "--data-dir", tmp_path / name)


def test_what_was_acknowledged_is_there_after_kills_and_a_stop(folder: Path) -> None:
    """Events, schemas and addresses: after SIGKILL in the middle of writing, twice, after SIGTERM, and after `stop`."""
    environment = start(folder)
    stream = Stream(_SCOPE, "events")
    with connected(environment) as client, registry(environment) as schemas:
        client.controller.create_scope(_SCOPE)
        make_stream(client, _SCOPE, "events")
        schemas.create_group(_SCOPE, "events", serialization_format="Json", compatibility="AllowAny", properties={})
        schemas.add_schema(_SCOPE, "events", _SCHEMA)
    acknowledged: list[int] = []
    first = 0
    for _ in range(2):
        writing = Writing(environment, stream, first)
        eventually(lambda: len(writing.acknowledged) >= 50)  # noqa: B023
        kill(folder)
        first = writing.end()
        acknowledged += writing.acknowledged
        status = run("status", "--data-dir", folder)
        assert (status.returncode, "is not running" in status.stdout) == (3, True)
        assert start(folder) == environment
        with connected(environment) as client:
            there = numbers(client, stream)
        assert there == sorted(set(there))
        assert set(acknowledged) <= set(there)

    pravega = servers(folder)["pravega"]
    began = time.monotonic()
    pravega.send(signal.SIGTERM)
    eventually(lambda: not pravega.alive())
    assert time.monotonic() - began < 3
    assert "pravega ended" in run("status", "--data-dir", folder).stdout
    assert start(folder) == environment

    said = run("status", "--data-dir", folder).stdout
    assert f" MB in {folder / 'data'}, " in said
    assert said.count(" MB of memory") == 2
    assert run("stop", "--data-dir", folder).returncode == 0
    # It may be moved, and have other ports, where somebody else has the old ones meanwhile.
    folder = folder.rename(folder.with_name("moved"))
    about = json.loads((folder / "data" / "about.json").read_text())
    (folder / "data" / "about.json").write_text(json.dumps({**about, "ports": {}}))
    environment = start(folder)
    with connected(environment) as client, registry(environment) as schemas:
        assert set(acknowledged) <= set(numbers(client, stream))
        append(client, stream, 0, framed(b"1000000"))
        assert numbers(client, stream)[-1] == 1_000_000
        assert [schema for schema, _ in schemas.schemas(_SCOPE, "events")] == [_SCHEMA]

    refused = run("wipe", "--data-dir", folder)
    assert (refused.returncode, "already" in refused.stderr) == (1, True)
    run("stop", "--data-dir", folder)
    assert "of data from" in run("wipe", "--data-dir", folder).stderr
    assert "holds no data" in run("wipe", "--data-dir", folder).stderr
    assert not (folder / "data").exists()


def test_with_authentication_and_tls_it_is_kept_too(folder: Path) -> None:
    with Sandbox(data_dir=folder, durable=True, heap="512m", auth=True, tls=True, log_level="DEBUG") as sandbox:
        environment = sandbox.environment()
        assert environment["PRAVEGA_CONTROLLER_URI"].startswith("tls://")
        with connected(environment) as client:
            client.controller.create_scope(_SCOPE)
            append(client, make_stream(client, _SCOPE, "events"), 0, framed(b"1"))
        stranger = {**environment, "PRAVEGA_PASSWORD": "another"}
        with pytest.raises(PravegaError), connected(stranger, timeout_s=5) as client:
            list(client.controller.list_scopes())
        log = sandbox.pravega_log.read_text()
        secrets = [environment["PRAVEGA_PASSWORD"], (folder / "private" / "signing-key").read_text()]
        assert [secret for secret in secrets if secret in log] == []
        kill(folder)
    again = start(folder, "--auth", "--tls")
    assert again["PRAVEGA_CONTROLLER_URI"] == environment["PRAVEGA_CONTROLLER_URI"]
    assert again["PRAVEGA_PASSWORD"] != environment["PRAVEGA_PASSWORD"]
    with connected(again) as client:
        assert numbers(client, Stream(_SCOPE, "events")) == [1]
    assert run("stop", "--data-dir", folder).returncode == 0
    # Certificates and keys are new at each start.
    assert not (folder / "private").exists()
    assert [path.name for path in folder.glob("*.properties")] == []


def test_a_first_start_that_was_killed_leaves_nothing_in_the_way(folder: Path) -> None:
    victim = subprocess.Popen(command("start", "--data-dir", folder), stdout=subprocess.DEVNULL)
    eventually(lambda: (folder / "data" / "bookkeeper").exists())
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    start(folder)


def about(folder: Path, **values: object) -> None:
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "data" / "about.json").write_text(json.dumps({"pravega": "0.13", "whole": True, "ports": {}, **values}))


def test_data_of_others_is_refused_in_a_sentence_and_left_alone(tmp_path: Path) -> None:
    about(tmp_path, pravega="0.12", layout=1)
    answer = run("start", "--pravega", "0.13", "--data-dir", tmp_path)
    assert answer.returncode == 1
    assert "is of Pravega 0.12, and not of 0.13: start that one (--pravega 0.12)" in answer.stderr
    for strange in ({"layout": 2}, {"layout": 1, "new": "thing"}):
        about(tmp_path, **strange)
        answer = run("start", "--data-dir", tmp_path)
        assert answer.returncode == 1
        assert "holds no data that this version of pyspark-pravega knows" in answer.stderr
        assert "sandbox wipe --data-dir" in answer.stderr
        assert (tmp_path / "data" / "about.json").exists()
    (tmp_path / "data" / "about.json").unlink()
    (tmp_path / "data" / "mine.txt").write_text("")
    assert "holds no data that this version" in run("start", "--data-dir", tmp_path).stderr
    assert (tmp_path / "data" / "mine.txt").exists()


def test_what_can_not_be_kept_is_said(tmp_path: Path) -> None:
    answer = run("start", "--pravega", "0.11", "--data-dir", tmp_path)
    assert answer.returncode == 1
    assert "a sandbox of Pravega 0.11 can't keep its data: take Pravega 0.12 or 0.13" in answer.stderr
    with pytest.raises(SandboxError, match="needs a folder for it: say data_dir"):
        Sandbox(durable=True)


def test_in_memory_it_leaves_alone_what_is_kept(tmp_path: Path) -> None:
    about(tmp_path, layout=1)
    answer = run("start", "--in-memory", "--detach", "--heap", "512m", "--data-dir", tmp_path)
    try:
        assert answer.returncode == 0, answer.stderr
        assert "data is in memory (what is kept in" in answer.stderr
        assert "data             in memory" in run("status", "--data-dir", tmp_path).stdout
    finally:
        run("stop", "--data-dir", tmp_path)
    assert data.load(tmp_path) == data.About(pravega="0.13", whole=True)
    # Its logs are all that a sandbox of an older version has left, too.
    run("wipe", "--data-dir", tmp_path)
    front = subprocess.Popen(command("start", "--data-dir", tmp_path), stderr=subprocess.PIPE, text=True)
    assert front.stderr
    with front.stderr as said:
        assert any("this folder's sandbox has had its data in memory" in line for line in said)
        front.send_signal(signal.SIGTERM)
        front.wait()
