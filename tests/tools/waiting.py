"""Waiting for events: tests wait for what has to happen, and don't sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], *, within_s: float = 60.0) -> T:
    """Ask until the answer is true, and return it.

    Args:
        condition: what is asked, every 20 ms.
        within_s: how long, in seconds; long enough for a machine that is busy with something else.

    Raises:
        AssertionError: it wasn't true in that time.
    """
    deadline = time.monotonic() + within_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"it didn't happen in {within_s:.0f} s"
        time.sleep(0.02)
    return answer
