"""`pravega-spark top`: the table of streams, in a terminal."""

from __future__ import annotations

import json
import os
import select
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from pyspark_pravega.errors import ScopeNotFoundError
from pyspark_pravega.live.answers import Answers

COLUMNS = ("TABLE", "SEGMENTS", "IN B/s", "IN EVENTS/s", "OUT B/s", "BYTES", "ROWS", "VERSION", "COMMITTED")
_LEFT = {0, 8}
_UNITS = ("", "k", "M", "G", "T")
_CLEAR, _HOME, _REST, _TO_END_OF_LINE = "\x1b[2J", "\x1b[H", "\x1b[J", "\x1b[K"
_OTHER_SCREEN, _FIRST_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_ENDS = frozenset("qQ\x03\x04")


def show(answers: Answers, *, sort: str, once: bool, as_json: bool = False, most: int | None, interval_s: float) -> int:
    """Show streams, until q is pressed or for once.

    Args:
        answers: the cluster.
        sort: what comes first, the largest of it; by names where that is `table`.
        once: print them after two looks, as text.
        as_json: as lines of JSON.
        most: how many at most; as many as fit when None.
        interval_s: seconds between two looks.

    Returns:
        The exit code.

    Raises:
        ScopeNotFoundError: there is no such namespace.
        PravegaError: the servers can't be asked.
    """
    scope = answers.sampler.scope
    if scope is not None and not answers.client.controller.scope_exists(scope):
        raise ScopeNotFoundError(f'scope "{scope}" does not exist')

    def look(count: int) -> dict[str, Any]:
        return answers.streams(sort=sort, descending=sort != "table", count=count)

    if once or not sys.stdout.isatty():
        # What comes first is known when all have been looked at twice.
        answers.sampler.sample(answers.sampler.streams())
        time.sleep(interval_s)
        streams = answers.sampler.streams()
        answers.sampler.sample(streams)
        page = look(most or len(streams))
        for line in map(json.dumps, page["lines"]) if as_json else table(page["lines"]):
            print(line)
        return 0
    with _screen() as keys:
        while True:
            size = shutil.get_terminal_size()
            rows = max(1, size.lines - 3)
            page = look(min(rows, most or rows))
            lines = [_summary(page), *table(page["lines"])]
            drawn = "".join(f"{line[: size.columns - 1]}{_TO_END_OF_LINE}\r\n" for line in lines)
            sys.stdout.write(f"{_HOME}{drawn}{_REST}")
            sys.stdout.flush()
            if keys(interval_s) & _ENDS:
                return 0


def table(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Streams as lines of text, below the columns' names.

    Args:
        lines: as `Answers.streams` gives them.
    """
    cells = [COLUMNS, *(_cells(line) for line in lines)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(COLUMNS))]
    return [
        "  ".join(
            f"{cell:{'<' if column in _LEFT else '>'}{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def short(number: float | None) -> str:
    """A number in three or four digits, with k, M, G or T for powers of a thousand.

    Args:
        number: the number; None where it isn't known.
    """
    if number is None:
        return "-"
    power = 0
    while abs(number) >= 999.5 and power < len(_UNITS) - 1:
        number, power = number / 1000, power + 1
    digits = 0 if power == 0 and number == round(number) else max(0, (3 if power else 2) - len(str(int(abs(number)))))
    return f"{number:.{digits}f}{_UNITS[power]}"


def _cells(line: Mapping[str, Any]) -> tuple[str, ...]:
    if line["error"] is not None:
        return (line["table"], *["-"] * 7, str(line["error"]))
    at = line["committed_at"]
    return (
        line["table"],
        str(line["segments"]),
        short(line["bytes_in"]),
        short(line["events_in"]),
        short(line["bytes_out"]),
        short(line["bytes"]),
        "?" if line["rows"] is None else f"{line['rows']:,}",
        str(line["version"]),
        "-" if at is None else datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ"),
    )


def _summary(page: Mapping[str, Any]) -> str:
    streams = "1 stream" if page["total"] == 1 else f"{page['total']:,} streams"
    return f"{streams}, in {short(page['bytes_in'])}B/s, {short(page['events_in'])} events/s; q ends"


@contextmanager
def _screen() -> Iterator[Any]:
    """A screen of its own while it lasts; gives what waits for keys, some seconds at most."""
    # Not everywhere are these modules.
    import termios
    import tty

    keyboard = sys.stdin.fileno() if sys.stdin.isatty() else None
    before = None if keyboard is None else termios.tcgetattr(keyboard)

    def keys(seconds: float) -> frozenset[str]:
        if keyboard is None:
            time.sleep(seconds)
            return frozenset()
        ready, _, _ = select.select([keyboard], [], [], seconds)
        return frozenset(os.read(keyboard, 64).decode(errors="replace")) if ready else frozenset()

    try:
        if keyboard is not None:
            tty.setraw(keyboard)
        sys.stdout.write(_OTHER_SCREEN + _CLEAR)
        yield keys
    finally:
        if keyboard is not None and before is not None:
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
        sys.stdout.write(_FIRST_SCREEN)
        sys.stdout.flush()
