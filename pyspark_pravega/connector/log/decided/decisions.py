"""What decides transactions over several tables: one record for each, in a key-value table of a scope.

A record is open, committed or withdrawn, and only the first change of an open one is made. Each table's commit log
names the record in its intent, so all of these become versions together. A record goes when no log names it any more:
who finds none takes the transaction for withdrawn, and what it does about that is refused where it was wrong.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

from pyspark_pravega.client import Client, KeyValueTable, Stream
from pyspark_pravega.client.key_value import NOT_EXISTS
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log.entries import Together
from pyspark_pravega.connector.log.entry_keys import KEY_BYTES, STATE
from pyspark_pravega.connector.log.json_table import Content, JsonTable
from pyspark_pravega.errors import ConflictError, KeyValueTableNotFoundError

DECISIONS_TABLE = "-.transactions.ledger"
"""The table of decisions is called as a log would be that belonged to a stream `-.transactions`."""
_KEPT_MS = 2 * 86_400_000
_SWEEP_EVERY = 100


class Verdict(Enum):
    """How far a transaction has come."""

    OPEN = "open"
    COMMITTED = "committed"
    """It is there in all of its tables, or will be."""
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, kw_only=True)
class Member:
    """A table of a transaction."""

    stream: Stream
    transaction: uuid.UUID | None
    """Pravega's transaction with its rows; None where they were only read."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A transaction's record."""

    together: Together
    verdict: Verdict
    members: tuple[Member, ...] = ()
    """All of its tables, in the order in which their logs were asked; known of a committed one."""
    stored_as: int | None = None
    """The entry's version; None where there is no entry."""
    at: int = 0
    """When it was changed last, by the clock of who did so: milliseconds since 1970."""

    @property
    def leader(self) -> Member:
        """The first table with rows: its transaction is committed before those of all others."""
        return next(member for member in self.members if member.transaction is not None)


class Decisions:
    """The decisions of a scope. Safe for use by several threads."""

    def __init__(self, table: KeyValueTable, scope: str) -> None:
        """Use an opened key-value table; see `open_decisions`."""
        self._table, self._scope = JsonTable(table, f'the table of transactions of scope "{scope}"'), scope

    def begin(self, id: uuid.UUID) -> Together:
        """Make a transaction's record; doing it again is harmless.

        Args:
            id: the transaction's.
        """
        together = Together(scope=self._scope, id=str(id))
        if id.int % _SWEEP_EVERY == 0:
            self._sweep()
        try:
            self._table.repeated(partial(self._table.put, (id.bytes, NOT_EXISTS, _content(Verdict.OPEN, (), now_ms()))))
        except ConflictError:
            # This very one: its answer was lost, or the call is repeated.
            pass
        return together

    def look(self, together: Together) -> Decision:
        """What was decided of a transaction.

        Args:
            together: the transaction.
        """
        document = self._table.get(_key(together))[0]
        if document is None:
            return Decision(together=together, verdict=Verdict.WITHDRAWN)
        members = tuple(
            Member(stream=Stream(*stream), transaction=None if text is None else uuid.UUID(text))
            for stream, text in document.content["members"]
        )
        verdict = Verdict(document.content["verdict"])
        at = document.content["at"]
        return Decision(together=together, verdict=verdict, members=members, stored_as=document.version, at=at)

    def commit(self, decision: Decision, members: tuple[Member, ...]) -> Decision:
        """Decide that a transaction is there.

        Args:
            decision: the open record.
            members: its tables, the logs of all of which have its intent.

        Raises:
            ConflictError: it isn't open any more.
        """
        return self._decide(replace(decision, verdict=Verdict.COMMITTED, members=members))

    def withdraw(self, decision: Decision) -> Decision:
        """Decide that a transaction isn't there.

        Args:
            decision: the open record; or a committed one, whose first transaction was lost before it was committed.

        Raises:
            ConflictError: it has changed.
        """
        return self._decide(replace(decision, verdict=Verdict.WITHDRAWN))

    def take_turn(self, decision: Decision) -> Decision:
        """Be the one who asks Pravega for the commits of a transaction that is there.

        Args:
            decision: the committed record.

        Returns:
            The record as it is now. Who has made it committed has the first turn.

        Raises:
            ConflictError: it has changed: another process has the turn, or it is gone.
        """
        return self._decide(decision)

    def forget(self, decision: Decision) -> None:
        """Remove a record that no log names any more.

        Args:
            decision: the record.

        Raises:
            ConflictError: it has changed, or is gone.
        """
        assert decision.stored_as is not None
        self._table.remove((_key(decision.together), decision.stored_as))

    def forget_withdrawn(self, together: Together) -> None:
        """Remove the record of a transaction that isn't there, and that nobody goes on with.

        Args:
            together: the transaction.
        """
        decision = self.look(together)
        if decision.verdict is not Verdict.COMMITTED and decision.stored_as is not None:
            with suppress(ConflictError):
                self._table.remove((_key(together), decision.stored_as))

    def committed(self) -> list[Together]:
        """The transactions that are there, and perhaps not yet in all of their tables."""
        return [
            Together(scope=self._scope, id=str(uuid.UUID(bytes=key)))
            for key, document in self._table.iterate()
            if document.content["verdict"] == Verdict.COMMITTED.value
        ]

    def _decide(self, decision: Decision) -> Decision:
        decision = replace(decision, at=now_ms())
        assert decision.stored_as is not None
        content = _content(decision.verdict, decision.members, decision.at)
        (stored_as,) = self._table.put((_key(decision.together), decision.stored_as, content))
        return replace(decision, stored_as=stored_as)

    def _sweep(self) -> None:
        """Remove what the dead have left: none of their transactions can be open any more."""
        since = now_ms() - _KEPT_MS
        for key, document in self._table.iterate():
            if document.content["verdict"] != Verdict.COMMITTED.value and document.content["at"] < since:
                try:
                    self._table.remove((key, document.version))
                except ConflictError:
                    continue


def open_decisions(client: Client, scope: str) -> Decisions | None:
    """The decisions of a scope; None where there were none yet.

    Args:
        client: the cluster.
        scope: the scope.
    """
    try:
        return Decisions(KeyValueTable.reopened(client.pool, scope, DECISIONS_TABLE, key=STATE), scope)
    except KeyValueTableNotFoundError:
        return None


def make_decisions(client: Client, scope: str) -> Decisions:
    """The decisions of a scope, made when they aren't there.

    Args:
        client: the cluster.
        scope: the scope.
    """
    decisions = open_decisions(client, scope)
    if decisions is None:
        client.create_key_value_table(scope, DECISIONS_TABLE, partitions=1, key_bytes=KEY_BYTES)
        decisions = open_decisions(client, scope)
        assert decisions is not None
    return decisions


def decision_of(client: Client, together: Together) -> Decision:
    """What was decided of a transaction.

    Args:
        client: the cluster.
        together: the transaction.
    """
    decisions = open_decisions(client, together.scope)
    if decisions is None:
        return Decision(together=together, verdict=Verdict.WITHDRAWN)
    return decisions.look(together)


def _key(together: Together) -> bytes:
    return uuid.UUID(together.id).bytes


def _content(verdict: Verdict, members: tuple[Member, ...], at: int) -> Content:
    members_content = [
        ((one.stream.scope, one.stream.name), None if one.transaction is None else str(one.transaction))
        for one in members
    ]
    return {"verdict": verdict.value, "members": members_content, "at": at}
