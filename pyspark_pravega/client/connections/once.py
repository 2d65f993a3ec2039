"""Commands that mustn't be carried out twice."""

from __future__ import annotations

from collections.abc import Callable

from pyspark_pravega.client.connections.connection import Connection
from pyspark_pravega.client.connections.pool import ConnectionPool
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.deadlines import Retries
from pyspark_pravega.errors import (
    DeadlineExceededError,
    SegmentStoreUnavailableError,
    TokenExpiredError,
    UnavailableError,
    WrongHostError,
)


def call_once(
    pool: ConnectionPool,
    stream: Stream,
    segment_id: int,
    request: Callable[[Connection], wire.Command],
    *expected: type[wire.Command],
    what: str,
    conflicts: tuple[type[wire.Command], ...] = (),
) -> wire.Command:
    """Send a command, again only while it is certain that no server has carried it out.

    One that its own effect would make fail, such as a change of a version, is sent again also when its answer was lost:
    where it is carried out then, it wasn't before.

    Args:
        pool: connections to the segment stores.
        stream: the segment's stream.
        segment_id: the segment.
        request: makes the command; it asks for tokens anew each time.
        expected: the replies that are returned.
        what: what it does, as the subject of a sentence.
        conflicts: the replies, of those expected, with which a server would refuse it after its own effect; none for a
            command that may have an effect twice.

    Returns:
        The reply.

    Raises:
        PravegaError: what another reply stands for.
        SegmentStoreUnavailableError: the segment store can't be reached; if the connection was lost on the way, the
            message says that it may have been done.
        DeadlineExceededError: the same, because of the caller's deadline.
    """
    retries = Retries(pool.timeout)
    lost: Exception | None = None
    while True:
        is_sent = False
        try:
            # An idle connection may have been closed long ago, which says nothing about this command: take a sound one.
            fresh = retries.failures > 0
            with pool.connection(stream, segment_id, fresh=fresh, check=True) as connection:
                command = request(connection)
                is_sent = True
                connection.send(command)
                reply = connection.receive()
                if not isinstance(reply, expected):
                    connection.expect(reply, expected[0])
        except (UnavailableError, TokenExpiredError) as error:
            if isinstance(error, (WrongHostError, TokenExpiredError)):
                # The server has said no: nothing was done.
                may = True
            elif isinstance(error, (SegmentStoreUnavailableError, DeadlineExceededError)):
                lost = error if is_sent else lost
                may = not isinstance(error, DeadlineExceededError) and (not is_sent or bool(conflicts))
            else:
                # The controller doesn't say where the segment is now.
                may = False
            if not may or not retries.again():
                if lost is not None:
                    raise uncertain(what, lost) from error
                raise
        else:
            if lost is not None and isinstance(reply, conflicts):
                raise uncertain(what, lost)
            return reply


def uncertain(what: str, error: Exception) -> UnavailableError:
    """The error of a command that may have been carried out.

    Args:
        what: the subject of a sentence.
        error: why nobody knows.
    """
    kind = DeadlineExceededError if isinstance(error, DeadlineExceededError) else SegmentStoreUnavailableError
    return kind(f"{what} may or may not have been made: look before it is tried again ({error})")
