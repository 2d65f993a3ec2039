"""Servers that the tests start and end, by process id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyhive import hive

from pyspark_pravega.sandbox import Sandbox

FEW_TASKS = ["--", "--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2"]
CLI = [sys.executable, "-m", "pyspark_pravega.cli"]
_START_S = 180.0
_STOP_S = 180.0


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without other tests' servers, and with those given."""
    others = {key: value for key, value in os.environ.items() if not key.startswith("PRAVEGA_")}
    return {**others, **environment}


@dataclass
class SparkServer:
    """A running `pravega-spark thriftserver` or `pravega-spark connect`."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it as a user does; returns its exit code."""
        self.process.send_signal(number)
        return self.process.wait(_STOP_S)


class ThriftServer(SparkServer):
    """A running `pravega-spark thriftserver`."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url.removeprefix("jdbc:"))
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    def connect(self, user: str, database: str = "default") -> Any:
        """A PyHive connection."""
        host, port = self.address
        return hive.connect(host, port, username=user, database=database)


@contextmanager
def spark_server(command: str, environment: Mapping[str, str], folder: Path, *arguments: str) -> Iterator[SparkServer]:
    """Run a server of Spark's on a free port while a block runs.

    Args:
        command: of `pravega-spark`.
        environment: leads to Pravega.
        folder: the user's folder while it runs.
        arguments: for the command.
    """
    (folder / "home").mkdir()
    log = folder / f"{command}.log"
    with log.open("w") as messages:
        process = subprocess.Popen(
            [*CLI, command, "--port", "0", *arguments],
            env=clean_environment(environment),
            cwd=folder / "home",
            stdout=subprocess.PIPE,
            stderr=messages,
            text=True,
        )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        assert url, log.read_text()[-5000:]
        yield SparkServer(process, url, log)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(_STOP_S)
        process.stdout.close()


@contextmanager
def thrift_server(environment: Mapping[str, str], folder: Path, *arguments: str) -> Iterator[ThriftServer]:
    """Run the Thrift server on a free port while a block runs; see `spark_server`."""
    with spark_server("thriftserver", environment, folder, *arguments) as running:
        yield ThriftServer(running.process, running.url, running.log)


@contextmanager
def checked_thrift_server(sandbox: Sandbox, folder: Path) -> Iterator[ThriftServer]:
    """Stopped by SIGTERM at the end, when it must leave neither processes nor files."""
    with thrift_server(sandbox.environment(), folder, *FEW_TASKS) as running:
        yield running
        processes = descendants(running.process.pid)
        assert running.stop() == 0
    assert "Unable to access pipeout files" not in running.log.read_text()
    wait_until_gone(processes)
    assert list((folder / "home").iterdir()) == []


class ThriftServers:
    """One Thrift server at a time: Pravega's servers may change."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._running = ExitStack()
        self._server: ThriftServer | None = None
        self._controller = ""

    def get(self, sandbox: Sandbox) -> ThriftServer:
        """The one for these servers of Pravega's."""
        if self._server is None or self._controller != sandbox.controller_uri:
            self.end()
            folder = self._folders.mktemp("thrift")
            self._server = self._running.enter_context(checked_thrift_server(sandbox, folder))
            self._controller = sandbox.controller_uri
        return self._server

    def end(self) -> None:
        """Stop it, and look whether it leaves something."""
        self._server = None
        self._running.close()


def descendants(root: int) -> dict[int, str]:
    """The process ids and command lines of all that came from a process, itself included."""
    parents, commands = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            commands[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        except (OSError, ValueError):  # it has just ended
            continue
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return {pid: commands[pid] for pid in family if pid in commands}


def wait_until_gone(processes: Mapping[int, str]) -> None:
    """Wait until processes have ended; fails when they don't."""
    deadline = time.monotonic() + _STOP_S
    while survivors := [f"{pid} {command}" for pid, command in processes.items() if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, f"still there: {survivors}"
        time.sleep(0.1)


def ask(cursor: Any, statement: str) -> list[str]:
    """The rows that a statement answers, as spark-sql would print them."""
    cursor.execute(statement.rstrip().removesuffix(";"))
    if cursor.description is None:
        return []
    return ["\t".join(map(_text, row)).rstrip() for row in cursor.fetchall()]


def _text(value: object) -> str:
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else str(value)
