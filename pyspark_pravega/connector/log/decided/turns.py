"""Who asks Pravega for the commits of a transaction over several tables: one process at a time.

Two who ask for the commit of one transaction at the same moment, while its stream is scaled, may end all commits of
that stream (docs/internals/controller-facts.md). So there are turns. Who makes a record committed has the first one.
Others wait until it is done, or the record hasn't changed for a while; then one of them changes it, under a condition.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log.decided.decisions import Decision, Decisions
from pyspark_pravega.deadlines import deadline
from pyspark_pravega.errors import ConflictError

TURN_S = 8.0
"""How long who has the turn may ask."""
FREE_AFTER_S = 10.0
"""How long a record that doesn't change is in somebody's turn."""
LONG_AGO_S = 60.0
"""A record that is so old is in nobody's turn, however much clocks differ."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The turn of this process."""

    decision: Decision
    """The committed record, as this process has changed it."""
    ends_at: float
    """By `time.monotonic`."""

    @classmethod
    def since(cls, began: float, decision: Decision) -> Turn:
        """The turn of who has changed a record.

        Args:
            began: a moment before that, by `time.monotonic`.
            decision: the record.
        """
        return cls(decision=decision, ends_at=began + TURN_S)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """What is asked in a `with` block ends with the turn.

        Raises:
            DeadlineExceededError: by the client's calls in the block, once the turn is over.
        """
        with deadline(max(0.0, self.ends_at - time.monotonic())):
            yield


class Turns:
    """Takes a transaction's turn when it is free."""

    def __init__(self, decisions: Decisions, own: Turn | None = None) -> None:
        """Nothing is waited for yet.

        Args:
            decisions: has the record.
            own: the turn that this process had last.
        """
        self._decisions = decisions
        self._own = None if own is None else own.decision.stored_as
        self._seen: int | None = None
        self._free_at = 0.0

    def take(self, decision: Decision) -> Turn | None:
        """Take the turn, if it is free.

        Args:
            decision: the committed record, as it is now.

        Returns:
            None where another process may have it.
        """
        began = time.monotonic()
        if decision.stored_as != self._seen:
            self._seen, self._free_at = decision.stored_as, began + FREE_AFTER_S
        is_old = now_ms() - decision.at > LONG_AGO_S * 1000
        if decision.stored_as != self._own and not is_old and began < self._free_at:
            return None
        with suppress(ConflictError):
            turn = Turn.since(began, self._decisions.take_turn(decision))
            self._own = turn.decision.stored_as
            return turn
        return None
