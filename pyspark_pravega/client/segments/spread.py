"""Small blocks for many segments, stored together: by itself each takes a connection and three round trips."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from pyspark_pravega.client.connections import Connection, ConnectionPool
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.segments.reading import ANSWER_TIMEOUT_S
from pyspark_pravega.client.segments.writing import SegmentWriter
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.errors import SegmentStoreUnavailableError, TokenExpiredError, WireError

LITTLE_BYTES = 64 << 10
"""A block of no more bytes is worth no connection of its own."""
_WRITERS_AT_ONCE = 64


def store_together(pool: ConnectionPool, stream: Stream, writers: Sequence[SegmentWriter]) -> None:
    """Store what writers hold back: one connection to each segment store, and no waiting between.

    Where that meets any trouble, the rest is left to each writer's `flush`, which tells or mends it: writers number
    their blocks, so nothing is stored twice.

    Args:
        pool: connections to the segment stores.
        stream: the segments' stream.
        writers: of different segments, see `SegmentWriter.hold_back`; those that hold nothing back are passed over.
    """
    by_segment = {writer.segment_id: writer for writer in writers if writer.holds_back}
    with suppress(SegmentStoreUnavailableError, TokenExpiredError, WireError):
        for of_store in pool.by_segment_store(stream, by_segment) if by_segment else ():
            for begin in range(0, len(of_store), _WRITERS_AT_ONCE):
                some = [by_segment[segment_id] for segment_id in of_store[begin : begin + _WRITERS_AT_ONCE]]
                with pool.connection(stream, of_store[0]) as connection:
                    there = _announced(connection, some)
                    _append(connection, there)
                pool.confirm(stream, [writer.segment_id for writer in there], connection.endpoint)


def _announced(connection: Connection, writers: Sequence[SegmentWriter]) -> list[SegmentWriter]:
    """Those whose segments are here."""
    setups = [writer.announce(connection) for writer in writers]
    by_request = {setup.request_id: writer for setup, writer in zip(setups, writers, strict=True)}
    connection.send(*setups)
    there = []
    for reply in connection.replies(len(setups)):
        if isinstance(reply, wire.AppendSetup):
            writer = by_request[reply.request_id]
            writer.announced(reply)
            there.append(writer)
        elif not isinstance(reply, wire.Failure):
            raise WireError(f"{type(reply).__name__} is no answer to a writer that announces itself")
    return there


def _append(connection: Connection, writers: Sequence[SegmentWriter]) -> None:
    by_id = {writer.writer_id: (writer, block) for writer in writers for block in writer.next_block()}
    if by_id:
        connection.send(*(block for _, block in by_id.values()))
    for reply in connection.replies(len(by_id), timeout=ANSWER_TIMEOUT_S):
        if not isinstance(reply, wire.DataAppended):
            # What has become of the others their writers find out.
            raise WireError(f"{type(reply).__name__} is no acknowledgement of a block")
        by_id[reply.writer_id][0].acknowledged(reply)
