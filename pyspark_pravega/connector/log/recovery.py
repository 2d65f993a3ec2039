"""Recovery of a commit in progress: any process completes it, or rolls it back.

The state of its transaction decides: once that is committing, the commit is completed; while it is open, its committer
has some time to go on, and then it is aborted, which makes the commit fail.

Earlier releases could note several transactions, where the stream was scaled meanwhile. Such a commit is rolled forward
as soon as one of them is committing.

Of a commit that is one of several tables' a record decides (`decisions`). Who finds it committed brings it to its end
in all tables: first the leader's transaction is committed, and then the others.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from pyspark_pravega.client import Client, Stream, TransactionState
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log.cleaning import clean
from pyspark_pravega.connector.log.decided import Decision, Decisions, Member, Verdict, decision_of, open_decisions
from pyspark_pravega.connector.log.entries import Intent, State, Together
from pyspark_pravega.connector.log.ledger import Ledger
from pyspark_pravega.connector.log.opening import open_ledger
from pyspark_pravega.connector.log.tail import Snapshot, tail_bounds, take_tail
from pyspark_pravega.deadlines import Limit, Reminders
from pyspark_pravega.errors import (
    ConflictError,
    NotFoundError,
    PravegaError,
    TableBeingDroppedError,
    TransactionError,
    UnavailableError,
    UnclearAnswerError,
)
from pyspark_pravega.together import Begun, all_together

FIRST_POLL_S = 0.001
POLL_S = 0.005
GRACE_S = 10.0
"""How long the committer may take between recording it and committing its transactions."""
COMMIT_TIMEOUT_S = 300.0
"""How long a committing transaction may take to be committed."""
_STATES = {
    Verdict.OPEN: TransactionState.OPEN,
    Verdict.COMMITTED: TransactionState.COMMITTING,
    Verdict.WITHDRAWN: TransactionState.ABORTED,
}
"""What a record stands for, where it decides instead of a transaction."""
_log = logging.getLogger(__name__)
Left: TypeAlias = tuple[Member, Ledger, State]
"""A table whose log has a transaction's intent, and that log as it was seen."""

TERMINAL = frozenset({TransactionState.COMMITTED, TransactionState.ABORTED, TransactionState.UNKNOWN})
COMMITTING_OR_DONE = frozenset({TransactionState.COMMITTING, TransactionState.COMMITTED})


def settle(client: Client, ledger: Ledger, *, taken_over: str | None = None) -> State:
    """Wait until no commit is in progress; take over from a committer that makes no progress, or left something to do.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        taken_over: a query that the caller has taken over: what its last driver has left isn't waited for.

    Returns:
        The log's state with nothing in progress.
    """
    since: dict[str, float] = {}
    ends_at = time.monotonic() + COMMIT_TIMEOUT_S
    while True:
        asked_at = time.monotonic()
        state = ledger.state()
        if state.pending is None:
            cleaned = clean(client, ledger, state)
            if cleaned.pending is None:
                return cleaned
            # Cleaning takes a moment: another commit has begun meanwhile.
            continue
        patience_ends = since.setdefault(state.pending.job, time.monotonic() + GRACE_S)
        try:
            states = deciding_states(client, ledger.stream, state.pending)
            if asked_at + GRACE_S / 2 < time.monotonic() < ends_at:
                # Servers were gone: the committer, too, couldn't do anything meanwhile.
                patience_ends = since[state.pending.job] = time.monotonic() + GRACE_S
            if states & COMMITTING_OR_DONE:
                try:
                    cleaned = clean(client, ledger, finish(client, ledger, state))
                    if cleaned.pending is None:
                        return cleaned
                except TransactionError as error:
                    # Its committer is told; for the log it is over.
                    _log.warning("%s", error)
                continue
            is_abandoned = taken_over is not None and state.pending.query == taken_over
            if states == {TransactionState.OPEN} and time.monotonic() < patience_ends and not is_abandoned:
                time.sleep(POLL_S)
                continue
            if (withdrawn := withdraw(client, ledger, state)) is not None:
                return withdrawn
        except ConflictError:
            continue


