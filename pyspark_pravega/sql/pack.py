"""`pravega-spark pack`: an archive with all that executors need, for a cluster whose Python lacks it."""

from __future__ import annotations

import argparse
import importlib.util
import io
import os
import re
import shlex
import struct
import sys
import sysconfig
import tarfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.progress import Bar
from pyspark_pravega.sql.commands import add_connection, flags, resolve_settings, warn_of_secrets

if TYPE_CHECKING:
    from argparse import _SubParsersAction

FOLDER = "pravega"
"""What the archive is unpacked into, in the folder of each executor."""
WORKER_PYTHON = f"./{FOLDER}/bin/python"
_OWN, _NATIVE = "pyspark-pravega", "pyspark-pravega-native"
_SPARKS_OWN = {"pyspark", "py4j"}
"""What the cluster's Spark brings itself, for the version that it is."""
_LEFT_OUT = re.compile(
    r"(pyspark_pravega/(live|sandbox)|pyarrow/(include|tests)|numpy/(.+/)?(include|tests))/"
    r"|pyspark_pravega/jars/(ivy-|pyspark-pravega-sandbox)"
)
"""What no task and no driver in a cluster loads: the live page, the sandbox and its Ivy, headers for C, tests."""
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)([^;]*)(;.*)?")
_COMPRESSION = 3
"""Of gzip: the highest level takes six times as long, for an archive that is 8 % smaller."""
_STARTER = """\
#!/bin/sh
# Starts this machine's Python {version} with the packages of this archive, which `pravega-spark pack` has made.
folder=$(cd "$(dirname "$0")/.." && pwd)
for python in "${{PYSPARK_PRAVEGA_PYTHON:-python{version}}}" python3 python; do
  if "$python" -c 'import sys, sysconfig
sys.exit(("%d.%d" % sys.version_info[:2], sysconfig.get_platform()) != ("{version}", "{platform}"))' 2>/dev/null; then
    PYTHONPATH="$folder/lib${{PYTHONPATH:+:$PYTHONPATH}}"
    # Spark tells its executors where pyspark is. The catalog process of a driver in the cluster finds it here.
    for zip in "$SPARK_HOME"/python/lib/*.zip; do
      PYTHONPATH="$PYTHONPATH:$zip"
    done
    export PYTHONPATH
    exec "$python" "$@"
  fi
done
echo "pyspark-pravega: $(uname -n) has no Python {version} for {platform}, for which the archive was packed:" \\
  "install one, name it by spark.executorEnv.PYSPARK_PRAVEGA_PYTHON, or pack with the Python that the cluster has" >&2
exit 1
"""


