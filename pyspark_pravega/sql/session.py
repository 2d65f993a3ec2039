"""What a Spark program needs to know to find the catalog."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark_pravega
from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG_CLASS = "pyspark.pravega.PravegaCatalog"
DEFAULT_CATALOG = "pravega"


def shim_jar() -> Path:
    """The jar with the classes that Spark's JVM loads.

    Raises:
        ConfigurationError: the package was installed without it.
    """
    jar = Path(pyspark_pravega.__file__).parent / "jars" / "pyspark-pravega.jar"
    if not jar.exists():
        raise ConfigurationError(
            f"{jar} is missing: the package was installed without its Java part; install it again where a JDK is"
        )
    return jar


def spark_conf(settings: Settings, *, catalog: str = DEFAULT_CATALOG) -> dict[str, str]:
    """The Spark configuration that makes the catalog known.

    Args:
        settings: the connection.
        catalog: the catalog's name in SQL.

    Returns:
        Configuration key to value, the jar (`spark.jars`) included.
    """
    prefix = f"spark.sql.catalog.{catalog}"
    conf = {"spark.jars": str(shim_jar()), prefix: CATALOG_CLASS}
    conf.update({f"{prefix}.{key}": value for key, value in settings.to_options().items()})
    return conf


def configure(
    builder: SparkSession.Builder,
    *,
    catalog: str = DEFAULT_CATALOG,
    controller: str | None = None,
    schema_registry: str | None = None,
    scope: str | None = None,
) -> SparkSession.Builder:
    """Make the catalog known to a session that is being built.

    Args:
        builder: `SparkSession.builder`.
        catalog: the catalog's name in SQL.
        controller: `tcp://host:port`; from the environment, or a default, when None.
        schema_registry: `http://host:port`; from the environment when None.
        scope: the default scope; from the environment when None.

    Returns:
        The builder.

    Raises:
        ConfigurationError: an address is malformed.
    """
    given = {"controller-uri": controller, "schema-registry-uri": schema_registry, "scope": scope}
    settings = Settings.resolve({key: value for key, value in given.items() if value})
    # Spark's workers and the catalog process must be the Python in which this package is.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for key, value in spark_conf(settings, catalog=catalog).items():
        builder = builder.config(key, value)
    return builder
