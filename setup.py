"""Compiles the Java shim into the package, and puts Ivy beside it; everything else is in pyproject.toml."""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
JAR = Path("pyspark_pravega") / "jars" / "pyspark-pravega.jar"


def java_tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    candidate = Path(home) / "bin" / name if home else None
    found = str(candidate) if candidate and candidate.exists() else shutil.which(name)
    if not found:
        raise SystemExit(
            f"pyspark-pravega needs a JDK 17 or newer to compile its Spark catalog: no `{name}` was found. "
            "Install one (on Debian: apt-get install openjdk-17-jdk-headless), or set JAVA_HOME to it."
        )
    return found


def spark_jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SystemExit("pyspark-pravega is compiled against pyspark's jars: pip install 'pyspark==4.3.*' first")
    return Path(spec.origin).parent / "jars"


def compile_shim(target: Path) -> None:
    jars = spark_jars()
    sources = sorted(str(p) for p in (ROOT / "jvm").rglob("*.java"))
    # Not looked at: class files of others (classfile, path, processing), what later JDKs say of 17 (options), and
    # numbers of serialized classes, which only ever travel between JVMs with the same jar (serial).
    options = ["--release", "17", "-Xlint:all,-options,-serial,-processing,-classfile,-path", "-Werror"]
    # javac lives for seconds: Java's second compiler costs it more than it gives (6 s of CPU, and 2.8 s so).
    quick = ["-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC"]
    with tempfile.TemporaryDirectory() as tmp:
        run_tool("javac", *quick, *options, "-cp", f"{jars}/*", "-d", f"{tmp}/classes", *sources)
        target.parent.mkdir(parents=True, exist_ok=True)
        staged = Path(tmp) / "shim.jar"
        run_tool("jar", "cf", str(staged), "-C", f"{tmp}/classes", ".")
        shutil.copyfile(staged, target)


def add_ivy(folder: Path) -> None:
    """Spark's Ivy, as it is: the sandbox fetches its servers with it where there is no Spark."""
    for old in folder.glob("ivy-*.jar"):
        old.unlink()
    for jar in spark_jars().glob("ivy-*.jar"):
        shutil.copyfile(jar, folder / jar.name)


def run_tool(name: str, *arguments: str) -> None:
    done = subprocess.run([java_tool(name), *arguments], check=False)
    if done.returncode:
        # Of an editable install setuptools would swallow any other exception, and leave it without the jar.
        raise SystemExit(f"pyspark-pravega's Java part could not be built: {name} failed, its messages are above")


class BuildWithShim(build_py):  # type: ignore[misc]
    """Builds the Python package and the jars that lie inside it."""

    def run(self) -> None:
        super().run()
        jar = ROOT / JAR if self.editable_mode else Path(self.build_lib) / JAR
        compile_shim(jar)
        add_ivy(jar.parent)


setup(cmdclass={"build_py": BuildWithShim})
