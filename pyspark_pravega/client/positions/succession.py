"""Which segments a reader goes on with when it has read others to their ends."""

from __future__ import annotations

from collections.abc import Callable

from pyspark_pravega.client.names import Successor


def replacement(segment_id: int, after: Callable[[int], tuple[Successor, ...]]) -> tuple[set[int], set[int]]:
    """The segments that give way together, and those that come in their place.

    A reader goes on with all of the new ones at once, when it has read all of the old ones to their ends. So what it
    has read is a stream cut at each moment.

    Args:
        segment_id: one of those that give way.
        after: the segments that came into the place of one; none when they aren't known, or not wanted yet.

    Returns:
        The old and the new ones; none when `after` knows nothing of one of the old ones.
    """
    old: set[int] = set()
    new: set[int] = set()
    waiting = {segment_id}
    while waiting:
        segment_id = waiting.pop()
        old.add(segment_id)
        successors = after(segment_id)
        if not successors:
            return set(), set()
        for successor in successors:
            new.add(successor.segment.segment_id)
            waiting |= set(successor.predecessors) - old
    return old, new
