"""Runs Ivy, which finds jars by their coordinates and downloads them with all that they need."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.progress import Reports, megabytes
from pyspark_pravega.sandbox import places
from pyspark_pravega.sandbox.processes import Kept
from pyspark_pravega.spark import find

FLAT = "[artifact]-[revision](-[classifier]).[ext]"
"""All files side by side."""
MAVEN = f"[orgPath]/[module]/[revision]/{FLAT}"
"""As a Maven repository has them."""
_SILENCE_S = 300.0
_SETTINGS = """<ivysettings>
  <settings defaultResolver="repository"/>
  <resolvers><ibiblio name="repository" m2compatible="true" root={root}/></resolvers>
</ivysettings>
"""
_LAST_LINES = 12


def retrieve(
    ivy_file: Path,
    target: Path,
    *,
    ivy_home: Path,
    label: str,
    expected: int | None = None,
    pattern: str = FLAT,
) -> None:
    """Resolve and download the dependencies of an Ivy file.

    Args:
        ivy_file: names the dependencies.
        target: the folder that the files are put in; must exist.
        ivy_home: Ivy's own cache; what is in it isn't downloaded again.
        label: what is fetched, for the reports on standard error.
        expected: how many files are expected, for the same.
        pattern: where a file goes below the target: `FLAT` or `MAVEN`.

    Raises:
        SandboxError: no Java, no Ivy, an unreachable or unwilling server, or nothing heard of Ivy for 5 minutes.
    """
    ivy_home.mkdir(parents=True, exist_ok=True)
    arguments = command(ivy_file, ivy_home, "-retrieve", str(target / pattern), settings=_settings(ivy_home))
    ivy = Kept(arguments, output=subprocess.PIPE, folder=target, environment=os.environ)
    try:
        log = _follow(ivy, _Progress(label, expected, ivy_home))
        code = ivy.wait()
    finally:
        ivy.stop(grace_s=2.0)
    if code != 0:
        raise SandboxError(
            f"fetching {label} failed (Ivy ended with {code}); what is there already is kept, so try again when the "
            f"network is back, or name your own Ivy settings in {places.IVY_SETTINGS_VARIABLE}. It said:\n{_last(log)}"
        )


def command(ivy_file: Path, ivy_home: Path, *more: str, settings: Path | None, jvm: Sequence[str] = ()) -> list[str]:
    """How to run Ivy.

    Args:
        ivy_file: names what to download.
        ivy_home: Ivy's own cache.
        more: more arguments.
        settings: Ivy's settings; its own defaults when None.
        jvm: options for Java.
    """
    return [
        str(places.java()), *jvm, f"-Divy.default.ivy.user.dir={ivy_home}", "-jar", str(_ivy_jar()),
        *(["-settings", str(settings)] if settings else []),
        "-cache", str(ivy_home / "cache"), "-ivy", str(ivy_file.absolute()), *more,
    ]  # fmt: skip


def _settings(folder: Path) -> Path | None:
    """The user's Ivy settings, or ones with the user's repository; None: Ivy's defaults."""
    path, repository = places.ivy_settings(), places.repository()
    if path or repository is None:
        return path
    file = folder / "settings.xml"
    file.write_text(_SETTINGS.format(root=quoteattr(repository)))
    return file


class _Progress:
    """Tells how far a fetch is."""

    def __init__(self, label: str, expected: int | None, ivy_home: Path) -> None:
        self._label = label
        self._of = f" of {expected}" if expected else ""
        self._home = ivy_home
        self._before = self._bytes()
        self._reports = Reports()

    def report(self, modules: int, files: int, *, last: bool = False) -> None:
        self._reports.report(
            lambda: (
                f"fetching {self._label}: {modules} modules found, {files}{self._of} files "
                f"({megabytes(self._bytes() - self._before)} MB) downloaded, {self._reports.seconds:.0f} s"
            ),
            last=last,
        )

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
    output = b""
    heard_at = time.monotonic()
    descriptor = ivy.output.fileno()
    while True:
        if select.select([descriptor], [], [], 1.0)[0]:
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                break
            output += chunk
            heard_at = time.monotonic()
        elif time.monotonic() - heard_at > _SILENCE_S:
            raise SandboxError(
                f"fetching gave no sign of life for {_SILENCE_S:.0f} s; try again: what is there already is kept"
            )
        progress.report(output.count(b"\tfound "), output.count(b"[SUCCESSFUL ]"))
    progress.report(output.count(b"\tfound "), output.count(b"[SUCCESSFUL ]"), last=True)
    return output.decode(errors="replace")


def _last(output: str) -> str:
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if line.lstrip().startswith(("::", "ERROR", "WARN", "\t::"))] or lines
    return "\n".join(f"  {line.strip()}" for line in telling[-_LAST_LINES:])


def _ivy_jar() -> Path:
    """The Ivy of the Spark that is here, else the one that comes with this package."""
    spark = find()
    own = Path(__file__).parents[2] / "jars"
    for jars in ([spark.home / "jars"] if spark else []) + [own]:
        if ivy_jars := sorted(jars.glob("ivy-*.jar")):
            return ivy_jars[-1]
    raise SandboxError(
        f"{own} holds no ivy-*.jar, with which the sandbox fetches its servers: install the package again"
    )
