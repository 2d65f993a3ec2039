"""`pravega-spark thriftserver`: JDBC, beeline, PyHive, dbt and BI tools to the catalog."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_pravega.errors import ConfigurationError, UnavailableError
from pyspark_pravega.sandbox.ports import Listener, free_ports, is_free, listener
from pyspark_pravega.sandbox.processes import Kept, signals_interrupt
from pyspark_pravega.sql.commands import (
    QUIET_LOGGING,
    add_connection,
    nobodys_flags,
    program_environment,
    resolve_settings,
    spark_program,
)
from pyspark_pravega.sql.session import shim_jar

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_CLASS = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
_PORT = 10000
"""What clients take when they are told none."""
_LARGEST_PORT = 65535
_POLL_S = 0.2
_GRACE_S = 10.0


def register(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command.

    Args:
        subparsers: where to add it.
    """
    parser = subparsers.add_parser(
        "thriftserver",
        help="Spark's Thrift server with the catalog as its default: for JDBC, beeline, PyHive, dbt",
        description="Runs Spark's Thrift server with the catalog as the default one, prints the JDBC URL when it "
        "answers, and stops it with Ctrl-C. It asks nobody for a password, so it listens on loopback only unless it "
        "is told otherwise. Arguments after -- go to spark-submit as they are.",
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="HOST", help="where to listen (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=_PORT, metavar="N", help="default: %(default)s; 0 takes one that is free"
    )
    parser.add_argument("--verbose", action="store_true", help="let Spark log as it is configured to")
    add_connection(parser)
    parser.add_argument("spark_arguments", nargs="*", metavar="-- SPARK-SUBMIT-ARGUMENT", help=argparse.SUPPRESS)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the server until a signal comes; returns the exit code.

    Raises:
        ConfigurationError: the port can't be had.
        UnavailableError: the server has ended by itself.
    """
    settings = resolve_settings(arguments)
    port = _port(arguments.port)
    url = f"jdbc:hive2://{_shown(arguments.host)}:{port}/{settings.scope or ''}"
    flags = nobodys_flags(settings, arguments.catalog)
    flags += ["--conf", f"spark.sql.defaultCatalog={arguments.catalog}"]
    # Statements of all users would be on pages that everybody may look at.
    flags += ["--conf", "spark.ui.enabled=false", "--conf", "spark.ui.showConsoleProgress=false"]
    with tempfile.TemporaryDirectory(prefix="pravega-thriftserver-") as folder, signals_interrupt():
        command = [
            *[spark_program("spark-submit"), "--class", _CLASS, *flags, *_in_memory(Path(folder))],
            *arguments.spark_arguments,
            *["spark-internal", *_hive(Path(folder), arguments.host, port)],
        ]
        environment = _environment(program_environment(settings), Path(folder), quiet=not arguments.verbose)
        # Standard output is for the URL.
        server = Kept(command, output=sys.stderr.fileno(), folder=Path.cwd(), environment=environment)
        try:
            _await(server, arguments.host, port)
            print(url, flush=True)
            print("pravega-spark: the Thrift server answers; Ctrl-C stops it", file=sys.stderr, flush=True)
            code = server.wait()
        except KeyboardInterrupt:
            return 0
        finally:
            server.stop(grace_s=_GRACE_S)
    raise UnavailableError(f"the Thrift server at {url} has ended by itself, with exit code {code}")


def _port(port: int) -> int:
    if not 0 <= port <= _LARGEST_PORT:
        raise ConfigurationError(f"--port must be from 0 to {_LARGEST_PORT}, not {port}")
    if port == 0:
        return free_ports(1)[0]
    if not is_free(port):
        raise ConfigurationError(
            f"port {port} is taken, or not for this user: give another one by --port, 0 for any that is free"
        )
    return port


def _in_memory(folder: Path) -> list[str]:
    """Flags that keep Spark's own catalog from leaving files behind."""
    return [
        *["--conf", "spark.sql.catalogImplementation=in-memory"],
        *["--conf", f"spark.sql.warehouse.dir={folder / 'warehouse'}"],
    ]


def _hive(folder: Path, host: str, port: int) -> list[str]:
    conf = {
        "hive.server2.thrift.bind.host": host,
        "hive.server2.thrift.port": str(port),
        "hive.server2.logging.operation.log.location": str(folder / "operations"),
        "hive.exec.scratchdir": str(folder / "scratch"),
        "hive.exec.local.scratchdir": str(folder / "scratch"),
        # One for each session: it makes it when it begins, and deletes it when it ends.
        "hive.downloaded.resources.dir": str(folder / "resources-${hive.session.id}"),
    }
    return [part for key, value in conf.items() for part in ("--hiveconf", f"{key}={value}")]


def _environment(environment: dict[str, str], folder: Path, *, quiet: bool) -> dict[str, str]:
    """Add what must not be among the arguments, where the user's own --driver-... would take its place."""
    # The server's sessions look for the default catalog before they know of --jars.
    classes = [environment.get("SPARK_DIST_CLASSPATH"), str(shim_jar())]
    # Hive has a metastore in memory for itself, which is never asked for anything; its log would lie here.
    options = [environment.get("SPARK_SUBMIT_OPTS"), f'-Dderby.stream.error.file="{folder / "derby.log"}"']
    if quiet:
        options.append(f'-Dlog4j2.configurationFile="{QUIET_LOGGING}"')
    return {
        **environment,
        "SPARK_DIST_CLASSPATH": os.pathsep.join(filter(None, classes)),
        "SPARK_SUBMIT_OPTS": " ".join(filter(None, options)),
    }


def _await(server: Kept, host: str, port: int) -> None:
    """Wait until the server takes connections.

    Raises:
        UnavailableError: it has ended.
    """
    while server.exit_code() is None:
        if listener(port, server.pid) in (Listener.OURS, Listener.UNKNOWN) and _connects(host, port):
            return
        time.sleep(_POLL_S)
    raise UnavailableError(
        f"the Thrift server has ended before it answered, with exit code {server.exit_code()}: "
        "its messages are above, --verbose shows all of them"
    )


def _connects(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def _shown(host: str) -> str:
    """A host as clients say it in a URL."""
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
