"""Lists of pinned files: what each file's bytes have to be, how many they are, and where a Maven repository has it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from pyspark_pravega.errors import SandboxError

_CHUNK = 1 << 20
_SUM = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]*")
_REST = re.compile(r"(?:-(?P<classifier>[^/]+))?\.(?P<extension>[a-z]+)")


@dataclass(frozen=True, kw_only=True)
class Coordinates:
    """A file as Maven and Ivy name it."""

    organisation: str
    module: str
    revision: str
    classifier: str | None
    extension: str


@dataclass(frozen=True, kw_only=True)
class PinnedFile:
    """One line of a list."""

    name: str
    """The file's name, without a folder."""
    sha256: str
    """The sum of its bytes, in hexadecimal."""
    size: int | None
    """How many bytes they are; None when the list doesn't tell."""
    coordinates: Coordinates | None
    """What to ask a Maven repository for; None when the list doesn't tell."""


def read(manifest: Path) -> list[PinnedFile]:
    """Read a list.

    Args:
        manifest: lines `<sha256>  <size in bytes>  <path in a Maven repository>`, or `<sha256>  <file name>`; `#`
            begins a comment line.

    Returns:
        Its files, as the lines are ordered.

    Raises:
        SandboxError: it is missing or malformed.
    """
    try:
        lines = manifest.read_text().splitlines()
    except OSError as error:
        raise SandboxError(f"the manifest {manifest} can't be read: {error}") from error
    files = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        file = _parse(line)
        if file is None:
            raise SandboxError(
                f"{manifest}, line {number}: expected `<sha256>  <size>  <path>` or `<sha256>  <file name>`, "
                f"found {line!r}"
            )
        files.append(file)
    return files


def describe(path: Path, place: str) -> str:
    """The line that pins a file.

    Args:
        path: the file.
        place: its path in a Maven repository.

    Returns:
        The line, with its end.
    """
    return f"{sha256(path)}  {path.stat().st_size}  {place}\n"


def sha256(path: Path) -> str:
    """The sum of a file's bytes.

    Args:
        path: the file.

    Returns:
        In hexadecimal.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _parse(line: str) -> PinnedFile | None:
    digest, *others = line.strip().split("  ")
    if not _SUM.fullmatch(digest):
        return None
    if len(others) == 1 and _NAME.fullmatch(others[0]):
        return PinnedFile(name=others[0], sha256=digest, size=None, coordinates=None)
    if len(others) != 2 or not others[0].isdecimal():
        return None
    coordinates = _coordinates(others[1])
    if coordinates is None:
        return None
    name = others[1].rpartition("/")[2]
    return PinnedFile(name=name, sha256=digest, size=int(others[0]), coordinates=coordinates)


def _coordinates(place: str) -> Coordinates | None:
    """Take `org/json/json/20190722/json-20190722.jar` apart."""
    parts = place.split("/")
    if len(parts) < 4 or not all(_NAME.fullmatch(part) for part in parts):
        return None
    *organisation, module, revision, name = parts
    head = f"{module}-{revision}"
    rest = _REST.fullmatch(name.removeprefix(head))
    if rest is None or not name.startswith(head):
        return None
    return Coordinates(organisation=".".join(organisation), module=module, revision=revision, **rest.groupdict())
