"""Real servers start, answer, and end; whatever happens meanwhile."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from client_tools import append, content, framed, make_stream
from waiting import eventually

from pyspark_pravega.client import Client, Stream, deadline
from pyspark_pravega.errors import ControllerUnavailableError, SandboxError, StreamNotFoundError, UnavailableError
from pyspark_pravega.sandbox import Sandbox, listening, readiness
from pyspark_pravega.sandbox.files import RELEASES, chosen, fetch
from pyspark_pravega.sandbox.java.changed import class_jar
from pyspark_pravega.sandbox.ports import Listener, free_ports, is_free, listeners
from pyspark_pravega.sandbox.processes import ProcessId
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server


def port_of(uri: str) -> int:
    return int(uri.rpartition(":")[2])


def test_the_classes_written_anew_are_one_file_for_all_starts(tmp_path: Path) -> None:
    jars = tmp_path / "bundles" / "pravega"
    jars.mkdir(parents=True)
    for name in ("controller", "standalone"):
        (jar,) = fetch(RELEASES[chosen(None)]).glob(f"pravega-{name}-*.jar")
        (jars / jar.name).symlink_to(jar)
    jar = class_jar(jars, tmp_path)
    written = jar.stat()
    assert class_jar(jars, tmp_path) == jar
    assert jar.stat().st_mtime_ns == written.st_mtime_ns
    content = jar.read_bytes()
    jar.write_bytes(content[:100])
    assert class_jar(jars, tmp_path).read_bytes() == content
    # A cache in which nothing more can be written.
    shutil.rmtree(jar.parent)
    jar.parent.write_text("")
    own = class_jar(jars, tmp_path)
    assert own.parent == tmp_path
    assert own.read_bytes() == content


@pytest.fixture
def busy_port() -> Iterator[int]:
    """A port on which somebody else listens."""
    with socket.socket() as other:
        (port,) = free_ports(1)
        other.bind(("127.0.0.1", port))
        other.listen()
        yield port


def test_the_servers_answer(sandbox: Sandbox) -> None:
    assert readiness.controller_answers(port_of(sandbox.controller_uri)) is None
    assert readiness.registry_answers(port_of(sandbox.schema_registry_uri)) is None
    assert sandbox.environment() == {
        "PRAVEGA_CONTROLLER_URI": sandbox.controller_uri,
        "PRAVEGA_SCHEMA_REGISTRY_URI": sandbox.schema_registry_uri,
    }
    assert sandbox.ended() == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8")
def test_only_this_machine_is_answered(sandbox: Sandbox) -> None:
    ports = json.loads((sandbox.data_dir / "sandbox.json").read_text())["ports"]
    assert len(ports) == 4
    assert {name: [answers(host, port) for host in ("127.0.0.1", "127.0.0.2")] for name, port in ports.items()} == {
        name: [True, False] for name in ports
    }


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the names of threads here")
def test_servers_in_memory_have_small_pools(sandbox: Sandbox) -> None:
    """Pravega says nothing of a setting that it doesn't know (`sandbox/java/idle.py`); its own choice is 20."""
    names = [file.read_text() for file in Path(f"/proc/{sandbox.pravega_pid}/task").glob("*/comm")]
    assert 1 <= sum(name.startswith("core-") for name in names) <= 10
    assert 1 <= sum(name.startswith("controllerpool-") for name in names) <= 20


def answers(host: str, port: int) -> bool:
    """Whether somebody listens; who listens on every address answers on each of this machine's."""
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


@dataclass
class Second:
    """A sandbox beside the session's, on given ports, one of whose other ports was taken when it was started."""

    sandbox: Sandbox
    ports: tuple[int, int]
    lost: int
    early: Future[int]
    """The partitions of a key-value table that was created as soon as the controller answered."""


def create_as_soon_as_it_answers(controller_uri: str) -> int:
    with Client(Settings.resolve({"controller-uri": controller_uri, "timeout": "120"}, environ={})) as client:
        eventually(lambda: _is_made(client))
        # False where a server that is busy with its start makes it, and answers too late.
        client.create_key_value_table("early", "kv", partitions=2, key_bytes=4)
        return len(client.controller.key_value_table_segments("early", "kv").ids)


def _is_made(client: Client) -> bool:
    with suppress(ControllerUnavailableError):
        client.controller.create_scope("early")
        return True
    return False


@pytest.fixture(scope="module")
def second(sandbox: Sandbox) -> Iterator[Second]:
    controller, registry, zookeeper, lost = free_ports(4)
    # The segment store's, as it hangs without a word in its log when it loses its port.
    choices = [[zookeeper, lost]]

    def choose(count: int, *, besides: Iterable[int | None]) -> list[int]:
        return choices.pop() if choices else free_ports(count, besides=besides)

    second = Sandbox(controller_port=controller, registry_port=registry, heap="512m")
    with pytest.MonkeyPatch.context() as patch, socket.socket() as other, ThreadPoolExecutor(1) as thread:
        other.bind(("127.0.0.1", lost))
        other.listen()
        patch.setattr(listening, "free_ports", choose)
        early = thread.submit(create_as_soon_as_it_answers, f"tcp://127.0.0.1:{controller}")
        second.start()
    assert not choices
    yield Second(second, (controller, registry), lost, early)
    second.stop()


@pytest.fixture(scope="module")
def outliving(second: Second) -> Iterator[Client]:
    """A client of the second sandbox, in which it has written an event."""
    client = Client(Settings.resolve({"controller-uri": second.sandbox.controller_uri, "timeout": "20"}, environ={}))
    client.controller.create_scope("s")
    append(client, make_stream(client, "s", "t"), 0, framed(b"one"))
    yield client
    client.close()


