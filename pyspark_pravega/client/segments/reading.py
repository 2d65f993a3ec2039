"""Reading segments: their state, and ranges of their bytes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass

from pyspark_pravega.client.connections import Connection, ConnectionPool
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.deadlines import Retries
from pyspark_pravega.errors import (
    NoAnswerError,
    SegmentNotFoundError,
    SegmentStoreUnavailableError,
    TokenExpiredError,
    WireError,
)

REQUEST_BYTES = 2 << 20
"""What one request asks for: servers answer with no more."""
REQUESTS_IN_FLIGHT = 3
_ASKED_AT_ONCE = 200
"""Questions that wait for their answers on one connection."""
CREATION_TIME = uuid.UUID(int=1 << 127)
"""The attribute that holds when a segment was made, in ms since 1970 (Attributes.CREATION_TIME)."""
ANSWER_TIMEOUT_S = 120.0
"""A server whose cache is full answers tens of seconds late."""
KEEP_ALIVE_S = 20.0
"""How long a read may wait at the tail before the segment store is asked whether it is still there."""
TAIL_SILENCE_S = 5.0
"""How long nothing may come of a segment store, by any connection, before a read at the tail finds out whether it is
there."""
ASK_AGAIN_S = 2.0
"""How long an answer is waited for before it is asked for again, at first; doubled each time."""


@dataclass(frozen=True, kw_only=True)
class SegmentState:
    """A segment's state at one moment. Offsets are bytes since the segment was made."""

    start_offset: int
    write_offset: int
    sealed: bool
    created_ms: int = 0
    """When it was made, in ms since 1970, where that was asked for; a stream that was made again has other times."""


def segment_state(pool: ConnectionPool, stream: Stream, segment_id: int, *, segment: str | None = None) -> SegmentState:
    """Ask for a segment's state.

    Args:
        pool: connections to the segment stores.
        stream: the segment's stream.
        segment_id: the segment.
        segment: name on the wire where it isn't the segment's own, as of a transaction.

    Raises:
        SegmentNotFoundError: it doesn't exist, or no longer.
    """
    name = segment or stream.segment_name(segment_id)

    def ask(connection: Connection) -> wire.StreamSegmentInfo:
        token = pool.tokens.get(stream)
        request = wire.GetStreamSegmentInfo(request_id=connection.next_id(), segment=name, token=token)
        return connection.call(request, wire.StreamSegmentInfo)

    info = pool.call(stream, segment_id, ask)
    if not info.exists or info.deleted:
        raise SegmentNotFoundError(f'segment "{name}" does not exist')
    return SegmentState(start_offset=info.start_offset, write_offset=info.write_offset, sealed=info.sealed)


def segment_states(
    pool: ConnectionPool,
    stream: Stream,
    segment_ids: Iterable[int],
    *,
    created: bool = False,
    name: Callable[[int], str] | None = None,
    asked: list[Connection] | None = None,
) -> dict[int, SegmentState | None]:
    """Ask for the states of several segments: all questions to one segment store go over one connection, unawaited.

    Args:
        pool: connections to the segment stores.
        stream: the segments' stream.
        segment_ids: the segments.
        created: whether to ask when the segments were made, too.
        name: gives a segment's name on the wire where it isn't the segment's own, as of a transaction.
        asked: gets the connections over which the answers came.

    Returns:
        Segment id to state; None for a segment that doesn't exist, or no longer.

    Raises:
        SegmentStoreUnavailableError: a segment store can't be reached.
    """
    ids, name = list(dict.fromkeys(segment_ids)), name or stream.segment_name
    states: dict[int, SegmentState | None] = {}
    retries = Retries(pool.timeout)
    while waiting := [segment_id for segment_id in ids if segment_id not in states]:
        try:
            for some in pool.by_segment_store(stream, waiting):
                with pool.connection(stream, some[0], fresh=retries.failures > 0) as connection:
                    answers = _ask_states(connection, pool.tokens.get(stream), name, some, created)
                pool.confirm(stream, answers, connection.endpoint)
                states |= answers
                if asked is not None:
                    asked.append(connection)
            elsewhere = [segment_id for segment_id in waiting if segment_id not in states]
            pool.forget_endpoints(stream, elsewhere)
            # The controller has told the endpoint of one at least, so each round finds some.
            if elsewhere == waiting and not retries.again():
                raise SegmentStoreUnavailableError(
                    f'no segment store owns segment "{stream.segment_name(waiting[0])}" just now: try again'
                )
        except (SegmentStoreUnavailableError, TokenExpiredError):
            if not retries.again():
                raise
    return {segment_id: states[segment_id] for segment_id in ids}


