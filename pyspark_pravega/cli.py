"""The command line: `pravega-spark`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark_pravega import __version__
from pyspark_pravega.errors import PravegaError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: the arguments; those of the program when None.

    Returns:
        The exit code; 1 for an error, which is told in one line on standard error.
    """
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except PravegaError as error:
        print(f"pravega-spark: [{error.condition}] {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    from pyspark_pravega import live
    from pyspark_pravega.sandbox import commands as sandbox
    from pyspark_pravega.sql import commands as sql
    from pyspark_pravega.sql import doctor, lag, pack, rows, streams
    from pyspark_pravega.sql.connect import CONNECT
    from pyspark_pravega.sql.server import add_server
    from pyspark_pravega.sql.thriftserver import THRIFTSERVER

    parser = argparse.ArgumentParser(prog="pravega-spark", description="Pravega streams as Spark SQL tables.")
    parser.add_argument("--version", action="version", version=f"pyspark-pravega {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    sql.register(subparsers)
    add_server(subparsers, THRIFTSERVER)
    add_server(subparsers, CONNECT)
    doctor.register(subparsers)
    lag.register(subparsers)
    streams.register(subparsers)
    rows.register(subparsers)
    live.register(subparsers)
    pack.register(subparsers)
    sandbox.register(subparsers)
    return parser


if __name__ == "__main__":
    sys.exit(main())
