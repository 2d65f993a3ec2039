"""`pravega-spark sql` and `pravega-spark config`."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_pravega.errors import ConfigurationError, PravegaError
from pyspark_pravega.sandbox import running
from pyspark_pravega.settings import DEFAULT_SHARED_MEMORY, SESSION_PREFIX, SETTINGS, Settings
from pyspark_pravega.spark import HOME_VARIABLE, Spark, needed
from pyspark_pravega.sql.session import DEFAULT_CATALOG, GROUP_FILTER, spark_conf

if TYPE_CHECKING:
    from argparse import _SubParsersAction

QUIET_LOGGING = Path(__file__).parent / "log4j2-quiet.properties"
"""Spark's log as a user at a prompt wants it: errors only."""


def register(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands.

    Args:
        subparsers: where to add them.
    """
    sql = subparsers.add_parser(
        "sql",
        description="Runs spark-sql with the catalog configured. Arguments after -- go to spark-sql as they are. "
        "Example: pravega-spark sql -e 'SHOW TABLES IN pravega.shop'",
    )
    what = sql.add_mutually_exclusive_group()
    what.add_argument("-e", dest="statement", metavar="SQL", help="run these statements and leave")
    what.add_argument("-f", dest="file", metavar="FILE", type=Path, help="run the statements of a file and leave")
    sql.add_argument("--verbose", action="store_true", help="let Spark log as it is configured to")
    add_connection(sql)
    sql.add_argument("spark_arguments", nargs="*", metavar="-- SPARK-SQL-ARGUMENT", help=argparse.SUPPRESS)
    sql.set_defaults(run=run_sql)
    config = subparsers.add_parser(
        "config",
        description="Prints --jars and --conf flags, for spark-submit, spark-shell, pyspark, the Thrift server, ... "
        'Example: export PYSPARK_SUBMIT_ARGS="$(pravega-spark config) pyspark-shell"',
    )
    add_connection(config)
    config.set_defaults(run=print_config)


def run_sql(arguments: argparse.Namespace) -> int:
    """Run spark-sql; returns its exit code."""
    if arguments.file is not None and not arguments.file.is_file():
        raise ConfigurationError(f"there is no file {arguments.file}")
    spark = needed("pravega-spark sql")
    settings = resolve_settings(arguments)
    command = [spark.program("spark-sql"), *nobodys_flags(settings, arguments.catalog)]
    if not arguments.verbose:
        command += ["--driver-java-options", f"-Dlog4j2.configurationFile={QUIET_LOGGING}"]
        command += ["--conf", "spark.ui.showConsoleProgress=false"]
    # Without a metastore of its own the prompt starts sooner and leaves no files behind.
    command += ["--conf", "spark.sql.catalogImplementation=in-memory"]
    command += arguments.spark_arguments
    if arguments.statement is not None:
        command += ["-e", arguments.statement]
    elif arguments.file is not None:
        command += ["-f", str(arguments.file)]
    # Ctrl-C is spark-sql's, which ends a statement with it; a handler, unlike SIG_IGN, isn't handed on to it.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(command, env=program_environment(settings, spark), check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)


def print_config(arguments: argparse.Namespace) -> int:
    """Print the flags on one line."""
    settings = resolve_settings(arguments)
    # Other programs don't know in which Python this package is.
    print(shlex.join([*flags(settings, arguments.catalog), "--conf", f"spark.pyspark.python={sys.executable}"]))
    warn_of_secrets(settings)
    return 0


def warn_of_secrets(settings: Settings) -> None:
    """Say on standard error which credentials aren't among the flags, and how to give them.

    Args:
        settings: the connection.
    """
    for key, variable in (("password", "PRAVEGA_PASSWORD"), ("auth_token", "PRAVEGA_AUTH_TOKEN")):
        if getattr(settings, key) is not None and variable not in os.environ:
            print(
                f"pravega-spark: {key.replace('_', '-')} isn't among the flags, as everybody may see a command line: "
                f"set {variable} where the driver runs, or give a --credentials-file",
                file=sys.stderr,
            )


def resolve_settings(arguments: argparse.Namespace) -> Settings:
    """The settings of a command line: its arguments, else the environment, else the running sandbox.

    Args:
        arguments: with what `add_connection` has added.
    """
    values = {
        "controller-uri": arguments.controller,
        "schema-registry-uri": arguments.schema_registry,
        "scope": arguments.scope,
        "username": arguments.username,
        "credentials-file": arguments.credentials_file,
        "tls-ca": arguments.tls_ca,
    }
    options = {key: value for key, value in values.items() if value}
    return Settings.resolve(options, otherwise=lambda: running.variables("pravega-spark"))


def nobodys_flags(settings: Settings, catalog: str) -> list[str]:
    """The flags that make the catalog known to a Spark program, without what its environment tells: who asks, and what
    tasks share with their workers.

    Args:
        settings: the connection.
        catalog: the catalog's name in SQL.
    """
    return flags(replace(_nobodys(settings), shared_memory=DEFAULT_SHARED_MEMORY), catalog)


def program_environment(settings: Settings, spark: Spark) -> dict[str, str]:
    """The environment for one of Spark's own programs.

    Args:
        settings: the connection; who asks goes by the environment, as everybody may see a command line.
        spark: whose program it is.
    """
    others = {name: value for name, value in os.environ.items() if not name.lower().startswith("pravega_")}
    environment = {**others, **settings.to_environment(), HOME_VARIABLE: str(spark.home)}
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    return environment


def _nobodys(settings: Settings) -> Settings:
    """The settings without who asks."""
    return replace(
        settings,
        username=None,
        password=None,
        auth_method=None,
        auth_token=None,
        credentials_file=None,
        credentials_provider=None,
    )


def flags(settings: Settings, catalog: str) -> list[str]:
    """The flags that make the catalog known to a Spark program, without passwords and tokens.

    Args:
        settings: the connection.
        catalog: the catalog's name in SQL.
    """
    conf = spark_conf(settings, catalog=catalog) | {GROUP_FILTER: "false"}
    arguments = ["--jars", conf.pop("spark.jars")]
    if settings.shared_memory != DEFAULT_SHARED_MEMORY:
        # The session's: see `spark_conf`.
        conf[f"{SESSION_PREFIX}shared-memory"] = str(settings.shared_memory)
    for key, value in conf.items():
        arguments += ["--conf", f"{key}={value}"]
    return arguments


_CONNECTION = {
    "controller": ("controller-uri", "URI"),
    "schema-registry": ("schema-registry-uri", "URI"),
    "scope": ("scope", "SCOPE"),
    "username": ("username", "NAME"),
    "credentials-file": ("credentials-file", "FILE"),
    "tls-ca": ("tls-ca", "FILE"),
}
"""The arguments of commands, the settings that they are, and what they take."""


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where Pravega is.

    Args:
        parser: where to add them.
    """
    settings = {setting.name: setting for setting in SETTINGS}
    for argument, (name, taken) in _CONNECTION.items():
        setting = settings[name]
        value = setting.value.replace("`", "")
        values = "" if value == f"a {taken.lower()}" else f": {value}"
        parser.add_argument(f"--{argument}", metavar=taken, help=f"{setting.about}{values} ({setting.environment})")
    parser.add_argument("--catalog", metavar="NAME", default=DEFAULT_CATALOG, help="the catalog's name in SQL")


def tell(error: PravegaError) -> None:
    """Write to standard error what was wrong, where the command goes on or ends because of it.

    Args:
        error: what.
    """
    print(f"pravega-spark: [{error.condition}] {error}", file=sys.stderr, flush=True)
