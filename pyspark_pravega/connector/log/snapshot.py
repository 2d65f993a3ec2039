"""What a stream holds at one moment, each commit of this package whole or not at all.

Pravega merges a transaction's segments one after another, so that a plain look at the tail may see a part of a commit.
A snapshot looks at the commit log, takes the tail, and looks again: a commit in progress must have been as it is
before and after.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from pyspark_pravega.client import Client, Stream, StreamCut, TransactionState
from pyspark_pravega.client.positions import later_cut, proper_cut
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log.decided import (
    COMMITTING_OR_DONE,
    TERMINAL,
    Verdict,
    commit_all,
    commit_followers,
    decision_of,
    roll_forward,
    transaction_states,
)
from pyspark_pravega.connector.log.entries import Replacement, State, Together
from pyspark_pravega.connector.log.ledger import Ledger
from pyspark_pravega.connector.log.opening import open_ledger
from pyspark_pravega.connector.log.recovery import withdraw
from pyspark_pravega.connector.log.tail import Snapshot, behind, take_tail
from pyspark_pravega.connector.log.tiered import Base, Tiered
from pyspark_pravega.deadlines import Reminders
from pyspark_pravega.errors import PravegaError, UnavailableError, UnsupportedOperationError, WriteConflictError
from pyspark_pravega.together import all_together

POLL_S = 0.005
Seen = TypeVar("Seen")

HELP_AFTER_MS = 10_000
"""How old a transaction over several tables is before readers of its first table help the others."""
PATIENCE_S = 60.0
"""How long a snapshot waits for commits to come to rest, at least: none does while a segment store is gone."""


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

    return consistently(client, stream, partial(_whole, client, stream), ledger)


def take_snapshots(
    client: Client, streams: Sequence[Stream], seen: Mapping[Stream, int] = MappingProxyType({})
) -> dict[Stream, Snapshot]:
    """Several streams at one moment, each commit of this package, and each transaction over several tables, whole or
    not at all.

    Nothing is locked: where a table was committed to before all were looked at it is looked at again.

    Args:
        client: the cluster.
        streams: which ones.
        seen: versions at which others were seen before: the moment is one at which these were their last ones, too.

    Raises:
        StreamNotFoundError: there is no such stream.
        WriteConflictError: one that was seen before has another version by now.
        UnavailableError: for a minute there was no such moment.
    """
    patience = max(PATIENCE_S, client.settings.timeout)
    deadline, reminders = time.monotonic() + patience, Reminders()
    taken: dict[Stream, tuple[Ledger | None, Visible, Snapshot]] = {}
    while time.monotonic() < deadline:
        helps = reminders.due()
        missing = [stream for stream in streams if stream not in taken]
        looks = all_together([partial(_look, client, stream, helps=helps) for stream in missing])
        taken |= {stream: look for stream, look in zip(missing, looks, strict=True) if look is not None}
        if len(taken) == len(streams):
            again = [(stream, ledger) for stream, (ledger, _, _) in taken.items()]
            again += [(stream, open_ledger(client, stream)) for stream in seen]
            visible_now = all_together(
                [partial(_visible, client, ledger or open_ledger(client, stream)) for stream, ledger in again]
            )
            now = dict(zip((stream for stream, _ in again), visible_now, strict=True))
            for stream, version in seen.items():
                visible = now[stream]
                if visible is not None and visible.version != version:
                    raise WriteConflictError(
                        f'stream "{stream}" was read at version {version}, and others have committed version '
                        f"{visible.version} since"
                    )
            taken = {stream: one for stream, one in taken.items() if now[stream] == one[1]}
            if len(taken) == len(streams) and None not in now.values():
                return {stream: snapshot for stream, (_, _, snapshot) in taken.items()}
        time.sleep(POLL_S)
    raise UnavailableError(
        f"tables {', '.join(map(str, streams))} did not come to rest for {patience:g} s, so they could not be seen at "
        "one moment: check that the writers and the Pravega controller are healthy, and try again"
    )


def _look(client: Client, stream: Stream, *, helps: bool) -> tuple[Ledger | None, Visible, Snapshot] | None:
    ledger = open_ledger(client, stream)
    visible = _visible(client, ledger, None if ledger is None else ledger.opened_at, helps=helps)
    snapshot = None if visible is None else _whole(client, stream, visible)
    return None if visible is None or snapshot is None else (ledger, visible, snapshot)


def _whole(client: Client, stream: Stream, visible: Visible) -> Snapshot | None:
    tail = take_tail(client, stream)
    if tail is None:
        return None
    if visible.begins:
        tail = behind(tail, visible.begins)
    return replace(
        tail,
        version=visible.version,
        replaced_table=visible.replaced_table,
        compacted=visible.compacted,
        tiered=visible.tiered,
        base=visible.base,
        counted=visible.counted,
    )


@dataclass(frozen=True, kw_only=True)
class Visible:
    """What can be seen of a stream at a moment, by its commit log."""

    state: State | None
    """The log's; None when there's no log."""
    pending: bool = False
    """Whether the commit in progress can be seen."""

    @property
    def version(self) -> int:
        """The last version; 0 when there is none."""
        return 0 if self.state is None else self.state.version + self.pending

    @property
    def _pending_replacement(self) -> Replacement | None:
        """What the commit in progress replaces, if it can be seen."""
        if not self.pending or self.state is None or self.state.pending is None:
            return None
        return self.state.pending.replacement

    @property
    def begins(self) -> dict[int, int]:
        """The cut at which the rows begin; empty where that is the stream's head."""
        if self.state is None:
            return {}
        if self._pending_replacement is not None:
            return self._pending_replacement.begins
        return {} if self.state.cleaning is None else self.state.cleaning.begins

    @property
    def compacted(self) -> Mapping[int, tuple[int, int]]:
        """Where the rows lie that a compaction has written."""
        return {} if self.state is None or self._pending_replacement is not None else self.state.compacted

    @property
    def tiered(self) -> Tiered | None:
        """What of the rows lies in the lake."""
        return None if self.state is None or self._pending_replacement is not None else self.state.tiered

    @property
    def base(self) -> Base | None:
        """With which rows in the lake reads of a table with a key begin."""
        return None if self.state is None or self._pending_replacement is not None else self.state.base

    @property
    def counted(self) -> tuple[int, int] | None:
        """The rows and the bytes of all versions but a pending one, where the log has counted them."""
        if self.state is None or self.state.rows is None or self.state.bytes is None:
            return None
        return self.state.rows, self.state.bytes

    @property
    def replaced_table(self) -> int:
        """The last version that gave the table other columns and properties."""
        if self.state is None:
            return 0
        replacement = self._pending_replacement
        return self.state.replaced_table if replacement is None or replacement.id is None else self.version


