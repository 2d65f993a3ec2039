"""All tasks' events in one transaction.

Each task has staged its events in a transaction of its own. They are copied into one of these transactions, which is
then committed; the others are aborted. The segment store can merge transactions' segments without copying, but only
into the stream's own: of a transaction that was merged into another one, Pravega 0.13 now and then loses track when
it moves both to long-term storage, and then doesn't answer reads of these events, nor move anything there any more.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from pyspark_pravega.client import Client, Transaction
from pyspark_pravega.client.reading import read_range
from pyspark_pravega.client.writing import BLOCK_BYTES, SegmentWriter
from pyspark_pravega.connector.task import StagedSegment, TaskResult
from pyspark_pravega.errors import SegmentNotFoundError, TransactionError

_SEGMENTS_AT_ONCE = 4


def gather(client: Client, results: list[TaskResult]) -> Transaction:
    """Bring what tasks have staged together. Doing it again goes on where it was interrupted.

    Args:
        client: the cluster.
        results: those of tasks that have written events, in the order of the partitions; at least one.

    Returns:
        The transaction that holds all of it: that of the task with most bytes.

    Raises:
        TransactionError: a transaction was lost, or the stream was scaled while the tasks ran.
    """
    staged = [(result.transaction, result) for result in results if result.transaction is not None]
    target, largest = max(staged, key=lambda pair: pair[1].bytes)
    stream = target.segments.stream
    if any(transaction.segments.ids != target.segments.ids for transaction, _ in staged):
        raise TransactionError(
            f'stream "{stream}" was scaled while the job wrote to it, and what its tasks wrote can\'t be made one '
            "transaction: nothing was written; run it again"
        )
    sources: dict[int, list[tuple[Transaction, StagedSegment]]] = {}
    for transaction, result in staged:
        if result is not largest:
            for segment in result.segments:
                sources.setdefault(segment.segment_id, []).append((transaction, segment))
    try:
        with ThreadPoolExecutor(_SEGMENTS_AT_ONCE) as threads:
            for copied in [threads.submit(_copy, client, target, parts) for parts in sources.values()]:
                copied.result()
    except SegmentNotFoundError as error:
        raise TransactionError(
            f"a task's transaction on stream \"{stream}\" was lost before the job's commit, as its lease ran out or it "
            "was aborted: nothing was written; run the job again, with a longer transaction-timeout-ms where the job "
            f"runs without the catalog ({error})"
        ) from error
    return target


def _copy(client: Client, target: Transaction, parts: list[tuple[Transaction, StagedSegment]]) -> None:
    """Append tasks' parts of one segment one after another."""
    for source, part in parts:
        # The same blocks under the same writer's id: a second try passes over what the first has stored.
        writer = SegmentWriter(
            client.pool,
            target.segments.stream,
            part.segment_id,
            segment=target.segment_name(part.segment_id),
            writer_id=uuid.uuid5(target.id, f"{source.id}/{part.segment_id}"),
        )
        try:
            for data, rows in _blocks(client, source, part):
                writer.append(data, rows)
            writer.flush()
        finally:
            writer.close()


def _blocks(client: Client, source: Transaction, part: StagedSegment) -> Iterator[tuple[bytes, int]]:
    """A part's bytes in blocks of one size, so that their borders are the same each time, and their share of the rows.

    Blocks needn't end between events: nobody sees the segment before all of it is there.
    """
    received = read_range(
        client.pool,
        source.segments.stream,
        part.segment_id,
        0,
        part.bytes,
        segment=source.segment_name(part.segment_id),
    )
    block, done, counted = bytearray(), 0, 0
    for data in received:
        block += data
        while len(block) >= BLOCK_BYTES or (block and done + len(block) == part.bytes):
            piece = bytes(block[:BLOCK_BYTES])
            del block[:BLOCK_BYTES]
            done += len(piece)
            # Events are numbered, and each block needs a number of its own.
            rows = max(1, part.rows * done // part.bytes - counted)
            counted += rows
            yield piece, rows
