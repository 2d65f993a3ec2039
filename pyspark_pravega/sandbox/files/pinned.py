"""Fetches pinned files with several Ivys at once, each of which asks for its share by name, and for nothing else.

Nothing has to be resolved, as the pinned list names every file: no POMs are read, and no sums are asked for, because
the pinned ones are what counts. What is here when a fetch is interrupted stays for the next one.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.progress import Reports, bar, time_left
from pyspark_pravega.sandbox import places
from pyspark_pravega.sandbox.files import ivy, manifests
from pyspark_pravega.sandbox.files.manifests import Coordinates, PinnedFile
from pyspark_pravega.sandbox.processes import Kept

_WORKERS = 6
_ROUND_TRIP_BYTES = 500_000
"""What asking for one more file costs, in bytes that could have been fetched meanwhile: to give out fair shares."""
_LEAST_SHARE_BYTES = 3 * _ROUND_TRIP_BYTES
"""For how much an Ivy more is started: each one takes most of a second to begin."""
_FRUITLESS = 3
"""How many rounds in a row may bring no new file."""
_PAUSE_S = 1.0
_POLL_S = 0.1
_STALLED_S = 45.0
_SHOWN = 3
_PART = ".part"
_ERROR = re.compile(r"\((java[\w.]*(?:Exception|Error)[^()\n]*)\)")
_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SETTINGS = """<ivysettings>
  <property name="ivy.checksums" value=""/>
  <settings defaultResolver="repository"/>
  <timeout-constraints><timeout-constraint name="short" connectionTimeout="10000" readTimeout="30000"/></timeout-constraints>
  <resolvers><ibiblio name="repository" m2compatible="true" usepoms="false"{root} timeoutConstraint="short"/></resolvers>
</ivysettings>
"""  # noqa: E501


class MissingFilesError(SandboxError):
    """Some files can't be had by their names; another way of looking for them may do."""


def fetch(files: Iterable[PinnedFile], folder: Path, *, label: str) -> dict[str, Path]:
    """Fetch files by their names.

    Args:
        files: which; each has a size and coordinates. Two may be the same one.
        folder: where they are kept, also when the fetch doesn't come to its end; nobody else uses it meanwhile.
        label: what is fetched, for the reports on standard error.

    Returns:
        SHA-256 to path; every file's sum is right.

    Raises:
        MissingFilesError: some can't be had.
        SandboxError: no Java or no Ivy, or a repository that gives other bytes than the pinned ones, twice.
    """
    files_by_digest = {file.sha256: file for file in files}
    folder.mkdir(parents=True, exist_ok=True)
    # Held by the Ivys, too: those of a fetch that was killed live for a moment longer, and still write.
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _fetch(files_by_digest, folder, label, lock.fileno())


def _fetch(files_by_digest: dict[str, PinnedFile], folder: Path, label: str, lock: int) -> dict[str, Path]:
    here: dict[str, Path] = {}
    wrong: dict[str, int] = {}
    _sift(folder, files_by_digest, here, wrong)
    total = sum(file.size or 0 for file in files_by_digest.values())
    progress = _Progress(label, folder, total=total, files=len(files_by_digest))
    fruitless = 0
    while missing := [file for digest, file in files_by_digest.items() if digest not in here]:
        if fruitless:
            time.sleep(_PAUSE_S * fruitless)
        before = len(here)
        stalled = _round(missing, folder, progress, lock)
        _sift(folder, files_by_digest, here, wrong)
        fruitless = 0 if len(here) > before else fruitless + 1
        if fruitless and (stalled or fruitless == _FRUITLESS):
            progress.report(last=True)
            raise MissingFilesError(_reason(missing, folder))
    progress.report(last=True)
    return here


class _Progress:
    """How many bytes lie in a folder, of those that there shall be."""

    def __init__(self, label: str, folder: Path, *, total: int, files: int) -> None:
        self._label, self._folder, self._total, self._files = label, folder, total, files
        self._reports = Reports()
        self._before = self.bytes()
        """What was here already takes no time."""

    def bytes(self) -> int:
        return sum(size for _, size in _files(self._folder))

    def report(self, *, last: bool = False) -> None:
        self._reports.report(self._text, last=last)

    def _text(self) -> str:
        listing = list(_files(self._folder))
        files = sum(path.suffix != _PART for path, _ in listing)
        size, seconds = sum(size for _, size in listing), self._reports.seconds
        left = time_left(size - self._before, self._total - self._before, seconds)
        progress = bar(size, self._total)
        return f"fetching {self._label}: {progress}, {files} of {self._files} files, {seconds:.0f} s{left}"


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    """The files that are here, whole or in part, and their sizes."""
    for path in folder.glob("cache/*/*/jars/*"):
        try:
            yield path, path.stat().st_size
        except FileNotFoundError:  # Ivy renames its partial downloads meanwhile.
            continue


