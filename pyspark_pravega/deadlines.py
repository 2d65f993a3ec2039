"""How long a caller is willing to wait, and how long is waited between tries."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pyspark_pravega.errors import DeadlineExceededError

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
POLL_S = 0.02
"""How often a server is asked whether something is done by now."""
FIRST_REMINDER_S, LONGEST_REMINDER_S = 1.0, 30.0
"""How long nothing may happen before a server is asked again to do something."""

_GENERATOR = random.SystemRandom()
"""Whoever has seeded Python's own generator gets its numbers without ours in between: our pauses are in threads."""

_ends: ContextVar[float | None] = ContextVar("pyspark_pravega_deadline", default=None)


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Bound everything that the client does in a `with` block, its retries included.

    Without one, an operation is tried again for as long as the settings' `timeout`; with one, until it is over, be that
    sooner or later. Blocks may be nested: the inner one can't reach beyond the outer one. It holds for the thread, or
    the asynchronous task, that enters the block.

    Args:
        seconds: from now.

    Raises:
        DeadlineExceededError: by the client's calls in the block, once it is over.
    """
    outer = _ends.get()
    end = time.monotonic() + seconds
    token = _ends.set(end if outer is None else min(end, outer))
    try:
        yield
    finally:
        _ends.reset(token)


class Limit:
    """When an operation has to give up: at the caller's deadline, or after its own time without one."""

    def __init__(self, seconds: float) -> None:
        """Begin to count.

        Args:
            seconds: how long the operation may take where the caller has set no deadline.
        """
        end = _ends.get()
        self._given = end is not None
        self._end = time.monotonic() + seconds if end is None else end

    @property
    def left(self) -> float:
        """Seconds; 0 when it is over."""
        return max(0.0, self._end - time.monotonic())

    def wait(self, seconds: float = POLL_S) -> bool:
        """Sleep for some time, but not beyond the limit.

        Args:
            seconds: how long.

        Returns:
            False when the limit has come, without sleeping.
        """
        left = self.left
        if left <= 0:
            return False
        time.sleep(min(seconds, left))
        return True

    def cap(self, seconds: float) -> float:
        """A time-out that doesn't reach beyond the limit.

        Args:
            seconds: how long would be waited otherwise.

        Raises:
            DeadlineExceededError: the caller's deadline is over.
        """
        left = self.left
        if self._given and left == 0.0:
            raise DeadlineExceededError("the deadline that the caller set is over, and the operation isn't done")
        return min(seconds, left)


class Reminders:
    """Says when a server is asked again for what it has promised and doesn't do: after a second, and then each time
    after twice as long, but at least every half a minute."""

    def __init__(self) -> None:
        """Begin to wait: it has promised now."""
        self._pause = FIRST_REMINDER_S
        self._at = time.monotonic() + self._pause

    def due(self) -> bool:
        """Whether to ask it again now; the next time is later."""
        now = time.monotonic()
        if now < self._at:
            return False
        self._pause = min(2 * self._pause, LONGEST_REMINDER_S)
        self._at = now + self._pause
        return True


class Retries:
    """Decides whether something that failed is tried again, and waits in between: longer each time, never twice alike.

    Time counts from the first failure: until the caller's deadline, or as long as given without one.
    """

    def __init__(self, seconds: float) -> None:
        """Nothing has failed yet.

        Args:
            seconds: for how long to try where the caller has set no deadline.
        """
        self._seconds = seconds
        self._limit: Limit | None = None
        self._pause = FIRST_PAUSE_S
        self.failures = 0
        """Since the last success."""

    def again(self) -> bool:
        """Count a failure; wait, but not after the first one, which may have been an idle connection's end.

        Returns:
            Whether to try again.
        """
        self.failures += 1
        if self._limit is None:
            self._limit = Limit(self._seconds)
            return self._limit.left > 0
        pause = self._pause * _GENERATOR.uniform(0.5, 1.0)
        if pause >= self._limit.left:
            return False
        time.sleep(pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_S)
        return True

    def succeeded(self) -> None:
        """Forget the failures."""
        self._limit, self._pause, self.failures = None, FIRST_PAUSE_S, 0
