"""Python programs that tests start, in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def answer_of(
    program: Path, *arguments: str, environment: Mapping[str, str], folder: Path | None = None, timeout_s: float = 400
) -> Any:
    """Run a program to its end, and return its answer: the last line that it prints, which is JSON.

    Args:
        program: its file.
        arguments: what follows it on the command line.
        environment: all of its environment.
        folder: where it runs; here when None.
        timeout_s: how long it may take, in seconds.

    Raises:
        AssertionError: it failed; the message holds what it said.
    """
    done = subprocess.run(
        [sys.executable, str(program), *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-10_000:]
    return json.loads(done.stdout.splitlines()[-1])
