"""What the controller knows of a reader group."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import IntEnum

from pyspark_pravega.client.names import Stream, check_name
from pyspark_pravega.client.stream_cut import UNBOUNDED, StreamCut, Unbounded
from pyspark_pravega.errors import ConfigurationError

NEW_GROUP = uuid.UUID(int=0)
PREFIX = "_RG"
"""A group's own stream is called so, with the group's name behind."""


class ReaderGroupRetention(IntEnum):
    """Whether a group's position keeps its streams' retention from removing what it hasn't read."""

    NONE = 0
    MANUAL = 1
    """Up to where it has told (`update_subscriber`)."""
    AUTOMATIC = 2
    """Up to its readers' last checkpoint, which the Java client tells."""


@dataclass(frozen=True, kw_only=True)
class ReaderGroupStream:
    """A stream that a group reads, and the part of it."""

    stream: Stream
    start: StreamCut | Unbounded = UNBOUNDED
    """`UNBOUNDED` for the stream's head."""
    end: StreamCut | Unbounded = UNBOUNDED
    """`UNBOUNDED` for no end."""

    def __post_init__(self) -> None:
        for cut in (self.start, self.end):
            if isinstance(cut, StreamCut) and cut.stream != self.stream:
                raise ConfigurationError(f'a cut of stream "{cut.stream}" can\'t bound stream "{self.stream}"')


@dataclass(frozen=True, kw_only=True)
class ReaderGroup:
    """A reader group's configuration. Who reads what just now is the readers' affair, not the controller's."""

    scope: str
    name: str
    streams: tuple[ReaderGroupStream, ...]
    retention: ReaderGroupRetention = ReaderGroupRetention.NONE
    group_refresh_ms: int = 3_000
    """How often readers look at the group's state."""
    checkpoint_interval_ms: int = 30_000
    """How often a checkpoint is made by itself."""
    max_outstanding_checkpoints: int = 3
    rollover_size_bytes: int = 0
    """Of the group's own stream; 0 for the server's default. The server doesn't tell it."""
    id: uuid.UUID = NEW_GROUP
    """Made with the group; a group made again under the same name has another one."""
    generation: int = 0
    """Counts the changes of the configuration."""

    def __post_init__(self) -> None:
        check_name("scope", self.scope)
        check_name("reader group", self.name)
        if not self.streams:
            raise ConfigurationError(f'reader group "{self}" needs at least one stream')
        if self.max_outstanding_checkpoints < 1:
            raise ConfigurationError(f'reader group "{self}" needs at least 1 outstanding checkpoint')

    def __str__(self) -> str:
        return f"{self.scope}/{self.name}"
