"""Bytes of single segments: `reading`, `writing`, events beyond a block (`large_events`), and `gathering`.

`ahead` reads little of many segments, and `spread` writes little to many. `held` bounds the connections of writers.
`surveying` asks for the states of many streams' segments at once, `listed` for those of one stream's segments,
whichever these are. `gathering` copies what several transactions hold
into one. The room uses `connections` and below, and knows no events but their frames.
"""

from pyspark_pravega.client.segments.ahead import read_together
from pyspark_pravega.client.segments.gathering import (
    Piece,
    Staged,
    append_staged,
    gather,
    staged_sizes,
    target_of,
)
from pyspark_pravega.client.segments.held import HeldConnections
from pyspark_pravega.client.segments.listed import current_ids, states_of_stream
from pyspark_pravega.client.segments.reading import (
    SegmentState,
    follow_segment,
    read_range,
    segment_state,
    segment_states,
)
from pyspark_pravega.client.segments.spread import LITTLE_BYTES, store_together
from pyspark_pravega.client.segments.surveying import survey, survey_events
from pyspark_pravega.client.segments.writing import BLOCK_BYTES, MAX_EVENT_BYTES, SegmentWriter

__all__ = [
    "BLOCK_BYTES",
    "LITTLE_BYTES",
    "MAX_EVENT_BYTES",
    "HeldConnections",
    "Piece",
    "SegmentState",
    "SegmentWriter",
    "Staged",
    "append_staged",
    "current_ids",
    "follow_segment",
    "gather",
    "read_range",
    "read_together",
    "segment_state",
    "segment_states",
    "staged_sizes",
    "states_of_stream",
    "store_together",
    "survey",
    "survey_events",
    "target_of",
]
