"""Many transactions made one.

Writers have staged events, each in a transaction of its own, or several in one that they share. What lies elsewhere is
copied into one of these transactions, which can then be committed, and the others aborted.

A block is copied without a look at its events, so all their keys must belong to one segment of the transaction that
takes it. Where transactions began in different epochs of the stream, writers see to that: they end their blocks at the
borders of segments of other epochs, too, and note where the blocks of each part of the key space lie. Events without
keys may lie in any segment.

The segment store can merge transactions' segments without copying, but only into the stream's own: of a transaction
that was merged into another one, Pravega 0.13 now and then loses track when it moves both to long-term storage, and
then doesn't answer reads of these events, nor move anything there any more.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias

from pyspark_pravega.client.connections import Cluster
from pyspark_pravega.client.names import SegmentRange, Stream
from pyspark_pravega.client.routing import cells, segment_of
from pyspark_pravega.client.segments.reading import read_range, segment_states
from pyspark_pravega.client.segments.writing import BLOCK_BYTES, SegmentWriter
from pyspark_pravega.client.transactions import Transaction
from pyspark_pravega.client.wire import Buffer
from pyspark_pravega.errors import SegmentNotFoundError, TransactionError

Ranges: TypeAlias = tuple[tuple[int, int], ...]
_SEGMENTS_AT_ONCE = 4


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A writer's events of one part of the key space, in a segment of a transaction."""

    events: int
    ranges: Ranges
    """Where they lie in the segment, in their order: bytes from and to."""

    @property
    def bytes(self) -> int:
        """Frames included."""
        return sum(end - start for start, end in self.ranges)


@dataclass(frozen=True, kw_only=True)
class Staged:
    """What a writer has written and flushed into a transaction. It can be pickled."""

    transaction: Transaction
    written: Mapping[int, tuple[int, int]]
    """`TransactionWriter.written`: segment id to events and bytes, frames included."""
    parts: Mapping[int, Ranges] | None = None
    """`TransactionWriter.parts`, of one that shares the transaction with others; None when it is the writer's own."""
    pieces: Mapping[SegmentRange, Piece] = field(default_factory=dict)
    """`TransactionWriter.pieces`, of one that ends its blocks at further borders than those of the segments."""
    keyless: bool = False
    """Whether no event has a routing key, so that any segment may take them."""

    @property
    def events(self) -> int:
        """Of all segments."""
        return sum(events for events, _ in self.written.values())

    @property
    def bytes(self) -> int:
        """Of all segments, frames included."""
        return sum(size for _, size in self.written.values())

    @property
    def cells(self) -> tuple[SegmentRange, ...]:
        """The parts of the key space in which it has events, each with the segment in which they lie."""
        if self.pieces:
            return tuple(self.pieces)
        whole = [cell for cell in cells(self.transaction.segments.ranges) if cell.segment_id in self.written]
        # A point of the key space lies in one segment of any epoch.
        return tuple(replace(cell, max_key=cell.min_key) if self.keyless else cell for cell in whole)

    def piece(self, cell: SegmentRange) -> Piece:
        """What it has in one of its parts of the key space.

        Args:
            cell: one of `cells`.

        Raises:
            TransactionError: where that lies was lost together with a connection.
        """
        if self.pieces:
            return self.pieces[cell]
        events, size = self.written[cell.segment_id]
        if self.parts is None:
            return Piece(events=events, ranges=((0, size),))
        ranges = self.parts.get(cell.segment_id, ())
        if sum(end - start for start, end in ranges) != size:
            stream = self.transaction.segments.stream
            raise TransactionError(
                f'a task that wrote to stream "{stream}" failed, another one lost its connection, and what they wrote '
                "into the job's transaction can't be told apart: nothing was written; run the job again"
            )
        return Piece(events=events, ranges=ranges)


def target_of(staged: Sequence[Staged], *, spoiled: Set[uuid.UUID] = frozenset()) -> Transaction | None:
    """The transaction into which the rest can be copied: one that is shared, or else the one with most bytes.

    Args:
        staged: as `gather`.
        spoiled: as `gather`.

    Returns:
        None where there is none: each is spoiled, or the stream was scaled, and a block would have to be divided.
    """
    best_first = sorted(staged, key=lambda one: (one.parts is not None, one.bytes), reverse=True)
    for target in {one.transaction.id: one.transaction for one in best_first}.values():
        if target.id not in spoiled and all(_fits(one, target) for one in staged):
            return target
    return None


def _fits(staged: Staged, target: Transaction) -> bool:
    """Whether each block has a segment of the target in which all its keys lie."""
    segments = target.segments
    if staged.transaction.segments.ids == segments.ids:
        return True
    return all(segment_of(cell, segments.ranges) is not None for cell in staged.cells)


