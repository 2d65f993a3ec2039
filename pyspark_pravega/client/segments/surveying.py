"""The states of many streams' segments at once: what watches a thousand streams can't ask for one after another."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from pyspark_pravega.client.connections import ConnectionPool
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.segments.reading import SegmentState
from pyspark_pravega.client.wire import commands as wire

_ASKED_AT_ONCE = 200
EVENT_COUNT = uuid.UUID(int=(1 << 127) + 1)
"""The attribute that holds how many events were appended (Attributes.EVENT_COUNT), without those of transactions."""
SegmentKey = tuple[Stream, int]
Answer = TypeVar("Answer")
Reply = TypeVar("Reply", bound=wire.Command)


def survey(pool: ConnectionPool, segments: Mapping[Stream, Iterable[int]]) -> dict[SegmentKey, SegmentState | None]:
    """The states of segments, two hundred questions in one packet.

    Args:
        pool: connections to the segment stores.
        segments: stream to segment ids, at least one each.

    Returns:
        Stream and segment id to state; None for a segment that doesn't exist, or no longer. What has moved to another
        segment store just now is missing: the next survey finds it.

    Raises:
        AuthenticationError: the user may not read one of the streams.
        SegmentStoreUnavailableError: a segment store can't be reached.
    """

    def question(request_id: int, segment: str, token: str) -> wire.Command:
        return wire.GetStreamSegmentInfo(request_id=request_id, segment=segment, token=token)

    def state(reply: wire.StreamSegmentInfo) -> SegmentState | None:
        if not reply.exists or reply.deleted:
            return None
        return SegmentState(start_offset=reply.start_offset, write_offset=reply.write_offset, sealed=reply.sealed)

    return _ask(pool, segments, question, wire.StreamSegmentInfo, state)


def appended_events(pool: ConnectionPool, segments: Mapping[Stream, Iterable[int]]) -> dict[SegmentKey, int]:
    """How many events were ever appended to segments. Those of transactions aren't counted.

    Args:
        pool: connections to the segment stores.
        segments: stream to segment ids, at least one each.

    Returns:
        Stream and segment id to number; those that don't exist are missing.

    Raises:
        AuthenticationError: the user may not read one of the streams.
        SegmentStoreUnavailableError: a segment store can't be reached.
    """

    def question(request_id: int, segment: str, token: str) -> wire.Command:
        return wire.GetSegmentAttribute(request_id=request_id, segment=segment, attribute=EVENT_COUNT, token=token)

    def count(reply: wire.SegmentAttribute) -> int:
        return 0 if reply.value == wire.NO_ATTRIBUTE else reply.value

    counts = _ask(pool, segments, question, wire.SegmentAttribute, count)
    return {segment: value for segment, value in counts.items() if value is not None}


def _ask(
    pool: ConnectionPool,
    segments: Mapping[Stream, Iterable[int]],
    question: Callable[[int, str, str], wire.Command],
    kind: type[Reply],
    answer: Callable[[Reply], Answer],
) -> dict[SegmentKey, Answer | None]:
    answers: dict[SegmentKey, Answer | None] = {}
    for of_store in pool.by_endpoint(segments).values():
        with pool.connection(*of_store[0]) as connection:
            for begin in range(0, len(of_store), _ASKED_AT_ONCE):
                asked = {connection.next_id(): segment for segment in of_store[begin : begin + _ASKED_AT_ONCE]}
                connection.send(
                    *(
                        question(request_id, stream.segment_name(segment_id), pool.tokens.get(stream))
                        for request_id, (stream, segment_id) in asked.items()
                    )
                )
                while asked:
                    reply = connection.receive()
                    stream, segment_id = segment = asked.pop(getattr(reply, "request_id", -1))
                    if isinstance(reply, kind):
                        answers[segment] = answer(reply)
                    elif isinstance(reply, wire.NoSuchSegment):
                        answers[segment] = None
                    elif isinstance(reply, wire.WrongHost):
                        pool.forget_endpoints(stream, [segment_id])
                    elif isinstance(reply, wire.AuthTokenCheckFailed):
                        pool.tokens.forget(stream)
                    else:
                        connection.expect(reply, kind)
            for stream, segment_id in of_store:
                if (stream, segment_id) in answers:
                    pool.confirm(stream, [segment_id], connection.endpoint)
    return answers
