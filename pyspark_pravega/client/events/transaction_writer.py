"""Writing events in transactions: all of them become visible, or none."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Self

from pyspark_pravega.client.connections import Cluster
from pyspark_pravega.client.events.blocks import Batch, Events, Keys, Placed, blocks
from pyspark_pravega.client.names import SegmentRange, Stream
from pyspark_pravega.client.routing import cells
from pyspark_pravega.client.segments import (
    BLOCK_BYTES,
    LITTLE_BYTES,
    HeldConnections,
    Piece,
    SegmentWriter,
    store_together,
)
from pyspark_pravega.client.transactions import Transaction, TransactionState
from pyspark_pravega.deadlines import Limit, Reminders
from pyspark_pravega.errors import PravegaError, SegmentNotFoundError, TransactionError, UnavailableError

DEFAULT_LEASE_MS = 60_000
_MOST_WAITING_BYTES = 8 * BLOCK_BYTES
_BATCH_BYTES = 1024
"""What a batch takes beside its events."""
_POLL_S = 0.005
_POLL_GROWTH = 1.2
_LONGEST_POLL_S = 0.1


class LeaseKeeper:
    """A thread that keeps a transaction open, by a ping every third of its lease."""

    def __init__(self, client: Cluster, stream: Stream, transaction: uuid.UUID, lease_ms: int) -> None:
        """Start; the transaction has just been begun.

        Args:
            client: the cluster.
            stream: the transaction's stream.
            transaction: its id.
            lease_ms: for how long each ping keeps it open, in milliseconds.
        """
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


class TransactionWriter:
    """Writes events into an open transaction, of which others may write other parts. Used by one thread.

    Events of one routing key that one writer writes keep their order; nothing is visible before the commit. A context
    manager that flushes at its end; the transaction is committed by the one that began it.
    """

    def __init__(
        self,
        client: Cluster,
        transaction: Transaction,
        *,
        first_segment: int = 0,
        tracked: bool = False,
        borders: Iterable[float] = (),
    ) -> None:
        """Join a transaction; nothing is sent before the first event.

        Args:
            client: the cluster.
            transaction: as `Controller.begin_transaction` gave it, perhaps in another process: it can be pickled.
            first_segment: index of the segment that takes the first batch without keys: let writers begin at different
                ones.
            tracked: whether to note where in the transaction its events lie, for `parts`. Each segment then gets one
                block at a time.
            borders: of segments of other epochs, in the key space: no block has events on both sides of one. With any,
                nobody else may write into the transaction.
        """
        self.transaction = transaction
        self._cells = cells(transaction.segments.ranges, borders)
        """What takes events: the segments, or parts of them."""
        self._is_cut = len(self._cells) > len(transaction.segments.ranges)
        self._events_of: Counter[SegmentRange] = Counter()
        self._ranges_of: dict[SegmentRange, list[tuple[int, int]]] = {}
        self._client, self._tracked = client, tracked
        self._turn = first_segment
        self._writers: dict[int, SegmentWriter] = {}
        self._held = HeldConnections()
        self._waiting: list[Batch] = []
        """What makes large blocks together with what comes next."""
        self._waiting_bytes = 0

    @property
    def events_written(self) -> int:
        """Events that were handed over; after `flush` all of them are stored."""
        return sum(writer.events_written for writer in self._writers.values()) + sum(map(len, self._waiting))

    @property
    def holds_back(self) -> bool:
        """Whether events that were handed over wait for others, to make larger blocks."""
        return bool(self._waiting)

    @property
    def written(self) -> dict[int, tuple[int, int]]:
        """What was handed over and flushed: segment id to events and bytes, frames included."""
        return {
            segment_id: (writer.events_written, writer.bytes_written)
            for segment_id, writer in sorted(self._writers.items())
        }

    @property
    def parts(self) -> dict[int, tuple[tuple[int, int], ...]]:
        """If tracked: segment id to where what was handed over and flushed lies in it, bytes from and to."""
        return {segment_id: tuple(writer.ranges) for segment_id, writer in sorted(self._writers.items())}

    @property
    def pieces(self) -> dict[SegmentRange, Piece]:
        """If there are further borders: where what was handed over and flushed lies, by parts of the key space."""
        return {
            cell: Piece(events=self._events_of[cell], ranges=tuple(ranges)) for cell, ranges in self._ranges_of.items()
        }

    def write(self, event: bytes | str, key: str | None = None) -> None:
        """Write one event: for many of them use `write_batch`.

        Args:
            event: its bytes; a text becomes UTF-8. At most 8 MiB.
            key: its routing key.

        Raises:
            EventEncodeError: the event is too large.
            TransactionError: the transaction was lost.
        """
        self.write_batch([event.encode() if isinstance(event, str) else event], key)

    def write_batch(self, events: Events, keys: Keys = None) -> None:
        """Write many events. A small batch waits for the next ones, or for `flush`.

        Args:
            events: an Arrow array of binary or string values, or a sequence of bytes; at most 8 MiB each.
            keys: a routing key for each, one for all of them, or None: then all go to one segment, and the next
                batch to the next segment.

        Raises:
            EventEncodeError: an event is null or too large, or there isn't a key for each.
            TransactionError: the transaction was lost.
            PravegaError: they, or earlier ones, can't be stored.
        """
        ranges = self.transaction.segments.ranges
        chosen = ranges[self._turn % len(ranges)]
        self._turn += 1
        # With one segment there's nothing to choose, and no key to hash.
        batch = Batch.of(events, keys if len(self._cells) > 1 else None, (chosen.min_key + chosen.max_key) / 2)
        self._waiting.append(batch)
        self._waiting_bytes += batch.bytes + _BATCH_BYTES
        if self._waiting_bytes >= min(len(self._cells) * BLOCK_BYTES, _MOST_WAITING_BYTES):
            self._send()

    def flush(self) -> None:
        """Wait until everything that was written is stored.

        Raises:
            TransactionError: the transaction was lost.
            PravegaError: something can't be.
        """
        self._send()
        with self._lost_if_gone():
            for writer in self._writers.values():
                writer.flush()

    def close(self) -> None:
        """Let go of the connections; what hasn't been flushed may or may not be stored."""
        for writer in self._writers.values():
            writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    def _send(self) -> None:
        if not self._waiting:
            return
        batch = Batch.joined(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        # Where each segment gets little, waiting for each takes longer than the rest.
        several, held_back = len(self._cells) > 1, list[SegmentWriter]()
        with self._lost_if_gone():
            for part in batch.parts(len(self._cells)):
                for cell, placed in part.place(self._cells):
                    writer = self._writer(cell.segment_id)
                    for block in blocks(placed):
                        data, events = memoryview(block.data), len(block)
                        if several and len(data) <= LITTLE_BYTES and writer.hold_back(data, events):
                            held_back.append(writer)
                        else:
                            writer.append(data, events)
                        if self._is_cut:
                            self._note(cell, writer.bytes_written, block)
            store_together(self._client.pool, self.transaction.segments.stream, held_back)

    def _note(self, cell: SegmentRange, end: int, block: Placed) -> None:
        """Blocks of one writer lie in the order in which they were appended, whatever happens to connections."""
        ranges, start = self._ranges_of.setdefault(cell, []), end - len(block.data)
        if ranges and ranges[-1][1] == start:
            start = ranges.pop()[0]
        ranges.append((start, end))
        self._events_of[cell] += len(block)

    @contextmanager
    def _lost_if_gone(self) -> Iterator[None]:
        """A transaction's segments are there for as long as it is open."""
        try:
            yield
        except SegmentNotFoundError as error:
            raise TransactionError(
                f'transaction {self.transaction.id} on stream "{self.transaction.segments.stream}" was aborted, or its '
                "lease ran out, before everything was written: nothing of it will be visible"
            ) from error

    def _writer(self, segment_id: int) -> SegmentWriter:
        writer = self._writers.get(segment_id)
        if writer is None:
            transaction = self.transaction
            writer = self._writers[segment_id] = SegmentWriter(
                self._client.pool,
                transaction.segments.stream,
                segment_id,
                segment=transaction.segment_name(segment_id),
                tracked=self._tracked,
                held=self._held,
            )
        return writer


class OwnTransaction(TransactionWriter):
    """A transaction that was begun here: kept open by a thread until it is committed or aborted.

    As a context manager it commits at the end of the block, or aborts when the block fails.
    """

    def __init__(self, client: Cluster, stream: Stream, *, lease_ms: int = DEFAULT_LEASE_MS) -> None:
        """Begin a transaction.

        Args:
            client: the cluster.
            stream: the stream.
            lease_ms: how long it outlives this process, in milliseconds: 10,000 to 600,000 where the server has its
                defaults.

        Raises:
            StreamNotFoundError: there is no such stream.
            TransactionError: the stream is sealed, or the lease isn't within the server's limits.
        """
        super().__init__(client, client.controller.begin_transaction(stream, lease_ms=lease_ms))
        self.stream = stream
        self._keeper = LeaseKeeper(client, stream, self.transaction.id, lease_ms)
        self._over = False

    @property
    def state(self) -> TransactionState:
        """Where the transaction is in its life."""
        return self._client.controller.transaction_state(self.stream, self.transaction.id)

    def write_batch(self, events: Events, keys: Keys = None) -> None:
        """As `TransactionWriter.write_batch`."""
        self._keeper.check()
        super().write_batch(events, keys)

    def commit(self, *, timestamp: int | None = None, writer: str = "", wait: bool = True) -> None:
        """Make everything visible that this writer, and all who joined and flushed, have written.

        Args:
            timestamp: the writer's event time, for the stream's watermark, if any.
            writer: the writer's name, the same in all its transactions; needed with a timestamp.
            wait: until readers can see it.

        Raises:
            TransactionError: the transaction was aborted, or its lease ran out: nothing is visible.
            UnavailableError: it is being committed, but that wasn't over in time.
        """
        controller, transaction = self._client.controller, self.transaction.id
        try:
            self.flush()
            self._keeper.check()
            if timestamp is None:
                controller.commit_transaction(self.stream, transaction)
            else:
                controller.commit_transaction(self.stream, transaction, timestamp=timestamp, writer=writer)
        except TransactionError:
            self._end()
            raise
        self._end()
        if wait:
            await_commit(self._client, self.stream, transaction)

    def abort(self) -> None:
        """Throw everything away that was written into the transaction.

        Raises:
            TransactionError: it is committed, or about to be.
        """
        self._end()
        controller, transaction = self._client.controller, self.transaction.id
        if not controller.abort_transaction(self.stream, transaction):
            state = controller.transaction_state(self.stream, transaction)
            if state in (TransactionState.COMMITTING, TransactionState.COMMITTED):
                raise TransactionError(f'transaction {transaction} on stream "{self.stream}" is committed already')

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._over:
            return
        if kind is None:
            try:
                self.commit()
                return
            except BaseException:
                self._abort_quietly()
                raise
        self._abort_quietly()

    def _end(self) -> None:
        self._over = True
        self._keeper.stop()
        self.close()

    def _abort_quietly(self) -> None:
        self._end()
        abort_quietly(self._client, self.stream, self.transaction.id)


def await_commit(client: Cluster, stream: Stream, transaction: uuid.UUID) -> None:
    """Wait until a transaction that was asked to commit is committed.

    Where its stream has taken the place of another one of the same name, the controller of 0.13 may forget the commit
    that it has promised, until it is asked again. So it is.

    Args:
        client: the cluster.
        stream: the transaction's stream.
        transaction: its id.

    Raises:
        TransactionError: it was aborted.
        UnavailableError: it wasn't over until the caller's deadline, or within the client's time-out.
    """
    limit, pause, reminders = Limit(client.pool.timeout), _POLL_S, Reminders()
    while True:
        if reminders.due():
            # The state tells how it went.
            with suppress(PravegaError):
                client.controller.commit_transaction(stream, transaction)
        state = client.controller.transaction_state(stream, transaction)
        if state is TransactionState.COMMITTED:
            return
        if state is not TransactionState.COMMITTING:
            raise TransactionError(f'transaction {transaction} on stream "{stream}" is {state.name.lower()}')
        if limit.left == 0:
            raise UnavailableError(
                f'transaction {transaction} on stream "{stream}" is still committing: it will be committed, '
                "but wasn't in time"
            )
        time.sleep(pause)
        pause = min(_POLL_GROWTH * pause, _LONGEST_POLL_S)


def abort_quietly(client: Cluster, stream: Stream, transaction: uuid.UUID) -> None:
    """Abort a transaction; where the controller can't be reached, its lease will end it.

    Args:
        client: the cluster.
        stream: the transaction's stream.
        transaction: its id.
    """
    try:
        client.controller.abort_transaction(stream, transaction)
    except PravegaError:
        return
