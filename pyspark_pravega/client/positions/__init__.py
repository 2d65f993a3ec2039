"""Places in a whole stream: `cuts` (where it begins and ends), `parts` (what lies between two cuts), `watermarks`.

`succession` says which segments come after those that were read to their ends.

The value itself is `client.stream_cut.StreamCut`. It uses `segments` and below.
"""

from pyspark_pravega.client.positions.cuts import (
    CutOrder,
    SegmentRanges,
    check_cut,
    compare_cuts,
    later_cut,
    proper_cut,
    tail_cut,
    truncate_stream,
)
from pyspark_pravega.client.positions.parts import SegmentPart, parts_between
from pyspark_pravega.client.positions.succession import replacement
from pyspark_pravega.client.positions.watermarks import Watermark, watermarks

__all__ = [
    "CutOrder",
    "SegmentPart",
    "SegmentRanges",
    "Watermark",
    "check_cut",
    "compare_cuts",
    "later_cut",
    "parts_between",
    "proper_cut",
    "replacement",
    "tail_cut",
    "truncate_stream",
    "watermarks",
]
