"""Compiles the Java part: one jar for each Spark, and one of the sandbox.

`common` is compiled for all of them. A folder `spark-4.1` has what is so since Spark 4.1: of each class the file of the
newest folder counts that isn't newer than the Spark. `sandbox` runs the sandbox's servers, and isn't for Spark.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
_FOLDER = "spark-"
SANDBOX_JAR = "pyspark-pravega-sandbox.jar"


def versions() -> list[str]:
    """The Sparks that there is a jar for, the oldest first."""
    return sorted((folder.name.removeprefix(_FOLDER) for folder in HERE.glob(f"{_FOLDER}*")), key=_numbers)


def jar_name(spark: str) -> str:
    """The name of a Spark's jar."""
    return f"pyspark-pravega-spark-{spark}.jar"


def sources(spark: str) -> list[Path]:
    """What is compiled for a Spark.

    Args:
        spark: its minor version.
    """
    found = {path.relative_to(HERE / "common"): path for path in (HERE / "common").rglob("*.java")}
    for version in versions():
        if _numbers(version) <= _numbers(spark):
            folder = HERE / f"{_FOLDER}{version}"
            found.update({path.relative_to(folder): path for path in folder.rglob("*.java")})
    return sorted(found.values())


def compile_jar(spark: str, class_path: Sequence[Path], target: Path) -> None:
    """Compile the jar of a Spark.

    Args:
        spark: its minor version.
        class_path: folders with its jars.
        target: the jar.

    Raises:
        SystemExit: there is no JDK, or it finds mistakes, which it has told.
    """
    # By this the classes know which Spark they are for.
    manifest = f"Implementation-Version: {spark}\n"
    _compile(sources(spark), class_path, target, release=17, manifest=manifest, services_of=[HERE / "common"])


def compile_sandbox(class_path: Sequence[Path], target: Path) -> None:
    """Compile the jar that runs the sandbox's servers.

    Args:
        class_path: folders with jars, among them ZooKeeper's; any Spark's will do.
        target: the jar.

    Raises:
        SystemExit: as `compile_jar`.
    """
    # The servers run on Java 11, too.
    _compile(sorted((HERE / "sandbox").rglob("*.java")), class_path, target, release=11, manifest="")


def _compile(
    files: Sequence[Path],
    class_path: Sequence[Path],
    target: Path,
    *,
    release: int,
    manifest: str,
    services_of: Sequence[Path] = (),
) -> None:
    # Not looked at: class files of others (classfile, path, processing), what later JDKs say of old ones (options), and
    # numbers of serialized classes, which only ever travel between JVMs with the same jar (serial).
    options = ["--release", str(release), "-Xlint:all,-options,-serial,-processing,-classfile,-path", "-Werror"]
    # javac lives for seconds: Java's second compiler costs it more than it gives (6 s of CPU, and 2.8 s so).
    quick = ["-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC"]
    jars = os.pathsep.join(f"{folder}/*" for folder in class_path)
    with tempfile.TemporaryDirectory() as tmp:
        _run("javac", *quick, *options, "-cp", jars, "-d", f"{tmp}/classes", *map(str, files))
        target.parent.mkdir(parents=True, exist_ok=True)
        staged = Path(tmp) / "shim.jar"
        attributes = Path(tmp) / "manifest"
        attributes.write_text(manifest)
        services = [word for folder in services_of for word in ("-C", str(folder), "META-INF")]
        _run("jar", "cfm", str(staged), str(attributes), "-C", f"{tmp}/classes", ".", *services)
        shutil.copyfile(staged, target)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def _tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    candidate = Path(home) / "bin" / name if home else None
    found = str(candidate) if candidate and candidate.exists() else shutil.which(name)
    if not found:
        raise SystemExit(
            f"pyspark-pravega needs a JDK 17 or newer to compile its Spark catalog: no `{name}` was found. "
            "Install one (on Debian: apt-get install openjdk-17-jdk-headless), or set JAVA_HOME to it."
        )
    return found


def _run(name: str, *arguments: str) -> None:
    done = subprocess.run([_tool(name), *arguments], check=False)
    if done.returncode:
        # Of an editable install setuptools would swallow any other exception, and leave it without the jar.
        raise SystemExit(f"pyspark-pravega's Java part could not be built: {name} failed, its messages are above")


def main() -> None:
    """Compile the jar of one Spark into the package: `jars.py 4.1 PYTHON`, a Python that has that pyspark."""
    spark, python = sys.argv[1:]
    script = "import importlib.util; print(importlib.util.find_spec('pyspark').origin)"
    found = subprocess.run([python, "-c", script], check=True, capture_output=True, text=True).stdout
    target = HERE.parent / "pyspark_pravega" / "jars" / jar_name(spark)
    compile_jar(spark, [Path(found).parent / "jars"], target)


if __name__ == "__main__":
    main()
