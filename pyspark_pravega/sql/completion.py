"""`pravega-spark completion`, and what it completes beside commands and options: tables and namespaces."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pyspark_pravega.deadlines import deadline
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.sql.commands import resolve_settings

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_PATIENCE_S = 2.0
"""A shell waits for this while nothing can be typed."""
_SHELLS = {
    "bash": 'eval "$(pravega-spark completion bash)"     # in ~/.bashrc',
    "zsh": 'eval "$(pravega-spark completion zsh)"      # in ~/.zshrc, behind compinit',
    "fish": "pravega-spark completion fish | source      # in ~/.config/fish/config.fish",
}


def register(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command.

    Args:
        subparsers: where to add it.
    """
    completion = subparsers.add_parser(
        "completion",
        description="Prints a script for a shell, to be run by it when it starts. Examples:",
        epilog="\n".join(f"  {line}" for line in _SHELLS.values()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    completion.add_argument("shell", choices=_SHELLS, help="which shell")
    completion.set_defaults(run=run_completion)


def run_completion(arguments: argparse.Namespace) -> int:
    """Print the script."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(["pravega-spark"], shell=arguments.shell))
    return 0


def completes_tables(argument: argparse.Action) -> None:
    """Let an argument be completed with the cluster's tables, as namespace.table.

    Args:
        argument: what `add_argument` gave.
    """
    _completes(argument, lambda controller, scope: [f"{scope}.{name}" for name in controller.list_streams(scope)])


def completes_namespaces(argument: argparse.Action) -> None:
    """Let an argument be completed with the cluster's namespaces.

    Args:
        argument: what `add_argument` gave.
    """
    _completes(argument, lambda _, scope: [scope])


def _completes(argument: argparse.Action, names: Callable[[Any, str], Iterable[str]]) -> None:
    def completions(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
        # A shell that starts runs this command for its script: it needn't load the client, half a second of CPU.
        from pyspark_pravega.catalog.names import to_sql
        from pyspark_pravega.connector.shared import shared_client

        try:
            with deadline(_PATIENCE_S):
                controller = shared_client(resolve_settings(parsed_args)).controller
                scopes = [s for s in controller.list_scopes() if prefix.split(".")[0] in to_sql(s)]
                return [to_sql(name) for scope in scopes for name in names(controller, scope)]
        except PravegaError:
            # Nothing can be said while a line is being typed.
            return []

    argument.completer = completions  # type: ignore[attr-defined]
