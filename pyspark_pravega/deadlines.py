"""How long a caller is willing to wait, and how long is waited between tries."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pyspark_pravega import outages
from pyspark_pravega.errors import DeadlineExceededError, UnavailableError

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
POLL_S = 0.02
"""How often a server is asked whether something is done by now."""
FIRST_REMINDER_S, LONGEST_REMINDER_S = 1.0, 30.0
"""How long nothing may happen before a server is asked again to do something."""
ATTEMPT_S = 10.0
"""How long one attempt may take to get its answer. An operation has many: it goes on for the settings' `timeout`."""
CONNECT_S = 5.0
"""How long a server may take to take a connection, and to greet."""
SAID_AFTER_S, _SAID_EARLY_S = 4.0, 0.5
"""How long something is tried in vain before that is said, and where its address may be wrong."""

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

    def __init__(self, seconds: float, since: float | None = None) -> None:
        """Begin to count.

        Args:
            seconds: how long the operation may take where the caller has set no deadline.
            since: when it has begun, by `time.monotonic`; now when None.
        """
        end = _ends.get()
        self.is_given = end is not None
        """Whether it is the caller's deadline."""
        self._end = (time.monotonic() if since is None else since) + seconds if end is None else end

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
        if self.is_given and left == 0.0:
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

    Time counts from the first failure: until the caller's deadline, or as long as given without one. A server that
    isn't there for some seconds is named in the log (`outages`).
    """

    def __init__(self, seconds: float) -> None:
        """Nothing has failed yet.

        Args:
            seconds: for how long to try where the caller has set no deadline.
        """
        self._seconds = seconds
        self._limit: Limit | None = None
        self._began = 0.0
        self._pause = FIRST_PAUSE_S
        self.failures = 0
        """Since the last success."""

    @property
    def left(self) -> float:
        """Seconds until it isn't tried again any more."""
        return self._seconds if self._limit is None else self._limit.left

    def again(self) -> bool:
        """Count a failure; wait, but not after the first one, which may have been an idle connection's end.

        The error that is being handled may say how long it is worth trying, and since when it is tried already.

        Returns:
            Whether to try again.
        """
        self.failures += 1
        error = sys.exception()
        unavailable = error if isinstance(error, UnavailableError) else None
        first = self._limit is None
        if self._limit is None:
            self._limit = Limit(self._seconds, unavailable.since if unavailable else None)
            self._began = time.monotonic()
        left = self._left_for(unavailable)
        if first:
            return left > 0
        pause = self._pause * _GENERATOR.uniform(0.5, 1.0)
        if pause >= left:
            self._say_since(unavailable)
            if unavailable is not None and unavailable.gone:
                outages.given_up(unavailable.gone)
            return False
        said_after = SAID_AFTER_S if unavailable is None or unavailable.patience is None else _SAID_EARLY_S
        if unavailable is not None and time.monotonic() - self._began >= said_after:
            outages.say(unavailable, seconds_left=left)
        time.sleep(pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_S)
        return True

    def succeeded(self) -> None:
        """Forget the failures."""
        self._limit, self._pause, self.failures = None, FIRST_PAUSE_S, 0

    def _say_since(self, error: UnavailableError | None) -> None:
        """Let an error that remains tell for how long it was tried, unless it does so: it is what the last try met."""
        if error is not None and error.since is None and error.args and time.monotonic() - self._began >= SAID_AFTER_S:
            error.since = self._began
            error.args = (f"{error}; tried since {outages.clock(self._began)}", *error.args[1:])

    def _left_for(self, error: UnavailableError | None) -> float:
        assert self._limit is not None
        left = self._limit.left
        if error is None or error.patience is None or self._limit.is_given:
            return left
        return min(left, self._began + error.patience - time.monotonic())
