"""`pravega-spark sql` at a terminal: what it says first, and what Ctrl-C does."""

from __future__ import annotations

import json
import os
import pty
import select
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from waiting import eventually

from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.sandbox.ports import free_ports

pytestmark = [pytest.mark.server, pytest.mark.spark]

PATIENCE_S = 240.0


class Terminal:
    """A program at a terminal of its own."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(command[0], command, environment)
        self._said = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def until(self, words: str) -> str:
        """All that it says up to these words."""
        deadline = time.monotonic() + PATIENCE_S
        while words not in self._said:
            assert time.monotonic() < deadline, f"{words!r} doesn't come: {self._said[-2000:]}"
            if select.select([self._terminal], [], [], 1)[0]:
                self._said += os.read(self._terminal, 65536).decode(errors="replace")
        told, _, self._said = self._said.partition(words)
        return told

    def end(self) -> int:
        """Type the end of the input, and wait for the program's."""
        self.type("\x04")
        try:
            while os.read(self._terminal, 65536):
                pass
        except OSError:  # so a terminal's end is told
            pass
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def pages() -> int:
    return free_ports(1)[0]


@pytest.fixture
def prompt(sandbox: Sandbox, tmp_path: Path, pages: int) -> Terminal:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PRAVEGA_")}
    shown = ("--conf", "spark.ui.enabled=true", "--conf", f"spark.ui.port={pages}")
    command = [sys.executable, "-m", "pyspark_pravega.cli", "sql", "--", *shown]
    return Terminal(command, {**clean, **sandbox.environment(), "TERM": "dumb"}, tmp_path)


def running_jobs(pages: int) -> list[object]:
    def asked(path: str) -> list[dict[str, object]]:
        with urllib.request.urlopen(f"http://127.0.0.1:{pages}/api/v1/applications{path}") as answer:
            found: list[dict[str, object]] = json.load(answer)
            return found

    (application,) = asked("")
    return [job["jobId"] for job in asked(f"/{application['id']}/jobs?status=running")]


def test_ctrl_c_ends_the_statement_and_not_the_prompt(prompt: Terminal, pages: int) -> None:
    first = prompt.until("spark-sql (default)> ")
    assert "log level" not in first
    assert "WARN " not in first

    prompt.type("SHOW NAMESPACES IN pravega;\n")
    prompt.until("Time taken")
    prompt.until("spark-sql (default)> ")
    prompt.type("SELECT count(*) FROM range(1000000000000) WHERE id * 3 % 7 = 11;\n")
    eventually(lambda: running_jobs(pages), within_s=PATIENCE_S)
    prompt.type("\x03")
    prompt.until("spark-sql (default)> ")
    # The catalog process, which is at the same terminal, is there, too.
    prompt.type("SHOW NAMESPACES IN pravega;\nSELECT 'still', 40 + 2;\n")
    prompt.until("still\t42")
    assert prompt.end() == 0
