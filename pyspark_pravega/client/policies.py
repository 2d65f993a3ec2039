"""How a stream scales, what it retains, and its other configuration."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from pyspark_pravega.errors import ConfigurationError


class ScaleType(IntEnum):
    """What a stream scales by."""

    FIXED = 0
    BY_KILOBYTES_PER_SECOND = 1
    BY_EVENTS_PER_SECOND = 2


class RetentionType(IntEnum):
    """What a stream's retention counts."""

    TIME = 1
    SIZE = 2


@dataclass(frozen=True, kw_only=True)
class ScalingPolicy:
    """How many segments a stream has, and when they split or merge."""

    scale_type: ScaleType = ScaleType.FIXED
    target_rate: int = 0
    """Kilobytes or events per second and segment; 0 for a fixed number of segments."""
    scale_factor: int = 0
    """Into how many a busy segment splits; 0 for a fixed number of segments."""
    min_segments: int = 1

    def __post_init__(self) -> None:
        # The server answers "failure" to 0 segments but leaves half a stream behind.
        if self.min_segments < 1:
            raise ConfigurationError(f"a stream needs at least 1 segment, not {self.min_segments}")
        if self.scale_type is not ScaleType.FIXED and (self.target_rate < 1 or self.scale_factor < 2):
            raise ConfigurationError(
                "an automatic scaling policy needs a target rate of 1 or more and a scale factor of 2 or more"
            )


@dataclass(frozen=True, kw_only=True)
class RetentionPolicy:
    """What is truncated from a stream's head."""

    retention_type: RetentionType
    minimum: int
    """Milliseconds or bytes that are kept at least."""
    maximum: int = 2**63 - 1
    """Milliseconds or bytes that are kept at most, while subscribers lag."""


@dataclass(frozen=True, kw_only=True)
class StreamConfiguration:
    """Everything that is configured about a stream."""

    scaling: ScalingPolicy = ScalingPolicy()
    retention: RetentionPolicy | None = None
    tags: tuple[str, ...] = ()
    timestamp_aggregation_timeout: int = 0
    """Milliseconds after which a silent writer no longer holds back the stream's watermark."""
    rollover_size_bytes: int = 0

    def __post_init__(self) -> None:
        if len(self.tags) > 128 or any(len(tag) > 256 for tag in self.tags):
            raise ConfigurationError("a stream has at most 128 tags of at most 256 characters each")