def withdraw(client: Client, ledger: Ledger, state: State) -> State | None:
    """Roll the commit in progress back, if nothing of it is committed.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        state: its state, with a commit in progress.

    Returns:
        The log's new state; None when the commit is under way, and so has to be finished.

    Raises:
        ConflictError: another process has completed it, or rolled it back.
    """
    assert state.pending is not None
    if state.pending.together is not None:
        return _withdraw_together(client, ledger, state, state.pending.together)
    first, *others = state.pending.transaction_ids()
    # Several are committed in this order: where the first one can be aborted none of the others has been committed.
    client.controller.abort_transaction(ledger.stream, first)
    if client.controller.transaction_state(ledger.stream, first) in COMMITTING_OR_DONE:
        return None
    for transaction in others:
        client.controller.abort_transaction(ledger.stream, transaction)
    if transaction_states(client, ledger.stream, state.pending) & COMMITTING_OR_DONE:
        return None
    return ledger.withdraw(state)


def finish(client: Client, ledger: Ledger, state: State) -> State:
    """Roll the commit in progress forward: commit its transactions, wait until all is visible, and make it a version.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        state: its state, with a commit in progress.

    Returns:
        The log's new state.

    Raises:
        TransactionError: a transaction was aborted, or its lease ran out.
        ConflictError: another process has completed it, or rolled it back.
        UnavailableError: it didn't come to its end in time; it will be, by the next writer.
    """
    assert state.pending is not None
    if state.pending.together is not None:
        roll_forward(client, state.pending.together)
        return ledger.state()
    commit_all(client, ledger.stream, state.pending)
    return _completed(client, ledger, state)


def _completed(client: Client, ledger: Ledger, state: State) -> State:
    assert state.pending is not None
    # Which segments there are is asked while the transactions become visible, and where they end afterwards.
    bounds = Begun(lambda: tail_bounds(client, ledger.stream))
    query = state.pending.query
    progress = None if query is None else Begun(lambda: ledger.progress(query))
    states = _await_rest(client, ledger.stream, state.pending)
    if TransactionState.COMMITTED not in states:
        raise TransactionError(f'a transaction of job {state.pending.job} on stream "{ledger.stream}" was aborted')
    tail = take_tail(client, ledger.stream, bounds.result()) or _settled_tail(client, ledger.stream)
    completed = ledger.complete(
        state, committed_at=now_ms(), cut=tail.cut, progress=None if progress is None else progress.result()
    )
    if states != {TransactionState.COMMITTED}:
        raise TransactionError(
            f'only a part of job {state.pending.job} on stream "{ledger.stream}" was committed: an earlier release of '
            "pyspark-pravega has noted several transactions for it, its commit was interrupted, and nobody brought it "
            f"to its end before the lease of one of them ran out; version {completed.version} of the table is this part"
        )
    return completed


def commit_state_unknown(ledger: Ledger, job: str, error: PravegaError) -> UnclearAnswerError:
    """The error of a job that is being committed, where no server tells how that has ended.

    Args:
        ledger: the stream's commit log.
        job: its id.
        error: what the last one has said.
    """
    return UnclearAnswerError(
        f'stream "{ledger.stream}": job {job} is being committed, and no server tells whether that is done. Who reads '
        "or writes the table next completes it, or throws all of it away: look at the table before you write the same "
        f"rows again ({error})"
    )


def commit_all(client: Client, stream: Stream, intent: Intent) -> None:
    """Ask for the commit of an intent.

    Raises:
        TransactionError: one can't be committed any more, and none of the others is.
    """
    ids = intent.transaction_ids()
    for done, transaction in enumerate(ids):
        try:
            if intent.event_time is None:
                client.controller.commit_transaction(stream, transaction)
            else:
                client.controller.commit_transaction(
                    stream, transaction, timestamp=intent.event_time, writer=intent.writer
                )
        except TransactionError:
            # With one of several committed the others are, too, whatever has become of this one.
            if done == 0 and (len(ids) == 1 or not transaction_states(client, stream, intent) & COMMITTING_OR_DONE):
                raise


def is_committing(client: Client, ledger: Ledger, state: State) -> bool:
    """Whether the commit in progress can't be rolled back any more.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        state: its state.
    """
    return state.pending is not None and bool(
        deciding_states(client, ledger.stream, state.pending) & COMMITTING_OR_DONE
    )


