"""What a writing task does: its rows become events, in a transaction of its own or directly in the stream."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client import Client, EventWriter, Staged, Transaction, TransactionWriter
from pyspark_pravega.client.events import LINGER_S, LeaseKeeper, abort_quietly
from pyspark_pravega.client.names import SegmentRange
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.index import Block, IndexWriter
from pyspark_pravega.connector.log import JobLog, Joined
from pyspark_pravega.connector.option_names import BEST_EFFORT
from pyspark_pravega.connector.write.plan import WritePlan
from pyspark_pravega.errors import EventEncodeError, PravegaError, TransactionError

_AHEAD_S, _AHEAD_POLL_S = 0.05, 0.002
"""How long a task waits for a transaction that its job begins meanwhile."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a task has written."""

    staged: Staged | None = None
    """The transaction with it; None when there were no rows, or they went to the stream directly."""
    partition: int = 0
    """The task's, from 0."""
    rows: int = 0
    bytes: int = 0
    """Frames included."""
    event_time: int | None = None
    """The largest one: milliseconds since 1970, or a number in whatever unit the column has."""
    ended_at: int = 0
    """When the task was through, in milliseconds since 1970."""
    blocks: tuple[Block, ...] = ()
    """The figures of all of its rows, if the plan asks for them; with places where these are known."""


class Task(Protocol):
    """Writes one task attempt's rows. Used by one thread."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Write a batch.

        Args:
            batch: rows with the table's columns.

        Raises:
            EventEncodeError: a row can't be an event.
            PravegaError: they can't be stored.
        """
        ...

    def finish(self) -> Written:
        """Wait until everything is stored.

        Raises:
            PravegaError: something couldn't be stored.
        """
        ...

    def abort(self) -> None:
        """Throw away what was written, as far as that can be done from here."""
        ...


@dataclass(frozen=True)
class Attempt:
    """A task's attempt whose transaction is noted, or is about to be."""

    transaction: Transaction
    shares: bool
    """Whether it is the one that the job's first attempts share: then it is the job's to abort."""
    borders: frozenset[float] = frozenset()
    """Where its blocks end beside the borders of its segments, in the key space: so they fit into segments of epochs in
    which the job's other transactions were begun."""


@dataclass(frozen=True)
class _Writing:
    """An attempt that has rows."""

    attempt: Attempt
    writer: TransactionWriter
    keeper: LeaseKeeper
    since: float


