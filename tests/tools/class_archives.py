"""Archives of the classes that the tests' JVMs load: a JVM that has one needn't parse and check them again.

`python tests/tools/class_archives.py` makes those that are missing, which `make test` does before its first test. Java
uses an archive only with the class path and the build of Java that it was made with, and does without it otherwise.

They are kept in the user's cache, for all checkouts. Java compares the files of the class path, not their names, so
pyspark's jars lie in the cache, too, and an environment has hard links to them. Where that can't be done, or the files
differ, the environment has archives of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from java_tools import KEEPING_MAINS, PRAVEGA_MAIN, find_java, make_home

from pyspark_pravega.sandbox import places
from pyspark_pravega.sandbox.files import RELEASES, chosen
from pyspark_pravega.sandbox.places import cache_folder

_HERE = Path(__file__).parent
_SANDBOX = Path(places.__file__).parent
_ARTIFACTS = _SANDBOX / "artifacts"
_SANDBOX_CLASSES = _HERE.parents[1] / "jvm" / "sandbox"
_LIMIT_S = 300
_UNUSED_DAYS = 30
_QUIET = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
"""Java would say on a program's standard output that an archive is of no use to it, as with another class path."""


@dataclass(frozen=True)
class Archive:
    """The classes of one kind of program."""

    name: str
    words: tuple[str, ...]
    """Of which the command lines of its programs have one."""
    texts: Callable[[], Sequence[Path]]
    """Files whose contents say which classes there are: those of this checkout."""
    jars: Callable[[], Sequence[Path]]
    """Jars of the class path: Java compares their sizes and times."""

    def file(self) -> Path | None:
        """Where it is kept, for these inputs and the Java that is here; None where there is no Java."""
        java = find_java()
        if java is None:
            return None
        # Of the Java itself, where `make_home` has made links to it.
        library = (java.parents[1] / "lib" / "server" / "libjvm.so").resolve()
        facts: list[object] = [(path.name, path.read_bytes()) for path in self.texts()]
        for path in (library, *self.jars()):
            if path.exists():
                facts.append((str(path), path.stat().st_size, path.stat().st_mtime_ns))
        return _folder() / f"{self.name}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:12]}.jsa"


def _spark_home() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _kept_home() -> Path:
    return kept_home(_spark_home(), _link_to_kept())


def kept_home(own: Path, link: Path) -> Path:
    """The home of Spark that archives are made with.

    Args:
        own: that of an environment.
        link: a link to the cache's, which may be missing.

    Returns:
        The cache's, if the environment's jars are links to those of the cache.
    """
    return link.resolve() if link.is_dir() and _listing(link / "jars") == _listing(own / "jars") else own


def _link_to_kept() -> Path:
    return Path(sys.prefix, "classes", "pyspark")


def _listing(folder: Path) -> list[tuple[str, int, int]]:
    """Which jars a folder has, in its own order: Java takes `jars/*` in that order."""
    return [(jar.name, (status := jar.stat()).st_dev, status.st_ino) for jar in _jars(folder)]


def _jars(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix == ".jar"]


def _folder() -> Path:
    return (Path(sys.prefix) if _kept_home() == _spark_home() else cache_folder()) / "classes"


def share_jars(own: Path, link: Path, folder: Path) -> None:
    """Have pyspark's jars in the cache, and hard links to them in an environment.

    It is left as it is where the cache's aren't the same.

    Args:
        own: the environment's home of Spark.
        link: becomes a link to the cache's.
        folder: of the cache.

    Raises:
        OSError: that can't be done, as on two file systems.
    """
    if kept_home(own, link) == own:
        digests = _digests(own / "jars")
        identity = hashlib.sha256(repr(sorted(digests.items())).encode()).hexdigest()[:12]
        kept = folder / f"spark-{identity}" / "pyspark"
        if not kept.exists():
            _keep(own, kept.parent)
        elif _digests(kept / "jars") == digests:
            _replace_by_links(own / "jars", kept / "jars")
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(kept)
    os.utime(link.resolve().parent)


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: _digest(path) for path in _jars(folder)}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _keep(own: Path, target: Path) -> None:
    """Of a home of Spark what starts a program; the modules are taken from the environment."""
    with tempfile.TemporaryDirectory(prefix="new-", dir=target.parent) as folder:
        for name in ("jars", "bin"):
            shutil.copytree(own / name, Path(folder, "made", "pyspark", name), copy_function=os.link)
        os.link(own / "__init__.py", Path(folder, "made", "pyspark", "__init__.py"))
        Path(folder, "made").rename(target)


def _replace_by_links(folder: Path, kept: Path) -> None:
    for jar in _jars(folder):
        staged = folder / f".{jar.name}.new"
        staged.unlink(missing_ok=True)
        os.link(kept / jar.name, staged)
        staged.replace(jar)


def _bundle(name: str) -> list[Path]:
    return sorted(cache_folder().glob(f"bundles/{name}-{'[0-9a-f]' * 12}/*.jar"))


