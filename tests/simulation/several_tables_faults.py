"""Faults that the protocol of transactions over several tables could have: the simulation has to see each of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import patch

from pyspark_pravega.client import Stream, TransactionState
from pyspark_pravega.connector.log import Ledger, Snapshot, State, recovery, snapshot
from pyspark_pravega.connector.write.commit import several
from pyspark_pravega.connector.write.together import transaction as product


@contextlib.contextmanager
def tables_seen_alone() -> Iterator[None]:
    """Each table is read at a moment of its own."""

    def take(client: Any, streams: Sequence[Stream], seen: Any = ()) -> dict[Stream, Snapshot]:
        return {stream: snapshot.take_snapshot(client, stream) for stream in streams}

    with patch.object(snapshot, "take_snapshots", take):
        yield


@contextlib.contextmanager
def record_not_asked_by_readers() -> Iterator[None]:
    """A reader goes by the transaction of the table that it reads."""

    def visible(client: Any, ledger: Ledger, state: State, together: Any, *, helps: bool) -> Any:
        assert state.pending is not None
        states = recovery.transaction_states(client, ledger.stream, state.pending)
        if states == {TransactionState.COMMITTING}:
            return None
        return snapshot.Visible(state=state, pending=states == {TransactionState.COMMITTED})

    with patch.object(snapshot, "_visible_together", visible):
        yield


@contextlib.contextmanager
def record_not_asked_by_writers() -> Iterator[None]:
    """Who waits for long withdraws what he finds, whatever the record says."""

    def withdraw(client: Any, ledger: Ledger, state: State, together: Any) -> State:
        assert state.pending is not None
        for transaction in state.pending.transaction_ids():
            client.controller.abort_transaction(ledger.stream, transaction)
        return ledger.withdraw(state)

    with patch.object(recovery, "_withdraw_together", withdraw):
        yield


@contextlib.contextmanager
def reads_not_compared() -> Iterator[None]:
    """What others have written to tables that were read isn't noticed."""
    with patch.object(product, "_check_of", lambda *_: lambda *_: None):
        yield


@contextlib.contextmanager
def leases_not_held() -> Iterator[None]:
    """Leases may end right behind the decision."""
    with patch.object(several.Several, "_hold", lambda self: None):
        yield


FAULTS: tuple[Callable[[], contextlib.AbstractContextManager[Any]], ...] = (
    tables_seen_alone,
    record_not_asked_by_readers,
    record_not_asked_by_writers,
    reads_not_compared,
    leases_not_held,
)
