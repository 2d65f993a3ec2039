"""How many connections the writers of many segments hold at once."""

from __future__ import annotations

from typing import Protocol

MOST_HELD = 64
"""So many segments are written without ever giving a connection back. A process may often open 1,024 files only."""


class Holder(Protocol):
    """Holds a connection while it has something to send, and can do without."""

    def rest(self) -> None:
        """Finish what is under way, and give the connection back."""


class HeldConnections:
    """The connections that some writers hold together. Used by one thread, as they are.

    Who needs one more than there may be gets it from the writer that has used its own the longest time ago.
    """

    def __init__(self, most: int = MOST_HELD) -> None:
        """Nobody holds one yet.

        Args:
            most: how many may be held at once.
        """
        self._most = most
        self._holders: dict[Holder, None] = {}
        """In the order in which they were used last."""

    def make_room(self) -> None:
        """Let one more be held.

        Raises:
            PravegaError: a writer couldn't store what it had under way.
        """
        while len(self._holders) >= self._most:
            next(iter(self._holders)).rest()

    def use(self, holder: Holder) -> None:
        """Note that a writer uses its connection."""
        self._holders.pop(holder, None)
        self._holders[holder] = None

    def leave(self, holder: Holder) -> None:
        """Note that a writer holds none any more."""
        self._holders.pop(holder, None)