SPARK = Archive(
    "spark",
    ("org.apache.spark.",),
    lambda: [_HERE / "classes_of_spark.py"],
    lambda: sorted(_jars(_kept_home() / "jars")),
)
PRAVEGA = Archive(
    "pravega",
    (PRAVEGA_MAIN, *KEEPING_MAINS),
    lambda: [
        _HERE / "classes_of_servers.py",
        RELEASES[chosen(None)].manifest,
        *sorted((_SANDBOX / "java").glob("*.py")),
        *sorted(_SANDBOX_CLASSES.rglob("*.java")),
    ],
    lambda: _bundle(RELEASES[chosen(None)].name),
)
REGISTRY = Archive(
    "registry",
    ("io.pravega.schemaregistry.service.Main",),
    lambda: [_HERE / "classes_of_servers.py", _ARTIFACTS / "schema-registry.sha256"],
    lambda: _bundle("schema-registry"),
)
IVY = Archive(
    "ivy",
    ("-Divy.default.ivy.user.dir=",),
    lambda: [_HERE / "classes_of_ivy.py"],
    lambda: sorted((_kept_home() / "jars").glob("ivy-*.jar")),
)
ARCHIVES = (SPARK, PRAVEGA, REGISTRY, IVY)


def present() -> dict[Archive, Path]:
    """The archives that are there, and where."""
    return {archive: file for archive in ARCHIVES if (file := archive.file()) and file.exists()}


def options() -> dict[str, list[str]]:
    """Java's options for the archives that are there: a word of command lines to the options of those programs."""
    return {
        word: [f"-XX:SharedArchiveFile={file}", *_QUIET]
        for archive, file in present().items()
        for word in archive.words
    }


def make_missing() -> list[str]:
    """Make those that aren't there: Spark's at the same time as those of the servers and of Ivy.

    Returns:
        A sentence for each that couldn't be made.
    """
    shared = cache_folder() / "classes"
    with _locked(shared):
        try:
            share_jars(_spark_home(), _link_to_kept(), shared)
        except OSError as error:
            print(f"this environment has archives of classes of its own: {error}", file=sys.stderr)
        _folder().mkdir(exist_ok=True)
        with ThreadPoolExecutor() as pool:
            kinds = ((SPARK,), (PRAVEGA, REGISTRY), (IVY,))
            sentences = [*filter(None, pool.map(_make, kinds, (_run_spark, _run_servers, _run_ivy)))]
        _remove_unused(shared)
    return sentences


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Who makes archives for another checkout at the same time waits, and has them then."""
    folder.mkdir(parents=True, exist_ok=True)
    with Path(folder, ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(archives: Sequence[Archive], run: Callable[[Path, Sequence[Path]], None]) -> str:
    names = " and ".join(archive.name for archive in archives)
    targets = [file for archive in archives if (file := archive.file())]
    if not targets:
        return "there is no Java here: no archive of classes is made"
    if all(is_whole(target) for target in targets):
        return ""
    # What is half written must not be taken for an archive: Java ends when it reads one.
    with tempfile.TemporaryDirectory(prefix="new-", dir=_folder()) as folder:
        written = [Path(folder, target.name) for target in targets]
        try:
            run(Path(folder), written)
            for file, target in zip(written, targets, strict=True):
                _sum_of(target).write_text(_digest(file))
                file.replace(target)
        except (OSError, subprocess.SubprocessError) as error:
            said = error.stderr[-2000:] if isinstance(error, subprocess.CalledProcessError) else ""
            return f"JVMs start more slowly: no archive of the classes of {names} could be made: {error}\n{said}"
    return ""


def _sum_of(archive: Path) -> Path:
    return archive.with_suffix(".sha256")


def is_whole(archive: Path) -> bool:
    """Java ends when it reads a broken one, so that is removed, and made again."""
    try:
        whole = _digest(archive) == _sum_of(archive).read_text()
    except FileNotFoundError:
        whole = False
    if whole:
        os.utime(archive)
        os.utime(_sum_of(archive))
    else:
        archive.unlink(missing_ok=True)
    return whole


def _remove_unused(folder: Path) -> None:
    """What nobody has asked for in a month is of a Java or a pyspark that is gone."""
    for path in folder.iterdir():
        if path.lstat().st_mtime >= time.time() - _UNUSED_DAYS * 86_400 or path.name == ".lock":
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _run_spark(folder: Path, written: Sequence[Path]) -> None:
    home = make_home(_empty(folder / "java"), _options(SPARK, f"-XX:ArchiveClassesAtExit={written[0]}"))
    spark_home = _kept_home()
    submit = spark_home / "bin" / "spark-submit"
    _run(folder, home, str(submit), str(_HERE / "classes_of_spark.py"), SPARK_HOME=str(spark_home))


def _run_ivy(folder: Path, written: Sequence[Path]) -> None:
    home = make_home(_empty(folder / "java"), _options(IVY, f"-XX:ArchiveClassesAtExit={written[0]}"))
    # Ivy is taken from the pyspark that Python sees first.
    _run(folder, home, sys.executable, str(_HERE / "classes_of_ivy.py"), PYTHONPATH=str(_kept_home().parent))


def _run_servers(folder: Path, written: Sequence[Path]) -> None:
    record = "-XX:+RecordDynamicDumpInfo"
    home = make_home(_empty(folder / "java"), {**_options(PRAVEGA, record), **_options(REGISTRY, record)})
    _run(folder, home, sys.executable, str(_HERE / "classes_of_servers.py"), *map(str, written))


def _options(archive: Archive, option: str) -> dict[str, list[str]]:
    return {word: [option] for word in archive.words}


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _run(folder: Path, home: Path | None, *command: str, **more: str) -> None:
    environment = {**os.environ, "JAVA_HOME": str(home), "PYSPARK_PYTHON": sys.executable, **more}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True, timeout=_LIMIT_S)


if __name__ == "__main__":
    for sentence in make_missing():
        print(sentence, file=sys.stderr)
