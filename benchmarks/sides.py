"""A program beside this one that reads and writes as it is told, by lines of JSON: one side of a benchmark."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.harness import process_tree_cpu_seconds


class Side:
    """The program of one side. It ends when its input does."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        """Start it, and wait until it has said that it is ready.

        Args:
            command: the program with its arguments.
            folder: where it runs.

        Raises:
            RuntimeError: it has ended.
        """
        self._program = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        if self._answer() != "ready":
            raise RuntimeError(f"{folder} gave no session; run `make setup` there. The command was {command}")

    def do(self, what: str, name: str, events: int, options: Mapping[str, str]) -> int:
        """Let it read or write; returns the number of events."""
        assert self._program.stdin is not None
        self._program.stdin.write(json.dumps([what, name, events, options]) + "\n")
        self._program.stdin.flush()
        if (answer := self._answer()) != "done":
            raise RuntimeError(f"{what}: {answer}")
        return events

    def cpu_seconds(self) -> float:
        """User and system time so far, with the JVM, Spark's Python workers and the catalog's process."""
        return process_tree_cpu_seconds(self._program.pid)

    def close(self) -> None:
        """Let it end."""
        self._program.communicate()

    def _answer(self) -> str:
        assert self._program.stdout is not None
        return self._program.stdout.readline().strip()
