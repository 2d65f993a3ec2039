"""Appending to segments: blocks with a bounded window, stored once whatever happens to the connection."""

from __future__ import annotations

import uuid
from collections import deque
from dataclasses import dataclass
from typing import Protocol, Self

from pyspark_pravega.client.connections import Connection, ConnectionPool
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.segments.held import HeldConnections
from pyspark_pravega.client.segments.reading import ANSWER_TIMEOUT_S
from pyspark_pravega.client.wire import Buffer
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.deadlines import Retries
from pyspark_pravega.errors import (
    PravegaError,
    SegmentStoreUnavailableError,
    TokenExpiredError,
    TransactionError,
    WireError,
)

BLOCK_BYTES = 1 << 20
"""A good size for a block; one command takes at most 15.9 MiB."""
MAX_BLOCK_BYTES = 15 << 20
MAX_EVENT_BYTES = 8 << 20
"""The largest event that Pravega's Java client reads and writes."""
WINDOW_BLOCKS = 3


class Numbered(Protocol):
    """Events with numbers of their own, which ascend."""

    @property
    def view(self) -> Buffer:
        """Their frames."""
        ...

    @property
    def first(self) -> int:
        """The first one's number."""
        ...

    @property
    def last(self) -> int:
        """The last one's number."""
        ...

    def __len__(self) -> int: ...

    def behind(self, number: int) -> Self:
        """Those with higher numbers."""
        ...


@dataclass(frozen=True, kw_only=True)
class _Block:
    data: Buffer
    events: int
    last_event_number: int
    origin: object
    numbered: Numbered | None = None

    @classmethod
    def of(cls, numbered: Numbered) -> _Block:
        return cls(
            data=numbered.view,
            events=len(numbered),
            last_event_number=numbered.last,
            origin=numbered,
            numbered=numbered,
        )

    @property
    def first_event_number(self) -> int:
        return self.last_event_number - self.events + 1 if self.numbered is None else self.numbered.first


