"""Pravega without Spark: the controller, the segment stores' wire protocol, and what is built on both."""

from __future__ import annotations

from pyspark_pravega.client.client import Client
from pyspark_pravega.client.controller import Controller
from pyspark_pravega.client.deadlines import deadline
from pyspark_pravega.client.event_reader import SegmentPart
from pyspark_pravega.client.event_tail import EventTail
from pyspark_pravega.client.event_writer import EventWriter
from pyspark_pravega.client.events import EventBatch
from pyspark_pravega.client.gathering import Staged
from pyspark_pravega.client.names import Access, SegmentRange, Stream, StreamSegments
from pyspark_pravega.client.policies import (
    RetentionPolicy,
    RetentionType,
    ScaleType,
    ScalingPolicy,
    StreamConfiguration,
)
from pyspark_pravega.client.pool import ConnectionPool
from pyspark_pravega.client.stream_cut import UNBOUNDED, StreamCut
from pyspark_pravega.client.synchronizer import RevisionedStream, StateSynchronizer
from pyspark_pravega.client.tables import KeyValueTable
from pyspark_pravega.client.transaction_writer import OwnTransaction, TransactionWriter
from pyspark_pravega.client.transactions import Transaction, TransactionState

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
