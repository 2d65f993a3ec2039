"""Appending single entries, each of them once, and where they are expected to go."""

from __future__ import annotations

import struct
import threading
import uuid

from pyspark_pravega.client.connections import Connection, ConnectionPool, uncertain
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.segments import MAX_EVENT_BYTES
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.deadlines import Retries
from pyspark_pravega.errors import (
    DeadlineExceededError,
    EventEncodeError,
    SegmentStoreUnavailableError,
    TokenExpiredError,
    TransactionError,
    WrongHostError,
)

HEADER = struct.Struct(">ii")
"""An entry's frame: type 0 and its length."""


class EntryAppender:
    """Appends entries one at a time, and finds out about each whether it is stored.

    Each entry has a number of its own, of which the server keeps the last one. An entry whose answer was lost is sent
    again under the same number: the server takes one of the two, and refuses the other. Safe for use by several
    threads.
    """

    def __init__(self, pool: ConnectionPool, stream: Stream, segment_id: int) -> None:
        """Make an appender; it connects with its first entry.

        Args:
            pool: connections to the segment stores.
            stream: the segment's stream.
            segment_id: the segment.
        """
        self._pool, self._stream, self._segment_id = pool, stream, segment_id
        self._segment = stream.segment_name(segment_id)
        self._writer_id = uuid.uuid4()
        self._number = 0
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of the connection; the next entry makes a new one."""
        with self._lock:
            self._let_go()

    def append(self, entry: bytes, offset: int | None) -> bool:
        """Append an entry.

        Args:
            entry: the entry without its frame.
            offset: where it must go; anywhere when None.

        Returns:
            Whether it is stored; False when something else is at `offset`.

        Raises:
            EventEncodeError: the entry is too long.
            SegmentSealedError: the segment is sealed.
            SegmentStoreUnavailableError: the segment store couldn't be reached; where it may have the entry, the
                message says so.
        """
        if len(entry) > MAX_EVENT_BYTES:
            raise EventEncodeError(
                f'an entry of {len(entry)} bytes is too long for stream "{self._stream}": {MAX_EVENT_BYTES} is the most'
            )
        with self._lock:
            self._number += 1
            return self._until_known(entry, offset)

    def _until_known(self, entry: bytes, offset: int | None) -> bool:
        retries = Retries(self._pool.timeout)
        in_doubt = False
        while True:
            is_sent = False
            try:
                connection = self._connection
                if connection is None:
                    connection = self._connect(fresh=retries.failures > 0)
                    if self._set_up(connection) >= self._number:
                        return True
                is_sent = True
                connection.send(self._command(connection, entry, offset))
                reply = connection.receive()
                if isinstance(reply, wire.ConditionalCheckFailed):
                    # Servers compare the numbers first (SegmentMetadataUpdateTransaction): were it this very entry that
                    # is in the way, they would have said InvalidEventNumber.
                    return False
                if in_doubt and isinstance(reply, wire.SegmentIsSealed):
                    self._await_seal(connection)
                    if self._set_up(connection) >= self._number:
                        return True
                connection.expect(reply, wire.DataAppended)
                return True
            except (SegmentStoreUnavailableError, DeadlineExceededError, TokenExpiredError, TransactionError) as error:
                self._let_go()
                self._pool.learn(self._stream, self._segment_id, error)
                # These say for certain that the entry wasn't taken.
                refused = isinstance(error, (WrongHostError, TokenExpiredError, TransactionError))
                in_doubt = in_doubt or (is_sent and not refused)
                if isinstance(error, DeadlineExceededError) or not retries.again():
                    what = f'an append to stream "{self._stream}"'
                    raise uncertain(what, error) if in_doubt else error from None
            except BaseException:
                self._let_go()
                raise

    def _connect(self, *, fresh: bool) -> Connection:
        self._connection = self._pool.open(self._stream, self._segment_id, fresh=fresh)
        return self._connection

    def _set_up(self, connection: Connection) -> int:
        """Announce the writer, and learn the number of its last entry."""
        setup = wire.SetupAppend(
            request_id=connection.next_id(),
            writer_id=self._writer_id,
            segment=self._segment,
            token=self._pool.tokens.get(self._stream, write=True),
        )
        return connection.call(setup, wire.AppendSetup).last_event_number

    def _command(self, connection: Connection, entry: bytes, offset: int | None) -> wire.Command:
        if offset is None:
            return wire.AppendBlockEnd(
                writer_id=self._writer_id,
                data=HEADER.pack(0, len(entry)) + entry,
                event_count=1,
                last_event_number=self._number,
                request_id=connection.next_id(),
            )
        return wire.ConditionalAppend(
            writer_id=self._writer_id,
            event_number=self._number,
            expected_offset=offset,
            event=entry,
            request_id=connection.next_id(),
        )

    def _await_seal(self, connection: Connection) -> None:
        """Make sure that a seal is there for good, and so is everything before it, of which the server then tells.

        Raises:
            SegmentStoreUnavailableError: it is still being stored.
        """
        request = wire.GetStreamSegmentInfo(
            request_id=connection.next_id(), segment=self._segment, token=self._pool.tokens.get(self._stream)
        )
        if not connection.call(request, wire.StreamSegmentInfo).sealed:
            raise SegmentStoreUnavailableError(f'segment "{self._segment}" is still being sealed')

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
