"""How a stream is sealed, by itself or before it is deleted.

The controller aborts the transactions that are open then. One of several tables could be decided all the same: then its
rows would be missing from this table. So its log is closed first.
"""

from __future__ import annotations

from contextlib import suppress

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log.decided import COMMITTING_OR_DONE, commit_all, transaction_states
from pyspark_pravega.connector.log.entries import Closing, State
from pyspark_pravega.connector.log.ledger import Ledger
from pyspark_pravega.connector.log.recovery import finish, withdraw
from pyspark_pravega.deadlines import FIRST_REMINDER_S, LONGEST_REMINDER_S, Limit, Retries, deadline
from pyspark_pravega.errors import ConflictError, PravegaError, TransactionError, UnavailableError


def close(client: Client, ledger: Ledger, closing: Closing) -> State:
    """Let no transaction over several tables count on a table any more: those that are open are withdrawn, and those
    that are decided come to their end. Doing it again is harmless.

    Args:
        client: the cluster.
        ledger: the table's commit log.
        closing: what is done to the stream next.

    Returns:
        The log's state. A commit of this table alone may be in progress.

    Raises:
        NotFoundError: the log was deleted meanwhile.
        UnavailableError: it can't be done in time.
    """
    retries = Retries(client.settings.timeout)
    while True:
        try:
            state = ledger.state()
            if state.pending is not None and state.pending.together is not None:
                if withdraw(client, ledger, state) is None:
                    finish(client, ledger, state)
            elif state.closing in (closing, Closing.DROP):
                return state
            else:
                ledger.holders().note_closing(state, closing)
        except (ConflictError, TransactionError):
            # Another process was faster; or the first transaction was lost, and all is withdrawn.
            continue
        except UnavailableError:
            if not retries.again():
                raise


def seal(client: Client, stream: Stream, ledger: Ledger | None) -> tuple[int, ...] | None:
    """Seal a stream. Open transactions are aborted, and what is being committed comes to its end.

    The controller of 0.13 forgets a commit that it accepts while it begins to seal, and the seal waits for it, until it
    is asked for both again.

    Args:
        client: the cluster.
        stream: the stream.
        ledger: its commit log, if it has one.

    Returns:
        Which stream of that name was sealed, as `Controller.identity` tells it.

    Raises:
        StreamNotFoundError: there is no such stream.
        UnavailableError: it isn't sealed in time.
    """
    limit, pause = Limit(client.settings.timeout), FIRST_REMINDER_S
    seal_it = client.controller.sealing(stream)
    while True:
        try:
            with deadline(pause):
                return seal_it()
        except UnavailableError:
            if limit.left == 0:
                raise
            pause = min(2 * pause, LONGEST_REMINDER_S)
            # The committer may be dead.
            with suppress(PravegaError):
                pending = None if ledger is None else ledger.state().pending
                if pending is not None and transaction_states(client, stream, pending) & COMMITTING_OR_DONE:
                    commit_all(client, stream, pending)
