"""`pravega-spark connect`: Spark Connect to the catalog."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_pravega.sql.server import SparkServer, add_server, run_server

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def register(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command.

    Args:
        subparsers: where to add it.
    """
    parser = subparsers.add_parser(
        "connect",
        help="a Spark Connect server with the catalog as its default: for PySpark without a JVM",
        description="Runs a Spark Connect server with the catalog as the default one, prints the address for "
        "SparkSession.builder.remote(...) when it answers, and stops it with Ctrl-C. It listens on loopback only "
        "unless it is told otherwise, and lets everybody in unless SPARK_CONNECT_AUTHENTICATE_TOKEN is set. "
        "Arguments after -- go to spark-submit as they are.",
    )
    add_server(parser, _SERVER)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the server until a signal comes; returns the exit code.

    Raises:
        ConfigurationError: the port can't be had.
        UnavailableError: the server has ended by itself.
    """
    return run_server(arguments, _SERVER)


def _url(host: str, port: int, _scope: str) -> str:
    return f"sc://{host}:{port}"


def _flags(host: str, port: int) -> list[str]:
    return [
        *["--conf", f"spark.connect.grpc.binding.address={host}"],
        *["--conf", f"spark.connect.grpc.binding.port={port}"],
    ]


def _no_arguments(_folder: Path, _host: str, _port: int) -> list[str]:
    return []


_SERVER = SparkServer(
    name="Spark Connect server",
    main_class="org.apache.spark.sql.connect.service.SparkConnectServer",
    default_port=15002,
    url=_url,
    flags=_flags,
    arguments=_no_arguments,
)