class SegmentWriter:
    """Appends whole events to one segment, or to a transaction's shadow of it. Used by one thread.

    Blocks are numbered: after a lost connection the server tells which it has, and only the others are sent again.
    Events may have numbers of their own. Then others may append some of the same events under the same writer id at the
    same time: each is stored once.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        stream: Stream,
        segment_id: int,
        *,
        segment: str | None = None,
        writer_id: uuid.UUID | None = None,
        tracked: bool = False,
        held: HeldConnections | None = None,
    ) -> None:
        """Make a writer; it connects with its first block.

        Args:
            pool: connections to the segment stores.
            stream: the segment's stream.
            segment_id: the segment.
            segment: name on the wire where it isn't the segment's own, as of a transaction.
            writer_id: lets a later writer of the same id go on where this one ended: of the same blocks, appended
                again, those are passed over that are stored. A new one when None.
            tracked: whether to note where in the segment its blocks lie. It then sends a block when the one before is
                stored: acknowledgements of several blocks at once wouldn't tell, where others write, too.
            held: the connections that it holds together with writers of other segments.
        """
        self.bytes_written = 0
        self.events_written = 0
        self.ranges: list[tuple[int, int]] = []
        """If tracked: where what was written lies in the segment, bytes from and to, in order. What was stored without
        an answer, because a connection was lost, is missing."""
        self._tracked = tracked
        self._pool, self._stream = pool, stream
        self.segment_id, self._segment = segment_id, segment or stream.segment_name(segment_id)
        self.writer_id = writer_id or uuid.uuid4()
        self._held = held or HeldConnections()
        self._stored = wire.NO_EVENT
        self._connection: Connection | None = None
        self._setup_id = 0
        self._unacknowledged: deque[_Block] = deque()

    def append(self, data: Buffer, events: int, *, origin: object = None) -> None:
        """Append a block; waits while too many are under way.

        Args:
            data: whole events with their frames, at most 15 MiB. Must not change before `flush`.
            events: how many they are, at least 1.
            origin: what the block was made of, for `unstored`.

        Raises:
            SegmentSealedError: the segment is sealed.
            SegmentNotFoundError: it, or the transaction, is gone.
            SegmentStoreUnavailableError: the segment store can't be reached.
            TransactionError: another writer appends other blocks under the same id.
        """
        if not 0 < len(data) <= MAX_BLOCK_BYTES or events < 1:
            raise WireError(f"a block of {len(data)} bytes and {events} events can't be appended")
        if self._tracked:
            self.flush()
        self._append(self._counted(data, events, origin))

    def hold_back(self, data: Buffer, events: int, *, origin: object = None) -> bool:
        """Take a block as `append` does, and send it with the next one, or by `flush`: see `spread`.

        Args:
            data: as of `append`.
            events: likewise.
            origin: likewise.

        Returns:
            False where it isn't taken: the writer has a connection, or something under way.
        """
        if self._connection is not None or self._unacknowledged:
            return False
        self._unacknowledged.append(self._counted(data, events, origin))
        return True

    def _counted(self, data: Buffer, events: int, origin: object = None) -> _Block:
        self.bytes_written += len(data)
        self.events_written += events
        return _Block(data=data, events=events, last_event_number=self.events_written, origin=origin)

    @property
    def holds_back(self) -> bool:
        """Whether it has something to send, and no connection for it."""
        return self._connection is None and bool(self._unacknowledged)

    def append_numbered(self, events: Numbered) -> None:
        """Append events with numbers, but for those whose numbers the segment has stored for the writer id.

        Args:
            events: at least one, at most 15 MiB, with higher numbers than what was appended before. They are their own
                origin for `unstored`.

        Raises:
            PravegaError: as `append`.
        """
        block = _Block.of(events)
        if not 0 < len(block.data) <= MAX_BLOCK_BYTES:
            raise WireError(f"a block of {len(block.data)} bytes can't be appended")
        self._append(block)

    def _append(self, block: _Block) -> None:
        self._unacknowledged.append(block)
        self._persist(block, down_to=WINDOW_BLOCKS)

    @property
    def under_way(self) -> bool:
        """Whether something was sent whose acknowledgement wasn't read."""
        return bool(self._unacknowledged)

    @property
    def unacknowledged(self) -> tuple[int, int]:
        """How many events and bytes aren't known to be stored."""
        return sum(block.events for block in self._unacknowledged), sum(
            len(block.data) for block in self._unacknowledged
        )

    def flush(self) -> None:
        """Wait until everything is stored.

        Raises:
            PravegaError: as `append`.
        """
        self._persist(None, down_to=0)

    def rest(self) -> None:
        """Wait until everything is stored, and let others use the connection; the next block gets another one.

        Raises:
            PravegaError: as `append`.
        """
        self.flush()
        self.close()

    def unstored(self) -> list[object]:
        """What a sealed segment didn't take.

        The segment store is asked what it has: it keeps the writer's last number, also when it seals the segment.

        Returns:
            The origins of the blocks that aren't stored, in their order.

        Raises:
            SegmentNotFoundError: the segment has been deleted meanwhile.
            SegmentStoreUnavailableError: the segment store can't be reached.
        """
        self._drop()
        self._stored_up_to()
        return [block.origin for block in self._unacknowledged]

    def last_number(self) -> int | None:
        """The number of the writer's last event that the segment has stored, also of a sealed segment.

        Returns:
            None where it has stored none.

        Raises:
            SegmentNotFoundError: the segment has been deleted.
            SegmentStoreUnavailableError: the segment store can't be reached.
        """
        self._stored_up_to()
        return None if self._stored == wire.NO_EVENT else self._stored

    def _stored_up_to(self) -> None:
        """Ask what is stored, on a connection of another one's."""
        retries = Retries(self._pool.timeout)
        while True:
            try:
                with self._pool.open(self._stream, self.segment_id, fresh=retries.failures > 0) as connection:
                    self._set_up(connection)
                return
            except (SegmentStoreUnavailableError, TokenExpiredError) as error:
                self._pool.learn(self._stream, self.segment_id, error)
                if not retries.again():
                    raise

    def close(self) -> None:
        """Let go of the connection, to others if all is stored; what isn't flushed may or may not be stored."""
        if self._connection is not None and not self._unacknowledged:
            self._pool.give_back(self._connection)
            self._connection = None
        self._drop()

    def _drop(self) -> None:
        """Let go of the connection, on which nobody knows what is under way."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._held.leave(self)

    def _persist(self, block: _Block | None, *, down_to: int) -> None:
        """Send and wait for acknowledgements, on a new connection when the old one is lost."""
        if not self._unacknowledged:
            return
        if self._connection is None:
            self._held.make_room()
        retries, count = Retries(self._pool.timeout), len(self._unacknowledged)
        while True:
            try:
                if self._connection is None:
                    connection = self._resume(fresh=retries.failures > 0)
                else:
                    connection = self._connection
                    self._held.use(self)
                    if block is not None:
                        self._send(connection, block)
                while len(self._unacknowledged) > down_to:
                    self._acknowledge(connection)
                return
            except (SegmentStoreUnavailableError, TokenExpiredError) as error:
                self._drop()
                self._pool.learn(self._stream, self.segment_id, error)
                if len(self._unacknowledged) < count:
                    # It goes on, if with trouble: the time to give up begins anew.
                    retries.succeeded()
                    count = len(self._unacknowledged)
                if not retries.again():
                    raise
            except PravegaError:
                self._drop()
                raise

    def _resume(self, *, fresh: bool) -> Connection:
        """Connect, and send what the server doesn't have, with the same borders between blocks."""
        connection = self._connection = self._pool.take(self._stream, self.segment_id, fresh=fresh)
        self._held.use(self)
        self._set_up(connection)
        for block in self._unacknowledged:
            self._send(connection, block)
        return connection

    def _set_up(self, connection: Connection) -> None:
        """Announce the writer, and learn which of its blocks are stored."""
        connection.send(self.announce(connection))
        reply = connection.receive()
        if isinstance(reply, wire.InvalidEventNumber):
            # Another one stored something under the id while the server looked.
            connection.healthy = False
            raise SegmentStoreUnavailableError(f'segment "{self._segment}" was storing blocks of its id from elsewhere')
        self.announced(connection.expect(reply, wire.AppendSetup))

    def announce(self, connection: Connection) -> wire.SetupAppend:
        """The question with which it begins on a connection.

        Args:
            connection: that one.
        """
        self._setup_id = connection.next_id()
        return wire.SetupAppend(
            request_id=self._setup_id,
            writer_id=self.writer_id,
            segment=self._segment,
            token=self._pool.tokens.get(self._stream, write=True),
        )

    def announced(self, reply: wire.AppendSetup) -> None:
        """Learn from the answer which blocks are stored.

        Args:
            reply: the answer.

        Raises:
            TransactionError: another writer appends other blocks under the same id.
        """
        stored = reply.last_event_number
        self._forget(stored)
        if self._unacknowledged:
            first = self._unacknowledged[0]
            if first.numbered is not None:
                self._unacknowledged[0] = self._rest(first)
            elif first.first_event_number <= stored:
                raise TransactionError(
                    f'segment "{self._segment}" has events of writer {self.writer_id} up to number {stored}, which is '
                    "within a block of this one: another writer has taken its id, so nothing more was sent"
                )

    def _send(self, connection: Connection, block: _Block) -> None:
        if block.last_event_number <= self._stored:
            self._forget(self._stored)
            return
        if block.numbered is not None and block.first_event_number <= self._stored:
            # The last one: of those before it at least one event isn't stored.
            block = self._unacknowledged[-1] = self._rest(block)
        connection.send(self._command(block))

    def next_block(self) -> list[wire.AppendBlockEnd]:
        """What it appends first on the connection on which it is announced; nothing where nothing is left."""
        return [self._command(self._unacknowledged[0])] if self._unacknowledged else []

    def _command(self, block: _Block) -> wire.AppendBlockEnd:
        return wire.AppendBlockEnd(
            writer_id=self.writer_id,
            data=block.data,
            event_count=block.events,
            last_event_number=block.last_event_number,
            request_id=self._setup_id,
        )

    def _rest(self, block: _Block) -> _Block:
        """What of a numbered block isn't stored."""
        if block.numbered is None or block.first_event_number > self._stored:
            return block
        return _Block.of(block.numbered.behind(self._stored))

    def _acknowledge(self, connection: Connection) -> None:
        reply = connection.receive(timeout=ANSWER_TIMEOUT_S)
        if isinstance(reply, wire.InvalidEventNumber):
            # Blocks of a connection that was lost come through after all: they weren't stored yet, and so weren't told,
            # when this one was set up. On the next connection it can be seen what is there.
            raise SegmentStoreUnavailableError(f'segment "{self._segment}" was still storing blocks sent earlier')
        self.acknowledged(connection.expect(reply, wire.DataAppended))

    def acknowledged(self, stored: wire.DataAppended) -> None:
        """Note what is stored.

        Args:
            stored: what the segment store has answered.
        """
        if self._tracked:
            self._note(stored)
        self._forget(stored.event_number)

    def _note(self, stored: wire.DataAppended) -> None:
        if len(self._unacknowledged) != 1 or self._unacknowledged[0].last_event_number != stored.event_number:
            return
        end = stored.segment_length
        start = end - len(self._unacknowledged[0].data)
        if self.ranges and self.ranges[-1][1] == start:
            start = self.ranges.pop()[0]
        self.ranges.append((start, end))

    def _forget(self, event_number: int) -> None:
        self._stored = max(self._stored, event_number)
        while self._unacknowledged and self._unacknowledged[0].last_event_number <= event_number:
            self._unacknowledged.popleft()