def _ask_states(
    connection: Connection, token: str, name: Callable[[int], str], segment_ids: list[int], created: bool
) -> dict[int, SegmentState | None]:
    """The states of those of the segments that are served here."""
    infos: dict[int, wire.StreamSegmentInfo | None] = {}
    creation_times: dict[int, int] = {}
    for start in range(0, len(segment_ids), _ASKED_AT_ONCE):
        segments_by_request = {}
        questions: list[wire.Command] = []
        for segment_id in segment_ids[start : start + _ASKED_AT_ONCE]:
            segment = name(segment_id)
            request_id = connection.next_id()
            segments_by_request[request_id] = segment_id
            questions.append(wire.GetStreamSegmentInfo(request_id=request_id, segment=segment, token=token))
            if created:
                request_id = connection.next_id()
                segments_by_request[request_id] = segment_id
                attribute = CREATION_TIME
                questions.append(
                    wire.GetSegmentAttribute(request_id=request_id, segment=segment, attribute=attribute, token=token)
                )
        connection.send(*questions)
        for reply in connection.replies(len(segments_by_request)):
            segment_id = segments_by_request.pop(getattr(reply, "request_id", -1), -1)
            if isinstance(reply, wire.StreamSegmentInfo):
                infos[segment_id] = reply if reply.exists and not reply.deleted else None
            elif isinstance(reply, wire.SegmentAttribute):
                creation_times[segment_id] = reply.value
            elif isinstance(reply, wire.NoSuchSegment):
                infos[segment_id] = None
            elif not isinstance(reply, wire.WrongHost):
                connection.expect(reply, wire.StreamSegmentInfo)
    return {
        segment_id: None
        if info is None
        else SegmentState(
            start_offset=info.start_offset,
            write_offset=info.write_offset,
            sealed=info.sealed,
            created_ms=creation_times.get(segment_id, 0),
        )
        for segment_id, info in infos.items()
        if not created or info is None or segment_id in creation_times
    }


def read_range(
    pool: ConnectionPool,
    stream: Stream,
    segment_id: int,
    start: int,
    end: int,
    *,
    segment: str | None = None,
) -> Generator[memoryview, None, None]:
    """The bytes of a segment between two offsets.

    Several requests are under way at a time. A lost connection is replaced without losing or repeating a byte, and
    what isn't answered is asked for again on another one: right after a commit a server may leave a request
    unanswered that it answers a little later.

    Args:
        pool: connections to the segment stores.
        stream: the segment's stream.
        segment_id: the segment.
        start: first byte.
        end: the byte after the last; not beyond the segment's length.
        segment: name on the wire where it isn't the segment's own, as of a transaction.

    Yields:
        Buffers of up to 2 MiB, in order, each in memory of its own.

    Raises:
        SegmentTruncatedError: `start` lies before the segment's start.
        SegmentNotFoundError: it doesn't exist, or no longer.
        SegmentStoreUnavailableError: the segment store can't be reached.
    """
    name = segment or stream.segment_name(segment_id)
    position, waited, patience = start, 0.0, ASK_AGAIN_S
    retries = Retries(pool.timeout)
    while position < end:
        try:
            with pool.connection(stream, segment_id, fresh=retries.failures > 0 or waited > 0) as connection:
                token = pool.tokens.get(stream)
                for data in _requests(connection, name, position, end, token, patience):
                    retries.succeeded()
                    waited, patience = 0.0, ASK_AGAIN_S
                    position += len(data)
                    yield data
        except NoAnswerError:
            waited += patience
            if waited >= ANSWER_TIMEOUT_S:
                raise
            patience = min(2 * patience, ANSWER_TIMEOUT_S - waited)
        except (SegmentStoreUnavailableError, TokenExpiredError):
            if not retries.again():
                raise


