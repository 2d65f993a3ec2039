"""How far a query is behind its streams' tails."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

from pyspark_pravega.client import Client, SegmentPart, Stream
from pyspark_pravega.client.events import event_batches
from pyspark_pravega.client.segments import read_range
from pyspark_pravega.errors import PravegaError

_SAMPLE_BYTES, _SAMPLES = 64 << 10, 8


@dataclass(frozen=True, kw_only=True)
class SegmentLag:
    """What of a segment hasn't been read."""

    stream: Stream
    segment_id: int
    bytes: int
    """Frames included."""
    events: int
    """Exact up to 64 KiB in up to 8 segments, beyond that estimated from the size of events: Pravega counts none."""


def lag_of(client: Client, parts: Iterable[SegmentPart]) -> list[SegmentLag]:
    """Measure a query's lag.

    Args:
        client: the cluster.
        parts: what it has still to read, as from `StreamFrontier.behind`.
    """
    segment_parts = list(parts)
    largest = sorted((part for part in segment_parts if part.size), key=lambda part: -part.size)[:_SAMPLES]
    events = {(part.stream, part.segment_id): _events(client, part) for part in largest}
    # Of many segments only some are looked into: this is asked for with each micro-batch.
    mean = sum(part.size for part in largest) / max(1, sum(events.values()))
    return [
        SegmentLag(
            stream=part.stream,
            segment_id=part.segment_id,
            bytes=part.size,
            events=events.get((part.stream, part.segment_id), round(part.size / mean) if mean else 0),
        )
        for part in segment_parts
    ]


def summary(lags: Iterable[SegmentLag]) -> dict[str, str]:
    """Lag as Spark shows it in a query's progress.

    Args:
        lags: the segments' lags.

    Returns:
        The least, greatest and mean number of bytes and of events over the segments, and their sums.
    """
    segment_lags = list(lags)
    figures: dict[str, str] = {}
    for what, values in (
        ("Bytes", [lag.bytes for lag in segment_lags]),
        ("Events", [lag.events for lag in segment_lags]),
    ):
        figures[f"min{what}BehindLatest"] = str(min(values, default=0))
        figures[f"max{what}BehindLatest"] = str(max(values, default=0))
        figures[f"avg{what}BehindLatest"] = f"{sum(values) / max(1, len(values)):.1f}"
        figures[f"total{what}BehindLatest"] = str(sum(values))
    return figures


def _events(client: Client, part: SegmentPart) -> int:
    if not part.size:
        return 0
    until = min(part.end, part.start + _SAMPLE_BYTES)
    events, position = 0, part.start
    try:
        with closing(read_range(client.pool, part.stream, part.segment_id, part.start, until)) as buffers:
            for batch in event_batches(buffers, part.stream, part.segment_id, part.start):
                events, position = events + len(batch), batch.end
    except PravegaError:
        # Truncated or deleted a moment ago: a figure isn't worth an error.
        return events
    if position == part.end or position == part.start:
        return max(1, events)
    return round(part.size * events / (position - part.start))