def only_in_lake(stream: Stream, version: int, what: str) -> UnsupportedOperationError:
    """The error of who would have to read what lies in the lake only.

    Args:
        stream: the stream.
        version: the last version whose rows the stream needn't hold any more.
        what: what can't be.
    """
    return UnsupportedOperationError(
        f'rows of stream "{stream}" up to version {version} lie in the lake only, and {what} doesn\'t read them there '
        "yet: SELECT from the table of the catalog, or VERSION AS OF, does; or begin behind that version"
    )


def check_in_stream(snapshot: Snapshot, what: str) -> None:
    """Refuse to read the stream alone where rows of a snapshot lie in the lake only.

    Args:
        snapshot: the snapshot.
        what: who reads.

    Raises:
        UnsupportedOperationError: some do.
    """
    version = (
        snapshot.lake.last if snapshot.lake is not None else 0 if snapshot.tiered is None else snapshot.tiered.kept
    )
    if snapshot.base is not None:
        version = snapshot.base.version
    if version:
        raise only_in_lake(snapshot.stream, version, what)


def visible_head(client: Client, stream: Stream) -> StreamCut:
    """Where a stream's rows begin: at its head, or at what the last replacement has left to be truncated.

    Args:
        client: the cluster.
        stream: the stream.

    Raises:
        StreamNotFoundError: there is no such stream.
        UnsupportedOperationError: the stream doesn't hold the first ones any more, as they are in the lake.
    """
    head, state = visible_begin(client, stream)
    if state is not None and state.tiered is not None:
        raise only_in_lake(stream, state.tiered.kept, "who begins with the first row of the stream")
    return head