class TransactionTask:
    """Writes into a transaction: none of it is visible before the job's commit.

    The first attempts at all partitions share one, so that a commit has nothing to bring together. Further attempts
    have one of their own each, because nobody knows what a lost one has left in the one that is shared.
    """

    def __init__(
        self,
        client: Client,
        log: JobLog,
        plan: WritePlan,
        *,
        partition: int,
        late: bool = False,
        ahead: bool = False,
    ) -> None:
        """Prepare; nothing is sent before the first row.

        Args:
            client: the cluster.
            log: what the stream's commit log knows of the job.
            plan: how to write.
            partition: the task's partition.
            late: whether attempts may come at any time, as the job isn't noted in the log. They share nothing: nobody
                knows their transaction when the job is given up.
            ahead: whether the job begins the shared transaction meanwhile (`WriteJob.begin_ahead`).
        """
        self._client, self._log, self._plan, self._partition, self._late = client, log, plan, partition, late
        self._ahead = ahead
        self.attempt: Attempt | None = None
        """None before the first row."""
        self._writing: _Writing | None = None
        self._event_time: int | None = None
        self._index = IndexWriter(plan.index) if plan.index else None

    def add(self, batch: pa.RecordBatch) -> None:
        """As `Task.add`.

        Raises:
            TransactionError: the transaction was lost.
        """
        if not batch.num_rows:
            return
        plan = self._plan
        batch = plan.form.of(batch)
        writing = self._writing or self._begin()
        writing.keeper.check()
        if plan.event_time is not None:
            self._event_time = latest(self._event_time, batch.column(plan.event_time))
        keys = None if plan.routing is None else plan.routing.keys(batch)
        writing.writer.write_batch(plan.codec.encode(batch), keys)
        if self._index is not None:
            self._index.add(batch)
            if not writing.writer.holds_back:
                self._index.mark(writing.writer.written)

    def finish(self) -> Written:
        """As `Task.finish`; none of it is visible yet."""
        writing = self._writing
        if writing is None:
            return Written()
        writer, transaction, lease_ms = writing.writer, writing.attempt.transaction, self._plan.lease_ms
        writer.flush()
        writer.close()
        writing.keeper.stop()
        if time.monotonic() - writing.since > lease_ms / 10_000:
            # From here on the job keeps it alive.
            self._client.controller.ping_transaction(self._plan.stream, transaction.id, lease_ms=lease_ms)
        parts = writer.parts if writing.attempt.shares else None
        if self._index is not None:
            self._index.mark(writer.written)
        staged = Staged(
            transaction=transaction,
            written=writer.written,
            parts=parts,
            pieces=writer.pieces,
            keyless=self._plan.routing is None,
        )
        return Written(
            staged=staged,
            partition=self._partition,
            rows=staged.events,
            bytes=staged.bytes,
            event_time=self._event_time,
            ended_at=now_ms(),
            blocks=() if self._index is None else self._index.blocks(parts),
        )

    def abort(self) -> None:
        """As `Task.abort`; one that is shared is the job's to abort."""
        if self._writing is not None:
            self._writing.writer.close()
            self._writing.keeper.stop()
        if self.attempt is not None and not self.attempt.shares:
            abort_quietly(self._client, self._plan.stream, self.attempt.transaction.id)

    def begin(self) -> Attempt:
        """Take the transaction that the job's tasks share, if this is the first attempt at its partition.

        Raises:
            TransactionError: the job is over.
        """
        if self._late:
            late = self._new()
            return self._begin_own(late, None if self._plan.routing is None else self._log.first(late))
        shared, new = self._shared(), None
        if shared is None:
            shared = new = self._new()
        joined = self._log.join(self._partition, shared, begun=new is not None)
        if new is not None and joined is Joined.ALONE:
            # Another task was faster; or this isn't the first attempt, and the new one is its own.
            shared = self._log.shared()
            if shared is not None:
                joined = self._log.join(self._partition, shared, begun=False)
        if joined is Joined.ALONE:
            return self._begin_own(new or self._new(), shared)
        if new is not None and (joined is Joined.OVER or shared is not new):
            abort_quietly(self._client, self._plan.stream, new.id)
        if joined is Joined.OVER:
            raise self._too_late()
        assert shared is not None
        self.attempt = Attempt(shared, shares=True)
        return self.attempt

    def _shared(self) -> Transaction | None:
        shared, until = self._log.shared(), time.monotonic() + (_AHEAD_S if self._ahead else 0)
        while shared is None and time.monotonic() < until:
            time.sleep(_AHEAD_POLL_S)
            shared = self._log.shared()
        return shared

    def _begin(self) -> _Writing:
        attempt, since = self.begin(), time.monotonic()
        # Without keys whole batches are spread over the segments, each task beginning at another one.
        writer = TransactionWriter(
            self._client,
            attempt.transaction,
            first_segment=self._partition,
            tracked=attempt.shares,
            borders=attempt.borders,
        )
        keeper = LeaseKeeper(self._client, self._plan.stream, attempt.transaction.id, self._plan.lease_ms)
        self._writing = _Writing(attempt, writer, keeper, since)
        return self._writing

    def _begin_own(self, begun: Transaction, first: Transaction | None) -> Attempt:
        """Take a transaction for this attempt only.

        Args:
            begun: the one.
            first: the transaction that the job's first attempts share, or that was the first one.
        """
        if first is not None and begun.epoch < first.epoch:
            # Else it would have to fit into epochs that come when it is written.
            abort_quietly(self._client, self._plan.stream, begun.id)
            begun = self._new()
        self.attempt = Attempt(begun, shares=False)
        if not self._log.add_attempt(self._partition, begun.id, late=self._late):
            raise self._too_late()
        if self._plan.routing is not None and first is not None and first.segments.ids != begun.segments.ids:
            self.attempt = replace(self.attempt, borders=self._borders(first, begun))
        return self.attempt

    def _borders(self, first: Transaction, own: Transaction) -> frozenset[float]:
        """Those of the segments of all epochs from the first transaction's to the one before this one's."""
        controller, stream = self._client.controller, self._plan.stream
        between = [controller.epoch_segments(stream, epoch) for epoch in range(first.epoch + 1, own.epoch)]
        return frozenset(owner.max_key for segments in (first.segments, *between) for owner in segments.ranges)

    def _new(self) -> Transaction:
        return self._client.controller.begin_transaction(self._plan.stream, lease_ms=self._plan.lease_ms)

    def _too_late(self) -> TransactionError:
        return TransactionError(
            f'the job that writes to stream "{self._plan.stream}" is over: this attempt at partition {self._partition} '
            "came too late, and what it wrote is thrown away"
        )


