"""`pravega-spark connect`: Spark Connect to the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_pravega.sql.servers.server import SparkServer, add_server

if TYPE_CHECKING:
    import argparse
    from argparse import _SubParsersAction


def _url(host: str, port: int, _scope: str) -> str:
    return f"sc://{host}:{port}"


def _flags(host: str, port: int) -> list[str]:
    return [
        *["--conf", f"spark.connect.grpc.binding.address={host}"],
        *["--conf", f"spark.connect.grpc.binding.port={port}"],
    ]


CONNECT = SparkServer(
    name="Spark Connect server",
    command="connect",
    description="Runs a Spark Connect server with the catalog as the default one, prints the address for "
    "SparkSession.builder.remote(...) when it answers, and stops it with Ctrl-C. It listens on loopback only "
    "unless it is told otherwise, and lets everybody in unless SPARK_CONNECT_AUTHENTICATE_TOKEN is set.",
    main_class="org.apache.spark.sql.connect.service.SparkConnectServer",
    default_port=15002,
    url=_url,
    flags=_flags,
)


def register(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command.

    Args:
        subparsers: where to add it.
    """
    add_server(subparsers, CONNECT)
