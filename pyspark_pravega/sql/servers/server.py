"""Servers of Spark that a command runs in the foreground: the Thrift server, Spark Connect."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_pravega.errors import ConfigurationError, UnavailableError
from pyspark_pravega.sandbox.ports import Listener, free_ports, is_free, listeners
from pyspark_pravega.sandbox.processes import Kept, signals_interrupt
from pyspark_pravega.spark import needed
from pyspark_pravega.spark.jars import jar
from pyspark_pravega.sql.commands import (
    QUIET_LOGGING,
    add_connection,
    nobodys_flags,
    program_environment,
    resolve_settings,
)

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_LARGEST_PORT = 65535
_POLL_S = 0.2
_GRACE_S = 10.0


def _no_flags(_host: str, _port: int) -> list[str]:
    return []


def _no_arguments(_folder: Path, _host: str, _port: int) -> list[str]:
    return []


@dataclass(frozen=True)
class SparkServer:
    """A server of Spark's, and how it is told what to do."""

    name: str
    """As messages call it."""
    command: str
    """As users call it: `pravega-spark COMMAND`."""
    description: str
    """What the command does."""
    main_class: str
    default_port: int
    url: Callable[[str, int, str], str]
    """Makes what clients connect to of host, port and scope."""
    flags: Callable[[str, int], Sequence[str]] = _no_flags
    """For spark-submit, of host and port."""
    arguments: Callable[[Path, str, int], Sequence[str]] = _no_arguments
    """For the server itself, of a temporary folder, host and port."""


def add_server(subparsers: _SubParsersAction[argparse.ArgumentParser], server: SparkServer) -> None:
    """Add the command that runs a server.

    Args:
        subparsers: where to add it.
        server: the server.
    """
    description = (
        f"{server.description} Arguments after -- go to spark-submit as they are. "
        f"Example: pravega-spark {server.command} --port {server.default_port}"
    )
    parser = subparsers.add_parser(server.command, description=description)
    parser.set_defaults(run=lambda arguments: run_server(arguments, server))
    parser.add_argument("--host", default="127.0.0.1", metavar="HOST", help="where to listen (default: %(default)s)")
    parser.add_argument(
        "--port",
        type=int,
        default=server.default_port,
        metavar="N",
        help="default: %(default)s; 0 takes one that is free",
    )
    parser.add_argument("--verbose", action="store_true", help="let Spark log as it is configured to")
    add_connection(parser)
    parser.add_argument("spark_arguments", nargs="*", metavar="-- SPARK-SUBMIT-ARGUMENT", help=argparse.SUPPRESS)


def run_server(arguments: argparse.Namespace, server: SparkServer) -> int:
    """Run a server until a signal comes; returns the exit code.

    Args:
        arguments: with what `add_server` has added.
        server: the server.

    Raises:
        ConfigurationError: there is no Spark, or the port can't be had.
        UnavailableError: the server has ended by itself.
    """
    spark = needed(f"pravega-spark {server.command}")
    settings = resolve_settings(arguments)
    port = _port(arguments.port)
    url = server.url(_shown(arguments.host), port, settings.scope or "")
    flags = nobodys_flags(settings, arguments.catalog)
    flags += ["--conf", f"spark.sql.defaultCatalog={arguments.catalog}"]
    # Statements of all users would be on pages that everybody may look at.
    flags += ["--conf", "spark.ui.enabled=false", "--conf", "spark.ui.showConsoleProgress=false"]
    with tempfile.TemporaryDirectory(prefix="pravega-server-") as folder, signals_interrupt():
        command = [
            *[spark.program("spark-submit"), "--class", server.main_class, *flags, *_in_memory(Path(folder))],
            *server.flags(arguments.host, port),
            *arguments.spark_arguments,
            *["spark-internal", *server.arguments(Path(folder), arguments.host, port)],
        ]
        environment = _environment(program_environment(settings, spark), Path(folder), quiet=not arguments.verbose)
        # Standard output is for the URL.
        process = Kept(command, output=sys.stderr.fileno(), folder=Path.cwd(), environment=environment)
        try:
            _await(process, server, arguments.host, port)
            print(url, flush=True)
            print(f"pravega-spark: the {server.name} answers; Ctrl-C stops it", file=sys.stderr, flush=True)
            code = process.wait()
        except KeyboardInterrupt:
            return 0
        finally:
            process.stop(grace_s=_GRACE_S)
    raise UnavailableError(f"the {server.name} at {url} has ended by itself, with exit code {code}")


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


def _environment(environment: dict[str, str], folder: Path, *, quiet: bool) -> dict[str, str]:
    """Add what must not be among the arguments, where the user's own --driver-... would take its place."""
    # The server's sessions look for the default catalog before they know of --jars.
    classes = [environment.get("SPARK_DIST_CLASSPATH"), str(jar())]
    # Where the arguments ask for Spark's Hive catalog, the log of its database would lie here.
    options = [environment.get("SPARK_SUBMIT_OPTS"), f'-Dderby.stream.error.file="{folder / "derby.log"}"']
    if quiet:
        options.append(f'-Dlog4j2.configurationFile="{QUIET_LOGGING}"')
    return {
        **environment,
        "SPARK_DIST_CLASSPATH": os.pathsep.join(filter(None, classes)),
        "SPARK_SUBMIT_OPTS": " ".join(filter(None, options)),
    }


def _await(process: Kept, server: SparkServer, host: str, port: int) -> None:
    """Wait until the server takes connections.

    Raises:
        UnavailableError: it has ended.
    """
    while process.exit_code() is None:
        if _connects(host, port) and listeners([port], process.pid)[port] in (Listener.OURS, Listener.UNKNOWN):
            return
        time.sleep(_POLL_S)
    raise UnavailableError(
        f"the {server.name} has ended before it answered, with exit code {process.exit_code()}: "
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
