"""Streaming reads: `source` plans micro-batches, `reader` puts it behind Spark's Python API.

`offsets` are what checkpoints hold, `frontier` says how a cut goes on, `admission` keeps limits, `changes` streams what
commits added, `following` is what tasks of real-time queries do, `lag` and `consumption` tell how far a query is.
`pieces` cuts a range of a stream into what is read at a time.
It uses `connector.read` and below.
"""

from pyspark_pravega.connector.stream.changes import ChangesOffset, ChangesSource, check_no_bounds, versions_behind
from pyspark_pravega.connector.stream.consumption import unsubscribe
from pyspark_pravega.connector.stream.following import FollowedPartition, RealTimeReader, check_real_time
from pyspark_pravega.connector.stream.frontier import StreamFrontier
from pyspark_pravega.connector.stream.lag import SegmentLag, lag_of, summary
from pyspark_pravega.connector.stream.offsets import SourceOffset
from pyspark_pravega.connector.stream.pieces import PieceEnd, Pieces, StreamRange, range_of
from pyspark_pravega.connector.stream.reader import (
    PravegaStreamReader,
    RefusedStreamReader,
    SeveralStreamsReader,
    SnapshotReader,
    check_alike,
)
from pyspark_pravega.connector.stream.source import StreamSource

__all__ = [
    "ChangesOffset",
    "ChangesSource",
    "FollowedPartition",
    "PieceEnd",
    "Pieces",
    "PravegaStreamReader",
    "RealTimeReader",
    "RefusedStreamReader",
    "SegmentLag",
    "SeveralStreamsReader",
    "SnapshotReader",
    "SourceOffset",
    "StreamFrontier",
    "StreamRange",
    "StreamSource",
    "check_alike",
    "check_no_bounds",
    "check_real_time",
    "lag_of",
    "range_of",
    "summary",
    "unsubscribe",
    "versions_behind",
]
