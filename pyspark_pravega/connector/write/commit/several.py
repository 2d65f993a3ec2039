"""The commit of several tables at once: a transaction of the user.

Each table's rows lie in a transaction of Pravega's of their own, which Pravega commits alone. So a record decides
(`log.decisions`):

1. Each table's log gets an intent that names the record: tables with rows and those that were only read, in the order
   of their names. What was read is compared with what is there by then. From here on nobody else commits to them. At
   the same time the leases of all transactions are renewed for as long as servers allow; the leader's ends first.
2. Tables whose logs the user may not change were only read. They are compared last. Others may commit to them before
   the decision, so readers of the tables with rows wait for that.
3. The record says: committed. That is the moment at which all of it is there.
4. The leader's transaction is committed, then all others, and each log's intent becomes a version.

Whoever finds an intent brings it to its end: `recovery` has the steps behind the record, and how it is withdrawn.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.events import abort_quietly
from pyspark_pravega.client.names import segment_number
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log import (
    Closing,
    Decision,
    Decisions,
    Intent,
    Ledger,
    Member,
    State,
    Together,
    Turn,
    Verdict,
    bring_forward,
    commit_state_unknown,
    decision_of,
    open_decisions,
    open_ledger,
    roll_forward,
    settle,
)
from pyspark_pravega.connector.options import MAX_LEASE_MS
from pyspark_pravega.connector.write.commit.promise import Promise, Replacing, closed
from pyspark_pravega.connector.write.commit.stages import Stage
from pyspark_pravega.connector.write.plan import Epoch
from pyspark_pravega.deadlines import Limit, Retries
from pyspark_pravega.errors import (
    ConflictError,
    NotFoundError,
    PravegaError,
    TransactionError,
    UnavailableError,
    UnclearAnswerError,
    WriteConflictError,
)
from pyspark_pravega.together import Begun, all_together

COMMIT_TIMEOUT_S, POLL_S = 300.0, 0.005
UNDECIDED_S = 1.0
"""How long the decision of a transaction is waited for that may wait for this one's."""
LEADER_ENDS_MS = 30_000
"""How much sooner than others the leader's lease ends."""
HELD_AGAIN_S = 60.0
"""After so long leases are renewed once more."""


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
    segments: Collection[int] = ()
    """Those that its transaction was begun for."""
    epoch: Epoch | None = None


@dataclass(frozen=True, kw_only=True)
class Guard:
    """A table that a transaction has only read, and whose log it may change."""

    ledger: Ledger
    check: Callable[[Ledger, State], None]
    """Refuses what was overtaken (`WriteConflictError`), when the log is in a state."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """A table that a transaction has only read, and whose log it may not change, or that has none."""

    stream: Stream
    check: Callable[[], None]
    """As of `Guard`, whatever the log's state is."""


