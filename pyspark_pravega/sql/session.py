"""What a Spark program needs to know to find the catalog."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.settings import SESSION_PREFIX, SHARED_MEMORY_VARIABLE, Settings
from pyspark_pravega.spark.jars import jar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG_CLASS = "pyspark.pravega.PravegaCatalog"
DEFAULT_CATALOG = "pravega"
_CHECKPOINTS = "spark.sql.streaming.checkpointFileManagerClass"
_CHECKPOINT_FILES = "pyspark.pravega.CheckpointFiles"
GROUP_FILTER = "spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled"
"""With it Spark can't analyse a MERGE whose source has metadata columns, of whatever table."""


def spark_conf(settings: Settings, *, catalog: str = DEFAULT_CATALOG) -> dict[str, str]:
    """The Spark configuration that makes the catalog known.

    Args:
        settings: the connection.
        catalog: the catalog's name in SQL.

    Returns:
        Configuration key to value, the jar (`spark.jars`) included; without secrets, as it mostly ends on a command
        line, which every user of the machine may see. Without `shared-memory`, too, which is about reads: a catalog
        with options of its own has a process of its own.
    """
    prefix = f"spark.sql.catalog.{catalog}"
    conf = {"spark.jars": str(jar()), prefix: CATALOG_CLASS}
    options = settings.to_options(secrets=False)
    conf.update({f"{prefix}.{key}": value for key, value in options.items() if key != "shared-memory"})
    return conf


def configure(
    builder: SparkSession.Builder,
    *,
    catalog: str = DEFAULT_CATALOG,
    controller: str | None = None,
    schema_registry: str | None = None,
    scope: str | None = None,
    username: str | None = None,
    password: str | None = None,
    credentials_file: str | None = None,
    tls_ca: str | None = None,
) -> SparkSession.Builder:
    """Make the catalog known to a session that is being built.

    Args:
        builder: `SparkSession.builder`.
        catalog: the catalog's name in SQL.
        controller: `tcp://host:port`; from the environment, or a default, when None.
        schema_registry: `http://host:port`; from the environment when None.
        scope: the default scope; from the environment when None.
        username: who asks; from the environment when None.
        password: that user's; likewise.
        credentials_file: a file that holds both, on every machine that takes part; likewise.
        tls_ca: a PEM file with the authorities to trust, on every machine that takes part; likewise.

    Returns:
        The builder. Spark writes a builder's configuration on the command line of its JVM, and a session's into the
        event log, so a password or token is in neither: the builder hands it to the catalog when it has made the
        session.

    Raises:
        ConfigurationError: an address is malformed, credentials are incomplete, or no jar fits the Spark that is
            installed.
    """
    values = {
        "controller-uri": controller,
        "schema-registry-uri": schema_registry,
        "scope": scope,
        "username": username,
        "password": password,
        "credentials-file": credentials_file,
        "tls-ca": tls_ca,
    }
    settings = Settings.resolve({key: value for key, value in values.items() if value})
    # Spark's workers and the catalog process must be the Python in which this package is.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for key, value in spark_conf(settings, catalog=catalog).items():
        builder = builder.config(key, value)
    public, whole = settings.to_options(secrets=False), settings.to_options()
    secrets = {key: value for key, value in whole.items() if key not in public}
    return _then_set_up(builder, catalog, secrets)


def _then_set_up(builder: SparkSession.Builder, catalog: str, secrets: dict[str, str]) -> SparkSession.Builder:
    """Let a builder do more when it has made the session, or got one that was there: see that it has the jar and this
    program's environment, say how checkpoints are written, and hand secrets to the JVM."""
    make = builder.getOrCreate

    def get_or_create() -> SparkSession:
        session = make()
        _bring_jar(session)
        _set_if_missing(session, _CHECKPOINTS, _CHECKPOINT_FILES)
        _set_if_missing(session, GROUP_FILTER, "false")
        jvm: Any = session.sparkContext._jvm
        _bring_shared_memory(session)
        jvm.pyspark.pravega.Secrets.clear(catalog)
        for key, value in secrets.items():
            jvm.pyspark.pravega.Secrets.put(catalog, key, value)
        return session

    builder.getOrCreate = get_or_create  # type: ignore[method-assign]
    return builder


def _set_if_missing(session: SparkSession, key: str, value: str) -> None:
    """Set what nobody has set: a builder's own setting would win over spark-defaults.conf."""
    if session.conf.get(key, None) is None:
        session.conf.set(key, value)
        # Other sessions of this one's context begin with these settings.
        jvm_session: Any = session._jsparkSession
        jvm_session.sharedState().conf().setIfMissing(key, value)


def _bring_shared_memory(session: SparkSession) -> None:
    """Say what the environment says of `shared-memory` where the JVM's own, of an earlier start, says otherwise."""
    jvm: Any = session.sparkContext._jvm
    value = os.environ.get(SHARED_MEMORY_VARIABLE)
    if value is not None and value != jvm.java.lang.System.getenv(SHARED_MEMORY_VARIABLE):
        _set_if_missing(session, f"{SESSION_PREFIX}shared-memory", value)


def _bring_jar(session: SparkSession) -> None:
    """Give the jar to a JVM that was there before the builder: that of a session of a shell or notebook, or one whose
    session was stopped. Spark reads `spark.jars` when it starts a JVM only."""
    from py4j.java_gateway import JavaPackage, get_java_class  # type: ignore[import-untyped]
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    context: Any = session.sparkContext
    jvm, shim = context._jvm, jar(session.version)
    address, secrets = jvm.java.net.URL(shim.as_uri()), jvm.pyspark.pravega.Secrets
    if isinstance(secrets, JavaPackage):
        try:
            jvm.java.lang.Thread.currentThread().getContextClassLoader().addURL(address)
        except Py4JError:
            raise ConfigurationError(
                f"Spark runs already, and takes no further jar: end it, or start it with spark.jars={shim} "
                "(pravega-spark config prints all settings)"
            ) from None
    elif get_java_class(secrets).getProtectionDomain().getCodeSource().getLocation() != address:
        # It is among the jars of Spark itself, on each machine.
        return
    scala_context = context._jsc.sc()
    if (
        str(shim) not in context.getConf().get("spark.jars", "")
        and shim.name not in scala_context.listJars().toString()
    ):
        # Executors fetch it with their next task, and those of each context anew.
        context._jsc.addJar(str(shim))
    scala_context.conf().setIfMissing("spark.pyspark.python", os.environ["PYSPARK_PYTHON"])
