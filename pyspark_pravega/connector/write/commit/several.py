"""The commit of several tables at once: a transaction of the user.

Each table's rows lie in a transaction of Pravega's of their own, which Pravega commits alone. So a record decides
(`log.decisions`):

1. Each table's log gets an intent that names the record: tables with rows and those that were only read, in the order
   of their names. What was read is compared with what is there by then. From here on nobody else commits to them.
2. The leases of all transactions are renewed for as long as servers allow, the leader's first.
3. The record says: committed. That is the moment at which all of it is there.
4. The leader's transaction is committed, then all others, and each log's intent becomes a version.

Whoever finds an intent brings it to its end: `recovery` has the steps behind the record, and how it is withdrawn.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from pyspark_pravega.client import Client
from pyspark_pravega.client.events import abort_quietly
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log import (
    Decision,
    Decisions,
    Intent,
    Ledger,
    Member,
    State,
    Together,
    Verdict,
    commit_state_unknown,
    open_decisions,
    roll_forward,
    settle,
)
from pyspark_pravega.connector.options import MAX_LEASE_MS
from pyspark_pravega.connector.write.commit.promise import Promise, Replacing
from pyspark_pravega.connector.write.commit.stages import Stage
from pyspark_pravega.connector.write.plan import Epoch
from pyspark_pravega.deadlines import Retries
from pyspark_pravega.errors import ConflictError, NotFoundError, PravegaError, TransactionError, UnavailableError


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a transaction writes to a table."""

    ledger: Ledger
    promise: Promise
    intent: Intent
    """With Pravega's transaction that holds its rows."""
    replacement: Replacing
    """As of `Promise.make`; refuses what was overtaken."""
    lease_ms: int
    """How long its transaction stays open without a ping, at least."""
    epoch: Epoch | None = None


@dataclass(frozen=True, kw_only=True)
class Guard:
    """A table that a transaction has only read."""

    ledger: Ledger
    check: Callable[[Ledger, State], None]
    """Refuses what was overtaken (`WriteConflictError`), when the log is in a state."""


