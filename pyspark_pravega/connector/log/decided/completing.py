"""A decided commit of one table: its transactions are committed, and it becomes a version."""

from __future__ import annotations

import time
from contextlib import suppress

from pyspark_pravega.client import Client, Stream, TransactionState
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log.entries import Intent, State
from pyspark_pravega.connector.log.ledger import Ledger
from pyspark_pravega.connector.log.tail import Snapshot, take_tail
from pyspark_pravega.deadlines import Limit, Reminders
from pyspark_pravega.errors import PravegaError, TransactionError, UnavailableError, UnclearAnswerError
from pyspark_pravega.together import Begun

FIRST_POLL_S = 0.001
POLL_S = 0.005
COMMIT_TIMEOUT_S = 300.0
"""How long a committing transaction may take to be committed."""
TERMINAL = frozenset({TransactionState.COMMITTED, TransactionState.ABORTED, TransactionState.UNKNOWN})
COMMITTING_OR_DONE = frozenset({TransactionState.COMMITTING, TransactionState.COMMITTED})


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


def transaction_states(client: Client, stream: Stream, intent: Intent) -> set[TransactionState]:
    """Where the transactions of a commit are in their lives."""
    return {client.controller.transaction_state(stream, transaction) for transaction in intent.transaction_ids()}


def completed(client: Client, ledger: Ledger, state: State) -> State:
    """Wait until the transactions of a commit in progress are visible, and make it a version.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        state: its state, with a commit in progress whose transactions are being committed.

    Returns:
        The log's new state.

    Raises:
        TransactionError: a transaction was aborted, or its lease ran out.
        ConflictError: another process has completed it, or rolled it back.
        UnavailableError: it didn't come to its end in time; it will be, by the next writer.
    """
    assert state.pending is not None
    query = state.pending.query
    progress = None if query is None else Begun(lambda: ledger.progress(query))
    states = _await_rest(client, ledger.stream, state.pending)
    if TransactionState.COMMITTED not in states:
        raise TransactionError(f'a transaction of job {state.pending.job} on stream "{ledger.stream}" was aborted')
    tail = take_tail(client, ledger.stream) or _settled_tail(client, ledger.stream)
    done = ledger.complete(
        state, committed_at=now_ms(), cut=tail.cut, progress=None if progress is None else progress.result()
    )
    if states != {TransactionState.COMMITTED}:
        raise TransactionError(
            f'only a part of job {state.pending.job} on stream "{ledger.stream}" was committed: an earlier release of '
            "pyspark-pravega has noted several transactions for it, its commit was interrupted, and nobody brought it "
            f"to its end before the lease of one of them ran out; version {done.version} of the table is this part"
        )
    return done


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
