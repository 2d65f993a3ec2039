"""What predicates on positions save from being read."""

from __future__ import annotations

from typing import Any

from pyspark_pravega.catalog.pushdown import Bounds, narrowed
from pyspark_pravega.client import SegmentPart, Stream
from pyspark_pravega.connector.log.tail import Snapshot
from pyspark_pravega.connector.predicates import Predicate

STREAM = Stream("s", "t")
SNAPSHOT = Snapshot(
    stream=STREAM,
    parts=tuple(SegmentPart(stream=STREAM, segment_id=number, start=10, end=100) for number in (0, 1, 2)),
)


def left(*predicates: tuple[str, str, list[Any]]) -> list[tuple[int, int, int]]:
    given: list[Predicate] = [
        Predicate(column=column, comparison=comparison, values=tuple(values))
        for column, comparison, values in predicates
    ]
    snapshot = narrowed(SNAPSHOT, Bounds.of(given), None)
    return [(part.segment_id, part.start, part.end) for part in snapshot.parts]


ALL = [(0, 10, 100), (1, 10, 100), (2, 10, 100)]


def test_segments_are_chosen() -> None:
    assert left(("_segment", "=", [1])) == [ALL[1]]
    assert left(("_segment", "IN", [0, 2])) == [ALL[0], ALL[2]]
    assert left(("_segment", ">", [0])) == ALL[1:]
    assert left(("_segment", "<=", [0])) == ALL[:1]
    assert left(("_segment", "=", [1]), ("_segment", "=", [2])) == []


def test_segments_without_wanted_offsets_are_left_out() -> None:
    assert left(("_offset", ">=", [100])) == []
    assert left(("_offset", "<", [10])) == []
    assert left(("_offset", "<", [11])) == ALL


def test_an_event_s_begin_can_t_be_told_from_a_segment_s_middle() -> None:
    assert left(("_offset", ">=", [50])) == ALL


def test_other_predicates_say_nothing_about_positions() -> None:
    assert left(("id", "=", [1]), ("_segment", "<>", [1])) == ALL
