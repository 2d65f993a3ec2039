"""The states of many streams' segments at once: what watches a thousand streams can't ask for one after another."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping

from pyspark_pravega.client.connections import ConnectionPool
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.segments.reading import SegmentState
from pyspark_pravega.client.wire import commands as wire

_ASKED_AT_ONCE = 200
EVENT_COUNT = uuid.UUID(int=(1 << 127) + 1)
"""The attribute that holds how many events were appended (Attributes.EVENT_COUNT), without those of transactions."""
SegmentKey = tuple[Stream, int]
_Question = Callable[[int, str, str], wire.Command]
"""Makes a command, of its number, the segment's name and a token."""


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

    answers = _ask(pool, segments, _about_state)
    return {segment: _state(reply) for segment, (reply,) in answers.items()}


def survey_events(
    pool: ConnectionPool, segments: Mapping[Stream, Iterable[int]]
) -> dict[SegmentKey, tuple[SegmentState, int]]:
    """The states of segments, and how many events had ever been appended then. Those of transactions aren't counted.

    Arguments and errors are those of `survey`. Segments that don't exist are missing, too.
    """
    answers = _ask(pool, segments, _about_state, _about_events)
    surveyed = {}
    for segment, (reply, count) in answers.items():
        state = _state(reply)
        if state is not None and isinstance(count, wire.SegmentAttribute):
            surveyed[segment] = state, 0 if count.value == wire.NO_ATTRIBUTE else count.value
    return surveyed


def _about_state(request_id: int, segment: str, token: str) -> wire.Command:
    return wire.GetStreamSegmentInfo(request_id=request_id, segment=segment, token=token)


def _about_events(request_id: int, segment: str, token: str) -> wire.Command:
    return wire.GetSegmentAttribute(request_id=request_id, segment=segment, attribute=EVENT_COUNT, token=token)


def _state(reply: wire.Command | None) -> SegmentState | None:
    if not isinstance(reply, wire.StreamSegmentInfo) or not reply.exists or reply.deleted:
        return None
    return SegmentState(start_offset=reply.start_offset, write_offset=reply.write_offset, sealed=reply.sealed)


def _ask(
    pool: ConnectionPool, segments: Mapping[Stream, Iterable[int]], *questions: _Question
) -> dict[SegmentKey, list[wire.Command | None]]:
    """Ask of each segment all questions, one right behind the other.

    Returns:
        The replies, None where there is no such segment; without segments that have moved.
    """
    answers: dict[SegmentKey, list[wire.Command | None]] = {}
    for of_store in pool.by_endpoint(segments).values():
        with pool.connection(*of_store[0]) as connection:
            for begin in range(0, len(of_store), _ASKED_AT_ONCE):
                asked, commands, moved = dict[int, tuple[SegmentKey, int]](), list[wire.Command](), set[SegmentKey]()
                for segment in of_store[begin : begin + _ASKED_AT_ONCE]:
                    stream, segment_id = segment
                    name, token = stream.segment_name(segment_id), pool.tokens.get(stream)
                    answers[segment] = [None] * len(questions)
                    for number, question in enumerate(questions):
                        request_id = connection.next_id()
                        asked[request_id] = segment, number
                        commands.append(question(request_id, name, token))
                connection.send(*commands)
                for reply in connection.replies(len(asked)):
                    segment, number = asked.pop(getattr(reply, "request_id", -1))
                    stream, segment_id = segment
                    if isinstance(reply, (wire.StreamSegmentInfo, wire.SegmentAttribute)):
                        answers[segment][number] = reply
                    elif isinstance(reply, wire.WrongHost):
                        pool.forget_endpoints(stream, [segment_id])
                        moved.add(segment)
                    elif isinstance(reply, wire.AuthTokenCheckFailed):
                        pool.tokens.forget(stream)
                        moved.add(segment)
                    elif not isinstance(reply, wire.NoSuchSegment):
                        connection.expect(reply, wire.StreamSegmentInfo)
                for segment in moved:
                    del answers[segment]
            for stream, segment_id in of_store:
                if (stream, segment_id) in answers:
                    pool.confirm(stream, [segment_id], connection.endpoint)
    return answers