def _sift(folder: Path, files_by_digest: dict[str, PinnedFile], here: dict[str, Path], wrong: dict[str, int]) -> None:
    """Note the files that are right in `here`, and remove others; one that was fetched wrong twice is an error."""
    right = set(here.values())
    pinned = {file.name: file.sha256 for file in files_by_digest.values()}
    for path in [path for path, _ in _files(folder) if path not in right]:
        digest = manifests.sha256(path)
        if digest in files_by_digest:
            here[digest] = path
            continue
        path.unlink()
        if path.name not in pinned:
            continue
        wrong[path.name] = wrong.get(path.name, 0) + 1
        words = f"{path.name} differs: its SHA-256 is {digest}, pinned is {pinned[path.name]}"
        if wrong[path.name] > 1:
            raise SandboxError(f"{words}; it was fetched twice, and isn't used")
        print(f"{words}; fetching it once more", file=sys.stderr, flush=True)


def _round(files: Sequence[PinnedFile], folder: Path, progress: _Progress, lock: int) -> bool:
    """Let several Ivys ask for files, once for each; returns whether they had to be stopped as nothing came."""
    settings = _settings(folder)
    for old in folder.glob("share-*"):
        old.unlink()
    ivys: list[Kept] = []
    try:
        for number, share in enumerate(_shares(files), 1):
            ivy_file = folder / f"share-{number}.xml"
            ivy_file.write_text(_module(f"share-{number}", share))
            command = ivy.command(ivy_file, folder, settings=settings, jvm=_JVM)
            with ivy_file.with_suffix(".log").open("wb") as log:
                ivys.append(Kept(command, output=log, folder=folder, environment=os.environ, held_files=[lock]))
        size, changed = progress.bytes(), time.monotonic()
        while any(process.exit_code() is None for process in ivys):
            time.sleep(_POLL_S)
            progress.report()
            if (now := progress.bytes()) != size:
                size, changed = now, time.monotonic()
            elif time.monotonic() - changed > _STALLED_S:
                return True
        return False
    finally:
        for process in ivys:
            process.stop(grace_s=2.0)


def _settings(folder: Path) -> Path:
    """The user's Ivy settings, else ones of our own: the repository of Ivy or of the user, without POMs and sums."""
    path = places.ivy_settings()
    if path:
        return path
    repository = places.repository()
    root = f" root={quoteattr(repository)}" if repository else ""
    settings = folder / "settings.xml"
    settings.write_text(_SETTINGS.format(root=root))
    return settings


def _shares(files: Sequence[PinnedFile]) -> list[list[PinnedFile]]:
    """Shares of about the same cost; files of one module are in one share, as they share a file in Ivy's cache."""
    modules: dict[tuple[str, str], list[PinnedFile]] = defaultdict(list)
    for file in files:
        assert file.coordinates is not None
        modules[file.coordinates.organisation, file.coordinates.module].append(file)
    count = min(_WORKERS, len(modules), math.ceil(_cost(files) / _LEAST_SHARE_BYTES))
    shares: list[list[PinnedFile]] = [[] for _ in range(count)]
    for module in sorted(modules.values(), key=_cost, reverse=True):
        min(shares, key=_cost).extend(module)
    return shares


def _cost(files: Sequence[PinnedFile]) -> int:
    return sum((file.size or 0) + _ROUND_TRIP_BYTES for file in files)


def _module(name: str, files: Sequence[PinnedFile]) -> str:
    """An Ivy file that names these files and nothing that they need."""
    revisions: dict[tuple[str, str, str], list[Coordinates]] = defaultdict(list)
    for file in files:
        assert file.coordinates is not None
        where = file.coordinates
        revisions[where.organisation, where.module, where.revision].append(where)
    dependencies = []
    for (organisation, module, revision), artifacts in revisions.items():
        dependencies.append(
            f"<dependency org={quoteattr(organisation)} name={quoteattr(module)} rev={quoteattr(revision)} "
            'transitive="false" conf="default">'
        )
        for one in artifacts:
            more = f" m:classifier={quoteattr(one.classifier)}" if one.classifier else ""
            dependencies.append(f'<artifact name={quoteattr(module)} type="jar" ext={quoteattr(one.extension)}{more}/>')
        dependencies.append("</dependency>")
    return "\n".join(
        [
            '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">',
            f'<info organisation="pyspark-pravega" module={quoteattr(name)}/>',
            '<configurations><conf name="default"/></configurations>',
            "<dependencies>",
            *dependencies,
            # Two versions of a module are two files, and neither gives way to the other.
            '<conflict manager="all"/>',
            "</dependencies>",
            "</ivy-module>",
            "",
        ]
    )


def _reason(missing: Sequence[PinnedFile], folder: Path) -> str:
    names = ", ".join(file.name for file in missing[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
    output = "".join(log.read_text(errors="replace") for log in sorted(folder.glob("share-*.log")))
    error = _ERROR.search(output)
    return f"{len(missing)} files couldn't be fetched ({names})" + (f": {error.group(1)}" if error else "")
