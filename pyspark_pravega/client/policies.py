"""How a stream scales, what it retains, and its other configuration; and how a key-value table is configured."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from enum import IntEnum
from typing import Self

from pyspark_pravega.errors import ConfigurationError

UNLIMITED = 2**63 - 1
MAX_TABLE_KEY_BYTES = 256
"""Of a key-value table, primary and secondary key together (segment store: AttributeId.MAX_LENGTH)."""
_MAX_INT = 2**31 - 1


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
    checked: InitVar[bool] = True
    """False takes over a policy that a server holds, whoever made it."""

    def __post_init__(self, checked: bool) -> None:
        if not checked:
            return
        # The server answers "failure" to 0 segments but leaves half a stream behind.
        if self.min_segments < 1:
            raise ConfigurationError(f"a stream needs at least 1 segment, not {self.min_segments}")
        if max(self.min_segments, self.target_rate, self.scale_factor) > _MAX_INT:
            raise ConfigurationError(f"the numbers of a scaling policy end at {_MAX_INT}")
        if self.scale_type is not ScaleType.FIXED and (self.target_rate < 1 or self.scale_factor < 2):
            raise ConfigurationError(
                "an automatic scaling policy needs a target rate of 1 or more and a scale factor of 2 or more"
            )

    @classmethod
    def fixed(cls, segments: int) -> Self:
        """A fixed number of segments."""
        return cls(min_segments=segments)

    @classmethod
    def by_kilobytes_per_second(cls, rate: int, *, factor: int = 2, min_segments: int = 1) -> Self:
        """Split segments that take more bytes than they should, merge those that take few.

        Args:
            rate: kilobytes per second that a segment should take.
            factor: into how many a busy segment splits.
            min_segments: how many there are at least.
        """
        kind = ScaleType.BY_KILOBYTES_PER_SECOND
        return cls(scale_type=kind, target_rate=rate, scale_factor=factor, min_segments=min_segments)

    @classmethod
    def by_events_per_second(cls, rate: int, *, factor: int = 2, min_segments: int = 1) -> Self:
        """As `by_kilobytes_per_second`, with a rate in events per second."""
        kind = ScaleType.BY_EVENTS_PER_SECOND
        return cls(scale_type=kind, target_rate=rate, scale_factor=factor, min_segments=min_segments)


@dataclass(frozen=True, kw_only=True)
class RetentionPolicy:
    """What is truncated from a stream's head."""

    retention_type: RetentionType
    minimum: int
    """Milliseconds or bytes that are kept at least."""
    maximum: int = UNLIMITED
    """Milliseconds or bytes that are kept at most, while subscribers lag."""
    checked: InitVar[bool] = True
    """False takes over a policy that a server holds, whoever made it."""

    def __post_init__(self, checked: bool) -> None:
        # The server takes anything, also a maximum below the minimum.
        if checked and not 0 <= self.minimum <= self.maximum <= UNLIMITED:
            raise ConfigurationError(
                f"a retention policy needs 0 <= minimum <= maximum, not {self.minimum} and {self.maximum}"
            )

    @classmethod
    def by_time(cls, minimum_ms: int, maximum_ms: int = UNLIMITED) -> Self:
        """Keep events of the last milliseconds.

        Args:
            minimum_ms: how old events may be removed.
            maximum_ms: how old events are removed even if a subscriber hasn't consumed them (`subscribers`).
        """
        return cls(retention_type=RetentionType.TIME, minimum=minimum_ms, maximum=maximum_ms)

    @classmethod
    def by_size(cls, minimum_bytes: int, maximum_bytes: int = UNLIMITED) -> Self:
        """Keep the last bytes.

        Args:
            minimum_bytes: how much is kept in any case.
            maximum_bytes: how much is kept even if a subscriber hasn't consumed more (`subscribers`).
        """
        return cls(retention_type=RetentionType.SIZE, minimum=minimum_bytes, maximum=maximum_bytes)


@dataclass(frozen=True, kw_only=True)
class StreamConfiguration:
    """Everything that is configured about a stream."""

    scaling: ScalingPolicy = ScalingPolicy()
    retention: RetentionPolicy | None = None
    tags: tuple[str, ...] = ()
    """Sorted, each once, when they come from the server: it keeps no order."""
    timestamp_aggregation_timeout: int = 0
    """Milliseconds after which a silent writer no longer holds back the stream's watermark."""
    rollover_size_bytes: int = 0
    """How large a segment's files in long-term storage get; 0 for the server's default."""
    checked: InitVar[bool] = True
    """False takes over a configuration that a server holds, whoever made it."""

    def __post_init__(self, checked: bool) -> None:
        if not checked:
            return
        if len(self.tags) > 128 or any(len(tag) > 256 for tag in self.tags):
            raise ConfigurationError("a stream has at most 128 tags of at most 256 characters each")
        if not all(self.tags):
            raise ConfigurationError("a stream's tags must not be empty")
        for what in ("timestamp_aggregation_timeout", "rollover_size_bytes"):
            if not 0 <= getattr(self, what) <= UNLIMITED:
                raise ConfigurationError(f"{what} must be 0 or more, not {getattr(self, what)}")


@dataclass(frozen=True, kw_only=True)
class KeyValueTableConfiguration:
    """Everything that is configured about a key-value table. It can't be changed later."""

    partitions: int
    """Number of table segments."""
    key_bytes: int
    """Length of every primary key, which decides the partition."""
    secondary_key_bytes: int = 0
    """Length of every secondary key, which follows the primary one."""
    rollover_size_bytes: int = 0
    """How large a segment's files in long-term storage get; 0 for the server's default. The server doesn't tell it."""

    def __post_init__(self) -> None:
        if not 1 <= self.partitions <= _MAX_INT:
            raise ConfigurationError(f"a key-value table needs at least 1 partition, not {self.partitions}")
        if self.key_bytes < 1 or self.secondary_key_bytes < 0:
            raise ConfigurationError(
                "a key-value table needs primary keys of 1 byte or more and secondary keys of 0 or more, "
                f"not {self.key_bytes} and {self.secondary_key_bytes}"
            )
        # The server takes longer ones, but never comes to an end with the table.
        if self.key_bytes + self.secondary_key_bytes > MAX_TABLE_KEY_BYTES:
            raise ConfigurationError(
                f"the keys of a key-value table have at most {MAX_TABLE_KEY_BYTES} bytes, "
                f"not {self.key_bytes + self.secondary_key_bytes}"
            )
        if not 0 <= self.rollover_size_bytes <= UNLIMITED:
            raise ConfigurationError(f"rollover_size_bytes must be 0 or more, not {self.rollover_size_bytes}")
