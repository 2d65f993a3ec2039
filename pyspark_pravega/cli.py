"""The command line: `pravega-spark`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from pyspark_pravega._version import __commit_id__, __version__
from pyspark_pravega.errors import PravegaError

_COMMANDS = {
    "sql": ("sql.commands", "Spark's own SQL prompt with the catalog configured"),
    "config": ("sql.commands", "print the flags that make the catalog known to any Spark program"),
    "thriftserver": (
        "sql.thriftserver",
        "Spark's Thrift server with the catalog as its default: for JDBC, beeline, PyHive, dbt",
    ),
    "connect": (
        "sql.connect",
        "a Spark Connect server with the catalog as its default: for PySpark without a JVM",
    ),
    "doctor": ("sql.doctor", "check the installation, and whether the servers answer"),
    "lag": ("sql.lag", "how far a streaming query is behind its streams"),
    "streams": ("sql.streams", "the streams there are, and how large they are"),
    "schema": ("sql.streams", "a table's columns, properties and schema versions"),
    "tail": ("sql.rows", "a table's last rows, and those that come"),
    "put": ("sql.rows", "write lines of JSON as rows, in one commit"),
    "ui": ("live", "a live page of streams, segments, commits, rows and lag"),
    "top": ("live", "streams with their rates, in the terminal"),
    "pack": ("sql.pack", "make an archive of all that a cluster's executors need"),
    "completion": ("sql.completion", "the script by which a shell completes commands, options and names of tables"),
    "sandbox": ("sandbox.commands", "run a real Pravega and schema registry on this machine"),
}
"""Commands in the order of the help: the module that has it, and what it is for. To tell that needs no module."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: the arguments; those of the program when None.

    Returns:
        The exit code; 1 for an error, which is told in one line on standard error.
    """
    if "_ARGCOMPLETE" in os.environ:
        _complete()
    given = sys.argv[1:] if argv is None else list(argv)
    arguments = _parser(given[0] if given else None).parse_args(given)
    try:
        code: int = arguments.run(arguments)
    except PravegaError as error:
        print(f"pravega-spark: [{error.condition}] {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def _complete() -> None:
    """Answer a shell that completes a line, and leave."""
    import argcomplete

    # The command is known as soon as something stands behind it.
    words = f"{os.environ.get('COMP_LINE', '')}_".split()
    argcomplete.autocomplete(_parser(words[1] if len(words) > 2 else None))


def _parser(command: str | None) -> argparse.ArgumentParser:
    """The parser of a single command, which loads what that works with, or the names of all commands.

    Args:
        command: the only one that is wanted; any other word for all names.
    """
    parser = argparse.ArgumentParser(prog="pravega-spark", description="Pravega streams as Spark SQL tables.")
    commit = f" (commit {__commit_id__.removeprefix('g')})" if __commit_id__ else ""
    parser.add_argument("--version", action="version", version=f"pyspark-pravega {__version__}{commit}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    if command in _COMMANDS:
        import_module(f"pyspark_pravega.{_COMMANDS[command][0]}").register(subparsers)
    else:
        for name, (_, purpose) in _COMMANDS.items():
            subparsers.add_parser(name, help=purpose)
    return parser


if __name__ == "__main__":
    sys.exit(main())
