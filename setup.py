"""Compiles the Java part into the package, for the pyspark that it is built with, and puts Ivy beside it.

The jars of other Sparks that lie in `pyspark_pravega/jars` already (`make jars`) go into the wheel, too. Everything
else is in pyproject.toml.
"""

import importlib.util
import re
import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
JARS = Path("pyspark_pravega") / "jars"
sys.path.insert(0, str(ROOT / "jvm"))
import jars as java  # noqa: E402


class BuildWithJars(build_py):  # type: ignore[misc]
    """Builds the Python package and the jars that lie inside it."""

    def run(self) -> None:
        super().run()
        spec = importlib.util.find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise SystemExit("pyspark-pravega is compiled against pyspark's jars: pip install 'pyspark==4.3.*' first")
        home = Path(spec.origin).parent
        numbers = re.search(r"[0-9]+[.][0-9]+", (home / "version.py").read_text().partition("__version__")[2])
        version = numbers[0] if numbers else "unknown"
        if version not in java.versions():
            raise SystemExit(f"pyspark-pravega runs on Spark {', '.join(java.versions())}; pyspark {version} is here")
        folder = (ROOT if self.editable_mode else Path(self.build_lib)) / JARS
        java.compile_jar(version, [home / "jars"], folder / java.jar_name(version))
        java.compile_sandbox([home / "jars"], folder / java.SANDBOX_JAR)
        add_ivy(home / "jars", folder)


def add_ivy(jars: Path, folder: Path) -> None:
    """Spark's Ivy, as it is: the sandbox fetches its servers with it where there is no Spark."""
    for old in folder.glob("ivy-*.jar"):
        old.unlink()
    for jar in jars.glob("ivy-*.jar"):
        shutil.copyfile(jar, folder / jar.name)


setup(cmdclass={"build_py": BuildWithJars})
