"""A sandbox of several processes: rows outlive a segment store, the program that started the processes, a stop, and
another place of the folder. It wants to know who asks, and speaks TLS; `tests/servers` has one that doesn't."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import eventually

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import Cluster, state
from pyspark_pravega.sandbox.processes import ProcessId

pytestmark = [pytest.mark.server, pytest.mark.in_turn(8)]

_START = ("start", "--stores", "2", "--controllers", "2", "--heap", "256m", "--auth", "--tls")
_LIMIT_S = 600


class Program:
    """`pravega-spark` of a user who has nothing else."""

    def __init__(self, home: Path) -> None:
        self.home = home
        ours = {name: value for name, value in os.environ.items() if not name.startswith("PRAVEGA_")}
        self._ours = ours

    @property
    def folder(self) -> Path:
        return self.home / "pyspark-pravega" / "sandbox"

    @property
    def _environment(self) -> dict[str, str]:
        return {**self._ours, "XDG_STATE_HOME": str(self.home)}

    def move(self, home: Path) -> None:
        """Take the folder to another place."""
        self.home = self.home.rename(home)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "pyspark_pravega.cli", *arguments]

    def __call__(self, *arguments: str, lines: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), input=lines, capture_output=True, text=True, timeout=_LIMIT_S, check=False,
            env=self._environment,
        )  # fmt: skip

    def sandbox(self, *arguments: str) -> str:
        """What a command of the sandbox says."""
        answer = self("sandbox", *arguments)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout + answer.stderr

    def put(self, *numbers: int) -> None:
        answer = self("put", "shop.orders", lines="".join(f'{{"id": {number}}}\n' for number in numbers))
        assert answer.returncode == 0, answer.stderr

    def rows(self) -> list[int]:
        answer = self("tail", "shop.orders", "--json", "-n", "100")
        assert answer.returncode == 0, answer.stderr
        return sorted(json.loads(line)["id"] for line in answer.stdout.splitlines())

    def processes(self) -> dict[str, ProcessId]:
        running = state.load(self.folder)
        assert running is not None
        return running.servers

    @contextmanager
    def in_the_foreground(self) -> Iterator[subprocess.Popen[str]]:
        front = subprocess.Popen(
            self.command("sandbox", *_START), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=self._environment,
        )  # fmt: skip
        try:
            assert front.stdout is not None
            with front.stdout as output:
                assert output.readline().startswith("export PRAVEGA_CONTROLLER_URI="), "it doesn't start"
                yield front
        finally:
            front.kill()
            front.wait()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path / "home")
    program.home.mkdir()
    yield program
    program("sandbox", "stop")


def test_rows_outlive_a_store_the_program_and_a_stop(program: Program, tmp_path: Path) -> None:
    with program.in_the_foreground() as front:
        answer = program("create", "shop.orders", "id INT")
        assert answer.returncode == 0, answer.stderr
        program.put(1, 2)
        first = program.processes()
        assert len(first) == 9
        assert "restart segmentstore-2" in program.sandbox("kill", "segmentstore-2")
        assert not first["segmentstore-2"].alive()
        # What it had is the other one's now.
        program.put(3)
        assert program.rows() == [1, 2, 3]
        said = program.sandbox("status")
        assert "is running: 2 segment stores, 2 controllers, 3 bookies" in said
        (lost,) = [line.split() for line in said.splitlines() if "segmentstore-2" in line]
        assert lost[2:] == ["ended", "-", "-"]
        program.sandbox("restart", "segmentstore-2")
        second = program.processes()
        assert {name for name in first if first[name] != second[name]} == {"segmentstore-2"}
        program.put(4)
        assert program.rows() == [1, 2, 3, 4]
        refused = program("sandbox", "kill", "store-2")
        assert (refused.returncode, "it has zookeeper, bookie-1" in refused.stderr) == (1, True)
        front.kill()
        eventually(lambda: not any(process.alive() for process in second.values()))

    alone = program("sandbox", "start")
    assert alone.returncode == 1
    assert "is of a cluster, and not of a sandbox in one process: start it with --stores" in alone.stderr
    program.move(tmp_path / "elsewhere")
    program.sandbox(*_START, "--detach")
    assert program.rows() == [1, 2, 3, 4]
    third = program.processes()
    assert "no cluster" not in program.sandbox("stop")
    assert not any(process.alive() for process in third.values())
    assert program("sandbox", "status").returncode == 3
    assert "of data from" in program.sandbox("wipe")


def test_what_can_not_be_is_said(program: Program) -> None:
    for arguments, words in (
        (("start", "--stores", "0"), "a cluster has 1 to 4 stores, not 0"),
        (("start", "--controllers", "9"), "a cluster has 1 to 4 controllers, not 9"),
        (("start", "--stores", "2", "--in-memory"), "a cluster keeps its data: leave --in-memory out"),
        (("kill", "segmentstore-1"), "no cluster runs in"),
        (("restart", "segmentstore-1"), "no cluster runs in"),
    ):
        answer = program("sandbox", *arguments)
        assert (answer.returncode, words in answer.stderr) == (1, True), answer.stderr
    with pytest.raises(SandboxError, match=r"a cluster runs Pravega 0\.12 or 0\.13, not 0\.11"):
        Cluster(data_dir=program.folder, pravega="0.11")
    about = {"pravega": "0.13", "whole": True, "ports": {}, "layout": 1}
    (program.folder / "data").mkdir(parents=True)
    (program.folder / "data" / "about.json").write_text(json.dumps(about))
    answer = program("sandbox", *_START)
    assert answer.returncode == 1
    assert "is of a sandbox in one process, and not of a cluster: start it without --stores" in answer.stderr
