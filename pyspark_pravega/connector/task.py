"""What a writing task does: its rows become events in a transaction of its own."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client import Client, Stream, Transaction
from pyspark_pravega.client.routing import key_fractions, segment_indexes
from pyspark_pravega.client.writing import BLOCK_BYTES, MAX_EVENT_BYTES, SegmentWriter
from pyspark_pravega.connector.ledger import Ledger
from pyspark_pravega.errors import EventEncodeError, PravegaError, TransactionError
from pyspark_pravega.serde import framing
from pyspark_pravega.serde.codec import Codec

FRAME_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class StagedSegment:
    """What a task has written into its transaction's shadow of one segment."""

    segment_id: int
    rows: int
    bytes: int
    """Frames included."""


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """What a task has written, none of it visible yet."""

    transaction: Transaction | None
    """None when the task had no rows."""
    segments: tuple[StagedSegment, ...] = ()
    """The segments that got events, in ascending order of their ids."""

    @property
    def rows(self) -> int:
        """Rows of all segments."""
        return sum(segment.rows for segment in self.segments)

    @property
    def bytes(self) -> int:
        """Bytes of all segments, frames included."""
        return sum(segment.bytes for segment in self.segments)


class TaskWriter:
    """Writes one task attempt's rows. Used by one thread."""

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        codec: Codec,
        *,
        stream: Stream,
        job: uuid.UUID,
        partition: int,
        routing_key: str | None,
        lease_ms: int,
    ) -> None:
        """Prepare; nothing is sent before the first row.

        Args:
            client: the cluster.
            ledger: the stream's commit log.
            codec: encodes rows.
            stream: where to write.
            job: the job's id.
            partition: the task's partition.
            routing_key: the column with the events' routing keys, if any.
            lease_ms: the transaction's lease.
        """
        self._client, self._ledger, self._codec, self._stream = client, ledger, codec, stream
        self._job, self._partition, self._routing_key, self._lease_ms = job, partition, routing_key, lease_ms
        self._transaction: Transaction | None = None
        self._keeper: LeaseKeeper | None = None
        self._writers: dict[int, SegmentWriter] = {}
        self._batches = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Write a batch.

        Args:
            batch: rows with the table's columns.

        Raises:
            EventEncodeError: a row can't be an event.
            TransactionError: the transaction was lost.
        """
        if not batch.num_rows:
            return
        transaction = self._transaction or self._begin()
        assert self._keeper is not None
        self._keeper.check()
        payloads = self._codec.encode(batch)
        for segment_id, chosen in self._route(batch, payloads, transaction):
            writer = self._writers.get(segment_id)
            if writer is None:
                writer = self._writers[segment_id] = SegmentWriter(
                    self._client.pool,
                    self._stream,
                    segment_id,
                    segment=transaction.segment_name(segment_id),
                )
            for block in _blocks(chosen):
                writer.append(memoryview(framing.join(block)), len(block))
        self._batches += 1

    def finish(self) -> TaskResult:
        """Wait until everything is stored.

        Raises:
            PravegaError: something couldn't be stored.
        """
        if self._transaction is None:
            return TaskResult(transaction=None)
        assert self._keeper is not None
        for writer in self._writers.values():
            writer.flush()
            writer.close()
        self._keeper.stop()
        # From here on the job keeps it alive.
        self._client.controller.ping_transaction(self._stream, self._transaction.id, lease_ms=self._lease_ms)
        return TaskResult(
            transaction=self._transaction,
            segments=tuple(
                StagedSegment(segment_id=segment_id, rows=writer.events_written, bytes=writer.bytes_written)
                for segment_id, writer in sorted(self._writers.items())
            ),
        )

    def abort(self) -> None:
        """Throw away what was written, as far as that can be done from here."""
        for writer in self._writers.values():
            writer.close()
        if self._keeper is not None:
            self._keeper.stop()
        if self._transaction is not None:
            abort_quietly(self._client, self._stream, self._transaction.id)

    def _begin(self) -> Transaction:
        transaction = self._client.controller.begin_transaction(self._stream, lease_ms=self._lease_ms)
        self._transaction = transaction
        self._keeper = LeaseKeeper(self._client, self._stream, transaction.id, self._lease_ms)
        if not self._ledger.add_attempt(self._job, self._partition, transaction.id):
            raise TransactionError(
                f'the job that writes to stream "{self._stream}" is over: this attempt at partition '
                f"{self._partition} came too late, and what it wrote is thrown away"
            )
        return transaction

    def _route(
        self, batch: pa.RecordBatch, payloads: pa.Array, transaction: Transaction
    ) -> Iterator[tuple[int, pa.Array]]:
        ranges = transaction.segments.ranges
        if self._routing_key is None or len(ranges) == 1:
            # Without keys whole batches are spread, each task beginning at another segment.
            chosen = ranges[(self._partition + self._batches) % len(ranges)]
            yield chosen.segment_id, payloads
            return
        keys = batch.column(self._routing_key).cast(pa.string())
        indexes = segment_indexes(key_fractions(keys), ranges)
        for index in np.unique(indexes):
            where = pa.array(np.flatnonzero(indexes == index))
            yield ranges[index].segment_id, payloads.take(where)


class LeaseKeeper:
    """A thread that keeps a transaction open while its task writes."""

    def __init__(self, client: Client, stream: Stream, transaction: uuid.UUID, lease_ms: int) -> None:
        """Start; the transaction has just been begun."""
        self._client, self._stream, self._transaction, self._lease_ms = client, stream, transaction, lease_ms
        self._stopped = threading.Event()
        self._lost: PravegaError | None = None
        self._thread = threading.Thread(target=self._run, name=f"lease-{transaction}", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise what made the transaction impossible to keep, if anything has.

        Raises:
            TransactionError: its lease ran out, or it was aborted.
        """
        if self._lost is not None:
            raise self._lost

    def stop(self) -> None:
        """Ping no more."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._lease_ms / 3000):
            try:
                self._client.controller.ping_transaction(self._stream, self._transaction, lease_ms=self._lease_ms)
            except TransactionError as error:
                self._lost = error
                return
            except PravegaError:
                # The controller may be back before the lease runs out.
                continue


def abort_quietly(client: Client, stream: Stream, transaction: uuid.UUID) -> None:
    """Abort a transaction; where the controller can't be reached, its lease will end it."""
    try:
        client.controller.abort_transaction(stream, transaction)
    except PravegaError:
        return


def _blocks(payloads: pa.Array) -> Iterator[pa.Array]:
    """Cuts payloads into runs of about a megabyte; an event is never cut."""
    sizes = pc.binary_length(payloads).to_numpy(zero_copy_only=False).astype(np.int64)
    largest = int(sizes.max())
    if largest > MAX_EVENT_BYTES:
        raise EventEncodeError(
            f"an event of {largest:,} bytes is larger than Pravega takes ({MAX_EVENT_BYTES:,} bytes): "
            "make the row smaller, or split it"
        )
    ends = np.cumsum(sizes + FRAME_BYTES)
    start = 0
    while start < len(payloads):
        done = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, done + BLOCK_BYTES, side="right")))
        yield payloads.slice(start, end - start)
        start = end