def settled_table(client: Client, ledger: Ledger) -> tuple[dict[str, str], State]:
    """A table's properties and its log's state, at a moment at which it isn't being made another table.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
    """
    limit = Limit(GRACE_S)
    while True:
        properties, state = ledger.properties_and_state()
        replacement = None if state.pending is None else state.pending.replacement
        if replacement is None or replacement.id is None or not is_committing(client, ledger, state):
            return properties, state
        try:
            finish(client, ledger, state)
        except ConflictError:
            continue
        except PravegaError:
            # Its committer is told why. A process that may only read waits for one that may write.
            if not limit.wait(POLL_S):
                return properties, state


def transaction_states(client: Client, stream: Stream, intent: Intent) -> set[TransactionState]:
    """Where the transactions of a commit are in their lives."""
    return {client.controller.transaction_state(stream, transaction) for transaction in intent.transaction_ids()}


def deciding_states(client: Client, stream: Stream, intent: Intent) -> set[TransactionState]:
    """As `transaction_states`; of a commit of several tables what its record says."""
    if intent.together is None:
        return transaction_states(client, stream, intent)
    return {_STATES[decision_of(client, intent.together).verdict]}


def roll_forward(client: Client, together: Together) -> None:
    """Bring a transaction over several tables to its end in all of them, if it is decided that it is there.

    Args:
        client: the cluster.
        together: the transaction.

    Raises:
        TransactionError: the leader's transaction was lost before it was committed, and all is withdrawn.
        UnavailableError: it didn't come to its end in time; it will be, by the next writer.
    """
    decisions = open_decisions(client, together.scope)
    decision = None if decisions is None else decisions.look(together)
    if decisions is None or decision is None or decision.verdict is not Verdict.COMMITTED:
        return
    left = _left(client, decision)
    # A log is taken back behind the record only. So where one isn't pending, and the record is what it was, it is done.
    if decisions.look(together).stored_as != decision.stored_as:
        return
    leads = any(one[0] == decision.leader for one in left)
    if left and not leads and _log_of(client, decision.leader) is None:
        # It was dropped, perhaps before its transaction was committed. Others have to find another leader, too.
        rest = tuple(member for member in decision.members if member != decision.leader)
        if any(member.transaction is not None for member in rest):
            decisions.commit(decision, rest)
            return
    bring_forward(client, decisions, decision, left)


def bring_forward(client: Client, decisions: Decisions, decision: Decision, left: Sequence[Left]) -> bool:
    """As `roll_forward`, where it is known what there is to do.

    Args:
        client: the cluster.
        decisions: has the record.
        decision: the record, which says that it is committed.
        left: the tables whose logs have its intent.

    Returns:
        Whether all of it is done; else others have done some.
    """
    leading = next((one for one in left if one[0] == decision.leader), None)
    if leading is not None:
        try:
            _commit_leader(client, decisions, decision, leading)
        except NotFoundError:
            # It is dropped just now: who looks again finds another leader.
            return False
    # What has become of a follower is seen when it is completed.
    _ask_followers(client, decision, left, TransactionError)
    is_done = all(all_together([partial(_complete_member, client, *one) for one in left]))
    if is_done or not _left(client, decision):
        with suppress(ConflictError):
            decisions.forget(decision)
    return is_done


def commit_followers(client: Client, decision: Decision) -> None:
    """Ask for the commit of all other transactions, where the leader's is committed: else their leases might run out.

    Nothing is waited for.

    Args:
        client: the cluster.
        decision: the record, which says that it is committed.
    """
    _ask_followers(client, decision, _left(client, decision), PravegaError)


def _ask_followers(client: Client, decision: Decision, left: Sequence[Left], passed: type[PravegaError]) -> None:
    """Ask for the commit of the transactions that are committed behind the leader's."""

    def ask(ledger: Ledger, state: State) -> None:
        assert state.pending is not None
        with suppress(passed, NotFoundError):
            commit_all(client, ledger.stream, state.pending)

    followers = [one for one in left if one[0].transaction is not None and one[0] != decision.leader]
    all_together([partial(ask, ledger, state) for _, ledger, state in followers])


