"""Pointers to events: what they tell, and that the greatest of a key's points to its last event."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.connector.read.event_pointers import MOST_BYTES, MOST_PARTS, POINTER, EventPointers, offsets_in

EVENTS = st.lists(
    st.tuples(
        st.booleans(), st.integers(0, MOST_PARTS - 1), st.integers(0, MOST_BYTES - 1), st.booleans()
    ),  # whether it was appended, and not written by a compaction; part; offset; whether it deletes
    min_size=1,
    unique_by=lambda event: event[:3],
)


def pointers_to(events: list[tuple[bool, int, int, bool]]) -> EventPointers:
    one_by_one = [
        EventPointers.of(
            part, 0, np.array([offset]), deletes=np.array([deletes]), compacted=np.array([not appended])
        ).values
        for appended, part, offset, deletes in events
    ]
    return EventPointers(np.concatenate(one_by_one))


@given(EVENTS)
def test_pointers_are_in_the_order_of_events_and_tell_what_they_are(events: list[tuple[bool, int, int, bool]]) -> None:
    pointers = pointers_to(events)
    assert [events[i] for i in np.argsort(pointers.values)] == sorted(events)
    assert pointers.offsets.tolist() == [offset for _, _, offset, _ in events]
    assert pointers.deletes.tolist() == [deletes for _, _, _, deletes in events]
    assert pointers.compacted.tolist() == [not appended for appended, _, _, _ in events]
    locations = np.sort(pointers.locations)
    for number in {part for _, part, _, _ in events}:
        assert offsets_in(number, locations).tolist() == sorted(e[2] for e in events if e[1] == number)


@pytest.mark.parametrize("part", [0, MOST_PARTS - 1])
def test_offsets_are_counted_from_where_the_frames_begin(part: int) -> None:
    pointers = EventPointers.of(part, 1 << 40, np.array([0, 17, 300]))
    assert pointers.offsets.tolist() == [1 << 40, (1 << 40) + 17, (1 << 40) + 300]
    assert not pointers.deletes.any()
    assert not pointers.compacted.any()
    table = pa.table({POINTER: pointers.values})
    assert EventPointers.column(table).values.tolist() == pointers.values.tolist()