def visible_begin(client: Client, stream: Stream) -> tuple[StreamCut, State | None]:
    """Where a stream's rows begin; or where those begin that lie behind the lake, where it doesn't hold the first ones
    any more.

    Args:
        client: the cluster.
        stream: the stream.

    Returns:
        The cut; and the commit log's state, where rows before it are to be read in the lake.

    Raises:
        StreamNotFoundError: there is no such stream.
    """

    def look(visible: Visible) -> tuple[StreamCut, State | None]:
        if visible.tiered is not None and visible.tiered.kept:
            return proper_cut(client, stream, visible.tiered.cut), visible.state
        head = client.controller.head(stream)
        begins = visible.begins
        return later_cut(client.controller, StreamCut(stream, begins), head) if begins else head, None

    return consistently(client, stream, look)


def consistently(
    client: Client, stream: Stream, look: Callable[[Visible], Seen | None], ledger: Ledger | None = None
) -> Seen:
    """Look at a stream at a moment at which each commit of this package can be seen whole or not at all.

    Args:
        client: the cluster.
        stream: the stream.
        look: looks at it, as the log says what can be seen; None when that has to be done again.
        ledger: the stream's commit log, where that is open already.

    Raises:
        StreamNotFoundError: there is no such stream.
        UnavailableError: a commit didn't come to its end for a minute, or for as long as servers are waited for.
    """
    patience = max(PATIENCE_S, client.settings.timeout)
    deadline, reminders = time.monotonic() + patience, Reminders()
    while time.monotonic() < deadline:
        ledger = ledger or open_ledger(client, stream)
        before = _visible(client, ledger, helps=reminders.due())
        if before is not None:
            seen = look(before)
            if ledger is None:
                ledger = open_ledger(client, stream)
            if seen is not None and _visible(client, ledger) == before:
                return seen
        time.sleep(POLL_S)
    raise UnavailableError(
        f'commits to stream "{stream}" did not come to rest for {patience:g} s, so no consistent view of it could be '
        "taken: check that the writers and the Pravega controller are healthy, and try again"
    )


def _visible(
    client: Client, ledger: Ledger | None, state: State | None = None, *, helps: bool = False
) -> Visible | None:
    """What can be seen; None while that is changing. A reader may help a commit that doesn't come to its end.

    Args:
        client: the cluster.
        ledger: the table's commit log, if it has one.
        state: the log's state, where that was asked for just now.
        helps: whether this reader does so.
    """
    if ledger is None:
        return Visible(state=None)
    state = state or ledger.state()
    if state.pending is None or (state.pending.together is not None and not state.pending.transactions):
        return Visible(state=state)
    if state.pending.together is not None:
        return _visible_together(client, ledger, state, state.pending.together, helps=helps)
    states = transaction_states(client, ledger.stream, state.pending)
    if states & COMMITTING_OR_DONE:
        if states <= TERMINAL:
            return Visible(state=state, pending=True)
        if helps or TransactionState.OPEN in states:
            # The controller may have forgotten it. Or an earlier release has noted several transactions, and its
            # committer has died between two of them. A reader that may do so rolls it forward.
            with suppress(PravegaError):
                commit_all(client, ledger.stream, state.pending)
        return None
    return Visible(state=state)


def _visible_together(
    client: Client, ledger: Ledger, state: State, together: Together, *, helps: bool
) -> Visible | None:
    """As `_visible`, where the commit in progress is one of several tables: its record decides.

    Where that is committed, so that another table may show it already, it is waited for; and where others may change
    what it has read before it is decided.
    """
    assert state.pending is not None
    decision = decision_of(client, together)
    if decision.verdict is not Verdict.COMMITTED:
        # A record goes when it was brought to its end everywhere: then the log has changed, too.
        is_over = decision.stored_as is None and ledger.state().stored_as != state.stored_as
        if is_over or (together.awaited and decision.verdict is Verdict.OPEN):
            if helps and now_ms() - state.pending.started_at > HELP_AFTER_MS:
                # Whoever was to decide may be dead.
                with suppress(PravegaError):
                    withdraw(client, ledger, state)
            return None
        return Visible(state=state)
    states = transaction_states(client, ledger.stream, state.pending)
    if states == {TransactionState.COMMITTED}:
        if now_ms() - decision.at > HELP_AFTER_MS and decision.leader.stream == ledger.stream:
            # Whoever committed it may be dead, and the tables of the others may have no readers.
            with suppress(PravegaError):
                commit_followers(client, decision)
        return Visible(state=state, pending=True)
    if helps:
        with suppress(PravegaError):
            roll_forward(client, together)
    return None
