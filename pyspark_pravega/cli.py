"""The command line: `pravega-spark`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from pyspark_pravega import __version__
from pyspark_pravega.errors import PravegaError

_MODULES = {
    "pyspark_pravega.sql.commands": ("sql", "config"),
    "pyspark_pravega.sql.thriftserver": ("thriftserver",),
    "pyspark_pravega.sql.connect": ("connect",),
    "pyspark_pravega.sql.doctor": ("doctor",),
    "pyspark_pravega.sql.lag": ("lag",),
    "pyspark_pravega.sql.streams": ("streams", "schema"),
    "pyspark_pravega.sql.rows": ("tail", "put"),
    "pyspark_pravega.live": ("ui", "top"),
    "pyspark_pravega.sql.pack": ("pack",),
    "pyspark_pravega.sql.completion": ("completion",),
    "pyspark_pravega.sandbox.commands": ("sandbox",),
}
"""Who has which commands, in the order of the help."""


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
    """The parser of all commands, or of a single one: each loads what it works with, Spark's prompt next to nothing.

    Args:
        command: the only one that is wanted; any other word for all of them.
    """
    parser = argparse.ArgumentParser(prog="pravega-spark", description="Pravega streams as Spark SQL tables.")
    parser.add_argument("--version", action="version", version=f"pyspark-pravega {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    wanted = [module for module, commands in _MODULES.items() if command in commands]
    for module in wanted or _MODULES:
        import_module(module).register(subparsers)
    return parser


if __name__ == "__main__":
    sys.exit(main())
