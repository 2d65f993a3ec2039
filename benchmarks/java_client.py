"""The official Java client, in a process that does as it is told."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness import process_tree_cpu_seconds
from tests.jars.java_client import compile_java

_SOURCES = Path(__file__).parent / "java"


class JavaClient:
    """A running JVM with the official client."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self._log = process, log
        self._answer()

    def do(self, what: str, stream: str, events: int) -> int:
        """Have it write or read.

        Args:
            what: one of the words that the program knows.
            stream: the stream's name.
            events: how many to write.

        Returns:
            How many events it wrote or read.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what} {stream} {events}\n")
        self._process.stdin.flush()
        return int(self._answer())

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        return process_tree_cpu_seconds(self._process.pid)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"the Java client ended:\n{self._log.read_text()[-4000:]}")
        return line


@contextmanager
def java_client(
    folder: Path, program: str, scope: str, files: dict[str, str], *, controller_uri: str, schema_registry_uri: str
) -> Iterator[JavaClient]:
    """Compile and start one of the programs in `java/`.

    Args:
        folder: where its files go.
        program: its class.
        scope: the scope of all streams: its first argument.
        files: name to content of the files that are its further arguments.
        controller_uri: `tcp://host:port`.
        schema_registry_uri: `http://host:port`.
    """
    classes, log = folder / f"{program}-classes", folder / f"{program}.log"
    classes.mkdir()
    paths = []
    for name, content in files.items():
        paths.append(folder / name)
        paths[-1].write_text(content)
    programs = compile_java(_SOURCES, classes, controller_uri=controller_uri, schema_registry_uri=schema_registry_uri)
    with log.open("w") as errors:
        process = subprocess.Popen(
            programs.command(f"bench.{program}", scope, *map(str, paths), options=["-Xmx2g"]),
            env=programs.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            encoding="utf-8",
        )
    with process:
        try:
            yield JavaClient(process, log)
        finally:
            process.kill()