class DirectTask:
    """Appends to the stream: visible at once, and again when the task is repeated."""

    def __init__(self, client: Client, plan: WritePlan, segments: Sequence[SegmentRange] = ()) -> None:
        """Prepare; nothing is sent before the first row.

        Args:
            client: the cluster.
            plan: how to write.
            segments: see `EventWriter`.
        """
        self._client, self._plan, self._segments = client, plan, segments
        self._writer: EventWriter | None = None
        self._rows = self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """As `Task.add`; in mode best-effort what can't be stored is lost without an error."""
        if not batch.num_rows:
            return
        plan = self._plan
        batch = plan.form.of(batch)
        events = plan.codec.encode(batch)
        keys = None if plan.routing is None else plan.routing.keys(batch)
        try:
            if self._writer is None:
                linger_s = 0.0 if plan.at_once else LINGER_S
                self._writer = EventWriter(self._client, plan.stream, linger_s=linger_s, segments=self._segments)
            self._writer.write_batch(events, keys)
        except EventEncodeError:
            raise
        except PravegaError as error:
            self._lose(error)

    def finish(self) -> Written:
        """As `Task.finish`."""
        try:
            if self._writer is not None:
                self._writer.close()
                self._count(self._writer)
        except PravegaError as error:
            self._lose(error)
        return Written(rows=self._rows, bytes=self._bytes)

    def abort(self) -> None:
        """As `Task.abort`: nothing that was sent can be taken back."""
        if self._writer is not None:
            self._writer.__exit__(PravegaError)
            self._writer = None

    def _count(self, writer: EventWriter) -> None:
        """Count what a writer has stored, now that it is through."""
        events, size = writer.unacknowledged
        self._rows += writer.events_written - events
        self._bytes += writer.bytes_written - size

    def _lose(self, error: PravegaError) -> None:
        if self._plan.mode != BEST_EFFORT:
            raise error
        if self._writer is not None:
            self._count(self._writer)
        _log.warning('events for stream "%s" are lost (writer mode best-effort): %s', self._plan.stream, error)
        self.abort()


def latest(known: int | None, times: pa.Array) -> int | None:
    """The largest of some event times.

    Args:
        known: of earlier rows.
        times: timestamps or dates, which become milliseconds since 1970, or integers.
    """
    largest = pc.max(times)
    if not largest.is_valid:
        return known
    if pa.types.is_date32(largest.type):
        number = largest.cast(pa.int32()).as_py() * 86_400_000
    elif pa.types.is_timestamp(largest.type):
        number = largest.cast(pa.timestamp("us", largest.type.tz)).cast(pa.int64()).as_py() // 1000
    else:
        number = largest.as_py()
    return int(number) if known is None else max(known, int(number))
