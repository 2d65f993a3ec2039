"""The command line: `pravega-spark`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

from pyspark_pravega._version import __commit_id__, __version__
from pyspark_pravega.errors import PravegaError, did_you_mean

_GROUPS = {
    "Streams and tables": {
        "streams": ("sql.streams", "the streams and tables there are, and how large they are"),
        "schema": ("sql.streams", "a table's columns, properties and schema versions"),
        "create": ("sql.tables", "make a table, and its namespace where that is missing"),
        "scale": ("sql.tables", "give a stream another number of segments"),
        "tier": ("sql.tier", "put rows of tables with a lake there, once or every so often"),
    },
    "Rows": {
        "tail": ("sql.rows", "a table's last rows, and those that come"),
        "put": ("sql.rows", "write lines of JSON as rows, in one commit"),
    },
    "Spark": {
        "sql": ("sql.commands", "Spark's own SQL prompt with the catalog configured"),
        "config": ("sql.commands", "print the flags that make the catalog known to any Spark program"),
        "thriftserver": (
            "sql.servers.thriftserver",
            "Spark's Thrift server with the catalog as its default: for JDBC, beeline, PyHive, dbt",
        ),
        "connect": (
            "sql.servers.connect",
            "a Spark Connect server with the catalog as its default: for PySpark without a JVM",
        ),
        "pack": ("sql.pack", "make an archive of all that a cluster's executors need"),
    },
    "Watching": {
        "ui": ("live", "a live page of streams, segments, commits, rows and lag"),
        "top": ("live", "streams with their rates, in the terminal"),
        "lag": ("sql.checkpoints.lag", "how far a streaming query is behind its streams"),
        "doctor": ("sql.doctor", "check the installation, and whether the servers answer"),
    },
    "This machine": {
        "sandbox": ("sandbox.commands", "run a real Pravega and schema registry on this machine"),
        "completion": ("sql.completion", "the script by which a shell completes commands, options and names of tables"),
    },
}
"""Commands in the order of the help: the module that has it, and what it is for. To tell that needs no module."""
_COMMANDS = {name: command for group in _GROUPS.values() for name, command in group.items()}


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
    parser = _parser(given[0] if given else None)
    command, words = _named(parser, given)
    if not words and _commands_of(command):
        command.print_help(sys.stderr)
        return 2
    arguments, unknown = parser.parse_known_args(given)
    if unknown:
        command.error(_unknown_argument(unknown[0], command))
    try:
        code: int = arguments.run(arguments)
    except PravegaError as error:
        import_module("pyspark_pravega.sql.commands").tell(error)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def _named(parser: argparse.ArgumentParser, words: Sequence[str]) -> tuple[argparse.ArgumentParser, Sequence[str]]:
    """The command that words name, as far as they name one; and those behind its name."""
    for number, word in enumerate(words):
        commands = _commands_of(parser)
        if not commands or word.startswith("-"):
            return parser, words[number:]
        if word not in commands:
            parser.error(f'unknown command "{word}"{did_you_mean(word, commands)}')
        parser = commands[word]
    return parser, []


def _commands_of(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """What a command has below it; nothing where it takes arguments."""
    groups = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return next((group.choices for group in groups), {})


def _unknown_argument(word: str, command: argparse.ArgumentParser) -> str:
    known = [name for name in command._option_string_actions if name.startswith("--")]
    return f'unknown argument "{word}"' + (did_you_mean(word, known) if word.startswith("--") else "")


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
    parser = argparse.ArgumentParser(
        prog="pravega-spark",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description="Pravega streams as Spark SQL tables.",
        epilog=_overview(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commit = f" (commit {__commit_id__.removeprefix('g')})" if __commit_id__ else ""
    parser.add_argument("--version", action="version", version=f"pyspark-pravega {__version__}{commit}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND", prog=parser.prog, help=argparse.SUPPRESS)
    if command in _COMMANDS:
        import_module(f"pyspark_pravega.{_COMMANDS[command][0]}").register(subparsers)
    else:
        for name in _COMMANDS:
            subparsers.add_parser(name)
    return parser


def _overview() -> str:
    """The commands, by what they are about."""
    width = max(map(len, _COMMANDS))
    groups = []
    for group, commands in _GROUPS.items():
        lines = (f"    {name:{width}}  {purpose}" for name, (_, purpose) in commands.items())
        groups.append("\n".join([f"{group}:", *lines]))
    return "\n\n".join([*groups, "pravega-spark COMMAND --help tells more of one."])


if __name__ == "__main__":
    sys.exit(main())