class Several:
    """Makes the parts of a transaction versions, all of them or none."""

    def __init__(
        self,
        client: Client,
        together: Together,
        parts: Sequence[Part],
        guards: Sequence[Guard] = (),
        missing: PravegaError | None = None,
    ) -> None:
        """Nothing is asked yet.

        Args:
            client: the cluster.
            together: the transaction, whose record was made.
            parts: what it writes; of each table one.
            guards: what it has only read.
            missing: why it can't be committed any more, if it isn't yet: one of its tables was dropped.
        """
        self._client, self._together, self._missing = client, together, missing
        named: list[Part | Guard] = [*parts, *guards]
        self._all = sorted(named, key=lambda one: str(one.ledger.stream))
        self._parts = [one for one in self._all if isinstance(one, Part)]
        self._members = tuple(
            Member(
                stream=one.ledger.stream,
                transaction=one.intent.transaction_ids()[0] if isinstance(one, Part) else None,
            )
            for one in self._all
        )

    def commit(self, *, timeout: float) -> Stage:
        """Make everything visible at once. Doing it again after a success is harmless.

        Args:
            timeout: how long servers are waited for, in seconds.

        Returns:
            `COMMITTED`, or `REPEATED` where it had been done before, or another transaction of the same epoch had.

        Raises:
            WriteConflictError: something that was read was overtaken; nothing is visible.
            TransactionError: a transaction of Pravega's was lost; nothing is visible.
            UnclearAnswerError: no server tells how it has ended.
        """
        decisions = open_decisions(self._client, self._together.scope)
        if decisions is None:
            raise self._withdrawn()
        decision = decisions.look(self._together)
        if decision.verdict is Verdict.OPEN:
            try:
                if self._missing is not None:
                    raise self._missing
                is_promised = all(self._promise(one) for one in self._all)
                if is_promised:
                    self._hold()
            except PravegaError:
                if not self._give_up(decisions, timeout=timeout):
                    raise
            else:
                if is_promised:
                    self._decide(decisions, decision, timeout=timeout)
                elif not self._give_up(decisions, timeout=timeout):
                    return Stage.REPEATED
        elif decision.verdict is Verdict.WITHDRAWN:
            if not self._is_there():
                self._abort()
                raise self._withdrawn()
            return Stage.REPEATED
        self._roll_forward(timeout=timeout)
        return Stage.COMMITTED

    def withdraw(self, *, timeout: float) -> None:
        """Throw everything away, unless it is committed. Doing it again is harmless.

        Args:
            timeout: how long servers are waited for, in seconds.
        """
        decisions = open_decisions(self._client, self._together.scope)
        if decisions is None or not self._give_up(decisions, timeout=timeout):
            self._abort()

    def _promise(self, one: Part | Guard) -> bool:
        """Put the intent into a table's log; False where its epoch is there already, or another process has done it."""
        if isinstance(one, Part):
            if one.promise.is_in(one.ledger.state()):
                return True
            intent = replace(one.intent, together=self._together)
            return one.promise.make(intent, one.epoch, one.replacement).stage is Stage.PROMISED
        intent = Intent(
            job=str(uuid.uuid5(uuid.UUID(self._together.id), str(one.ledger.stream))),
            transactions=(),
            rows=0,
            bytes=0,
            started_at=now_ms(),
            together=self._together,
        )
        while True:
            if self._is_in(one.ledger.state()):
                return True
            state = settle(self._client, one.ledger)
            one.check(one.ledger, state)
            with suppress(ConflictError):
                one.ledger.begin(state, intent)
                return True

    def _hold(self) -> None:
        """From here on the transactions stay open as long as servers allow, whoever dies; the leader's ends first."""
        for part in self._parts:
            ping = partial(self._client.controller.ping_transaction, part.ledger.stream, *part.intent.transaction_ids())
            try:
                ping(lease_ms=MAX_LEASE_MS)
            except TransactionError:
                # Perhaps these servers don't allow as much.
                ping(lease_ms=part.lease_ms)

    def _decide(self, decisions: Decisions, decision: Decision, *, timeout: float) -> None:
        retries = Retries(timeout)
        while True:
            try:
                decisions.commit(decision, self._members)
                return
            except ConflictError:
                # It was withdrawn, or this very change was made, or another process that does this has made it.
                now = decisions.look(self._together)
                if now.verdict is Verdict.COMMITTED or self._is_there():
                    return
                if now.verdict is Verdict.WITHDRAWN:
                    self._abort()
                    raise self._withdrawn() from None
            except UnavailableError as error:
                if not retries.again():
                    raise self._unknown(error) from error

    def _give_up(self, decisions: Decisions, *, timeout: float) -> bool:
        """Withdraw it, with whatever was begun of it.

        Returns:
            True where it is committed already, by another process.
        """
        retries = Retries(timeout)
        while True:
            try:
                decision = decisions.look(self._together)
                if decision.verdict is Verdict.COMMITTED:
                    return True
                if decision.verdict is Verdict.WITHDRAWN:
                    if self._is_there():
                        return True
                    break
                decisions.withdraw(decision)
                break
            except ConflictError:
                continue
            except UnavailableError:
                # Others withdraw it in a while.
                if not retries.again():
                    return False
        self._abort()
        return False

    def _abort(self) -> None:
        """Abort the transactions of one that is withdrawn, and take its intents out of the logs."""
        for part in self._parts:
            for transaction in part.intent.transaction_ids():
                abort_quietly(self._client, part.ledger.stream, transaction)
        for one in self._all:
            with suppress(ConflictError, UnavailableError, NotFoundError):
                state = one.ledger.state()
                if self._is_in(state):
                    one.ledger.withdraw(state)

    def _roll_forward(self, *, timeout: float) -> None:
        retries = Retries(timeout)
        while True:
            try:
                roll_forward(self._client, self._together)
                if not any(self._is_left(one) for one in self._all):
                    if self._is_there():
                        return
                    raise self._withdrawn()
            except TransactionError:
                if not self._is_committed():
                    self._abort()
                    raise
            except UnavailableError as error:
                if not retries.again():
                    raise self._unknown(error) from error

    def _is_committed(self) -> bool:
        decisions = open_decisions(self._client, self._together.scope)
        return decisions is not None and decisions.look(self._together).verdict is Verdict.COMMITTED

    def _is_there(self) -> bool:
        """Whether it has become versions: then all of its tables have them, or will."""
        for one in self._parts:
            # A table that was dropped doesn't tell.
            with suppress(NotFoundError):
                if one.promise.is_version():
                    return True
        return False

    def _is_left(self, one: Part | Guard) -> bool:
        with suppress(NotFoundError):
            return self._is_in(one.ledger.state())
        return False

    def _is_in(self, state: State) -> bool:
        return state.pending is not None and state.pending.together == self._together

    def _withdrawn(self) -> TransactionError:
        return TransactionError(
            f"the transaction over {', '.join(str(member.stream) for member in self._members)} was withdrawn, as it "
            "made no progress for a while, or a lease ran out: nothing was written, run its statements again"
        )

    def _unknown(self, error: PravegaError) -> PravegaError:
        return commit_state_unknown(self._all[0].ledger, f"{self._together.id} of several tables", error)
