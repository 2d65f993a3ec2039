"""Tells on standard error how far something is: one living line on a terminal, else a line every ten seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

_LOG_S = 10.0
_TERMINAL_S = 0.2
_BAR = 30
_FIRST_S, _IN_MINUTES_S = 2.0, 100.0
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
            print(f"\r\x1b[K{text()}", end="\n" if last else "", file=sys.stderr, flush=True)
        else:
            print(text(), file=sys.stderr, flush=True)


def time_left(done: int, total: int, seconds: float) -> str:
    """How long it will still take, if it goes on as it did.

    Args:
        done: bytes that are here, of those that came in these seconds.
        total: bytes that there will be.
        seconds: how long it has taken so far.

    Returns:
        Such as `, 12 s left` or `, 3 min left`; nothing in the first two seconds, and at the end.
    """
    if not 0 < done < total or seconds < _FIRST_S:
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
