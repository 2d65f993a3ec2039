"""Tells on standard error how far something is: one living line on a terminal, else a line every ten seconds."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress

_LOG_S = 10.0
_TERMINAL_S = 0.2
_BAR = 30
FIRST_S = 2.0
"""What is done sooner needs no bar, and in less time than this nobody knows how long it will take."""
_IN_MINUTES_S = 100.0
_MEGABYTE = 1e6


class Reports:
    """Prints a text again and again, but not too often."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._started = time.monotonic()
        self._next = self._started + (0.0 if self._terminal else _LOG_S)

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._started

    def report(self, text: Callable[[], str], *, last: bool = False) -> None:
        """Print the text, if it's time to.

        Args:
            text: makes the text; asked only if it's printed.
            last: whether this is the end, which is always printed.
        """
        now = time.monotonic()
        if now < self._next and not last:
            return
        self._next = now + (_TERMINAL_S if self._terminal else _LOG_S)
        if self._terminal:
            print(f"\r\x1b[K{_fitting(text())}", end="\n" if last else "", file=sys.stderr, flush=True)
        else:
            print(text(), file=sys.stderr, flush=True)


class Bar:
    """Shows how far a command is, as soon as it takes longer than two seconds, on a terminal only.

    Used by `with`: at its end the line is empty again.
    """

    def __init__(self, doing: str, total: int | None = None, *, hidden: bool = False) -> None:
        """Nothing is shown yet.

        Args:
            doing: what the command does.
            total: how many bytes there will be, if that is known.
            hidden: whether to show nothing at all.
        """
        self._doing, self._total, self._done = doing, total, 0
        self._shown = False
        self._started = time.monotonic()
        self._next = self._started + FIRST_S if sys.stderr.isatty() and not hidden else float("inf")

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def expect(self, total: int) -> None:
        """Begin anew with other bytes, whose number is known now.

        Args:
            total: how many there will be.
        """
        self._done, self._total = 0, total

    def add(self, size: int) -> None:
        """Some more is done; the line is drawn again, if it's time to.

        Args:
            size: in bytes.
        """
        self._done += size
        now = time.monotonic()
        if now < self._next:
            return
        self._next, self._shown = now + _TERMINAL_S, True
        print(f"\r\x1b[K{_fitting(self._text(now - self._started))}", end="", file=sys.stderr, flush=True)

    def _text(self, seconds: float) -> str:
        if self._total is None:
            return f"{self._doing}: {megabytes(self._done)} MB, {seconds:.0f} s"
        left = time_left(self._done, self._total, seconds)
        return f"{self._doing}: {bar(self._done, self._total)}, {seconds:.0f} s{left}"


def time_left(done: int, total: int, seconds: float) -> str:
    """How long it will still take, if it goes on as it did.

    Args:
        done: bytes that are here, of those that came in these seconds.
        total: bytes that there will be.
        seconds: how long it has taken so far.

    Returns:
        Such as `, 12 s left` or `, 3 min left`; nothing in the first two seconds, and at the end.
    """
    if not 0 < done < total or seconds < FIRST_S:
        return ""
    left = seconds * (total - done) / done
    return f", {left:.0f} s left" if left < _IN_MINUTES_S else f", {left / 60:.0f} min left"


def bar(done: int, total: int) -> str:
    """A bar and the same in figures.

    Args:
        done: bytes that are here.
        total: bytes that there will be.

    Returns:
        Such as `[###############---------------]  57 of 113 MB`.
    """
    share = min(done / total, 1.0) if total else 1.0
    filled = int(share * _BAR)
    return f"[{'#' * filled}{'-' * (_BAR - filled)}] {megabytes(done):>4} of {megabytes(total)} MB"


def megabytes(size: int) -> int:
    """A size in megabytes of a million bytes.

    Args:
        size: in bytes.

    Returns:
        Rounded to a whole number, but not to none.
    """
    return max(round(size / _MEGABYTE), 1 if size else 0)


def _fitting(text: str) -> str:
    """As much as one line of the terminal holds: only one can be drawn again."""
    with suppress(OSError, ValueError):
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
        return text[: columns - 1] if columns else text
    return text
