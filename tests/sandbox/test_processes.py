"""Processes are recognised beyond doubt, and don't outlive the one that wanted them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from waiting import eventually

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import keeper
from pyspark_pravega.sandbox.processes import Kept, ProcessId, end

SLEEP = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)"]
STUBBORN = [
    sys.executable, "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('here', flush=True); time.sleep(60)",
]  # fmt: skip


def keep(command: list[str], folder: Path) -> Kept:
    return Kept(command, output=subprocess.PIPE, folder=folder, environment=os.environ)


def test_a_process_is_named_by_its_id_and_its_beginning() -> None:
    me = ProcessId.of(os.getpid())
    assert me is not None
    assert me.alive()
    assert not replace(me, started="another boot:1").alive()


def test_no_signal_goes_to_a_process_that_took_over_an_id(tmp_path: Path) -> None:
    process = keep(SLEEP, tmp_path)
    assert process.identity
    stranger = replace(process.identity, started="another boot:1")
    stranger.send(signal.SIGKILL)
    end([stranger], grace_s=0.1)
    assert process.identity.alive()
    process.stop(grace_s=5)
    assert not process.identity.alive()


def test_a_process_that_is_gone_is_no_error() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert ProcessId.of(gone.pid) is None
    ProcessId(gone.pid, "whenever").send(signal.SIGKILL)


def test_a_process_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    process = keep(STUBBORN, tmp_path)
    assert process.output.readline() == b"here\n"
    process.stop(grace_s=0.2)
    assert process.identity
    assert not process.identity.alive()
    assert process.exit_code() == 128 + signal.SIGKILL


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="/no/such/program couldn't be started"):
        keep(["/no/such/program"], tmp_path)


def test_the_exit_code_comes_through(tmp_path: Path) -> None:
    process = keep([sys.executable, "-c", "raise SystemExit(7)"], tmp_path)
    assert process.wait() == 7
    process.stop(grace_s=0)


def kept_by_another(tmp_path: Path, after: str) -> tuple[subprocess.Popen[str], ProcessId]:
    """A process that keeps a sleeping one, and that one."""
    program = f"""
        import os, pathlib, subprocess, sys, threading, time
        from pyspark_pravega.sandbox.processes import Kept
        def run():
            global kept
            kept = Kept({SLEEP!r}, output=subprocess.DEVNULL, folder=pathlib.Path({str(tmp_path)!r}),
                        environment=os.environ)
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        {after}
        print(kept.pid, flush=True)
        time.sleep(60)
    """
    keeper = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    assert keeper.stdout
    with keeper.stdout as output:
        child = ProcessId.of(int(output.readline()))
    assert child
    return keeper, child


def test_it_dies_with_a_process_that_is_killed(tmp_path: Path) -> None:
    parent, child = kept_by_another(tmp_path, "")
    parent.kill()
    parent.wait()
    eventually(lambda: not child.alive())


def test_it_dies_also_when_a_fork_of_the_killed_process_lives_on(tmp_path: Path) -> None:
    parent, child = kept_by_another(tmp_path, "fork = os.fork() or time.sleep(20)")
    parent.kill()
    parent.wait()
    eventually(lambda: not child.alive(), within_s=10)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tie a process to its parent")
def test_it_dies_also_when_its_keeper_is_killed(tmp_path: Path) -> None:
    process = keep(SLEEP, tmp_path)
    identity = process.identity
    assert identity
    os.kill(process._keeper.pid, signal.SIGKILL)
    eventually(lambda: not identity.alive())
    process.stop(grace_s=0)


@pytest.mark.parametrize(("word", "lives"), [(b"d", True), (b"", False)])
def test_a_word_of_release_counts_also_when_its_writer_is_gone_before_it_is_read(word: bytes, lives: bool) -> None:
    child = [sys.executable, "-c", "import time; time.sleep(0.5); raise SystemExit(7)"]
    not_its_parent = "-1"
    command = [sys.executable, "-I", "-S", keeper.__file__, not_its_parent, *child]
    ran = subprocess.run(command, input=word, capture_output=True, check=False)
    assert ran.returncode == (7 if lives else 128 + signal.SIGTERM)


def test_a_released_one_lives_on(tmp_path: Path) -> None:
    parent, child = kept_by_another(tmp_path, "kept.release()")
    parent.kill()
    parent.wait()
    with pytest.raises(AssertionError):
        eventually(lambda: not child.alive(), within_s=1)
    end([child], grace_s=5)
    assert not child.alive()
