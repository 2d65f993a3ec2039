"""Sets of jars that are fetched once, checked against pinned SHA-256 sums, and kept in a per-user cache.

The cache holds `bundles/<name>-<manifest>/` (the jars, with a stamp that says when they were checked), `ivy/`
(Ivy's own cache; may be deleted to save space) and `lock`. A bundle is retrieved into a folder of its own, checked
there, and moved into place whole: whoever is killed on the way leaves nothing that the next one would take for jars.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import ivy, places

_STAMP = ".checked"
_HERE = Path(__file__).parent / "artifacts"
_CHUNK = 1 << 20
_POLL_S = 0.2


@dataclass(frozen=True)
class Bundle:
    """A set of jars: what it consists of, and what each file's bytes have to be."""

    name: str
    """Names the bundle in messages and in the cache: letters, digits, dashes."""
    ivy_file: Path
    """An Ivy module file that names the dependencies."""
    manifest: Path
    """Lines `<sha256>  <file name>`, as `sha256sum` writes them; `#` begins a comment line."""

    def sums(self) -> dict[str, str]:
        """The manifest's content.

        Returns:
            File name to SHA-256 in hexadecimal.

        Raises:
            SandboxError: the manifest is missing or malformed.
        """
        sums = {}
        for number, line in enumerate(_read(self.manifest).splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            digest, _, name = line.strip().partition("  ")
            if len(digest) != 64 or not name or "/" in name:
                raise SandboxError(f"{self.manifest}, line {number}: expected `<sha256>  <file name>`, found {line!r}")
            sums[name] = digest
        return sums


PRAVEGA = Bundle("pravega", _HERE / "pravega.xml", _HERE / "pravega.sha256")
"""The standalone server: controller, segment store and ZooKeeper in one."""
SCHEMA_REGISTRY = Bundle("schema-registry", _HERE / "schema-registry.xml", _HERE / "schema-registry.sha256")
"""The schema registry's server."""


def fetch(bundle: Bundle, *, cache: Path | None = None) -> Path:
    """Have a bundle's jars on this machine: from the cache, or fetched into it now.

    Args:
        bundle: which.
        cache: the cache folder; `places.cache_folder()` when None.

    Returns:
        The folder that holds the jars, checked.

    Raises:
        SandboxError: they can't be fetched, or a file is missing, differs from its pinned sum, or isn't pinned.
    """
    cache = cache or places.cache_folder()
    sums = bundle.sums()
    target = cache / "bundles" / f"{bundle.name}-{_fingerprint(sums)}"
    if _stamp_holds(target, sums):
        return target
    try:
        with _locked(cache):
            if not _usable(target, sums):
                _fetch_into(target, bundle, sums, cache)
    except OSError as error:
        raise SandboxError(
            f"{bundle.name} can't be kept in {cache}: {error}; set {places.CACHE_VARIABLE} to a folder with room "
            "that you may write to"
        ) from error
    return target


def pin(bundle: Bundle, *, cache: Path | None = None) -> int:
    """Fetch what a bundle's Ivy file names now, and write its manifest anew: for who changes the Ivy file.

    Args:
        bundle: which; its manifest needn't exist yet.
        cache: the cache folder; `places.cache_folder()` when None.

    Returns:
        How many files it consists of.

    Raises:
        SandboxError: they can't be fetched.
    """
    cache = cache or places.cache_folder()
    with _locked(cache), _temporary(cache) as folder:
        ivy.retrieve(bundle.ivy_file, folder, ivy_home=cache / "ivy", label=bundle.name)
        names = sorted(path.name for path in folder.iterdir())
        bundle.manifest.write_text("".join(f"{_sha256(folder / name)}  {name}\n" for name in names))
    return len(names)


def _fetch_into(target: Path, bundle: Bundle, sums: dict[str, str], cache: Path) -> None:
    ivy_home = cache / "ivy"
    with _temporary(cache) as folder:
        print(f"fetching {bundle.name}: {len(sums)} files, once, into {cache}", file=sys.stderr, flush=True)
        ivy.retrieve(bundle.ivy_file, folder, ivy_home=ivy_home, label=bundle.name, expected=len(sums))
        wrong = _differences(folder, sums)
        if wrong:
            # Ivy trusts what lies in its cache, so a file that was damaged there would come back for ever.
            print(f"{wrong[0]}; fetching {bundle.name} from scratch", file=sys.stderr, flush=True)
            shutil.rmtree(ivy_home, ignore_errors=True)
            shutil.rmtree(folder)
            folder.mkdir()
            ivy.retrieve(bundle.ivy_file, folder, ivy_home=ivy_home, label=bundle.name, expected=len(sums))
            wrong = _differences(folder, sums)
        if wrong:
            raise SandboxError(
                f"{bundle.name} isn't what {bundle.manifest.name} pins, and isn't used: {'; '.join(wrong)}"
            )
        _write_stamp(folder, sums)
        if target.exists():
            target.rename(folder.with_name(f"{folder.name}-old"))
        folder.rename(target)


def _usable(target: Path, sums: dict[str, str]) -> bool:
    """Whether a folder in the cache is whole; looks into every file if the stamp doesn't hold."""
    if _stamp_holds(target, sums):
        return True
    if not target.is_dir():
        return False
    wrong = _differences(target, sums)
    if wrong:
        print(f"in {target}: {'; '.join(wrong)}; fetching it again", file=sys.stderr, flush=True)
        return False
    _write_stamp(target, sums)
    return True


def _differences(folder: Path, sums: dict[str, str]) -> list[str]:
    found = {path.name for path in folder.iterdir() if path.name != _STAMP}
    wrong = [f"{name} is missing" for name in sorted(sums.keys() - found)]
    wrong += [f"{name} isn't in the manifest" for name in sorted(found - sums.keys())]
    for name in sorted(found & sums.keys()):
        actual = _sha256(folder / name)
        if actual != sums[name]:
            wrong.append(f"{name} differs: its SHA-256 is {actual}, pinned is {sums[name]}")
    return wrong


def _stamp_holds(folder: Path, sums: dict[str, str]) -> bool:
    """Whether the folder's files have the sizes and times they had when they were last checked."""
    try:
        stamp = json.loads((folder / _STAMP).read_text())
        return bool(stamp == _stamp(folder, sums))
    except (OSError, ValueError):
        return False


def _write_stamp(folder: Path, sums: dict[str, str]) -> None:
    draft = folder / f"{_STAMP}-draft"
    content = _stamp(folder, sums)
    draft.write_text(json.dumps(content))
    draft.replace(folder / _STAMP)


def _stamp(folder: Path, sums: dict[str, str]) -> dict[str, object]:
    files = {}
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if not entry.name.startswith(_STAMP):
            status = entry.stat()
            files[entry.name] = [status.st_size, status.st_mtime_ns]
    return {"manifest": _fingerprint(sums), "files": files}


def _fingerprint(sums: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(sorted(sums.items())).encode()).hexdigest()[:12]


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise SandboxError(f"the manifest {path} can't be read: {error}") from error


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as file:
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    print(f"waiting for another process that fetches into {cache}", file=sys.stderr, flush=True)
                told = True
                time.sleep(_POLL_S)
        yield


@contextmanager
def _temporary(cache: Path) -> Iterator[Path]:
    """A new folder beside the bundles; only under the lock, as it sweeps away what killed fetches left."""
    bundles = cache / "bundles"
    bundles.mkdir(exist_ok=True)
    for left in bundles.glob(".fetching-*"):
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=".fetching-", dir=bundles))
    try:
        yield folder
    finally:
        for left in bundles.glob(".fetching-*"):
            shutil.rmtree(left, ignore_errors=True)
