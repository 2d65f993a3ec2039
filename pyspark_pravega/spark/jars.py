"""The jar with the classes that Spark's JVM loads: one for each minor version of Spark."""

from __future__ import annotations

from pathlib import Path

from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.spark.here import needed, package_version
from pyspark_pravega.spark.versions import minor

JARS = Path(__file__).parents[1] / "jars"


def installed() -> str:
    """The version of the Spark that is here: of its Python part, which isn't imported, else of its programs.

    Raises:
        ConfigurationError: there is none.
    """
    return package_version() or needed("the catalog").version


def jar(version: str | None = None) -> Path:
    """The jar for a Spark.

    Args:
        version: of the Spark that runs; None for the one that is installed.

    Raises:
        ConfigurationError: there is no Spark, no jar fits it, or the package was installed without it.
    """
    fitting = minor(installed() if version is None else version)
    path = JARS / f"pyspark-pravega-spark-{fitting}.jar"
    if not path.exists():
        raise ConfigurationError(
            f"{path} is missing: the package was built without its Java part for Spark {fitting}; install its wheel, "
            "or build it where a JDK and that pyspark are"
        )
    return path
