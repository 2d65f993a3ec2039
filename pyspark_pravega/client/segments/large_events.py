"""Events of more than 8 MiB: written beside the segment, and made part of it as a whole.

As LargeEventWriter of Pravega's Java client does it: the bytes go in blocks to a transient segment, which is then
merged into the segment. What a reader finds there is an event like any other. Unlike Java's, a merge whose answer was
lost isn't made twice: it sets an attribute of the segment that can be set only once.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Sequence

from pyspark_pravega.client.connections import Connection, ConnectionPool, uncertain
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.segments.reading import ANSWER_TIMEOUT_S, segment_state
from pyspark_pravega.client.segments.writing import BLOCK_BYTES
from pyspark_pravega.client.wire import Buffer
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.deadlines import Retries
from pyspark_pravega.errors import (
    DeadlineExceededError,
    EventEncodeError,
    OperationFailedError,
    SegmentSealedError,
    SegmentStoreUnavailableError,
    TokenExpiredError,
    WrongHostError,
)

MAX_LARGE_EVENT_BYTES = 2**31 - 1
"""What a frame's length can say."""
WINDOW_BLOCKS = 4
_HEADER = struct.Struct(">ii")
_REPLACE_IF_EQUALS = 4
_MERGED = 1


def append_large(pool: ConnectionPool, stream: Stream, segment_id: int, events: Sequence[Buffer]) -> None:
    """Append events of any size to a segment: all of them, one after another, or none.

    Until they are stored, they are invisible. Nothing else of this process's is awaited: what was appended before by
    other means must have been flushed, if the order matters.

    Args:
        pool: connections to the segment stores.
        stream: the segment's stream.
        segment_id: the segment.
        events: the events without their frames, each of less than 2 GiB.

    Raises:
        EventEncodeError: an event is too long.
        SegmentSealedError: the segment is sealed. Nothing was appended.
        SegmentNotFoundError: it doesn't exist, or no longer.
        SegmentStoreUnavailableError: the segment store couldn't be reached; where the events may have been appended,
            the message says so.
    """
    for event in events:
        if len(event) > MAX_LARGE_EVENT_BYTES:
            raise EventEncodeError(
                f'an event of {len(event)} bytes is too long for stream "{stream}": {MAX_LARGE_EVENT_BYTES} is the most'
            )
    if events:
        _Append(pool, stream, segment_id, events).run()


class _Append:
    def __init__(self, pool: ConnectionPool, stream: Stream, segment_id: int, events: Sequence[Buffer]) -> None:
        self._pool, self._stream, self._segment_id, self._events = pool, stream, segment_id, events
        self._segment = stream.segment_name(segment_id)
        self._id = uuid.uuid4()
        """Writer of the transient segment, and the attribute that tells that it was merged."""
        self._merging = False

    def run(self) -> None:
        retries = Retries(self._pool.timeout)
        in_doubt = False
        self._check_open()
        while True:
            self._merging = False
            try:
                with self._pool.open(self._stream, self._segment_id, fresh=retries.failures > 0) as connection:
                    if in_doubt and self._is_merged(connection):
                        return
                    self._try(connection, in_doubt)
                    return
            except (SegmentStoreUnavailableError, DeadlineExceededError, TokenExpiredError) as error:
                self._pool.learn(self._stream, self._segment_id, error)
                refused = isinstance(error, (WrongHostError, TokenExpiredError))
                in_doubt = in_doubt or (self._merging and not refused)
                if isinstance(error, DeadlineExceededError) or not retries.again():
                    what = f'an append of large events to stream "{self._stream}"'
                    raise uncertain(what, error) if in_doubt else error from None

    def _check_open(self) -> None:
        """A sealed segment would be noticed only after all bytes were sent."""
        if segment_state(self._pool, self._stream, self._segment_id).sealed:
            raise SegmentSealedError(f'segment "{self._segment}" is sealed')

    def _try(self, connection: Connection, in_doubt: bool) -> None:
        transient = self._upload(connection)
        self._merging = True
        connection.send(
            wire.MergeSegments(
                request_id=connection.next_id(),
                target=self._segment,
                source=transient,
                token=self._token(),
                updates=(wire.AttributeUpdate(self._id, _REPLACE_IF_EQUALS, _MERGED, wire.NO_ATTRIBUTE),),
            )
        )
        reply = connection.receive(timeout=ANSWER_TIMEOUT_S)
        if isinstance(reply, wire.SegmentAttributeUpdated):
            # An earlier try is coming through after all: on the next connection it can be seen.
            raise SegmentStoreUnavailableError(f'segment "{self._segment}" is still storing an earlier append')
        if isinstance(reply, wire.SegmentIsSealed):
            if in_doubt and not self._is_sealed(connection):
                # Only when the seal is there for good, it is known what came before.
                raise SegmentStoreUnavailableError(f'segment "{self._segment}" is still being sealed')
            if in_doubt and self._is_merged(connection):
                return
            raise SegmentSealedError(f'segment "{self._segment}" is sealed')
        connection.expect(reply, wire.SegmentsMerged)

    def _upload(self, connection: Connection) -> str:
        """Put the bytes into a new transient segment, which the server deletes when the connection ends.

        Returns:
            Its name.
        """
        if connection.greeting.high_version < wire.TRANSIENT_SEGMENTS:
            raise OperationFailedError(
                "events of more than 8 MiB need Pravega 0.11 or newer: segment store "
                f"{connection.endpoint[0]}:{connection.endpoint[1]} is {connection.greeting.release}"
            )
        create = wire.CreateTransientSegment(
            request_id=connection.next_id(), writer_id=self._id, parent=self._segment, token=self._token()
        )
        transient = connection.call(create, wire.SegmentCreated).segment
        setup = wire.SetupAppend(
            request_id=connection.next_id(), writer_id=self._id, segment=transient, token=self._token()
        )
        connection.call(setup, wire.AppendSetup)
        offset = acknowledged = 0
        for number, block in enumerate(_blocks(self._events), 1):
            connection.send(
                wire.ConditionalBlockEnd(
                    writer_id=self._id,
                    event_number=number,
                    expected_offset=offset,
                    data=block,
                    request_id=connection.next_id(),
                )
            )
            offset += len(block)
            while number - acknowledged >= WINDOW_BLOCKS:
                acknowledged = self._acknowledge(connection)
        while acknowledged < number:
            acknowledged = self._acknowledge(connection)
        return transient

    def _acknowledge(self, connection: Connection) -> int:
        reply = connection.receive(timeout=ANSWER_TIMEOUT_S)
        return connection.expect(reply, wire.DataAppended).event_number

    def _is_merged(self, connection: Connection) -> bool:
        request = wire.GetSegmentAttribute(
            request_id=connection.next_id(), segment=self._segment, attribute=self._id, token=self._token()
        )
        return connection.call(request, wire.SegmentAttribute).value == _MERGED

    def _is_sealed(self, connection: Connection) -> bool:
        request = wire.GetStreamSegmentInfo(request_id=connection.next_id(), segment=self._segment, token=self._token())
        return connection.call(request, wire.StreamSegmentInfo).sealed

    def _token(self) -> str:
        return self._pool.tokens.get(self._stream, write=True)


def _blocks(events: Sequence[Buffer]) -> Iterator[Buffer]:
    """The events with their frames, in blocks of at most `BLOCK_BYTES`."""
    for event in events:
        view = memoryview(event).cast("B")
        head = _HEADER.pack(0, len(view))
        first = BLOCK_BYTES - len(head)
        yield head + bytes(view[:first])
        for at in range(first, len(view), BLOCK_BYTES):
            yield view[at : at + BLOCK_BYTES]
