"""Archives of the classes that the tests' JVMs load: a JVM that has one needn't parse and check them again.

`python tests/tools/class_archives.py` makes those that are missing, which `make test` does before its first test. Java
uses an archive only with the class path and the build of Java that it was made with, and does without it otherwise.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from java_tools import PRAVEGA_MAIN, find_java, make_home

_FOLDER = Path(sys.prefix) / "classes"
_HERE = Path(__file__).parent
_SANDBOX = _HERE.parents[1] / "pyspark_pravega" / "sandbox"
_ARTIFACTS = _SANDBOX / "artifacts"
_LIMIT_S = 300
_QUIET = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
"""Java would say on a program's standard output that an archive is of no use to it, as with another class path."""


@dataclass(frozen=True)
class Archive:
    """The classes of one kind of program."""

    name: str
    word: str
    """What the command lines of its programs have."""
    inputs: Callable[[], Sequence[Path]]
    """Files that say which classes there are."""

    def file(self) -> Path | None:
        """Where it is kept, for these inputs and the Java that is here; None where there is no Java."""
        java = find_java()
        if java is None:
            return None
        # Of the Java itself, where `make_home` has made links to it.
        inputs = [(java.parents[1] / "lib" / "server" / "libjvm.so").resolve(), *self.inputs()]
        identity = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in inputs if path.exists()]
        return _FOLDER / f"{self.name}-{hashlib.sha256(repr(identity).encode()).hexdigest()[:12]}.jsa"


def _spark_home() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


SPARK = Archive("spark", "org.apache.spark.", lambda: sorted((_spark_home() / "jars").iterdir()))
PRAVEGA = Archive(
    "pravega", PRAVEGA_MAIN, lambda: [_ARTIFACTS / "pravega.sha256", *sorted((_SANDBOX / "java").glob("*.py"))]
)
REGISTRY = Archive(
    "registry", "io.pravega.schemaregistry.service.Main", lambda: [_ARTIFACTS / "schema-registry.sha256"]
)
IVY = Archive("ivy", "-Divy.default.ivy.user.dir=", lambda: sorted((_spark_home() / "jars").glob("ivy-*.jar")))
ARCHIVES = (SPARK, PRAVEGA, REGISTRY, IVY)


def options() -> dict[str, list[str]]:
    """Java's options for the archives that are there: a word of command lines to the options of those programs."""
    files = {archive.word: archive.file() for archive in ARCHIVES}
    return {word: [f"-XX:SharedArchiveFile={file}", *_QUIET] for word, file in files.items() if file and file.exists()}


def make_missing() -> list[str]:
    """Make those that aren't there: Spark's at the same time as those of the servers and of Ivy.

    Returns:
        A sentence for each that couldn't be made.
    """
    _FOLDER.mkdir(exist_ok=True)
    with ThreadPoolExecutor() as pool:
        kinds = ((SPARK,), (PRAVEGA, REGISTRY), (IVY,))
        return [*filter(None, pool.map(_make, kinds, (_run_spark, _run_servers, _run_ivy)))]


def _make(archives: Sequence[Archive], run: Callable[[Path, Sequence[Path]], None]) -> str:
    names = " and ".join(archive.name for archive in archives)
    targets = [file for archive in archives if (file := archive.file())]
    if not targets:
        return "there is no Java here: no archive of classes is made"
    if all(target.exists() for target in targets):
        return ""
    # What is half written must not be taken for an archive: Java ends when it reads one.
    with tempfile.TemporaryDirectory(prefix="new-", dir=_FOLDER) as folder:
        written = [Path(folder, target.name) for target in targets]
        try:
            run(Path(folder), written)
            for file, target in zip(written, targets, strict=True):
                file.replace(target)
        except (OSError, subprocess.SubprocessError) as error:
            said = error.stderr[-2000:] if isinstance(error, subprocess.CalledProcessError) else ""
            return f"JVMs start more slowly: no archive of the classes of {names} could be made: {error}\n{said}"
    return ""


def _run_spark(folder: Path, written: Sequence[Path]) -> None:
    home = make_home(_empty(folder / "java"), {SPARK.word: [f"-XX:ArchiveClassesAtExit={written[0]}"]})
    _run(folder, home, str(_spark_home() / "bin" / "spark-submit"), str(_HERE / "classes_of_spark.py"))


def _run_ivy(folder: Path, written: Sequence[Path]) -> None:
    home = make_home(_empty(folder / "java"), {IVY.word: [f"-XX:ArchiveClassesAtExit={written[0]}"]})
    _run(folder, home, sys.executable, str(_HERE / "classes_of_ivy.py"))


def _run_servers(folder: Path, written: Sequence[Path]) -> None:
    recorded = {archive.word: ["-XX:+RecordDynamicDumpInfo"] for archive in (PRAVEGA, REGISTRY)}
    home = make_home(_empty(folder / "java"), recorded)
    _run(folder, home, sys.executable, str(_HERE / "classes_of_servers.py"), *map(str, written))


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _run(folder: Path, home: Path | None, *command: str) -> None:
    environment = {**os.environ, "JAVA_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True, timeout=_LIMIT_S)


if __name__ == "__main__":
    for sentence in make_missing():
        print(sentence, file=sys.stderr)
