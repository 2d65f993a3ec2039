"""A stream of one segment as a log that is appended to only by those who have seen all of it.

As RevisionedStreamClient of Pravega's Java client, with the same entries and the same mark: both may use one stream.
A revision is an offset in bytes, at which an entry begins or the segment ends. Only those that a stream has given, as
by `head`, `tail` and `read_from`, mean anything.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Self

from pyspark_pravega.client.connections import Cluster, Connection, call_once
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.segments import read_range, segment_state
from pyspark_pravega.client.state.entry_appender import HEADER, EntryAppender
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.errors import (
    ConfigurationError,
    SegmentTruncatedError,
    StreamSealedError,
    WireError,
)

MARK = uuid.UUID("7df9a874-246c-c9d6-9397-cdd19ead68c5")
"""The attribute that holds the mark: SegmentAttribute.RevisionStreamClientMark of Java's client, hashed."""


class RevisionedStream:
    """The entries of a stream of one segment. Safe for use by several threads; a context manager."""

    def __init__(self, client: Cluster, stream: Stream) -> None:
        """Use an existing stream.

        Args:
            client: the cluster.
            stream: a stream of one segment, which must never be scaled.

        Raises:
            StreamNotFoundError: there is no such stream.
            ConfigurationError: it has several segments.
            StreamSealedError: it is sealed.
        """
        ids = client.controller.current_segments(stream).ids
        if not ids:
            raise StreamSealedError(f'stream "{stream}" is sealed')
        if len(ids) > 1:
            raise ConfigurationError(
                f'stream "{stream}" has {len(ids)} segments; a revisioned stream has one, and a fixed number of them'
            )
        self.stream = stream
        self._pool, self._segment_id, self._segment = client.pool, ids[0], stream.segment_name(ids[0])
        self._appender = EntryAppender(client.pool, stream, ids[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection that appends."""
        self._appender.close()

    def head(self) -> int:
        """The first revision that hasn't been truncated."""
        return segment_state(self._pool, self.stream, self._segment_id).start_offset

    def tail(self) -> int:
        """The revision behind the last entry."""
        return segment_state(self._pool, self.stream, self._segment_id).write_offset

    def read_from(self, revision: int, until: int | None = None) -> Iterator[tuple[int, bytes]]:
        """The entries from a revision on.

        Args:
            revision: where the first one begins.
            until: the revision behind the last one; the tail at this moment when None.

        Yields:
            Each entry, with the revision behind it.

        Raises:
            SegmentTruncatedError: there is no longer an entry at `revision`.
            WireError: no entry begins there.
        """
        state = segment_state(self._pool, self.stream, self._segment_id)
        if revision < state.start_offset:
            raise SegmentTruncatedError(
                f'stream "{self.stream}" begins at revision {state.start_offset}: what came at revision {revision} '
                "has been truncated"
            )
        end = state.write_offset if until is None else min(until, state.write_offset)
        data = read_range(self._pool, self.stream, self._segment_id, revision, end)
        return self._entries(data, revision, end)

    def append_conditionally(self, revision: int, entry: bytes) -> int | None:
        """Append an entry if nothing was appended since a revision.

        A lost connection leaves no doubt: the server tells afterwards whether it has the entry.

        Args:
            revision: where the entry is to begin.
            entry: at most 8 MiB.

        Returns:
            The revision behind the entry, or None when another entry is there: then nothing was appended.

        Raises:
            EventEncodeError: the entry is too long.
            SegmentSealedError: the stream is sealed.
            SegmentStoreUnavailableError: the segment store couldn't be reached; where it may have the entry, the
                message says so.
        """
        return HEADER.size + len(entry) + revision if self._appender.append(entry, revision) else None

    def append(self, entry: bytes) -> None:
        """Append an entry behind whatever is there, once, also over lost connections.

        Args:
            entry: at most 8 MiB.

        Raises:
            PravegaError: as `append_conditionally`.
        """
        self._appender.append(entry, None)

    def truncate_to(self, revision: int) -> None:
        """Drop the entries before a revision; nothing happens when they are gone.

        Args:
            revision: where the first entry begins that is kept.
        """

        def ask(connection: Connection) -> None:
            request = wire.TruncateSegment(
                request_id=connection.next_id(), segment=self._segment, offset=revision, token=self._token()
            )
            connection.send(request)
            reply = connection.receive()
            if not isinstance(reply, wire.SegmentIsTruncated):
                connection.expect(reply, wire.SegmentTruncated)

        self._pool.call(self.stream, self._segment_id, ask)

    def mark(self) -> int | None:
        """The revision that was noted last with the stream, if any."""

        def ask(connection: Connection) -> wire.SegmentAttribute:
            request = wire.GetSegmentAttribute(
                request_id=connection.next_id(), segment=self._segment, attribute=MARK, token=self._token()
            )
            return connection.call(request, wire.SegmentAttribute)

        value = self._pool.call(self.stream, self._segment_id, ask).value
        return None if value == wire.NO_ATTRIBUTE else value

    def compare_and_set_mark(self, expected: int | None, revision: int | None) -> bool:
        """Note a revision with the stream if another one, or none, is noted.

        Args:
            expected: what must be noted now.
            revision: what is to be noted.

        Returns:
            Whether it was.

        Raises:
            SegmentStoreUnavailableError: the connection was lost; the mark may or may not have been changed.
        """
        reply = call_once(
            self._pool,
            self.stream,
            self._segment_id,
            lambda connection: self._mark_change(expected, revision, connection),
            wire.SegmentAttributeUpdated,
            what=f'a change of the mark of stream "{self.stream}"',
        )
        return isinstance(reply, wire.SegmentAttributeUpdated) and reply.success

    def advance_mark(self, revision: int) -> int | None:
        """Note a revision with the stream unless it, or a later one, is noted.

        Args:
            revision: what is to be noted at least.

        Returns:
            What was noted before.
        """
        while (mark := self.mark()) is None or mark < revision:
            # Doing it twice is harmless, as a mark only goes forward.
            if self._pool.call(self.stream, self._segment_id, partial(self._change_mark, mark, revision)):
                break
        return mark

    def _change_mark(self, expected: int | None, revision: int | None, connection: Connection) -> bool:
        change = self._mark_change(expected, revision, connection)
        return connection.call(change, wire.SegmentAttributeUpdated).success

    def _mark_change(
        self, expected: int | None, revision: int | None, connection: Connection
    ) -> wire.UpdateSegmentAttribute:
        return wire.UpdateSegmentAttribute(
            request_id=connection.next_id(),
            segment=self._segment,
            attribute=MARK,
            new_value=wire.NO_ATTRIBUTE if revision is None else revision,
            expected_value=wire.NO_ATTRIBUTE if expected is None else expected,
            token=self._token(),
        )

    def _entries(self, pieces: Iterable[memoryview], revision: int, end: int) -> Iterator[tuple[int, bytes]]:
        head = bytearray()
        for piece in pieces:
            head += piece
            at = 0
            while len(head) - at >= HEADER.size:
                kind, length = HEADER.unpack_from(head, at)
                if kind != 0 or not 0 <= length <= end - revision - HEADER.size:
                    raise WireError(f'no entry of stream "{self.stream}" begins at revision {revision}')
                behind = at + HEADER.size + length
                if behind > len(head):
                    break
                revision += HEADER.size + length
                yield revision, bytes(memoryview(head)[at + HEADER.size : behind])
                at = behind
            del head[:at]
        if head:
            raise WireError(f'no entry of stream "{self.stream}" begins at revision {revision}')

    def _token(self) -> str:
        return self._pool.tokens.get(self.stream, write=True)
