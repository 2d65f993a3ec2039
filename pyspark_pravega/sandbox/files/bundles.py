"""Sets of jars that are fetched once, checked against pinned SHA-256 sums, and kept in a per-user cache.

The cache holds `bundles/<name>-<manifest>/` (the jars, with a stamp that says when they were checked), `pinned/`
(what an interrupted fetch has got so far), `ivy/` (Ivy's own cache, where files had to be looked for; may be deleted
to save space), `changed/` (classes that the sandbox writes anew, `sandbox.java.changed`) and `lock`. A bundle is put
together in a folder of its own, checked there, and moved into place whole: whoever is killed on the way leaves nothing
that the next one would take for jars.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.progress import megabytes
from pyspark_pravega.sandbox import places
from pyspark_pravega.sandbox.files import ivy, manifests, pinned
from pyspark_pravega.sandbox.files.manifests import PinnedFile

_STAMP = ".checked"
_POLL_S = 0.2


@dataclass(frozen=True)
class Bundle:
    """A set of jars: what it consists of, and what each file's bytes have to be."""

    name: str
    """Names the bundle in messages and in the cache: letters, digits, dashes."""
    ivy_file: Path
    """An Ivy module file that names the dependencies."""
    manifest: Path
    """Names the files, with their sums, sizes and places; see `manifests.read`."""

    def files(self) -> list[PinnedFile]:
        """The manifest's content.

        Returns:
            The files.

        Raises:
            SandboxError: the manifest is missing or malformed.
        """
        return manifests.read(self.manifest)

    def sums(self) -> dict[str, str]:
        """What each file's bytes have to be.

        Returns:
            File name to SHA-256 in hexadecimal.

        Raises:
            SandboxError: the manifest is missing or malformed.
        """
        return {file.name: file.sha256 for file in self.files()}


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
    return fetch_all([bundle], cache=cache)[0]


def fetch_all(bundles: Sequence[Bundle], *, cache: Path | None = None) -> list[Path]:
    """Have the jars of several bundles on this machine; what is missing of them is fetched at the same time.

    Args:
        bundles: which.
        cache: the cache folder; `places.cache_folder()` when None.

    Returns:
        The folders that hold the jars, checked, in the order of the bundles.

    Raises:
        SandboxError: as `fetch`.
    """
    cache = cache or places.cache_folder()
    sums = [bundle.sums() for bundle in bundles]
    targets = [
        cache / "bundles" / f"{bundle.name}-{_fingerprint(pins)}" for bundle, pins in zip(bundles, sums, strict=True)
    ]
    if all(_stamp_holds(target, pins) for target, pins in zip(targets, sums, strict=True)):
        return targets
    try:
        with _locked(cache):
            missing = [
                (bundle, target)
                for bundle, target, pins in zip(bundles, targets, sums, strict=True)
                if not _usable(target, pins)
            ]
            _fetch_missing(missing, cache)
    except OSError as error:
        raise SandboxError(
            f"{_names(bundles)} can't be kept in {cache}: {error}; set {places.CACHE_VARIABLE} to a folder with room "
            "that you may write to"
        ) from error
    return targets


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
        ivy.retrieve(bundle.ivy_file, folder, ivy_home=cache / "ivy", label=bundle.name, pattern=ivy.MAVEN)
        paths = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.name)
        lines = [manifests.describe(path, path.relative_to(folder).as_posix()) for path in paths]
        bundle.manifest.write_text("".join(lines))
    return len(lines)


def _fetch_missing(missing: list[tuple[Bundle, Path]], cache: Path) -> None:
    """Fetch bundles by the names in their manifests; with all that Ivy finds they need, where that doesn't do."""
    fetchable = [one for one in missing if all(file.coordinates and file.size for file in one[0].files())]
    others = [one for one in missing if one not in fetchable]
    if fetchable:
        bundles = [bundle for bundle, _ in fetchable]
        try:
            _fetch_named(fetchable, cache)
        except pinned.MissingFilesError as error:
            print(
                f"{error}; Ivy now looks for everything that {_names(bundles)} depends on, which takes some minutes",
                file=sys.stderr,
                flush=True,
            )
            others = missing
    for bundle, target in others:
        _fetch_resolved(target, bundle, bundle.sums(), cache)


def _fetch_named(missing: list[tuple[Bundle, Path]], cache: Path) -> None:
    bundles = [bundle for bundle, _ in missing]
    files = {file.sha256: file for bundle in bundles for file in bundle.files()}
    folder = cache / "pinned"
    here = _fetched_before(files, cache, folder / "before")
    absent = [file for digest, file in files.items() if digest not in here]
    if absent:
        size = megabytes(sum(file.size or 0 for file in absent))
        print(
            f"fetching {_names(bundles)}: {len(absent)} files, {size} MB, once, into {cache}",
            file=sys.stderr,
            flush=True,
        )
        here |= pinned.fetch(absent, folder, label=_names(bundles))
    for bundle, target in missing:
        sums = bundle.sums()
        with _temporary(cache) as draft:
            for name, digest in sums.items():
                _link(here[digest], draft / name)
            _move_in(draft, target, bundle, sums)
    shutil.rmtree(folder, ignore_errors=True)


def _fetched_before(files: dict[str, PinnedFile], cache: Path, folder: Path) -> dict[str, Path]:
    """Put those files into a folder that lie in some bundle: one of another version, or a damaged one.

    Returns:
        SHA-256 to path.
    """
    names = {file.name for file in files.values()}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in cache.glob("bundles/[!.]*/[!.]*"):
        if path.name in names and (digest := manifests.sha256(path)) in files and not (folder / digest).exists():
            _link(path, folder / digest)
    return {path.name: path for path in folder.iterdir()}


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # A file system without hard links.
        shutil.copy2(source, target)


def _names(bundles: Sequence[Bundle]) -> str:
    return " and ".join(bundle.name for bundle in bundles)


def _fetch_resolved(target: Path, bundle: Bundle, sums: dict[str, str], cache: Path) -> None:
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
        _move_in(folder, target, bundle, sums)


def _move_in(draft: Path, target: Path, bundle: Bundle, sums: dict[str, str]) -> None:
    """Check a folder of jars, and make it the bundle's."""
    wrong = _differences(draft, sums)
    if wrong:
        raise SandboxError(f"{bundle.name} isn't what {bundle.manifest.name} pins, and isn't used: {'; '.join(wrong)}")
    _write_stamp(draft, sums)
    if target.exists():
        target.rename(draft.with_name(f"{draft.name}-old"))
    draft.rename(target)


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
    names = {path.name for path in folder.iterdir() if path.name != _STAMP}
    wrong = [f"{name} is missing" for name in sorted(sums.keys() - names)]
    wrong += [f"{name} isn't in the manifest" for name in sorted(names - sums.keys())]
    for name in sorted(names & sums.keys()):
        actual = manifests.sha256(folder / name)
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


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as file:
        is_announced = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not is_announced:
                    print(f"waiting for another process that fetches into {cache}", file=sys.stderr, flush=True)
                is_announced = True
                time.sleep(_POLL_S)
        yield


@contextmanager
def _temporary(cache: Path) -> Iterator[Path]:
    """A new folder beside the bundles; only under the lock, as it sweeps away what killed fetches left."""
    bundles = cache / "bundles"
    bundles.mkdir(exist_ok=True)
    for leftover in bundles.glob(".fetching-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=".fetching-", dir=bundles))
    try:
        yield folder
    finally:
        for leftover in bundles.glob(".fetching-*"):
            shutil.rmtree(leftover, ignore_errors=True)
