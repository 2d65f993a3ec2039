"""Java programs in one JVM that is kept: most of what each does in a JVM of its own is to start."""

from __future__ import annotations

import struct
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pyspark_pravega.sandbox import places
from tests.jars.java_client import JavaPrograms


class Machine:
    """A JVM that runs programs, one after another; it is started with the first one."""

    def __init__(self, programs: JavaPrograms, log: Path) -> None:
        self._programs = programs
        self._log = log
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None

    def run(self, texts: Sequence[str], timeout_s: float) -> tuple[int, str, str]:
        """Run a program.

        Args:
            texts: the request, as tests/interop/java/Programs.java has it.
            timeout_s: how long it may take, in seconds; then the JVM is ended.

        Returns:
            0 or 1, what it printed, and what it failed with.
        """
        with self._lock:
            if self._running is None:
                self._running = self._start()
            running = self._running
            assert running.stdin is not None
            assert running.stdout is not None
            over = threading.Timer(timeout_s, self._give_up, [running])
            over.start()
            try:
                running.stdin.write(struct.pack(">i", len(texts)) + b"".join(map(_packed, texts)))
                running.stdin.flush()
                status = _number(running.stdout)
                printed, failure = (running.stdout.read(_number(running.stdout)).decode() for _ in range(2))
            except (OSError, struct.error):
                self._end()
                said = self._log.read_text(errors="replace")
                raise AssertionError(f"the JVM has ended, or was ended after {timeout_s} s:\n{said}") from None
            finally:
                over.cancel()
            return status, printed, failure

    def stop(self) -> None:
        """End the JVM."""
        with self._lock:
            self._end()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("wb") as said:
            return subprocess.Popen(
                self._programs.command("interop.Programs"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env=self._programs.environment(),
            )

    def _give_up(self, running: subprocess.Popen[bytes]) -> None:
        """End a JVM whose program takes too long, and note what its threads were doing."""
        tool = places.java().resolve().with_name("jcmd")
        with self._log.open("ab") as said:
            subprocess.run([tool, str(running.pid), "Thread.print"], stdout=said, stderr=said, timeout=60, check=False)
        running.kill()

    def _end(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.communicate()
            self._running = None


@dataclass(frozen=True, kw_only=True)
class KeptPrograms(JavaPrograms):
    """Programs that run in a JVM which many share."""

    machine: Machine = field(compare=False)

    def run(self, main: str, *arguments: str, stdin: str = "", timeout_s: float = 120.0) -> str:
        """Run a program to its end; see `JavaPrograms.run`."""
        texts = [self.controller_uri, self.schema_registry_uri, stdin, main, *arguments]
        status, printed, failure = self.machine.run(texts, timeout_s)
        if status:
            raise AssertionError(f"{main} {' '.join(arguments)} failed:\n{failure}")
        return printed

    def alone(self) -> JavaPrograms:
        """The same programs, each in a JVM of its own."""
        return JavaPrograms(
            classes=self.classes,
            jars=self.jars,
            controller_uri=self.controller_uri,
            schema_registry_uri=self.schema_registry_uri,
        )


def _packed(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">i", len(encoded)) + encoded


def _number(stream: IO[bytes]) -> int:
    number: int = struct.unpack(">i", stream.read(4))[0]
    return number
