"""Between the controller's messages and this client's values."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.names import Access, SegmentRange, Stream, StreamSegments, Successor
from pyspark_pravega.client.policies import (
    KeyValueTableConfiguration,
    RetentionPolicy,
    RetentionType,
    ScaleType,
    ScalingPolicy,
    StreamConfiguration,
)
from pyspark_pravega.client.reader_groups import ReaderGroup, ReaderGroupRetention, ReaderGroupStream
from pyspark_pravega.client.stream_cut import UNBOUNDED, StreamCut, Unbounded


def info(stream: Stream, access: Access = Access.NONE) -> pb.StreamInfo:
    """A stream's name; `access` says what its delegation token is for.

    Without a word on it some calls take it that a token for writing is wanted, and refuse who may only read.
    """
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
    key_ranges = sorted((_range(message) for message in ranges), key=lambda r: r.min_key)
    return StreamSegments(stream=stream, ranges=tuple(key_ranges), token=token)


def successors(message: pb.SuccessorResponse) -> tuple[Successor, ...]:
    """Successors ordered by key range."""
    all_successors = [
        Successor(segment=_range(e.segment), predecessors=tuple(sorted(e.value))) for e in message.segments
    ]
    return tuple(sorted(all_successors, key=lambda successor: successor.segment.min_key))


def _range(message: pb.SegmentRange) -> SegmentRange:
    return SegmentRange(segment_id=message.segment_id.segment_id, min_key=message.min_key, max_key=message.max_key)


def cut(stream: Stream, offsets: Mapping[int, int]) -> pb.StreamCut:
    """A stream cut as the controller takes it."""
    return pb.StreamCut(stream_info=info(stream), cut=dict(offsets))


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
            min_segments=scaling.min_num_segments,
            checked=False,
        ),
        retention=RetentionPolicy(
            retention_type=RetentionType(retention.retention_type),
            minimum=retention.retention_param,
            maximum=retention.retention_max,
            checked=False,
        )
        if retention.retention_type
        else None,
        # The server tells them in an order of its own.
        tags=tuple(sorted(message.tags.tag)),
        timestamp_aggregation_timeout=message.timestamp_aggregation_timeout,
        rollover_size_bytes=message.rollover_size_bytes,
        checked=False,
    )


def table_message(scope: str, table: str, configuration: KeyValueTableConfiguration) -> pb.KeyValueTableConfig:
    """A key-value table's configuration as the controller takes it."""
    return pb.KeyValueTableConfig(
        scope=scope,
        kvt_name=table,
        partition_count=configuration.partitions,
        primary_key_length=configuration.key_bytes,
        secondary_key_length=configuration.secondary_key_bytes,
        rollover_size_bytes=configuration.rollover_size_bytes,
    )


def table_configuration(message: pb.KeyValueTableConfig) -> KeyValueTableConfiguration:
    """A key-value table's configuration from the controller's message."""
    return KeyValueTableConfiguration(
        partitions=message.partition_count,
        key_bytes=message.primary_key_length,
        secondary_key_bytes=message.secondary_key_length,
        rollover_size_bytes=message.rollover_size_bytes,
    )


def reader_group_message(group: ReaderGroup) -> pb.ReaderGroupConfiguration:
    """A reader group as the controller takes it; an unbounded cut is an empty one."""
    return pb.ReaderGroupConfiguration(
        scope=group.scope,
        reader_group_name=group.name,
        group_refresh_time_millis=group.group_refresh_ms,
        automatic_checkpoint_interval_millis=group.checkpoint_interval_ms,
        max_outstanding_checkpoint_request=group.max_outstanding_checkpoints,
        retention_type=group.retention,
        generation=group.generation,
        reader_group_id=str(group.id),
        starting_stream_cuts=[_bound(part.stream, part.start) for part in group.streams],
        ending_stream_cuts=[_bound(part.stream, part.end) for part in group.streams],
        rollover_size_bytes=group.rollover_size_bytes,
    )


def reader_group(message: pb.ReaderGroupConfiguration) -> ReaderGroup:
    """A reader group from the controller's message."""
    ends = dict(map(_bounded, message.ending_stream_cuts))
    parts = [
        ReaderGroupStream(stream=stream, start=start, end=ends.get(stream, UNBOUNDED))
        for stream, start in map(_bounded, message.starting_stream_cuts)
    ]
    return ReaderGroup(
        scope=message.scope,
        name=message.reader_group_name,
        streams=tuple(sorted(parts, key=lambda part: str(part.stream))),
        retention=ReaderGroupRetention(message.retention_type),
        group_refresh_ms=message.group_refresh_time_millis,
        checkpoint_interval_ms=message.automatic_checkpoint_interval_millis,
        max_outstanding_checkpoints=message.max_outstanding_checkpoint_request,
        rollover_size_bytes=message.rollover_size_bytes,
        id=uuid.UUID(message.reader_group_id),
        generation=message.generation,
    )


def _bound(stream: Stream, bound: StreamCut | Unbounded) -> pb.StreamCut:
    return cut(stream, bound if isinstance(bound, StreamCut) else {})


def _bounded(message: pb.StreamCut) -> tuple[Stream, StreamCut | Unbounded]:
    stream = Stream(message.stream_info.scope, message.stream_info.stream)
    return stream, StreamCut(stream, message.cut) if message.cut else UNBOUNDED