def _requests(
    connection: Connection, segment: str, start: int, end: int, token: str, patience: float
) -> Iterator[memoryview]:
    """Keeps requests under way, and hands their answers on in the order of the bytes.

    Answers may come in any order (what is cached comes before what isn't), and may be shorter than asked for: the rest
    is then asked for before anything else.
    """
    next_offset, position = start, start
    under_way: dict[int, tuple[int, int]] = {}
    arrived: dict[int, memoryview] = {}
    while position < end:
        while next_offset < end and len(under_way) + len(arrived) < REQUESTS_IN_FLIGHT:
            size = min(REQUEST_BYTES, end - next_offset)
            under_way[_ask(connection, segment, next_offset, size, token)] = (next_offset, size)
            next_offset += size
        while position not in arrived:
            reply = connection.expect(connection.receive(timeout=patience), wire.SegmentRead)
            offset, size = under_way.pop(reply.request_id, (-1, -1))
            if reply.offset != offset:
                connection.healthy = False
                raise WireError(f'segment "{segment}": {len(reply.data)} bytes at {reply.offset} were not asked for')
            if not reply.data and reply.end_of_segment:
                raise WireError(f'segment "{segment}" ends at {offset}, before the end of the range, {end}')
            # The length in a request is a suggestion: an answer may be longer, too.
            data = reply.data[:size]
            if data:
                arrived[offset] = data
            if len(data) < size:
                rest = (offset + len(data), size - len(data))
                under_way[_ask(connection, segment, *rest, token)] = rest
        data = arrived.pop(position)
        position += len(data)
        yield data


def _ask(connection: Connection, segment: str, offset: int, size: int, token: str) -> int:
    request_id = connection.next_id()
    connection.send(
        wire.ReadSegment(segment=segment, offset=offset, suggested_length=size, token=token, request_id=request_id)
    )
    return request_id


def follow_segment(
    pool: ConnectionPool, stream: Stream, segment_id: int, start: int, *, pause: float
) -> Generator[memoryview | None, None, None]:
    """The bytes of a segment from an offset on, and then those that are appended, as soon as they are.

    Args:
        pool: connections to the segment stores.
        stream: the segment's stream.
        segment_id: the segment.
        start: first byte.
        pause: how long nothing may come before the caller is told, in seconds.

    Yields:
        Buffers of up to 2 MiB, in order; None whenever nothing has come for `pause` seconds. It ends with a sealed
        segment's end.

    Raises:
        SegmentTruncatedError: `start` lies before the segment's start.
        SegmentNotFoundError: it doesn't exist, or no longer.
        SegmentStoreUnavailableError: the segment store can't be reached.
    """
    position, retries = start, Retries(pool.timeout)
    while True:
        # What is there already comes faster with several requests under way.
        state = segment_state(pool, stream, segment_id)
        for data in read_range(pool, stream, segment_id, position, state.write_offset):
            position += len(data)
            retries.succeeded()
            yield data
        if state.sealed:
            return
        try:
            with pool.open(stream, segment_id, fresh=retries.failures > 0) as connection:
                token = pool.tokens.get(stream)
                for buffer in _appended(connection, stream.segment_name(segment_id), position, token, pause):
                    if buffer is not None:
                        position += len(buffer)
                    retries.succeeded()
                    yield buffer
        except (SegmentStoreUnavailableError, TokenExpiredError) as error:
            pool.learn(stream, segment_id, error)
            if not retries.again():
                raise


def _appended(
    connection: Connection, segment: str, position: int, token: str, pause: float
) -> Iterator[memoryview | None]:
    """What a segment's tail answers, until the segment is sealed; None for each silent `pause`."""
    while True:
        _ask(connection, segment, position, REQUEST_BYTES, token)
        heard_at = sent_at = time.monotonic()
        while (reply := connection.poll(pause)) is None or isinstance(reply, wire.KeepAlive):
            now = time.monotonic()
            if reply is not None:
                heard_at = now
                continue
            if now - heard_at > KEEP_ALIVE_S + connection.timeout:
                raise NoAnswerError(f'the segment store has fallen silent about segment "{segment}"')
            if now - max(heard_at, sent_at) > KEEP_ALIVE_S:
                connection.send(wire.KeepAlive())
                sent_at = now
            if now - heard_at > TAIL_SILENCE_S:
                connection.check_presence(TAIL_SILENCE_S)
            yield None
        if isinstance(reply, wire.SegmentIsSealed):
            # So a read that waits at the tail is answered when the segment is sealed.
            return
        answer = connection.expect(reply, wire.SegmentRead)
        if answer.data:
            position += len(answer.data)
            yield answer.data
        if answer.end_of_segment:
            return
