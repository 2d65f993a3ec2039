"""Runs cargo for the native codec.

`python native/cargo.py wheel FOLDER` builds a wheel for this machine, `manylinux FOLDER [TARGET]` in its place one for
every Linux with glibc 2.17 or newer, and an archive of the sources; `clippy` looks at the sources.

What Rust has compiled is kept in the user's cache, for all checkouts: the libraries that the codec needs are more than
half of the work. For a wheel the sources are copied there, too, because cargo takes the same sources in another folder
for another crate. So a second checkout with the same sources has its wheel in a second.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = ("Cargo.lock", "Cargo.toml", "README.md", "pyproject.toml", "src")


def cache_folder() -> Path:
    """Where compiled code and copies of the sources are kept.

    Returns:
        The folder `native` in the cache of `pyspark_pravega.sandbox.places`, which can't be imported here: the codec is
        built while the package's own dependencies are installed.
    """
    own = os.environ.get("PYSPARK_PRAVEGA_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "pyspark-pravega"
    return (Path(own) if own else base).expanduser().absolute() / "native"


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Wait until no other process builds in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def copy_sources(target: Path) -> None:
    """Make a folder have the sources of this checkout.

    Files that are the same stay as they are: cargo compiles what has a new time.
    """
    sources = {
        path.relative_to(HERE): path.read_bytes()
        for name in SOURCES
        for path in ([HERE / name] if (HERE / name).is_file() else sorted((HERE / name).rglob("*.rs")))
    }
    for name, content in sources.items():
        copy = target / name
        if not copy.is_file() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
    for copy in (path for path in target.rglob("*") if path.is_file()):
        if copy.relative_to(target) not in sources:
            copy.unlink()


def run(folder: Path, *command: str) -> int:
    """Run cargo or maturin, with this Python's programs first on the path.

    Returns:
        What the process ended with; 0 is success.
    """
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"CARGO_TARGET_DIR": str(cache_folder() / "target"), "PATH": tools, "PYO3_PYTHON": sys.executable}
    return subprocess.run(command, cwd=folder, env={**os.environ, **own}, check=False).returncode


def wheel(folder: Path) -> int:
    """Build the wheel for this machine, and put it into a folder."""
    crate = cache_folder() / "crate"
    with only_one(cache_folder()):
        copy_sources(crate)
        return run(crate, "maturin", "build", "--quiet", "--release", "--out", str(folder.absolute()))


def manylinux(folder: Path, target: str | None) -> int:
    """Build a wheel for every Linux with glibc 2.17 or newer, linked by zig, and an archive of the sources.

    Args:
        folder: where they are put.
        target: the processor's kind, as Rust names it; this machine's when None.
    """
    crate, out = cache_folder() / "crate", ("--out", str(folder.absolute()))
    chosen = ("--target", target) if target else ()
    with only_one(cache_folder()):
        copy_sources(crate)
        return run(crate, "maturin", "build", "--quiet", "--release", "--zig", *chosen, *out) or run(
            crate, "maturin", "sdist", *out
        )


def clippy() -> int:
    """Look at the sources of this checkout; what clippy warns of is an error."""
    return run(HERE, "cargo", "clippy", "--quiet", "--all-targets", "--", "-D", "warnings")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["wheel", folder]:
            sys.exit(wheel(Path(folder)))
        case ["manylinux", folder]:
            sys.exit(manylinux(Path(folder), None))
        case ["manylinux", folder, target]:
            sys.exit(manylinux(Path(folder), target))
        case ["clippy"]:
            sys.exit(clippy())
        case _:
            sys.exit(__doc__)