def test_a_second_sandbox_runs_beside_the_first_on_the_ports_it_was_given(sandbox: Sandbox, second: Second) -> None:
    controller, registry = second.ports
    assert second.sandbox.controller_uri == f"tcp://127.0.0.1:{controller}"
    assert second.sandbox.schema_registry_uri == f"http://127.0.0.1:{registry}"
    assert readiness.controller_answers(controller) is None
    assert readiness.controller_answers(port_of(sandbox.controller_uri)) is None


@pytest.mark.in_turn
def test_a_controller_that_is_not_ready_yet_is_asked_again(second: Second) -> None:
    """For two seconds after its first answer nobody makes key-value tables there, and it failed with words of Java."""
    assert second.early.result() == 2


def test_a_port_that_somebody_else_took_meanwhile_was_replaced(second: Second) -> None:
    ports = json.loads((second.sandbox.data_dir / "sandbox.json").read_text())["ports"]
    assert ports["segment_store"] != second.lost
    assert readiness.segment_store_answers(ports["segment_store"]) is None


def test_a_server_that_ends_by_itself_is_told_and_stop_leaves_nothing(
    sandbox: Sandbox, second: Second, outliving: Client
) -> None:
    assert outliving.controller.scope_exists("s")
    folder = second.sandbox.data_dir
    pravega, registry = ProcessId.of(second.sandbox.pravega_pid), ProcessId.of(second.sandbox.registry_pid)
    assert pravega
    assert registry
    assert second.sandbox.ended() == []
    registry.send(signal.SIGKILL)
    eventually(second.sandbox.ended)
    assert second.sandbox.ended() == ["schema-registry"]
    second.sandbox.stop()
    assert not pravega.alive()
    assert not folder.exists()
    assert all(is_free(port) for port in second.ports)
    assert readiness.controller_answers(port_of(sandbox.controller_uri)) is None
    with pytest.raises(SandboxError, match="isn't running"):
        _ = second.sandbox.controller_uri


@dataclass
class Third:
    """A sandbox at the address of the second one, which is over, and the process whose it is."""

    process: subprocess.Popen[str]
    servers: list[ProcessId | None]


@pytest.fixture(scope="module")
def third(second: Second, outliving: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Third]:
    second.sandbox.stop()
    with deadline(0.3), pytest.raises(UnavailableError):
        outliving.controller.scope_exists("s")
    program = (
        "import sys, time; from pyspark_pravega.sandbox import Sandbox\n"
        "with Sandbox(data_dir=sys.argv[1], controller_port=int(sys.argv[2]), heap='512m') as s:\n"
        "    print(s.pravega_pid, s.registry_pid, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", program, str(tmp_path_factory.mktemp("third")), str(second.ports[0])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    with process.stdout as output:
        yield Third(process, [ProcessId.of(int(pid)) for pid in output.readline().split()])
    process.kill()
    process.wait()


@pytest.mark.in_turn
def test_a_client_outlives_the_servers(third: Third, outliving: Client) -> None:
    """A new Pravega at the old address, with nothing of the old one's data."""
    assert third.process.poll() is None
    assert not outliving.controller.scope_exists("s")
    with pytest.raises(StreamNotFoundError):
        outliving.writer(Stream("s", "t"))
    outliving.controller.create_scope("s")
    again = make_stream(outliving, "s", "t")
    append(outliving, again, 0, framed(b"two"))
    assert content(outliving.pool, again, 0) == framed(b"two")


def test_no_server_outlives_a_killed_process(third: Third) -> None:
    assert len(third.servers) == 2
    assert all(server and server.alive() for server in third.servers)
    third.process.kill()
    third.process.wait()
    eventually(lambda: not any(server and server.alive() for server in third.servers), within_s=15)


@pytest.mark.parametrize("argument", ["controller_port", "registry_port"])
def test_a_given_port_that_is_taken_is_named(
    busy_port: int, argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make: Callable[..., Sandbox] = Sandbox
    with pytest.raises(SandboxError, match=f"{argument} {busy_port} is taken"):
        make(**{argument: busy_port}).start()
    assert not list(tmp_path.iterdir())


def test_given_ports_must_differ_and_be_ports() -> None:
    with pytest.raises(SandboxError, match="are both 20000"):
        Sandbox(controller_port=20000, registry_port=20000).start()
    with pytest.raises(SandboxError, match="controller_port must be between 1 and 65535, not 70000"):
        Sandbox(controller_port=70000).start()


@pytest.mark.parametrize("heap", ["2", "lots", "-1g", "2 g", "0m"])
def test_a_heap_that_is_no_size_is_refused(heap: str) -> None:
    with pytest.raises(SandboxError, match='heap must be a size such as "2g"'):
        Sandbox(heap=heap)


def test_who_listens_is_told(busy_port: int, sandbox: Sandbox) -> None:
    (nobody,) = free_ports(1)
    controller = port_of(sandbox.controller_uri)
    expected = {nobody: Listener.NOBODY, busy_port: Listener.ANOTHER, controller: Listener.OURS}
    assert listeners(expected, sandbox.pravega_pid) == expected
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert listeners([busy_port, nobody], gone.pid) == {busy_port: Listener.ANOTHER, nobody: Listener.NOBODY}


def test_a_server_that_dies_while_starting_shows_the_end_of_its_log(tmp_path: Path) -> None:
    failing = Sandbox(data_dir=tmp_path, heap="1m")
    with pytest.raises(SandboxError, match=r"(?s)pravega ended while starting, .*pravega\.log\n.*heap"):
        failing.start()
    assert not (tmp_path / "sandbox.json").exists()
    failing.stop()