class Several:
    """Makes the parts of a transaction versions, all of them or none."""

    def __init__(
        self,
        client: Client,
        transaction: Together,
        parts: Sequence[Part],
        guards: Sequence[Guard] = (),
        looks: Sequence[Look] = (),
        missing: PravegaError | None = None,
    ) -> None:
        """Nothing is asked yet.

        Args:
            client: the cluster.
            transaction: the transaction, whose record was made.
            parts: what it writes; of each table one.
            guards: what it has only read.
            looks: likewise, where it can't keep others from changing it.
            missing: why it can't be committed any more, if it isn't yet: one of its tables was dropped.
        """
        self._missing = missing
        self._client, self._together, self._looks = client, replace(transaction, awaited=bool(looks)), looks
        named: list[Part | Guard] = [*parts, *guards]
        self._all = sorted(named, key=lambda one: str(one.ledger.stream))
        self._promised: dict[Stream, State] = {}
        """The logs' states with its intents, where this process has seen them."""
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
            raise self._not_there(None)
        decision, turn = decisions.look(self._together), None
        if decision.verdict is Verdict.OPEN:
            try:
                if self._missing is not None:
                    raise self._missing
                is_promised = self._promise_all()
            except PravegaError:
                if not self._give_up(decisions, timeout=timeout):
                    raise
            else:
                if is_promised:
                    turn = self._decide(decisions, decision, timeout=timeout)
                    if turn is not None and self._has_brought_forward(decisions, turn):
                        return Stage.COMMITTED
                elif not self._give_up(decisions, timeout=timeout):
                    return Stage.REPEATED
        elif decision.verdict is Verdict.WITHDRAWN:
            if not self._is_there():
                self._abort()
                raise self._not_there(decision)
            return Stage.REPEATED
        self._roll_forward(turn, timeout=timeout)
        return Stage.COMMITTED

    def withdraw(self, *, timeout: float) -> None:
        """Throw everything away, unless it is committed. Doing it again is harmless.

        Args:
            timeout: how long servers are waited for, in seconds.
        """
        decisions = open_decisions(self._client, self._together.scope)
        with suppress(UnclearAnswerError):
            if decisions is None or not self._give_up(decisions, timeout=timeout):
                self._abort()

    def _promise_all(self) -> bool:
        since, held = time.monotonic(), Begun(self._hold)
        if not all(self._promise(one) for one in self._all):
            return False
        if self._looks and not all(map(_is_awaited, self._promised.values())):
            raise TransactionError(
                f'the right to change stream "{self._looks[0].stream}", which the transaction has read, was taken '
                "away while it was being committed: nothing was written, run its statements again"
            )
        for look in self._looks:
            self._compare(look)
        held.result()
        if time.monotonic() - since > HELD_AGAIN_S:
            self._hold()
        return True

    def _compare(self, look: Look) -> None:
        """Refuse what was overtaken where others can't be kept from changing it: they may do so from here on.

        A transaction that writes to that table may have read ours, and looks at them in the same way. So its decision
        is waited for; not for long, as it may wait for this one's.
        """
        limit = Limit(UNDECIDED_S)
        while True:
            ledger = open_ledger(self._client, look.stream)
            pending = None if ledger is None else ledger.state().pending
            if pending is None or pending.together is None or not pending.transactions:
                break
            if decision_of(self._client, pending.together).verdict is not Verdict.OPEN:
                break
            if not limit.wait(POLL_S):
                raise WriteConflictError(
                    f'the transaction has read stream "{look.stream}", and another one is just being committed to it. '
                    "Nothing was written; run the transaction again"
                )
        look.check()

    def _promise(self, one: Part | Guard) -> bool:
        """Put the intent into a table's log; False where its epoch is there already, or another process has done it."""
        if isinstance(one, Part):
            state = one.ledger.state()
            if not one.promise.is_in(state):
                intent = replace(one.intent, together=self._together)
                standing = one.promise.make(intent, one.epoch, one.replacement)
                if standing.stage is not Stage.PROMISED:
                    return False
                state = standing.state
            self._promised[one.ledger.stream] = state
            return True
        intent = Intent(
            job=str(uuid.uuid5(uuid.UUID(self._together.id), str(one.ledger.stream))),
            transactions=(),
            rows=0,
            bytes=0,
            started_at=now_ms(),
            together=self._together,
        )
        while not self._is_in(state := one.ledger.state()):
            state = settle(self._client, one.ledger)
            if state.closing is Closing.DROP:
                raise closed(one.ledger.stream)
            one.check(one.ledger, state)
            with suppress(ConflictError):
                state = one.ledger.begin(state, intent)
                break
        self._promised[one.ledger.stream] = state
        return True

    def _hold(self) -> None:
        """From here on the transactions stay open as long as servers allow, whoever dies; the leader's ends first."""
        all_together([partial(self._ping, part, is_leader=part is self._parts[0]) for part in self._parts])

    def _ping(self, part: Part, *, is_leader: bool) -> None:
        ping = partial(self._client.controller.ping_transaction, part.ledger.stream, *part.intent.transaction_ids())
        try:
            ping(lease_ms=MAX_LEASE_MS - is_leader * LEADER_ENDS_MS)
        except TransactionError:
            # Perhaps these servers don't allow as much.
            ping(lease_ms=part.lease_ms * (9 if is_leader else 10) // 10)

    def _decide(self, decisions: Decisions, decision: Decision, *, timeout: float) -> Turn | None:
        """Returns the turn to bring it forward, where this call has changed the record."""
        retries = Retries(timeout)
        while True:
            began = time.monotonic()
            try:
                return Turn.since(began, decisions.commit(decision, self._members))
            except ConflictError:
                # It was withdrawn, or this very change was made, or another process that does this has made it.
                now = decisions.look(self._together)
                if now.verdict is Verdict.COMMITTED or self._is_there():
                    return None
                if now.verdict is Verdict.WITHDRAWN:
                    self._abort()
                    raise self._not_there(now) from None
            except UnavailableError as error:
                if not retries.again():
                    raise self._unknown(error) from error

    def _give_up(self, decisions: Decisions, *, timeout: float) -> bool:
        """Withdraw it, with whatever was begun of it.

        Returns:
            True where it is committed already, by another process.

        Raises:
            UnclearAnswerError: nothing tells any more how it has ended; it was perhaps committed by another process.
        """
        retries = Retries(timeout)
        error: PravegaError | None = None
        while True:
            try:
                decision = decisions.look(self._together)
                if decision.verdict is Verdict.COMMITTED:
                    return True
                if decision.verdict is Verdict.WITHDRAWN:
                    if self._is_there():
                        return True
                    error = self._not_there(decision)
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
        if isinstance(error, UnclearAnswerError):
            raise error
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

    def _has_brought_forward(self, decisions: Decisions, turn: Turn) -> bool:
        """Make all intents versions, as this process has recorded them; False where that is to be looked after."""
        left = [
            (member, one.ledger, self._promised[member.stream])
            for member, one in zip(self._members, self._all, strict=True)
        ]
        try:
            return bring_forward(self._client, decisions, turn, left)
        except (NotFoundError, TransactionError, UnavailableError):
            return False

    def _roll_forward(self, own: Turn | None, *, timeout: float) -> None:
        retries, limit = Retries(timeout), Limit(max(COMMIT_TIMEOUT_S, timeout))
        while True:
            try:
                roll_forward(self._client, self._together, own)
                if not any(all_together([partial(self._is_left, one) for one in self._all])):
                    if self._is_there():
                        return
                    raise self._not_there(self._record())
                record = self._record()
                if not _is_committed(record) and not self._is_there():
                    # The leader's transaction was lost, and others have found that out.
                    self._abort()
                    raise self._not_there(record)
            except TransactionError:
                if not _is_committed(self._record()):
                    self._abort()
                    raise
            except ConflictError:
                # Others do the same.
                pass
            except UnavailableError as error:
                if not retries.again():
                    raise self._unknown(error) from error
                continue
            if not limit.wait(POLL_S):
                raise self._unknown(UnavailableError("others have changed its record and its logs again and again"))

    def _record(self) -> Decision | None:
        decisions = open_decisions(self._client, self._together.scope)
        return None if decisions is None else decisions.look(self._together)

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

    def _not_there(self, record: Decision | None) -> PravegaError:
        """The error of one whose record says nothing of a commit, and that none of its tables shows: it was withdrawn.

        A record also goes when it was brought to its end everywhere. So without one a table has to tell that it isn't
        there, and those that were dropped, or made again, don't.
        """
        if (record is not None and record.stored_as is not None) or any(map(self._tells, self._parts)):
            return TransactionError(
                f"the transaction over {', '.join(str(member.stream) for member in self._members)} was withdrawn, as "
                "it made no progress for a while, a lease ran out, or one of its tables was dropped: nothing was "
                "written, run its statements again"
            )
        return UnclearAnswerError(
            f"the transaction {self._together.id} is over, and the tables that it has written were dropped since: "
            "whether it was committed before that isn't known any more"
        )

    def _tells(self, part: Part) -> bool:
        """Whether a table is the one still that was written, and not another one of its name, and doesn't show it."""
        with suppress(NotFoundError):
            if not part.promise.is_version():
                first = self._client.controller.epoch_segments(part.ledger.stream, 0).ids
                # Those of a stream that is made again are counted on.
                return min(map(segment_number, part.segments)) >= min(map(segment_number, first))
        return False

    def _unknown(self, error: PravegaError) -> PravegaError:
        return commit_state_unknown(self._all[0].ledger, f"{self._together.id} of several tables", error)


def _is_awaited(state: State) -> bool:
    """Whether readers wait for the decision of a transaction that a log has an intent of."""
    return state.pending is None or state.pending.together is None or state.pending.together.awaited


def _is_committed(record: Decision | None) -> bool:
    return record is not None and record.verdict is Verdict.COMMITTED
