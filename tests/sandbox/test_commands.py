"""`pravega-spark sandbox`, run as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from sandbox_tools import WITHOUT_PRIVILEGES, command
from waiting import eventually

from pyspark_pravega.sandbox import readiness
from pyspark_pravega.sandbox.files import chosen
from pyspark_pravega.sandbox.processes import ProcessId

pytestmark = pytest.mark.server


def run(*arguments: object, before: Sequence[str] = (), **environment: str) -> subprocess.CompletedProcess[str]:
    # Output goes to pipes: a detached server that held one open would make this wait for ever.
    return subprocess.run(
        [*before, *command(*arguments)], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


def servers(folder: Path) -> dict[str, ProcessId]:
    try:
        processes = json.loads((folder / "sandbox.json").read_text())["servers"]
    except FileNotFoundError:
        return {}
    return {name: ProcessId(**process) for name, process in processes.items()}


def test_fetch_prints_where_the_servers_are() -> None:
    answer = run("fetch")
    assert answer.returncode == 0, answer.stderr
    pravega, registry = map(Path, answer.stdout.splitlines())
    assert list(pravega.glob("pravega-standalone-*.jar"))
    assert list(registry.glob("schemaregistry-server-*.jar"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("data") / "with 'quotes' and spaces"
    yield folder
    run("stop", "--data-dir", folder)


@pytest.fixture(scope="module")
def detached(folder: Path) -> subprocess.CompletedProcess[str]:
    """A sandbox that runs by itself, in a folder where an earlier start was killed and left a stale state file."""
    victim = subprocess.Popen(command("start", "--data-dir", folder), stdout=subprocess.DEVNULL)
    eventually(lambda: servers(folder))
    started = servers(folder)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    eventually(lambda: not any(server.alive() for server in started.values()))
    assert servers(folder) == started

    answer = run("start", "--detach", "--heap", "512m", "--data-dir", folder)
    assert answer.returncode == 0, answer.stderr
    return answer


def test_detached_servers_answer_after_the_command_has_ended(
    detached: subprocess.CompletedProcess[str], folder: Path
) -> None:
    assert all(server.alive() for server in servers(folder).values())
    lines = dict(line.removeprefix("export ").split("=", 1) for line in detached.stdout.splitlines())
    assert sorted(lines) == ["PRAVEGA_CONTROLLER_URI", "PRAVEGA_SCHEMA_REGISTRY_URI"]
    assert readiness.controller_answers(int(lines["PRAVEGA_CONTROLLER_URI"].rpartition(":")[2])) is None
    assert readiness.registry_answers(int(lines["PRAVEGA_SCHEMA_REGISTRY_URI"].rpartition(":")[2])) is None


def test_a_sandbox_is_its_owners_only(detached: subprocess.CompletedProcess[str], folder: Path) -> None:
    """Its folder, and what lies in it: logs name streams and users, settings hold keys."""
    assert detached.returncode == 0
    open_to_others = [str(path) for path in (folder, *folder.iterdir()) if path.lstat().st_mode & 0o077]
    assert open_to_others == []


def test_status_tells_the_addresses(detached: subprocess.CompletedProcess[str], folder: Path) -> None:
    answer = run("status", "--data-dir", folder)
    assert answer.returncode == 0
    assert "is running" in answer.stdout
    assert f"Pravega {chosen(None)}\n" in answer.stdout
    assert "tcp://127.0.0.1:" in answer.stdout


def test_status_env_can_be_evaluated(detached: subprocess.CompletedProcess[str], folder: Path) -> None:
    answer = run("status", "--env", "--data-dir", folder)
    assert answer.stdout == detached.stdout
    shell = subprocess.run(["sh", "-c", f'eval "{answer.stdout}"; env'], capture_output=True, text=True, check=True)
    assert "PRAVEGA_CONTROLLER_URI=tcp://127.0.0.1:" in shell.stdout


def test_a_second_start_names_the_one_that_runs(detached: subprocess.CompletedProcess[str], folder: Path) -> None:
    before = servers(folder)
    answer = run("start", "--data-dir", folder)
    assert answer.returncode == 1
    assert f"already (Pravega {chosen(None)}, controller tcp" in answer.stderr
    assert "tcp://127.0.0.1:" in answer.stderr
    assert answer.stdout == ""
    assert servers(folder) == before
    assert all(server.alive() for server in before.values())


def test_logs_shows_and_follows(detached: subprocess.CompletedProcess[str], folder: Path) -> None:
    answer = run("logs", "-n", 1, "--data-dir", folder)
    assert answer.returncode == 0
    assert [line.startswith("==>") for line in answer.stdout.splitlines()] == [True, False, True, False]
    wrong = run("logs", "segmentstore", "--data-dir", folder)
    assert wrong.returncode == 1
    assert wrong.stderr.endswith('holds no log of "segmentstore"; known are: pravega, schema-registry\n')
    following = subprocess.Popen(
        command("logs", "-f", "-n", 0, "--data-dir", folder), stdout=subprocess.PIPE, text=True
    )
    assert following.stdout
    try:
        with following.stdout as output:
            heads = [output.readline() for _ in range(2)]
            assert [head[:3] for head in heads] == ["==>", "==>"]
            with (folder / "pravega.log").open("a") as log:
                log.write("something new\n")
            # The servers may write lines of their own at any time.
            for line in output:
                if line == "something new\n":
                    break
                heads += [line] if line.startswith("==>") else []
            assert "pravega.log" in heads[-1]
            following.send_signal(signal.SIGINT)
            assert following.wait(10) == 0
    finally:
        following.kill()
        following.wait()


def test_stop_ends_both_and_may_be_said_twice(detached: subprocess.CompletedProcess[str], folder: Path) -> None:
    running = servers(folder)
    assert len(running) == 2
    assert run("stop", "--data-dir", folder).returncode == 0
    assert not any(server.alive() for server in running.values())
    status = run("status", "--data-dir", folder)
    assert status.returncode == 3
    assert "not running" in status.stdout
    again = run("stop", "--data-dir", folder)
    assert again.returncode == 0
    assert "no sandbox is running" in again.stderr
    assert "==>" in run("logs", "--data-dir", folder).stdout


@pytest.mark.in_turn
def test_in_the_foreground_it_stays_until_it_is_stopped_from_elsewhere(tmp_path: Path) -> None:
    front = subprocess.Popen(
        command("start", "--heap", "512m"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
    )  # fmt: skip
    assert front.stdout
    assert front.stdout.readline().startswith("export PRAVEGA_CONTROLLER_URI=")
    assert run("status", XDG_STATE_HOME=str(tmp_path)).returncode == 0
    assert run("stop", XDG_STATE_HOME=str(tmp_path)).returncode == 0
    _, errors = front.communicate(timeout=30)
    assert "stopped by another process" in errors
    assert front.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_start_that_is_under_way(tmp_path: Path, number: signal.Signals) -> None:
    front = subprocess.Popen(command("start", "--data-dir", tmp_path), stderr=subprocess.PIPE, text=True)
    eventually(lambda: servers(tmp_path))
    running = servers(tmp_path)
    front.send_signal(number)
    _, errors = front.communicate(timeout=30)
    assert "stopping" in errors
    assert not any(server.alive() for server in running.values())
    assert not (tmp_path / "sandbox.json").exists()


def test_a_server_that_does_not_answer_in_time_is_ended(tmp_path: Path) -> None:
    answer = run("start", "--timeout", "0.5", "--data-dir", tmp_path)
    assert answer.returncode == 1
    assert "and its schema registry, for up to 0.5 s ..." in answer.stderr
    assert "pravega didn't answer in time (" in answer.stderr
    assert "give it more time (--timeout, in Python timeout_s) or memory (--heap)" in answer.stderr
    running = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path / "pravega.properties") not in running
    wrong = run("start", "--timeout", "soon", "--data-dir", tmp_path)
    assert wrong.returncode == 2
    assert "--timeout" in wrong.stderr


def test_a_state_file_that_names_a_strangers_process_does_it_no_harm(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        process = ProcessId.of(stranger.pid)
        assert process
        stale = {
            "version": 1, "controller_uri": "tcp://127.0.0.1:1", "schema_registry_uri": "http://127.0.0.1:2",
            "data_dir": str(tmp_path), "ready": True, "detached": True, "ports": {},
            "servers": {"pravega": {**asdict(process), "started": "long ago:1"}},
        }  # fmt: skip
        (tmp_path / "sandbox.json").write_text(json.dumps(stale))
        assert run("status", "--data-dir", tmp_path).returncode == 3
        assert run("stop", "--data-dir", tmp_path).returncode == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 99}', '{"version": 1}', '"text"'])
def test_a_state_file_that_is_nonsense_means_not_running(tmp_path: Path, content: str) -> None:
    (tmp_path / "sandbox.json").write_text(content)
    status = run("status", "--env", "--data-dir", tmp_path)
    assert (status.returncode, status.stdout) == (3, "")


def test_no_logs_is_said(tmp_path: Path) -> None:
    answer = run("logs", "--data-dir", tmp_path)
    assert answer.returncode == 1
    assert "holds no logs" in answer.stderr


@pytest.mark.parametrize("name", ["start", "status", "stop", "logs"])
def test_the_folder_of_another_user_is_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o000)
    for path in (folder, folder / "within"):
        answer = run(name, "--data-dir", path, before=WITHOUT_PRIVILEGES)
        assert answer.returncode == 1
        assert f"{path} may not be read and written by" in answer.stderr
        assert "--data-dir" in answer.stderr
        assert "Traceback" not in answer.stderr
