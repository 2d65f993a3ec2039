"""Batches on their way to segments: checked whole, cut into parts and blocks, in order."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.client.events.blocks import Batch, blocks
from pyspark_pravega.client.names import SegmentRange
from pyspark_pravega.client.segments.writing import BLOCK_BYTES
from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.frames import framing

WHOLE = (SegmentRange(segment_id=0, min_key=0.0, max_key=1.0),)
HALVES = (
    SegmentRange(segment_id=0, min_key=0.0, max_key=0.5),
    SegmentRange(segment_id=1, min_key=0.5, max_key=1.0),
)


@given(sizes=st.lists(st.integers(0, 400), max_size=60), block_bytes=st.integers(1, 1000))
def test_blocks_are_the_events_in_order_and_about_of_one_size(sizes: list[int], block_bytes: int) -> None:
    events = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    placed = [part for _, part in Batch.of(events, None, 0.0).place(WHOLE)]
    cut = [block for part in placed for block in blocks(part, block_bytes=block_bytes)]
    assert [payload for block in cut for payload in framing.split(block.data).payloads.to_pylist()] == events
    assert all(block.data.size <= block_bytes or len(block) == 1 for block in cut)
    if sizes and (total := sum(sizes) + 8 * len(sizes)) > 2 * block_bytes > 8 * max(sizes):
        assert min(block.data.size for block in cut) > min(block_bytes, total / len(cut)) / 4


def test_a_large_batch_is_cut_into_parts_that_keep_the_order() -> None:
    events = pa.array([b"%07d" % number + bytes(993) for number in range(30_000)]).slice(7)
    keys = pa.array([f"key {number % 100}" for number in range(len(events))])
    parts = list(Batch.of(events, keys, 0.0).parts(len(HALVES)))
    assert 5 < len(parts) < 12
    assert pa.concat_arrays([part.payloads for part in parts]).equals(events)
    assert all(part.payloads.nbytes < 5 * BLOCK_BYTES for part in parts)
    prefixes: dict[int, list[bytes]] = {0: [], 1: []}
    for part in parts:
        for owner, placed in part.place(HALVES):
            prefixes[owner.segment_id] += [event[:7] for event in framing.split(placed.data).payloads.to_pylist()]
    assert sum(map(len, prefixes.values())) == len(events)
    assert all(numbers == sorted(numbers) for numbers in prefixes.values())


def test_the_last_event_of_a_large_batch_is_looked_at_before_the_first_is_sent() -> None:
    events = pa.array([bytes(1 << 20)] * 20 + [bytes(framing.MAX_WRITE_SIZE + 1)])
    with pytest.raises(EventEncodeError, match=r"^row 20 of the batch: an event of 8,388,609 bytes is larger"):
        Batch.of(events, None, 0.0)
