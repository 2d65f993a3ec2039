"""Between the controller's messages and this client's values."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from pyspark_pravega.client import controller_pb2 as pb
from pyspark_pravega.client.names import SegmentRange, Stream, StreamSegments
from pyspark_pravega.client.policies import (
    RetentionPolicy,
    RetentionType,
    ScaleType,
    ScalingPolicy,
    StreamConfiguration,
)


def info(stream: Stream, access: int = 0) -> pb.StreamInfo:
    """A stream's name; `access` says what its delegation token is for."""
    return pb.StreamInfo(scope=stream.scope, stream=stream.name, access_operation=access)


def txn_id(transaction: uuid.UUID) -> pb.TxnId:
    """A transaction's id as the controller takes it: two signed halves."""
    high, low = transaction.int >> 64, transaction.int & (2**64 - 1)
    return pb.TxnId(high_bits=_signed(high), low_bits=_signed(low))


def transaction_id(message: pb.TxnId) -> uuid.UUID:
    """A transaction's id from its two signed halves."""
    return uuid.UUID(int=(message.high_bits % 2**64) << 64 | message.low_bits % 2**64)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def segments(stream: Stream, ranges: Iterable[pb.SegmentRange], token: str) -> StreamSegments:
    """Segments ordered by key range."""
    made = [SegmentRange(segment_id=r.segment_id.segment_id, min_key=r.min_key, max_key=r.max_key) for r in ranges]
    return StreamSegments(stream=stream, ranges=tuple(sorted(made, key=lambda r: r.min_key)), token=token)


def configuration_message(stream: Stream, configuration: StreamConfiguration) -> pb.StreamConfig:
    """A configuration as the controller takes it."""
    scaling, retention = configuration.scaling, configuration.retention
    return pb.StreamConfig(
        stream_info=info(stream),
        scaling_policy=pb.ScalingPolicy(
            scale_type=scaling.scale_type,
            target_rate=scaling.target_rate,
            scale_factor=scaling.scale_factor,
            min_num_segments=scaling.min_segments,
        ),
        retention_policy=pb.RetentionPolicy(
            retention_type=retention.retention_type,
            retention_param=retention.minimum,
            retention_max=retention.maximum,
        )
        if retention
        else None,
        tags=pb.Tags(tag=configuration.tags),
        timestamp_aggregation_timeout=configuration.timestamp_aggregation_timeout,
        rollover_size_bytes=configuration.rollover_size_bytes,
    )


def configuration(message: pb.StreamConfig) -> StreamConfiguration:
    """A configuration from the controller's message."""
    scaling, retention = message.scaling_policy, message.retention_policy
    return StreamConfiguration(
        scaling=ScalingPolicy(
            scale_type=ScaleType(scaling.scale_type),
            target_rate=scaling.target_rate,
            scale_factor=scaling.scale_factor,
            min_segments=max(1, scaling.min_num_segments),
        ),
        retention=RetentionPolicy(
            retention_type=RetentionType(retention.retention_type),
            minimum=retention.retention_param,
            maximum=retention.retention_max,
        )
        if retention.retention_type
        else None,
        tags=tuple(message.tags.tag),
        timestamp_aggregation_timeout=message.timestamp_aggregation_timeout,
        rollover_size_bytes=message.rollover_size_bytes,
    )
