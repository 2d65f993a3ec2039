"""Bringing a commit that is in progress to its end, whoever began it.

The state of its transactions decides: once one of them is committing, the commit is completed; while all are open, its
owner has some time to go on, and then they are aborted, which makes the owner's commit fail.
"""

from __future__ import annotations

import time

from pyspark_pravega.client import Client, Stream, TransactionState
from pyspark_pravega.connector.ledger import Intent, Ledger, State
from pyspark_pravega.connector.tail import Snapshot, take_tail
from pyspark_pravega.errors import ConflictError, TransactionError, UnavailableError

POLL_S = 0.005
GRACE_S = 10.0
"""How long the owner of a commit may take between recording it and committing its transactions."""
COMMIT_TIMEOUT_S = 300.0
"""How long a committing transaction may take to be committed."""


def settle(client: Client, ledger: Ledger) -> State:
    """Wait until no commit is in progress; take over from an owner that makes no progress.

    Args:
        client: the cluster.
        ledger: the stream's commit log.

    Returns:
        The log's state with nothing in progress.
    """
    since: dict[str, float] = {}
    while True:
        state = ledger.state()
        if state.pending is None:
            return state
        patience_ends = since.setdefault(state.pending.job, time.monotonic() + GRACE_S)
        try:
            states = transaction_states(client, ledger.stream, state.pending)
            if states & {TransactionState.COMMITTING, TransactionState.COMMITTED}:
                return finish(client, ledger, state)
            if states == {TransactionState.OPEN} and time.monotonic() < patience_ends:
                time.sleep(POLL_S)
                continue
            for transaction in state.pending.transaction_ids():
                client.controller.abort_transaction(ledger.stream, transaction)
            after = transaction_states(client, ledger.stream, state.pending)
            if after & {TransactionState.COMMITTING, TransactionState.COMMITTED}:
                continue
            return ledger.withdraw(state)
        except ConflictError:
            continue


def finish(client: Client, ledger: Ledger, state: State) -> State:
    """Commit what the log promises, wait until all of it is visible, and make it a version.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        state: its state, with a commit in progress.

    Returns:
        The log's new state.

    Raises:
        TransactionError: a transaction was aborted, or its lease ran out.
        ConflictError: somebody else has brought it to its end.
        UnavailableError: it didn't come to its end in time; it will be, by the next writer.
    """
    assert state.pending is not None
    for transaction in state.pending.transaction_ids():
        client.controller.commit_transaction(ledger.stream, transaction)
    _await_committed(client, ledger.stream, state.pending)
    tail = _settled_tail(client, ledger.stream)
    return ledger.complete(state, committed_at=time.time_ns() // 1_000_000, cut=tail.cut)


def transaction_states(client: Client, stream: Stream, intent: Intent) -> set[TransactionState]:
    """Where the transactions of a commit are in their lives."""
    return {client.controller.transaction_state(stream, transaction) for transaction in intent.transaction_ids()}


def _await_committed(client: Client, stream: Stream, intent: Intent) -> None:
    deadline = time.monotonic() + COMMIT_TIMEOUT_S
    while (states := transaction_states(client, stream, intent)) != {TransactionState.COMMITTED}:
        if states & {TransactionState.ABORTING, TransactionState.ABORTED}:
            raise TransactionError(f'a transaction of job {intent.job} on stream "{stream}" was aborted')
        if time.monotonic() > deadline:
            raise UnavailableError(
                f'the commit of job {intent.job} to stream "{stream}" was accepted, but not finished within '
                f"{COMMIT_TIMEOUT_S:g} s; it will be: don't write the same rows again, look at the table later"
            )
        time.sleep(POLL_S)


def _settled_tail(client: Client, stream: Stream) -> Snapshot:
    while (tail := take_tail(client, stream)) is None:
        time.sleep(POLL_S)
    return tail