def register(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command.

    Args:
        subparsers: where to add it.
    """
    pack = subparsers.add_parser(
        "pack",
        description="Makes an archive of this package, the native codec and what they depend on, and prints the flags "
        "that send it to the executors and make the catalog known. The cluster needs the same version of Python. "
        "Example: pravega-spark pack -o pravega.tar.gz",
    )
    pack.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        default=Path("pravega.tar.gz"),
        help="the archive (default: %(default)s)",
    )
    pack.add_argument(
        "--add",
        metavar="PACKAGE",
        action="append",
        default=[],
        help="an installed package that your own functions need, with what it depends on; may be repeated",
    )
    pack.add_argument(
        "--deploy-mode",
        choices=["client", "cluster"],
        default="client",
        help="where the driver will run: here, with this Python, or in the cluster, with the archive's "
        "(default: %(default)s)",
    )
    add_connection(pack)
    pack.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Make the archive and print the flags on one line."""
    settings = resolve_settings(arguments)
    packed = pack(arguments.output, added=arguments.add)
    print(f"pravega-spark: {packed}", file=sys.stderr)
    pythons = ["--conf", f"spark.pyspark.python={WORKER_PYTHON}"]
    if arguments.deploy_mode == "client":
        pythons += ["--conf", f"spark.pyspark.driver.python={sys.executable}"]
    archive = ["--archives", f"{arguments.output.absolute()}#{FOLDER}"]
    print(shlex.join([*archive, *flags(settings, arguments.catalog), *pythons]))
    warn_of_secrets(settings)
    return 0


@dataclass(frozen=True, kw_only=True)
class Packed:
    """What an archive holds."""

    archive: Path
    packages: tuple[str, ...]
    """Their names and versions."""
    python: str
    """Major and minor version of the Python that can use it."""
    platform: str
    """The kind of machine, as Python calls it."""

    def __str__(self) -> str:
        megabytes = self.archive.stat().st_size / 1e6
        packages = ", ".join(self.packages)
        return f"{self.archive} ({megabytes:.0f} MB) is for Python {self.python} on {self.platform}, with {packages}"


def pack(archive: Path, *, added: Sequence[str] = ()) -> Packed:
    """Make an archive for `--archives`.

    It holds `lib`, with the packages, and `bin/python`, which starts the executor's own Python with them.

    Args:
        archive: where; a file that is there is replaced when all is packed.
        added: names of more installed packages, which are packed with what they depend on.

    Returns:
        What it holds.

    Raises:
        ConfigurationError: a package isn't installed, or is installed in a way that can't be packed, or the archive
            can't be written.
    """
    distributions = _needed([_OWN, *added])
    try:
        distributions |= _needed([_NATIVE])
    except ConfigurationError:
        print(f"pravega-spark: {_NATIVE} isn't installed here: executors will use the plain codec", file=sys.stderr)
    version, platform = this_version(), sysconfig.get_platform()
    partial = archive.with_name(f".{archive.name}.{os.getpid()}")
    try:
        with tarfile.open(partial, "w:gz", compresslevel=_COMPRESSION) as tar:
            _add_text(tar, "bin/python", starter(version, platform))
            listed = [_own_files() if name == _OWN else _files(one) for name, one in distributions.items()]
            needed = ((path, member) for path, member in chain.from_iterable(listed) if not is_left_out(member))
            members = list(_with_compiled(needed))
            with Bar(f"packing {archive.name}", sum(path.lstat().st_size for path, _ in members)) as progress:
                for path, member in members:
                    _add_file(tar, path, f"lib/{member}", progress)
        partial.replace(archive)
    except OSError as error:
        raise ConfigurationError(f"{archive} can't be written: {error}") from error
    finally:
        partial.unlink(missing_ok=True)
    packages = tuple(f"{name} {one.version}" for name, one in distributions.items())
    return Packed(archive=archive, packages=packages, python=version, platform=platform)


def is_left_out(member: str) -> bool:
    """Whether neither tasks nor a driver in the cluster need a file.

    Args:
        member: its path below the folder of packages.
    """
    return _LEFT_OUT.match(member) is not None


def this_version() -> str:
    """Major and minor version of this Python."""
    return "{}.{}".format(*sys.version_info[:2])


def starter(version: str, platform: str) -> str:
    """The script that starts an executor's own Python with the archive's packages.

    Args:
        version: major and minor version that the Python must have.
        platform: the kind of machine, as Python calls it.

    Returns:
        Its text, for `sh`. Where no Python fits it says so in a sentence and ends with 1.
    """
    return _STARTER.format(version=version, platform=platform)


def _needed(names: Sequence[str]) -> dict[str, Distribution]:
    """Installed packages and all that they depend on, by name, without what Spark brings itself."""
    distributions: dict[str, Distribution] = {}
    waiting = [(name, "") for name in names]
    while waiting:
        name, asked_by = waiting.pop(0)
        name = re.sub(r"[-_.]+", "-", name).lower()
        if name in distributions or name in _SPARKS_OWN:
            continue
        try:
            distributions[name] = distribution(name)
        except PackageNotFoundError:
            if asked_by:  # its marker leaves it out here
                continue
            raise ConfigurationError(
                f"{name} isn't installed in {sys.executable}: install it, then pack again"
            ) from None
        for requirement in distributions[name].requires or []:
            matched = _REQUIREMENT.match(requirement)
            if matched is not None and "extra ==" not in (matched[3] or ""):
                waiting.append((matched[1], name))
    return distributions


def _own_files() -> Iterator[tuple[Path, str]]:
    """This package's files, also where it is used from a clone, and where they are to lie."""
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path, f"{package.name}/{path.relative_to(package)}"


def _files(installed: Distribution) -> Iterator[tuple[Path, str]]:
    """A package's files, and where they are to lie."""
    name, files = installed.name, installed.files
    if files is None:
        raise ConfigurationError(f"the files of {name} aren't known: install it with pip, then pack again")
    if any(re.fullmatch(r"(__editable__.*|.*\.egg-link)", path.name) for path in files):
        raise ConfigurationError(
            f"{name} is installed as a link to its sources (pip install -e), which can't be packed: "
            "install it without -e, then pack again"
        )
    for path in files:
        member = path.as_posix()
        if not member.startswith("../") and "__pycache__" not in path.parts:
            yield Path(str(path.locate())), member


def _with_compiled(members: Iterable[tuple[Path, str]]) -> Iterator[tuple[Path, str]]:
    """Files, and behind each module what Python has compiled it to: else each executor compiles all that it loads."""
    for path, member in members:
        yield path, member
        if path.suffix == ".py" and "tests" not in path.parts and (file := compiled(path)):
            folder, _, _ = member.rpartition("/")
            yield file, f"{folder}/__pycache__/{file.name}".removeprefix("/")


def compiled(module: Path) -> Path | None:
    """The file that a module was compiled to.

    Args:
        module: its source.

    Returns:
        None where there is none, or where Python would compile the module anew.
    """
    file, status = Path(importlib.util.cache_from_source(str(module))), module.stat()
    facts = (int(status.st_mtime), status.st_size)
    wanted = importlib.util.MAGIC_NUMBER + struct.pack("<3I", 0, *(fact & 0xFFFFFFFF for fact in facts))
    try:
        with file.open("rb") as content:
            return file if content.read(len(wanted)) == wanted else None
    except FileNotFoundError:
        return None


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.size, entry.mtime = 0o755, len(text.encode()), time.time()
    tar.addfile(entry, io.BytesIO(text.encode()))


def _add_file(tar: tarfile.TarFile, path: Path, name: str, progress: Bar) -> None:
    entry = _nobodys(tar.gettarinfo(path, name))
    if not entry.isreg():
        tar.addfile(entry)
        return
    with _Watched(path, progress) as file:
        tar.addfile(entry, file)


class _Watched(io.BufferedReader):
    """A file that tells how much of it was read."""

    def __init__(self, path: Path, progress: Bar) -> None:
        super().__init__(io.FileIO(path))
        self._progress = progress

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(size)
        self._progress.add(len(content))
        return content


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Executors may read it whoever they are, and nobody learns who has packed it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.mode & 0o100 else 0o644
    return entry
