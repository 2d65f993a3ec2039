"""Looks for Spark. Nothing of it is loaded for that, which would take a tenth of a second."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.spark.versions import is_supported

HOME_VARIABLE = "SPARK_HOME"
INSTALL = "pip install 'pyspark-pravega[spark]'"
_VERSION = re.compile(r"""^__version__\b[^"']*["']([^"']+)["']""", re.MULTILINE)


@dataclass(frozen=True)
class Spark:
    """A Spark on this machine."""

    home: Path
    """The folder of its programs (`bin`) and jars."""
    version: str
    """Such as `4.3.0`; `unknown` where its Python part is missing."""

    def program(self, name: str) -> str:
        """The path of one of its programs.

        Args:
            name: such as `spark-submit`.
        """
        return str(self.home / "bin" / name)


def find() -> Spark | None:
    """The Spark of this Python, else the one of `$SPARK_HOME`.

    Returns:
        None where there is none, or only Spark Connect's client, which has neither programs nor jars.
    """
    package = _package()
    homes = []
    if package is not None:
        # pip puts all of Spark into the package; a Spark that was unpacked has it in its folder `python`.
        homes += [package, package.parents[1]]
    if home := os.environ.get(HOME_VARIABLE):
        homes.append(Path(home))
    for candidate in homes:
        if (candidate / "bin" / "spark-submit").is_file():
            inside = [candidate, candidate / "python" / "pyspark"]
            return Spark(candidate, next(filter(None, map(_version, inside)), "unknown"))
    return None


def needed(what: str) -> Spark:
    """The Spark that something runs on.

    Args:
        what: what needs it, for the message.

    Raises:
        ConfigurationError: there is none.
    """
    spark = find()
    if spark is None:
        raise ConfigurationError(
            f"{what} needs Spark, and there is none here: {INSTALL}, or activate the environment that has Spark, or "
            f"set {HOME_VARIABLE}"
        )
    return spark


def _package() -> Path | None:
    spec = find_spec("pyspark")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _version(package: Path) -> str | None:
    try:
        match = _VERSION.search(_text(package / "version.py"))
    except OSError:
        return None
    return match[1] if match else None


def _text(file: Path) -> str:
    """A file's text; it may lie in an archive, as the pyspark that Spark brings."""
    for archive in file.parents:
        if archive.suffix == ".zip" and archive.is_file():
            with ZipFile(archive) as files:
                return files.read(file.relative_to(archive).as_posix()).decode()
    return file.read_text()


def package_version() -> str | None:
    """The version of the pyspark that this Python would import; None where there is none, or it doesn't tell."""
    package = _package()
    return None if package is None else _version(package)


IS_IMPORTABLE = is_supported(package_version() or "")
"""Whether this Python has Spark's classes, of a version that this package runs on."""
