"""What a Spark program needs to know to find the catalog."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.found import running_sandbox, sandbox_said_by
from pyspark_pravega.settings import (
    CREDENTIAL_KEYS,
    SECRET_KEYS,
    SESSION_PREFIX,
    SHARED_MEMORY_VARIABLE,
    Settings,
    canonical_key,
)
from pyspark_pravega.spark.jars import jar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

CATALOG_CLASS = "pyspark.pravega.PravegaCatalog"
DEFAULT_CATALOG = "pravega"
_CHECKPOINTS = "spark.sql.streaming.checkpointFileManagerClass"
_CHECKPOINT_FILES = "pyspark.pravega.CheckpointFiles"
GROUP_FILTER = "spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled"
"""With it Spark can't analyse a MERGE whose source has metadata columns, of whatever table."""

_WRITTEN: dict[str, str] = {}
"""What `configure` has written into Spark's configuration: nobody was submitted with that."""


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
        controller: `tcp://host:port`; when None what the program was submitted with, else the environment's, else the
            running sandbox's, else a default.
        schema_registry: `http://host:port`; likewise, without a default.
        scope: the default scope; likewise.
        username: who asks; likewise.
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
    given = {key: value for key, value in values.items() if value}
    # What is wrong with them is said here, whatever the program is submitted with.
    Settings.resolve(given)
    # Spark's workers and the catalog process must be the Python in which this package is.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    make = builder.getOrCreate

    def get_or_create() -> SparkSession:
        settings = _complete(builder, catalog, given)
        session = make()
        _bring_to_executors(session)
        _set_if_missing(session, _CHECKPOINTS, _CHECKPOINT_FILES)
        _set_if_missing(session, GROUP_FILTER, "false")
        _bring_shared_memory(session)
        jvm: Any = session.sparkContext._jvm
        sandbox_said_by(Path(jvm.pyspark.pravega.bridge.BlockFolders.all().partition(",")[0]))
        jvm.pyspark.pravega.Secrets.clear(catalog)
        whole = settings.to_options()
        for key in SECRET_KEYS & whole.keys():
            jvm.pyspark.pravega.Secrets.put(catalog, key, whole[key])
        return session

    builder.getOrCreate = get_or_create  # type: ignore[method-assign]
    return builder


def _complete(builder: SparkSession.Builder, catalog: str, given: Mapping[str, str]) -> Settings:
    """Add to a builder what the program wasn't submitted with: a builder's own settings win over all others."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    options: dict[str, Any] = builder._options
    session: Any = SparkSession._instantiatedSession
    running = session is not None and session._sc._jsc is not None
    if not running:
        # Only the JVM knows what is in its command line and in spark-defaults.conf.
        own = SparkConf()
        for key, value in options.items():
            own.set(key, value)
        SparkContext._ensure_initialized(conf=own)
    submitted = dict(session.conf.getAll if running else SparkConf().getAll()) | options
    _bring_to_driver(SparkContext._jvm)
    settings, missing = completion(submitted, catalog, given)
    for key, value in missing.items():
        builder.config(key, value)
        _WRITTEN[key] = value
    return settings


def completion(submitted: Mapping[str, str], catalog: str, given: Mapping[str, str]) -> tuple[Settings, dict[str, str]]:
    """What is to be added to a program's configuration for a catalog.

    Args:
        submitted: the configuration.
        catalog: the catalog's name in SQL.
        given: connection settings that win over those of the configuration.

    Returns:
        The connection, and configuration key to value; without secrets, unless one takes another one's place.
    """
    prefix = f"spark.sql.catalog.{catalog}"
    theirs = {key: value for key, value in submitted.items() if _WRITTEN.get(key) != value}
    own = {key.removeprefix(f"{prefix}."): value for key, value in theirs.items() if key.startswith(f"{prefix}.")}
    in_session = {key: value for key, value in theirs.items() if key.startswith(SESSION_PREFIX)}
    looked: list[Mapping[str, str]] = []

    def look() -> Mapping[str, str]:
        looked.append(running_sandbox())
        return looked[-1]

    settings = Settings.resolve(given, catalog=own, session=in_session, otherwise=look)
    whole = settings.to_options()
    named = {*map(canonical_key, own), *(canonical_key(key.removeprefix(SESSION_PREFIX)) for key in in_session)}
    # The default address stays unsaid, so that a catalog process finds a sandbox that is started later.
    unsaid = SECRET_KEYS | {"shared-memory"} | ({"controller-uri"} if looked == [{}] else set())
    missing = {} if prefix in theirs else {prefix: CATALOG_CLASS}
    for key in whole.keys() - unsaid:
        if key in given or key not in named:
            missing[f"{prefix}.{key}"] = whole[key]
    for key in own:
        name = canonical_key(key)
        if name in given or (name in CREDENTIAL_KEYS and name not in whole):
            # However it is spelled; an empty one is none.
            missing[f"{prefix}.{key}"] = whole.get(name, "")
    jars, shim = [path for path in submitted.get("spark.jars", "").split(",") if path], str(jar())
    if not any(path.endswith(shim) for path in jars):
        missing["spark.jars"] = ",".join([*jars, shim])
    return settings, {key: value for key, value in missing.items() if theirs.get(key) != value}


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


def _bring_to_driver(jvm: Any) -> None:
    """Give the jar to the driver's JVM, which reads `spark.jars` only when it starts."""
    from py4j.java_gateway import JavaPackage  # type: ignore[import-untyped]
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    if not isinstance(jvm.pyspark.pravega.Secrets, JavaPackage):
        return
    shim = jar()
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().addURL(jvm.java.net.URL(shim.as_uri()))
    except Py4JError:
        raise ConfigurationError(
            f"Spark runs already, and takes no further jar: end it, or start it with spark.jars={shim} "
            "(pravega-spark config prints all settings)"
        ) from None


def _bring_to_executors(session: SparkSession) -> None:
    """Give the jar to executors of a context that was there before the builder."""
    from py4j.java_gateway import get_java_class

    context: Any = session.sparkContext
    jvm, shim = context._jvm, jar(session.version)
    source = get_java_class(jvm.pyspark.pravega.Secrets).getProtectionDomain().getCodeSource().getLocation()
    if source != jvm.java.net.URL(shim.as_uri()):
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
