"""Which segments a stream has, without asking the controller each time: the segment stores tell with the segments'
states whether those that the controller has told once are still all, for a tenth of the price.

Before others take events in a segment's place it is sealed; what is truncated as a whole is deleted; and a stream that
is made again has segments of other names (docs/pravega-facts.md). So a list is right as long as all of its segments are
there, and those that took events aren't sealed. All of that holds for one life of a cluster: so a segment store says
nothing of a list over a connection that is younger than the list.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from pyspark_pravega.client.connections import Connection, ConnectionPool
from pyspark_pravega.client.names import SegmentList, Stream
from pyspark_pravega.client.segments.reading import SegmentState, segment_states
from pyspark_pravega.deadlines import deadline
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.together import together

_SOON_S = 0.5
"""Within which a segment store says how a segment is that nothing is to be read of. Else the controller is asked."""
_MOST = 32
"""With more segments, asking for all of them costs more than asking the controller."""

_KEPT = 4096
"""Of so many streams a pool keeps lists."""


def states_of_stream(pool: ConnectionPool, stream: Stream) -> tuple[SegmentList, dict[int, SegmentState]] | None:
    """All segments of a stream with their states.

    Args:
        pool: connections to the segment stores, which keeps lists.
        stream: the stream.

    Returns:
        None when it is being scaled or truncated just now: then try again.

    Raises:
        StreamNotFoundError: there is no such stream.
    """
    known = pool.segment_lists.get(stream)
    if known is not None:
        states = _states(pool, known, known.ids)
        if states is not None:
            return known, states
        pool.segment_lists.pop(stream, None)
    asked = _ask(pool, stream)
    states = _states(pool, replace(asked, told_at=math.inf), asked.ids)
    return None if states is None else (asked, states)


def current_ids(pool: ConnectionPool, stream: Stream) -> tuple[int, ...]:
    """The segments of a stream that take events now, ordered by key range; none of a sealed stream.

    Args:
        pool: connections to the segment stores, which keeps lists.
        stream: the stream.

    Raises:
        StreamNotFoundError: there is no such stream.
    """
    known = pool.segment_lists.get(stream)
    if known is not None and len(known.current.ids) <= _MOST:
        try:
            with deadline(_SOON_S):
                if _states(pool, known, known.current.ids) is not None:
                    return known.current.ids
        except PravegaError:
            # A table can be looked at, and dropped, while its segment store is away.
            pass
    return pool.controller.current_segments(stream).ids


def _ask(pool: ConnectionPool, stream: Stream) -> SegmentList:
    controller, told_at = pool.controller, time.monotonic()
    current, head = together(lambda: controller.current_segments(stream), lambda: controller.head(stream))
    ids = sorted(current.ids)
    if ids != sorted(head):
        ids = sorted({*controller.segments_from(stream, head), *current.ids})
    asked = SegmentList(current=replace(current, token=""), head=head, ids=tuple(ids), told_at=told_at)
    if current.ids:
        if len(pool.segment_lists) >= _KEPT:
            pool.segment_lists.clear()
        pool.segment_lists[stream] = asked
    return asked


def _states(pool: ConnectionPool, known: SegmentList, ids: Sequence[int]) -> dict[int, SegmentState] | None:
    """The states of segments, those that take events among them; None where the list isn't right any more."""
    states = {}
    asked: list[Connection] = []
    for segment_id, state in segment_states(pool, known.current.stream, ids, asked=asked).items():
        if state is None:
            return None
        states[segment_id] = state
    if any(connection.opened_at > known.told_at for connection in asked):
        return None
    return None if any(states[segment_id].sealed for segment_id in known.current.ids) else states
