"""Small parts of segments are asked for together, and become few batches."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pyarrow as pa
import pytest

from pyspark_pravega.client import SegmentPart, Stream
from pyspark_pravega.connector.read.small_parts import groups, merged
from pyspark_pravega.serde.codec import arrow_batch

STREAM = Stream("s", "t")
SMALL, GROUP = 256 << 10, 1 << 20


@pytest.mark.parametrize("seed", range(20))
def test_groups_hold_all_parts_in_their_order_and_no_more_than_is_asked_for_at_once(seed: int) -> None:
    chance = random.Random(seed)
    sizes = [
        chance.choice([1, 100, 10_000, SMALL, SMALL + 1, 3 * GROUP]) if seed else 10
        for _ in range(chance.randint(0, 300) if seed else 500)
    ]
    parts = [SegmentPart(stream=STREAM, segment_id=at, start=7, end=7 + size) for at, size in enumerate(sizes)]
    made = list(groups(parts))
    assert list(itertools.chain.from_iterable(made)) == parts
    assert [len(group) for group in made[:1]] == [1] * bool(parts)
    for group in made:
        assert 0 < len(group) <= 64
        assert len(group) == 1 or all(part.size <= SMALL for part in group)
        assert len(group) == 1 or sum(part.size for part in group) <= GROUP
    if not seed:
        assert [len(group) for group in made] == [1, 4, 16, *[64] * 7, 31]


def batch(numbers: Sequence[int], kind: str, width: int) -> pa.RecordBatch:
    texts = [f"n{number}" * width if number % 3 else None for number in numbers]
    columns = {
        "numbers": [pa.array(numbers, pa.int64())],
        "texts": [pa.array(numbers, pa.int64()), pa.array(texts, pa.string())],
        "views": [pa.array(texts, pa.string_view())],
        "nested": [pa.array([[{"a": text}] for text in texts], pa.list_(pa.struct({"a": pa.string()})))],
    }[kind]
    return pa.RecordBatch.from_arrays(columns, names=[f"c{at}" for at in range(len(columns))])


@pytest.mark.parametrize("seed", range(40))
def test_merged_batches_hold_the_same_rows_in_their_order(seed: int) -> None:
    chance = random.Random(seed)
    kind = ("numbers", "texts", "views", "nested")[seed % 4]
    most, width = chance.choice([1 << 20, 2_000]), chance.choice([1, 1, 20])
    batches, position = [], 0
    for _ in range(chance.randint(0, 60)):
        rows = min(most, chance.choice([0, 1, 7, 900, 1024, 1025, 5_000]))
        batches.append(batch(range(position, position + rows), kind, width))
        position += rows
    made = [arrow_batch(one) for one in merged(iter(batches), most)]
    assert [row for one in made for row in one.to_pylist()] == [row for one in batches for row in one.to_pylist()]
    assert all(one.num_rows <= max(most, 1024) for one in made)
    assert len(made) <= len(batches)
    if kind == "views":
        assert made == batches
    elif batches:
        # Of two that lie beside each other, one at least is large, or both together are.
        for one, other in itertools.pairwise(made):
            assert one.num_rows + other.num_rows > min(most, 1024) or one.nbytes + other.nbytes > 64 << 10
        largest = max(one.nbytes for one in batches)
        assert all(one.nbytes <= max(largest, (1 << 20) + (80 << 10)) for one in made)