def gather(client: Cluster, staged: Sequence[Staged], *, spoiled: Set[uuid.UUID] = frozenset()) -> Transaction:
    """Bring what was staged together. Doing it again goes on where it was interrupted.

    Args:
        client: the cluster.
        staged: of one stream, at least one. Of a transaction that isn't spoiled it is all that was written into it.
            Somebody has to keep the transactions open meanwhile.
        spoiled: shared transactions that others have written into, too.

    Returns:
        The transaction that holds all of it, and nothing else (`target_of`). Its own events come first, then the
        others' in the order given; each writer's events of a routing key keep their order.

    Raises:
        TransactionError: a transaction was lost, or there is none that can take the rest.
    """
    stream, target = staged[0].transaction.segments.stream, target_of(staged, spoiled=spoiled)
    if target is None:
        raise TransactionError(
            f'stream "{stream}" was scaled while the job wrote to it, and what its tasks wrote can\'t be made one '
            "transaction: nothing was written; run it again"
        )
    try:
        _copy_all(client, [one for one in staged if one.transaction.id != target.id], target)
    except SegmentNotFoundError as error:
        raise TransactionError(
            f"a task's transaction on stream \"{stream}\" was lost before the job's commit, as its lease ran out or it "
            "was aborted: nothing was written; run the job again, with a longer transaction-timeout-ms where the job "
            f"runs without the catalog ({error})"
        ) from error
    return target


def append_staged(client: Cluster, source: Staged, target: Transaction) -> None:
    """Put what was staged behind all that another transaction holds. Doing it again goes on where it was interrupted.

    Args:
        client: the cluster.
        source: what is copied.
        target: of the same stream, open as the other one is.

    Raises:
        TransactionError: the stream was scaled between the two, and a block would have to be divided; or one is lost.
    """
    stream = target.segments.stream
    if not _fits(source, target):
        raise TransactionError(
            f'stream "{stream}" was scaled while a transaction wrote to it, and what its statements wrote can\'t be '
            "brought together: run it again"
        )
    try:
        _copy_all(client, [source], target)
    except SegmentNotFoundError as error:
        raise _lost(stream, str(error)) from error


def staged_sizes(client: Cluster, transaction: Transaction) -> dict[int, int]:
    """How many bytes an open transaction holds in each segment; segments without any are left out.

    Args:
        client: the cluster.
        transaction: the one.

    Raises:
        TransactionError: it is lost.
    """
    stream, sizes = transaction.segments.stream, dict[int, int]()
    states = segment_states(client.pool, stream, transaction.segments.ids, name=transaction.segment_name)
    for segment_id, state in states.items():
        if state is None:
            raise _lost(stream, f'segment "{transaction.segment_name(segment_id)}" does not exist')
        if state.write_offset:
            sizes[segment_id] = state.write_offset
    return sizes


def _lost(stream: Stream, why: str) -> TransactionError:
    return TransactionError(f'a transaction on stream "{stream}" was lost, as its lease ran out ({why})')


def _copy_all(client: Cluster, staged: Sequence[Staged], target: Transaction) -> None:
    """Append what was staged to the segments where it belongs, in the order given; some segments at a time."""
    sources: dict[int, list[tuple[Staged, SegmentRange]]] = {}
    for one in staged:
        for cell in one.cells:
            segment_id = segment_of(cell, target.segments.ranges)
            assert segment_id is not None
            sources.setdefault(segment_id, []).append((one, cell))
    with ThreadPoolExecutor(_SEGMENTS_AT_ONCE) as threads:
        for copied in [threads.submit(_copy, client, target, *item) for item in sources.items()]:
            copied.result()


def _copy(client: Cluster, target: Transaction, segment_id: int, sources: list[tuple[Staged, SegmentRange]]) -> None:
    """Append to one segment what belongs there, one piece after another."""
    for source, cell in sources:
        piece = source.piece(cell)
        # The same blocks under the same writer's id: a second try passes over what the first has stored.
        name = f"{source.transaction.id}/{cell.segment_id}/{piece.ranges[0][0]}"
        writer = SegmentWriter(
            client.pool,
            target.segments.stream,
            segment_id,
            segment=target.segment_name(segment_id),
            writer_id=uuid.uuid5(target.id, name),
        )
        try:
            for data, events in _blocks(client, source.transaction, cell.segment_id, piece):
                writer.append(data, events)
            writer.flush()
        finally:
            writer.close()


def _blocks(client: Cluster, transaction: Transaction, segment_id: int, piece: Piece) -> Iterator[tuple[Buffer, int]]:
    """A piece's bytes in blocks of one size, so that their borders are always the same, and their share of the events.

    Blocks needn't end between events: nobody sees the segment before all of it is there.
    """
    stream, name, size = transaction.segments.stream, transaction.segment_name(segment_id), piece.bytes
    buffers = chain.from_iterable(
        read_range(client.pool, stream, segment_id, start, end, segment=name) for start, end in piece.ranges
    )
    done = events_counted = 0
    for block in _of_one_size(buffers, size):
        done += len(block)
        # Events are numbered, and each block needs a number of its own.
        share = max(1, piece.events * done // size - events_counted)
        events_counted += share
        yield block, share


def _of_one_size(buffers: Iterator[Buffer], size: int) -> Iterator[Buffer]:
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
