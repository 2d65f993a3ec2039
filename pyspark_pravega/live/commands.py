"""`pravega-spark ui` and `pravega-spark top`."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_pravega.catalog.names import scope_of
from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.live.answers import SORTS, Answers
from pyspark_pravega.live.server import LiveServer
from pyspark_pravega.live.top import show
from pyspark_pravega.sql.checkpoints import Folder
from pyspark_pravega.sql.commands import add_connection, resolve_settings
from pyspark_pravega.sql.completion import completes_namespaces

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_SHORTEST_TOKEN = 16


def register(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands.

    Args:
        subparsers: where to add them.
    """
    ui = subparsers.add_parser(
        "ui",
        description="Serves a page on this machine, prints its address, and ends with Ctrl-C. It listens on loopback "
        "only and changes nothing. Example: pravega-spark ui --checkpoint /data/checkpoints",
    )
    ui.add_argument("--port", type=int, default=0, metavar="PORT", help="on 127.0.0.1 (default: a free one)")
    ui.add_argument("--token-file", type=Path, metavar="FILE", help="keeps the address's token; made when missing")
    _add_what(ui)
    ui.set_defaults(run=run_ui)
    top = subparsers.add_parser(
        "top",
        description="Shows streams while they are written and read; q ends it. Example: pravega-spark top shop --once",
    )
    completes_namespaces(top.add_argument("namespace", nargs="?", metavar="NAMESPACE", help="of this one only"))
    top.add_argument("--once", action="store_true", help="print them once, after two looks, and end")
    top.add_argument("--json", action="store_true", help="as JSON, a line for each stream; with --once")
    top.add_argument("--sort", choices=SORTS, default="bytes_in", help="what comes first (default: bytes_in)")
    top.add_argument("-n", type=int, metavar="STREAMS", help="how many at most (default: as many as fit)")
    top.add_argument("--interval", type=float, default=2.0, metavar="SECONDS", help="between two looks (default: 2)")
    _add_what(top)
    top.set_defaults(run=run_top)


def run_ui(arguments: argparse.Namespace) -> int:
    """Serve the page until a signal comes."""
    settings = resolve_settings(arguments).at_a_glance
    answers = Answers(settings, _folders(arguments.checkpoint))
    # A wrong address or password is said here, and not by a page.
    answers.sampler.streams()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with LiveServer(answers, port=arguments.port, token=_token(arguments.token_file)) as server:
        print(server.url, flush=True)
        try:
            ended.wait()
        except KeyboardInterrupt:
            pass
    return 0


def run_top(arguments: argparse.Namespace) -> int:
    """Show streams until q is pressed."""
    if arguments.json and not arguments.once:
        raise ConfigurationError("--json needs --once: a screen that is drawn again and again isn't JSON")
    if arguments.interval < 1:
        raise ConfigurationError(f"--interval must be 1 second or more, not {arguments.interval:g}")
    if arguments.n is not None and arguments.n < 1:
        raise ConfigurationError(f"-n must be 1 stream or more, not {arguments.n}")
    scope = None if arguments.namespace is None else scope_of([arguments.namespace])
    answers = Answers(resolve_settings(arguments).at_a_glance, _folders(arguments.checkpoint), scope=scope)
    return show(
        answers,
        sort=arguments.sort,
        once=arguments.once,
        as_json=arguments.json,
        most=arguments.n,
        interval_s=arguments.interval,
    )


def _add_what(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint",
        action="append",
        default=[],
        metavar="FOLDER",
        help="a streaming query's checkpointLocation, or a folder of some, also s3a://..., hdfs://...: shows what the "
        "query reads; repeatable",
    )
    add_connection(parser)


def _folders(checkpoints: Sequence[str]) -> Sequence[Folder]:
    """Folders of checkpoints, of which those that aren't there yet are waited for.

    Raises:
        ConfigurationError: one is a file, or its file system doesn't answer.
    """
    folders = [Folder.parse(checkpoint) for checkpoint in checkpoints]
    for folder in folders:
        if not folder.is_there():
            print(f"pravega-spark: {folder} isn't there yet: its queries are shown when it is", file=sys.stderr)
    return folders


def _token(file: Path | None) -> str | None:
    """The token that a file keeps.

    Args:
        file: made when it is missing, readable for its owner only.

    Raises:
        ConfigurationError: it can't be used.
    """
    if file is None:
        return None
    try:
        if not file.exists():
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as new_file:
                new_file.write(secrets.token_urlsafe(24) + "\n")
        token = file.read_text().strip()
    except OSError as error:
        raise ConfigurationError(f"token file {file} can't be used: {error.strerror}") from None
    if len(token) < _SHORTEST_TOKEN or not token.replace("-", "").replace("_", "").isalnum() or not token.isascii():
        raise ConfigurationError(
            f"token file {file} must hold {_SHORTEST_TOKEN} letters, digits, - and _ or more: "
            "delete it to get a new one"
        )
    return token
