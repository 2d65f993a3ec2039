"""`pravega-spark thriftserver`: JDBC, beeline, PyHive, dbt and BI tools to the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_pravega.sql.servers.server import SparkServer, add_server

if TYPE_CHECKING:
    import argparse
    from argparse import _SubParsersAction


def _url(host: str, port: int, scope: str) -> str:
    return f"jdbc:hive2://{host}:{port}/{scope}"


def _hive(folder: Path, host: str, port: int) -> list[str]:
    # Each session that ends looks for files of its own there, and logs an error where there is no folder.
    (folder / "scratch").mkdir()
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


THRIFTSERVER = SparkServer(
    name="Thrift server",
    command="thriftserver",
    description="Runs Spark's Thrift server with the catalog as the default one, prints the JDBC URL when it "
    "answers, and stops it with Ctrl-C. It asks nobody for a password, so it listens on loopback only unless it "
    "is told otherwise.",
    # Spark's own, which also answers what JDBC asks about the tree.
    main_class="pyspark.pravega.thrift.ThriftServer",
    # What clients take when they are told none.
    default_port=10000,
    url=_url,
    arguments=_hive,
)


def register(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command.

    Args:
        subparsers: where to add it.
    """
    add_server(subparsers, THRIFTSERVER)
