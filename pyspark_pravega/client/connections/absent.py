"""Which segment stores answer and which don't, as all connections of a pool know it together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from pyspark_pravega import outages
from pyspark_pravega.deadlines import CONNECT_S, Limit
from pyspark_pravega.errors import SegmentStoreUnavailableError

PING_AFTER_S = 2.0
"""How long nothing may come from a segment store that owes an answer before it is asked whether it is there."""
_AGAIN_S = 0.5
"""How soon one that isn't there is tried again, by one thread at a time."""
_FIRST_TRY_S, _LATER_TRY_S = 2.0, 0.5
"""How long one that isn't there is tried at first, and how much longer each time: others wait for that try."""


class Greeted(Protocol):
    """A connection whose other side has greeted."""

    def close(self) -> None:
        """Close it."""


class Presence:
    """One segment store: whether it is there. Safe for use by several threads."""

    def __init__(
        self, endpoint: tuple[str, int], connect: Callable[[float], Greeted], *, presumed: bool = False
    ) -> None:
        """Nothing is known yet.

        Args:
            endpoint: host and port.
            connect: connects anew, within so many seconds.
            presumed: whether the address is right for sure, because others have reached it.
        """
        self.endpoint = endpoint
        self.gone = f"segment store {endpoint[0]}:{endpoint[1]}"
        """How messages name it."""
        self.heard_at: float | None = None
        """When it has answered something last, by `time.monotonic`; None before it ever has."""
        self._connect = connect
        self._contact = outages.Contact(self.gone, known=presumed)
        self._missed_at: float | None = None
        self._next_try, self._tries = 0.0, 0
        self._reason = ""
        self._lock, self._pinging = threading.Lock(), threading.Lock()

    @property
    def is_missed(self) -> bool:
        """Whether it didn't answer when it was tried last."""
        return self._missed_at is not None

    def heard(self) -> None:
        """Note that it has answered."""
        self.heard_at = time.monotonic()
        if self._missed_at is not None:
            with self._lock:
                self._missed_at, self._tries = None, 0
        self._contact.heard()

    def missed(self, error: SegmentStoreUnavailableError) -> SegmentStoreUnavailableError:
        """Note that it couldn't be reached.

        Args:
            error: what an attempt to connect has met.

        Returns:
            The error to raise instead.
        """
        with self._lock:
            now = time.monotonic()
            self._tries += 1
            self._next_try = now + _AGAIN_S
            self._missed_at = now if self._missed_at is None else self._missed_at
            self._reason = error.reason if self._contact.known else str(error)
        return self._error()

    def attempt_s(self) -> float:
        """How long the caller may try to connect now.

        Returns:
            Seconds.

        Raises:
            SegmentStoreUnavailableError: it isn't there, as an attempt has just shown, or another one is showing.
        """
        with self._lock:
            if self._missed_at is None:
                return CONNECT_S
            now = time.monotonic()
            if now >= self._next_try:
                seconds = min(_FIRST_TRY_S + _LATER_TRY_S * self._tries, CONNECT_S)
                self._next_try = now + seconds + _AGAIN_S
                return seconds
        raise self._error()

    def check(self, silent_s: float = PING_AFTER_S) -> None:
        """Find out whether it is there, unless it has answered somebody lately: by another connection.

        Args:
            silent_s: what lately means, in seconds.

        Raises:
            SegmentStoreUnavailableError: it isn't.
        """
        with self._pinging:
            if self.heard_at is not None and time.monotonic() - self.heard_at < silent_s:
                return
            if self._missed_at is not None:
                raise self._error()
            limit = Limit(CONNECT_S)
            if limit.left < CONNECT_S and limit.is_given:
                # The caller's deadline comes before anything would be certain.
                return
            try:
                self._connect(CONNECT_S).close()
            except SegmentStoreUnavailableError as error:
                raise self.missed(error) from None
            self.heard()

    def _error(self) -> SegmentStoreUnavailableError:
        since, reason = self._missed_at or time.monotonic(), self._reason
        if self._contact.known:
            host, port = self.endpoint
            error = SegmentStoreUnavailableError(
                f"no Pravega segment store answers at {host}:{port} since {outages.clock(since)} ({reason}): it has "
                "died, hangs, or can't be reached, and no other one has taken its segments over yet"
            )
        else:
            error = SegmentStoreUnavailableError(reason)
        error.reason = reason
        return self._contact.missed(error, since)
