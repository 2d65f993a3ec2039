"""Faults that the protocol of transactions over several tables could have: the simulation has to see each of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import patch

from pyspark_pravega.catalog.statements import tables as statements
from pyspark_pravega.client import Stream, TransactionState
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log import Ledger, Snapshot, State, recovery, snapshot
from pyspark_pravega.connector.log.decided import decisions, transaction_states, turns
from pyspark_pravega.connector.write.commit import several
from pyspark_pravega.connector.write.together import transaction as product
from pyspark_pravega.errors import ConflictError


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
        states = transaction_states(client, ledger.stream, state.pending)
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

    with patch.object(recovery, "withdraw_together", withdraw):
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


@contextlib.contextmanager
def tables_only_read_not_guarded() -> Iterator[None]:
    """Nothing keeps others from writing to a table that was only read: two transactions each miss the other's rows."""

    def without_guards(client: Any, together: Any, parts: Any, guards: Any, missing: Any) -> several.Several:
        return several.Several(client, together, parts, missing=missing)

    with patch.object(product, "Several", without_guards):
        yield


@contextlib.contextmanager
def keys_not_compared() -> Iterator[None]:
    """Of a table with a key nobody looks whether others have written the keys that a transaction has read."""
    with patch.object(product, "is_unchanged_for_keys", lambda *_: True):
        yield


@contextlib.contextmanager
def committed_records_swept() -> Iterator[None]:
    """What is swept of old records are those of transactions that are there, too."""

    def sweep(self: decisions.Decisions) -> None:
        for key, document in self._table.iterate():
            if document.content["at"] < now_ms() - decisions._KEPT_MS:
                with contextlib.suppress(ConflictError):
                    self._table.remove((key, document.version))

    with patch.object(decisions.Decisions, "_sweep", sweep):
        yield


@contextlib.contextmanager
def logs_not_closed() -> Iterator[None]:
    """A DROP lets transactions go on that count on the table."""
    with patch.object(statements, "close", lambda client, log, closing: log.state()):
        yield


@contextlib.contextmanager
def records_that_are_gone_taken_for_withdrawn() -> Iterator[None]:
    """Where no table tells any more whether a transaction was committed, its client is told that it wasn't."""
    with patch.object(several.Several, "_tells", lambda *_: True):
        yield


@contextlib.contextmanager
def turns_not_taken() -> Iterator[None]:
    """Who finds a transaction committed asks for the commits of its tables, whoever does so besides."""
    with patch.object(turns, "FREE_AFTER_S", 0.0), patch.object(decisions.Decisions, "take_turn", lambda _, one: one):
        yield


FAULTS: tuple[Callable[[], contextlib.AbstractContextManager[Any]], ...] = (
    tables_seen_alone,
    record_not_asked_by_readers,
    record_not_asked_by_writers,
    reads_not_compared,
    leases_not_held,
    turns_not_taken,
)
WIDE_FAULTS: tuple[Callable[[], contextlib.AbstractContextManager[Any]], ...] = (
    tables_only_read_not_guarded,
    keys_not_compared,
    committed_records_swept,
)
"""Those that wide histories see."""
LATE_DROP_FAULTS: tuple[Callable[[], contextlib.AbstractContextManager[Any]], ...] = (
    logs_not_closed,
    records_that_are_gone_taken_for_withdrawn,
)
"""Those that are seen where tables are dropped beside decisions."""
