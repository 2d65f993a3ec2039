"""Pravega's own Spark connector, compiled from its sources, to measure beside."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from pyspark_pravega.sandbox import Bundle, fetch
from pyspark_pravega.sandbox.places import java
from tests.jars.java_client import JAVA_CLIENT

_HERE = Path(__file__).parent
_COMPILER, _LIBRARIES = (
    Bundle(f"official-{name}", _HERE / f"{name}.xml", _HERE / f"{name}.sha256") for name in ("compiler", "libraries")
)
_NEWER_THAN_SPARKS = ("guava", "gson")
"""What Pravega's client needs newer than Spark 3.5 has it. Of all else that both have Spark's own is taken."""
_SPARK_JARS = "import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent / 'jars')"


def connector(checkout: Path, python: Path, folder: Path) -> list[Path]:
    """Compile the connector.

    Args:
        checkout: its sources, as `github.com/pravega/spark-connectors` has them.
        python: one that has the PySpark that it is for, 3.5.
        folder: where what is compiled goes; it is there.

    Returns:
        Folders and jars for the class path of the driver's JVM, without Spark's own.

    Raises:
        subprocess.CalledProcessError: it can't be compiled.
    """
    spark = subprocess.run([str(python), "-c", _SPARK_JARS], check=True, stdout=subprocess.PIPE, text=True).stdout
    of_spark = {_module(jar) for jar in Path(spark.strip()).glob("*.jar")} - {*_NEWER_THAN_SPARKS}
    libraries = [jar for jar in (*_jars(_LIBRARIES), *_jars(JAVA_CLIENT)) if _module(jar) not in of_spark]
    sources = checkout / "src" / "main"
    compiler = [str(java()), "-cp", _path(_jars(_COMPILER)), "scala.tools.nsc.Main", "-nowarn", "-d", str(folder)]
    on = _path([Path(spark.strip()) / "*", *libraries])
    files = sorted(map(str, (sources / "scala").rglob("*.scala")))
    subprocess.run([*compiler, "-classpath", on, *files], check=True)
    shutil.copytree(sources / "resources", folder, dirs_exist_ok=True)
    return [folder, *libraries]


def _jars(bundle: Bundle) -> list[Path]:
    return sorted(fetch(bundle).glob("*.jar"))


def _module(jar: Path) -> str:
    return re.sub(r"-\d.*", "", jar.name)


def _path(places: list[Path]) -> str:
    return ":".join(map(str, places))
