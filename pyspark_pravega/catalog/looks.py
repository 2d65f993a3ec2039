"""What was looked up lately: of several looks at one thing the one that began last counts, however they end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


@dataclass(frozen=True, kw_only=True)
class _Look(Generic[Found]):
    at: float
    """When it began; or when the thing has changed, so that looks which began before don't count."""
    what: Found | None
    """None where it has changed since."""


class Looks(Generic[Key, Found]):
    """Keeps what looks have found. Safe for use by several threads."""

    def __init__(self, most: int) -> None:
        """Begin with none.

        Args:
            most: how many things are kept.
        """
        self._most = most
        self._looks: dict[Key, _Look[Found]] = {}
        self._cleared_at = 0.0
        self._lock = threading.Lock()

    def recent(self, key: Key, age_s: float) -> Found | None:
        """What was found lately; None when that is too long ago.

        Args:
            key: what was looked at.
            age_s: how long ago the look may have begun.
        """
        look = self._looks.get(key)
        return None if look is None or time.monotonic() - look.at > age_s else look.what

    def look(self, key: Key, find: Callable[[], Found]) -> Found:
        """Look now, and keep what is found unless a later look, or a change, came in between.

        Args:
            key: what is looked at.
            find: looks; what it raises is raised.
        """
        at = time.monotonic()
        answer = find()
        self._keep(key, _Look(at=at, what=answer))
        return answer

    def forget(self, key: Key) -> None:
        """Take note that something has changed: what looks find that are under way isn't kept."""
        self._keep(key, _Look(at=time.monotonic(), what=None))

    def _keep(self, key: Key, look: _Look[Found]) -> None:
        with self._lock:
            known = self._looks.get(key)
            if look.at < (self._cleared_at if known is None else known.at):
                return
            if known is None and len(self._looks) >= self._most:
                self._looks.clear()
                # Changes are forgotten, too, so no look counts that began before.
                self._cleared_at = time.monotonic()
                return
            self._looks[key] = look
