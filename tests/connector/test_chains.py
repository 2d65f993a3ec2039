"""Segments of tables with keys, shared out among tasks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import pytest

from pyspark_pravega.client import Client, SegmentPart, Stream
from pyspark_pravega.client.names import SegmentRange
from pyspark_pravega.connector.log import Snapshot
from pyspark_pravega.connector.read.chains import arrange_chains
from pyspark_pravega.connector.read.event_pointers import MOST_PARTS

STREAM = Stream("shop", "customers")


@dataclass
class Ranges:
    """What a controller tells of segments that nobody could make in a test: so many."""

    known: dict[int, SegmentRange]

    @property
    def controller(self) -> Ranges:
        return self

    def segment_ranges(self, stream: Stream, segment_ids: Collection[int]) -> dict[int, SegmentRange]:
        return {one: self.known[one] for one in segment_ids}


@pytest.mark.parametrize(("count", "compacted"), [(20_000, False), (20_000, True), (MOST_PARTS, False)])
def test_a_task_gets_as_many_parts_as_it_can_tell_apart(count: int, compacted: bool) -> None:
    ranges = [SegmentRange(segment_id=i, min_key=i / count, max_key=(i + 1) / count) for i in range(count)]
    parts = tuple(SegmentPart(stream=STREAM, segment_id=i, start=0, end=40) for i in range(count))
    # What a compaction has written lies in the middle: each segment is of three parts then.
    whole = dict.fromkeys(range(count), (10, 20)) if compacted else {}
    client = cast(Client, Ranges(dict(enumerate(ranges))))
    partitions = arrange_chains(client, Snapshot(stream=STREAM, parts=parts, compacted=whole))
    assert max(len(partition.parts) for partition in partitions) <= MOST_PARTS
    assert len(partitions) == -(-count * (3 if compacted else 1) // MOST_PARTS)
    read = [(part.segment_id, part.start, part.end) for partition in partitions for part in partition.parts]
    borders = [0, 10, 20, 40] if compacted else [0, 40]
    assert read == [(i, *piece) for i in range(count) for piece in pairwise(borders)]
