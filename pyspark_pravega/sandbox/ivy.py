"""Runs Ivy, which finds jars by their coordinates and downloads them with all that they need."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import places
from pyspark_pravega.sandbox.processes import Kept

_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"
_SILENCE_S = 300.0
_REPORT_S = 10.0
_LAST_LINES = 12


def retrieve(ivy_file: Path, target: Path, *, ivy_home: Path, label: str, expected: int | None = None) -> None:
    """Resolve and download the dependencies of an Ivy file.

    Args:
        ivy_file: names the dependencies.
        target: the folder that the files are put in; must exist.
        ivy_home: Ivy's own cache; what is in it isn't downloaded again.
        label: what is fetched, for the reports on standard error.
        expected: how many files are expected, for the same.

    Raises:
        SandboxError: no Java, no Ivy, an unreachable or unwilling server, or nothing heard of Ivy for 5 minutes.
    """
    ivy_home.mkdir(parents=True, exist_ok=True)
    settings = places.ivy_settings()
    command = [
        str(places.java()), f"-Divy.default.ivy.user.dir={ivy_home}", "-jar", str(places.ivy_jar()),
        *(["-settings", str(settings)] if settings else []),
        "-cache", str(ivy_home / "cache"), "-ivy", str(ivy_file.absolute()), "-retrieve", str(target / _PATTERN),
    ]  # fmt: skip
    ivy = Kept(command, output=subprocess.PIPE, folder=target, environment=os.environ)
    try:
        said = _follow(ivy, _Progress(label, expected, ivy_home))
        code = ivy.wait()
    finally:
        ivy.stop(grace_s=2.0)
    if code != 0:
        raise SandboxError(
            f"fetching {label} failed (Ivy ended with {code}); what is there already is kept, so try again when the "
            f"network is back, or name your own Ivy settings in {places.IVY_SETTINGS_VARIABLE}. It said:\n{_last(said)}"
        )


class _Progress:
    """Tells on standard error how far a fetch is: one living line on a terminal, else a line every ten seconds."""

    def __init__(self, label: str, expected: int | None, ivy_home: Path) -> None:
        self._label = label
        self._of = f" of {expected}" if expected else ""
        self._home = ivy_home
        self._started = time.monotonic()
        self._before = self._bytes()
        self._terminal = sys.stderr.isatty()
        self._next = self._started + (0.0 if self._terminal else _REPORT_S)

    def report(self, modules: int, files: int, *, last: bool = False) -> None:
        now = time.monotonic()
        if now < self._next and not (last and self._terminal):
            return
        self._next = now + (1.0 if self._terminal else _REPORT_S)
        megabytes = (self._bytes() - self._before) / 1e6
        text = (
            f"fetching {self._label}: {modules} modules found, {files}{self._of} files "
            f"({megabytes:.0f} MB) downloaded, {now - self._started:.0f} s"
        )
        if self._terminal:
            print(f"\r\x1b[K{text}", end="\n" if last else "", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def _bytes(self) -> int:
        total = 0
        for path in self._home.rglob("*.jar*"):
            try:
                total += path.stat().st_size
            except FileNotFoundError:  # Ivy renames its partial downloads meanwhile
                continue
        return total


def _follow(ivy: Kept, progress: _Progress) -> str:
    """Read what Ivy says until it ends, and pass on how far it is."""
    said = b""
    heard = time.monotonic()
    descriptor = ivy.output.fileno()
    while True:
        if select.select([descriptor], [], [], 1.0)[0]:
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                break
            said += chunk
            heard = time.monotonic()
        elif time.monotonic() - heard > _SILENCE_S:
            raise SandboxError(
                f"fetching gave no sign of life for {_SILENCE_S:.0f} s; try again: what is there already is kept"
            )
        progress.report(said.count(b"\tfound "), said.count(b"[SUCCESSFUL ]"))
    progress.report(said.count(b"\tfound "), said.count(b"[SUCCESSFUL ]"), last=True)
    return said.decode(errors="replace")


def _last(said: str) -> str:
    lines = [line.rstrip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if line.lstrip().startswith(("::", "ERROR", "WARN", "\t::"))] or lines
    return "\n".join(f"  {line.strip()}" for line in telling[-_LAST_LINES:])
