"""Recovery of a commit in progress: any process completes it, or rolls it back.

The state of its transaction decides: once that is committing, the commit is completed; while it is open, its committer
has some time to go on, and then it is aborted, which makes the commit fail.

Earlier releases could note several transactions, where the stream was scaled meanwhile. Such a commit is rolled forward
as soon as one of them is committing.

Of a commit that is one of several tables' a record decides (`decided`). Who finds it committed brings it to its end in
all tables.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable

from pyspark_pravega.client import Client, Stream, TransactionState
from pyspark_pravega.connector.log.cleaning import clean
from pyspark_pravega.connector.log.decided import (
    COMMIT_TIMEOUT_S,
    COMMITTING_OR_DONE,
    POLL_S,
    Verdict,
    commit_all,
    completed,
    decision_of,
    roll_forward,
    transaction_states,
    withdraw_together,
)
from pyspark_pravega.connector.log.entries import Intent, State
from pyspark_pravega.connector.log.ledger import Ledger
from pyspark_pravega.deadlines import Limit
from pyspark_pravega.errors import (
    ConflictError,
    PravegaError,
    TransactionError,
    UnclearAnswerError,
)

GRACE_S = 10.0
"""How long the committer may take between recording it and committing its transactions."""
_STATES = {
    Verdict.OPEN: TransactionState.OPEN,
    Verdict.COMMITTED: TransactionState.COMMITTING,
    Verdict.WITHDRAWN: TransactionState.ABORTED,
}
"""What a record stands for, where it decides instead of a transaction."""
_log = logging.getLogger(__name__)


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
        return withdraw_together(client, ledger, state, state.pending.together)
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
    return completed(client, ledger, state)


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


def deciding_states(client: Client, stream: Stream, intent: Intent) -> set[TransactionState]:
    """As `transaction_states`; of a commit of several tables what its record says."""
    if intent.together is None:
        return transaction_states(client, stream, intent)
    return {_STATES[decision_of(client, intent.together).verdict]}


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
