"""What a stream holds at one moment, each commit of this package whole or not at all.

Pravega merges a transaction's segments one after another, so that a plain look at the tail may see a part of a commit.
A snapshot looks at the commit log, takes the tail, and looks again: a commit in progress must have been as it is
before and after.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from pyspark_pravega.client import Client, Stream, TransactionState
from pyspark_pravega.connector.log.ledger import Ledger, State, open_ledger
from pyspark_pravega.connector.log.recovery import AT_REST, UNDER_WAY, commit_all, transaction_states
from pyspark_pravega.connector.log.tail import Snapshot, take_tail
from pyspark_pravega.errors import PravegaError, UnavailableError

POLL_S = 0.005
Seen = TypeVar("Seen")

PATIENCE_S = 60.0
"""How long a snapshot waits for commits to come to rest."""


def take_snapshot(client: Client, stream: Stream, ledger: Ledger | None = None) -> Snapshot:
    """The stream from its head to its tail, holding each commit of this package whole or not at all.

    Args:
        client: the cluster.
        stream: the stream.
        ledger: its commit log, where that is open already.

    Raises:
        StreamNotFoundError: there is no such stream.
        UnavailableError: a commit didn't come to its end for a minute.
    """
    return consistently(client, stream, lambda: take_tail(client, stream), ledger)


def consistently(client: Client, stream: Stream, look: Callable[[], Seen | None], ledger: Ledger | None = None) -> Seen:
    """Look at a stream at a moment at which each commit of this package can be seen whole or not at all.

    Args:
        client: the cluster.
        stream: the stream.
        look: looks at it; None when that has to be done again.
        ledger: the stream's commit log, where that is open already.

    Raises:
        StreamNotFoundError: there is no such stream.
        UnavailableError: a commit didn't come to its end for a minute.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        ledger = ledger or open_ledger(client, stream)
        before = _visible(client, ledger)
        if before is not None:
            seen = look()
            if ledger is None:
                ledger = open_ledger(client, stream)
            if seen is not None and _visible(client, ledger) == before:
                return seen
        time.sleep(POLL_S)
    raise UnavailableError(
        f'commits to stream "{stream}" did not come to rest for {PATIENCE_S:g} s, so no consistent view of it could be '
        "taken: check that the writers and the Pravega controller are healthy, and try again"
    )


def _visible(client: Client, ledger: Ledger | None) -> tuple[State | None, bool] | None:
    """The log's state and whether the commit in progress can be seen; None while that is changing."""
    if ledger is None:
        return None, False
    state = ledger.state()
    if state.pending is None:
        return state, False
    states = transaction_states(client, ledger.stream, state.pending)
    if states & UNDER_WAY:
        if states <= AT_REST:
            return state, True
        if TransactionState.OPEN in states:
            # Its owner may have died between the commits of two: whoever is allowed to helps, before a lease runs out.
            with suppress(PravegaError):
                commit_all(client, ledger.stream, state.pending)
        return None
    return state, False