def _left(client: Client, decision: Decision) -> list[Left]:
    """The tables whose logs have the transaction's intent still. One that was dropped is done."""

    def look(member: Member) -> Left | None:
        ledger = _log_of(client, member)
        if ledger is None:
            return None
        with suppress(NotFoundError):
            state = ledger.state()
            if state.pending is not None and state.pending.together == decision.together:
                return member, ledger, state
        return None

    looks = all_together([partial(look, member) for member in decision.members])
    return [one for one in looks if one is not None]


def _log_of(client: Client, member: Member) -> Ledger | None:
    """A table's commit log; None where it was dropped."""
    try:
        return open_ledger(client, member.stream)
    except (NotFoundError, TableBeingDroppedError):
        return None


def _commit_leader(client: Client, decisions: Decisions, decision: Decision, one: tuple[Member, Ledger, State]) -> None:
    """Commit the first transaction. Where it is lost nobody has committed another one: all of it is withdrawn."""
    member, ledger, state = one
    assert member.transaction is not None
    assert state.pending is not None
    try:
        commit_all(client, ledger.stream, state.pending)
    except TransactionError:
        now = client.controller.transaction_state(ledger.stream, member.transaction)
        if now in COMMITTING_OR_DONE:
            return
        if now != TransactionState.OPEN and ledger.state().stored_as == state.stored_as:
            with suppress(ConflictError):
                decisions.withdraw(decision)
        raise


def _complete_member(client: Client, member: Member, ledger: Ledger, state: State) -> bool:
    """Make a table's intent a version; False where others have, or it is dropped meanwhile."""
    with suppress(ConflictError, NotFoundError, TableBeingDroppedError):
        if member.transaction is None:
            ledger.withdraw(state)
            return True
        try:
            _completed(client, ledger, state)
        except TransactionError as error:
            _log.warning(
                "%s: its rows are missing from a transaction over several tables, as nobody has looked at these tables "
                "before its lease ran out",
                error,
            )
            ledger.withdraw(state)
        return True
    return False


def _withdraw_together(client: Client, ledger: Ledger, state: State, together: Together) -> State | None:
    """As `withdraw`, of a commit of several tables."""
    assert state.pending is not None
    decisions = open_decisions(client, together.scope)
    decision = None if decisions is None else decisions.look(together)
    if decisions is not None and decision is not None:
        if decision.verdict is Verdict.COMMITTED:
            return None
        if decision.verdict is Verdict.OPEN:
            decisions.withdraw(decision)
    for transaction in state.pending.transaction_ids():
        client.controller.abort_transaction(ledger.stream, transaction)
    return ledger.withdraw(state)


def is_any_committed(client: Client, ledger: Ledger, transactions: Iterable[uuid.UUID]) -> bool:
    """Whether one of the transactions that a job has written is committed, or is being: then the job is a version.

    It tells so where the log doesn't tell whose that is: an earlier release has completed it, or the caller of the
    commit had the answer.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        transactions: their ids.
    """
    return any(client.controller.transaction_state(ledger.stream, one) in COMMITTING_OR_DONE for one in transactions)


def _await_rest(client: Client, stream: Stream, intent: Intent) -> set[TransactionState]:
    ends_at, pause, reminders = time.monotonic() + COMMIT_TIMEOUT_S, FIRST_POLL_S, Reminders()
    while not (states := transaction_states(client, stream, intent)) <= TERMINAL:
        if time.monotonic() > ends_at:
            raise UnclearAnswerError(
                f'the commit of job {intent.job} to stream "{stream}" was accepted, but not finished within '
                f"{COMMIT_TIMEOUT_S:g} s; it will be: don't write the same rows again, look at the table later"
            )
        if reminders.due():
            # As `await_commit` does; the states tell how it went.
            with suppress(PravegaError):
                commit_all(client, stream, intent)
        time.sleep(pause)
        pause = min(2 * pause, POLL_S)
    return states


def _settled_tail(client: Client, stream: Stream) -> Snapshot:
    limit = Limit(COMMIT_TIMEOUT_S)
    while (tail := take_tail(client, stream)) is None:
        if not limit.wait(POLL_S):
            raise UnavailableError(
                f'stream "{stream}" was scaled or truncated again and again for {COMMIT_TIMEOUT_S:g} s, so the cut '
                "that a commit has reached could not be taken; the commit is made, and the next writer finishes it"
            )
    return tail
