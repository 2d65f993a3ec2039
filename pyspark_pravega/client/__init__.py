"""Pravega without Spark, a library of its own (docs/client.md). This is its face: others import from here.

Values: `names`, `policies`, `stream_cut`, `transactions`, `reader_groups`; `routing` serves all rooms.
Rooms, each of which uses only those before it: `wire` (the wire protocol, without sockets) and `controller` (gRPC);
`connections`; `segments` (bytes); `positions` (cuts); then `events`, `key_value` and `state`. `client` joins them. It
may use frames, settings, security, deadlines and errors, and finds a running sandbox; it knows nothing of Spark.
"""

from pyspark_pravega.client.client import Client
from pyspark_pravega.client.connections import ConnectionPool
from pyspark_pravega.client.controller import Controller
from pyspark_pravega.client.events import (
    EventBatch,
    EventTail,
    EventWriter,
    OwnTransaction,
    TransactionWriter,
)
from pyspark_pravega.client.key_value import KeyValueTable
from pyspark_pravega.client.names import Access, SegmentRange, Stream, StreamSegments
from pyspark_pravega.client.policies import (
    RetentionPolicy,
    RetentionType,
    ScaleType,
    ScalingPolicy,
    StreamConfiguration,
)
from pyspark_pravega.client.positions import SegmentPart
from pyspark_pravega.client.segments import Staged
from pyspark_pravega.client.state import RevisionedStream, StateSynchronizer
from pyspark_pravega.client.stream_cut import UNBOUNDED, StreamCut
from pyspark_pravega.client.transactions import Transaction, TransactionState
from pyspark_pravega.deadlines import deadline

__all__ = [
    "UNBOUNDED",
    "Access",
    "Client",
    "ConnectionPool",
    "Controller",
    "EventBatch",
    "EventTail",
    "EventWriter",
    "KeyValueTable",
    "OwnTransaction",
    "RetentionPolicy",
    "RetentionType",
    "RevisionedStream",
    "ScaleType",
    "ScalingPolicy",
    "SegmentPart",
    "SegmentRange",
    "Staged",
    "StateSynchronizer",
    "Stream",
    "StreamConfiguration",
    "StreamCut",
    "StreamSegments",
    "Transaction",
    "TransactionState",
    "TransactionWriter",
    "deadline",
]
