"""Many transactions made one.

Writers have staged events, each in a transaction of its own, or several in one that they share. What lies elsewhere is
copied into one of these transactions, which can then be committed, and the others aborted. The segment store can merge
transactions' segments without copying, but only into the stream's own: of a transaction that was merged into another
one, Pravega 0.13 now and then loses track when it moves both to long-term storage, and then doesn't answer reads of
these events, nor move anything there any more.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from pyspark_pravega.client.connections import Cluster
from pyspark_pravega.client.segments.reading import read_range
from pyspark_pravega.client.segments.writing import BLOCK_BYTES, SegmentWriter
from pyspark_pravega.client.transactions import Transaction
from pyspark_pravega.client.wire import Buffer
from pyspark_pravega.errors import SegmentNotFoundError, TransactionError

Ranges: TypeAlias = tuple[tuple[int, int], ...]
_SEGMENTS_AT_ONCE = 4


@dataclass(frozen=True, kw_only=True)
class Staged:
    """What a writer has written and flushed into a transaction. It can be pickled."""

    transaction: Transaction
    written: Mapping[int, tuple[int, int]]
    """`TransactionWriter.written`: segment id to events and bytes, frames included."""
    parts: Mapping[int, Ranges] | None = None
    """`TransactionWriter.parts`, of one that shares the transaction with others; None when it is the writer's own."""

    @property
    def events(self) -> int:
        """Of all segments."""
        return sum(events for events, _ in self.written.values())

    @property
    def bytes(self) -> int:
        """Of all segments, frames included."""
        return sum(size for _, size in self.written.values())

    def ranges(self, segment_id: int) -> Ranges:
        """Where it lies in one of the transaction's segments: bytes from and to.

        Args:
            segment_id: one of `written`.

        Raises:
            TransactionError: that was lost together with a connection.
        """
        size = self.written[segment_id][1]
        if self.parts is None:
            return ((0, size),)
        ranges = self.parts.get(segment_id, ())
        if sum(end - start for start, end in ranges) != size:
            stream = self.transaction.segments.stream
            raise TransactionError(
                f'a task that wrote to stream "{stream}" failed, another one lost its connection, and what they wrote '
                "into the job's transaction can't be told apart: nothing was written; run the job again"
            )
        return ranges


def gather(client: Cluster, staged: Sequence[Staged], *, spoiled: Set[uuid.UUID] = frozenset()) -> Transaction:
    """Bring what was staged together. Doing it again goes on where it was interrupted.

    Args:
        client: the cluster.
        staged: of one stream, at least one. Of a transaction that isn't spoiled it is all that was written into it.
            Somebody has to keep the transactions open meanwhile.
        spoiled: shared transactions that others have written into, too.

    Returns:
        The transaction that holds all of it, and nothing else: one that is shared, or else the one with most bytes. Its
        own events come first, then the others' in the order given; each writer's events keep their order.

    Raises:
        TransactionError: a transaction was lost, the stream was scaled between their beginnings, or all are spoiled.
    """
    stream, ids = staged[0].transaction.segments.stream, staged[0].transaction.segments.ids
    if any(one.transaction.segments.ids != ids for one in staged):
        raise _scaled(staged[0])
    candidates = [one for one in staged if one.transaction.id not in spoiled]
    if not candidates:
        raise _scaled(staged[0])
    target = max(candidates, key=lambda one: (one.parts is not None, one.bytes)).transaction
    sources: dict[int, list[Staged]] = {}
    for one in staged:
        if one.transaction.id != target.id:
            for segment_id in one.written:
                sources.setdefault(segment_id, []).append(one)
    try:
        with ThreadPoolExecutor(_SEGMENTS_AT_ONCE) as threads:
            for copied in [threads.submit(_copy, client, target, *item) for item in sources.items()]:
                copied.result()
    except SegmentNotFoundError as error:
        raise TransactionError(
            f"a task's transaction on stream \"{stream}\" was lost before the job's commit, as its lease ran out or it "
            "was aborted: nothing was written; run the job again, with a longer transaction-timeout-ms where the job "
            f"runs without the catalog ({error})"
        ) from error
    return target


def gather_by_epoch(
    client: Cluster, staged: Sequence[Staged], *, spoiled: Set[uuid.UUID] = frozenset()
) -> tuple[Transaction, ...]:
    """Bring what was staged together, as far as that can be done without moving events between segments.

    Args:
        client: the cluster.
        staged: as `gather`, but of whatever epochs of the stream.
        spoiled: as `gather`.

    Returns:
        A transaction for each epoch, the oldest first.

    Raises:
        TransactionError: a transaction was lost, or one is spoiled and there's no other of its epoch.
    """
    epochs: dict[tuple[int, ...], list[Staged]] = {}
    for one in staged:
        epochs.setdefault(tuple(sorted(one.transaction.segments.ids)), []).append(one)
    gathered = [gather(client, of_epoch, spoiled=spoiled) for of_epoch in epochs.values()]
    return tuple(sorted(gathered, key=lambda transaction: transaction.epoch))


def _scaled(staged: Staged) -> TransactionError:
    return TransactionError(
        f'stream "{staged.transaction.segments.stream}" was scaled while the job wrote to it, and what its tasks wrote '
        "can't be made one transaction: nothing was written; run it again"
    )


def _copy(client: Cluster, target: Transaction, segment_id: int, sources: list[Staged]) -> None:
    """Append the parts of one segment one after another."""
    for source in sources:
        ranges = source.ranges(segment_id)
        # The same blocks under the same writer's id: a second try passes over what the first has stored.
        writer = SegmentWriter(
            client.pool,
            target.segments.stream,
            segment_id,
            segment=target.segment_name(segment_id),
            writer_id=uuid.uuid5(target.id, f"{source.transaction.id}/{segment_id}/{ranges[0][0]}"),
        )
        try:
            for data, events in _blocks(client, source, segment_id, ranges):
                writer.append(data, events)
            writer.flush()
        finally:
            writer.close()


def _blocks(client: Cluster, source: Staged, segment_id: int, ranges: Ranges) -> Iterator[tuple[Buffer, int]]:
    """A part's bytes in blocks of one size, so that their borders are always the same, and their share of the events.

    Blocks needn't end between events: nobody sees the segment before all of it is there.
    """
    stream, name = source.transaction.segments.stream, source.transaction.segment_name(segment_id)
    events, size = source.written[segment_id]
    buffers = chain.from_iterable(
        read_range(client.pool, stream, segment_id, start, end, segment=name) for start, end in ranges
    )
    done = events_counted = 0
    for piece in _pieces(buffers, size):
        done += len(piece)
        # Events are numbered, and each block needs a number of its own.
        share = max(1, events * done // size - events_counted)
        events_counted += share
        yield piece, share


def _pieces(buffers: Iterator[Buffer], size: int) -> Iterator[Buffer]:
    """What is received in pieces of `BLOCK_BYTES`, the last one shorter: without a copy where it comes like that."""
    block, filled = bytearray(), 0
    for data in buffers:
        rest = memoryview(data)
        while len(rest):
            length = min(BLOCK_BYTES, size)
            if not filled and len(rest) >= length:
                yield rest[:length]
                rest, size = rest[length:], size - length
                continue
            if not filled:
                block = bytearray(length)
            count = min(len(rest), length - filled)
            block[filled : filled + count] = rest[:count]
            rest, filled = rest[count:], filled + count
            if filled == length:
                yield block
                filled, size = 0, size - length
