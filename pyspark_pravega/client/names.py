"""Names of scopes, streams, segments and transactions, and the small values that go with them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Self

from pyspark_pravega.errors import InvalidNameError

MAX_NAME_LENGTH = 255
MAX_TABLE_NAME_LENGTH = 250
"""Of a key-value table; measured on Pravega 0.13."""
_NAME = re.compile(r"[A-Za-z0-9.\-]+")


def check_name(kind: str, name: str, *, longest: int = MAX_NAME_LENGTH) -> str:
    """Refuse a name that Pravega can't hold.

    Args:
        kind: what is named, for the message: "scope", "stream", "key-value table".
        name: characters of `A-Z a-z 0-9 . -`, at least one.
        longest: how many at most.

    Returns:
        The name.

    Raises:
        InvalidNameError: it isn't such a name.
    """
    if not name:
        raise InvalidNameError(f"a {kind} name must not be empty")
    if len(name) > longest:
        raise InvalidNameError(
            f'{kind} name "{name[:32]}..." has {len(name)} characters; at most {longest} are allowed'
        )
    if not _NAME.fullmatch(name):
        raise InvalidNameError(f'{kind} name "{name}" may hold only letters, digits, "-" and "."')
    return name


@dataclass(frozen=True)
class Stream:
    """A stream's full name."""

    scope: str
    name: str

    @classmethod
    def parse(cls, text: str, default_scope: str | None = None) -> Self:
        """A stream from its full name.

        Args:
            text: `scope/stream`, or only `stream` where there is a default scope.
            default_scope: the scope of a name that has none.

        Raises:
            InvalidNameError: it isn't such a name, or one of its parts can't be used.
        """
        scope, slash, name = text.rpartition("/")
        if not slash:
            if default_scope is None:
                raise InvalidNameError(f'stream "{text}" has no scope: write it as scope/stream')
            scope = default_scope
        return cls(check_name("scope", scope), check_name("stream", name))

    def __str__(self) -> str:
        return f"{self.scope}/{self.name}"

    def segment_name(self, segment_id: int) -> str:
        """A segment's name on the wire.

        Args:
            segment_id: epoch << 32 | number.
        """
        return f"{self.scope}/{self.name}/{segment_number(segment_id)}.#epoch.{segment_epoch(segment_id)}"


def segment_id_of(*, epoch: int, number: int) -> int:
    """A segment's id.

    Args:
        epoch: the epoch in which it was made, in [0, 2^31).
        number: its number within its stream, in [0, 2^31).

    Raises:
        InvalidNameError: there can be no such segment.
    """
    if not (0 <= epoch < 2**31 and 0 <= number < 2**31):
        raise InvalidNameError(f"there can be no segment {number} of epoch {epoch}: both are in [0, 2^31)")
    return epoch << 32 | number


def segment_epoch(segment_id: int) -> int:
    """The epoch in which a segment was made."""
    return segment_id >> 32


def segment_number(segment_id: int) -> int:
    """A segment's number within its stream."""
    return segment_id & 0xFFFFFFFF


def transaction_segment_name(segment: str, transaction: uuid.UUID) -> str:
    """The name of a transaction's shadow of a segment.

    Args:
        segment: the segment's name on the wire.
        transaction: the transaction's id.
    """
    return f"{segment}#transaction.{transaction.hex}"


class Access(IntEnum):
    """What a delegation token is for; the numbers are the controller's."""

    NONE = 1
    """No token is wanted, and who may read may ask. Pravega 0.13 gives others, where it gives any, to writers only."""
    READ = 3
    WRITE = 4
    READ_WRITE = 5


@dataclass(frozen=True, kw_only=True)
class SegmentRange:
    """A segment and the part of the key space that it owns."""

    segment_id: int
    min_key: float
    """Inclusive, in [0, 1)."""
    max_key: float
    """Exclusive, in (0, 1]."""

    def overlaps(self, other: SegmentRange) -> bool:
        """Whether some routing keys belong to both."""
        return self.min_key < other.max_key and other.min_key < self.max_key


@dataclass(frozen=True, kw_only=True)
class Successor:
    """A segment that came into the place of others."""

    segment: SegmentRange
    predecessors: tuple[int, ...]
    """Ids of all segments whose place it took, ascending: it goes on when all of them are at their ends."""


@dataclass(frozen=True, kw_only=True)
class StreamSegments:
    """Segments of one moment, ordered by key range."""

    stream: Stream
    ranges: tuple[SegmentRange, ...]
    token: str = field(default="", repr=False)
    """Delegation token for the segment store; empty when authentication is off."""

    @property
    def ids(self) -> tuple[int, ...]:
        """The segments' ids, ordered by key range."""
        return tuple(r.segment_id for r in self.ranges)


@dataclass(frozen=True, kw_only=True)
class SegmentList:
    """The segments of a stream from its head to its tail."""

    current: StreamSegments
    """Those that take events; none of a sealed stream."""
    head: Mapping[int, int]
    """The cut behind which everything has been truncated; segment stores know of later truncations."""
    ids: tuple[int, ...]
    """All segments in ascending order: predecessors before successors."""
    told_at: float
    """When the controller was asked, by `time.monotonic`."""
