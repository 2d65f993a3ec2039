"""Commands on segments: reading, state, attributes, making, merging and deleting."""

from __future__ import annotations

import uuid

from pyspark_pravega.client.wire.command import Command, command, wire
from pyspark_pravega.client.wire.fields import (
    ATTRIBUTE_UPDATES,
    BLOCK,
    FLAG,
    INT,
    LONG,
    TEXT,
    TOKEN,
    UUID,
    AttributeUpdate,
)

NO_ATTRIBUTE = -(2**63)
"""An attribute's value where it was never set."""


@command(9)
class ReadSegment(Command):
    """Asks for bytes from an offset; answered at the tail as soon as there are any."""

    segment: str = wire(TEXT)
    offset: int = wire(LONG)
    suggested_length: int = wire(INT)
    token: str = wire(TOKEN, "")
    request_id: int = wire(LONG)


@command(10)
class SegmentRead(Command):
    """Bytes of a segment, from any byte on."""

    segment: str = wire(TEXT)
    offset: int = wire(LONG)
    at_tail: bool = wire(FLAG)
    end_of_segment: bool = wire(FLAG)
    data: memoryview = wire(BLOCK)
    request_id: int = wire(LONG)


@command(11)
class GetStreamSegmentInfo(Command):
    """Asks for a segment's state."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    token: str = wire(TOKEN, "")


@command(12)
class StreamSegmentInfo(Command):
    """A segment's state. Offsets are bytes since the segment was made."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    exists: bool = wire(FLAG)
    sealed: bool = wire(FLAG)
    deleted: bool = wire(FLAG)
    last_modified: int = wire(LONG)
    """Milliseconds since 1970."""
    write_offset: int = wire(LONG)
    """Where the next event goes: the segment's length."""
    start_offset: int = wire(LONG)
    """The first byte that hasn't been truncated."""


@command(40)
class CreateTransientSegment(Command):
    """Makes a segment to be merged into its parent; the server names it, and deletes it when the connection ends."""

    request_id: int = wire(LONG)
    writer_id: uuid.UUID = wire(UUID)
    parent: str = wire(TEXT)
    token: str = wire(TOKEN, "")


@command(21)
class SegmentCreated(Command):
    """The segment is there."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)


@command(31)
class SegmentDeleted(Command):
    """The segment, or table segment, is gone."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)


@command(34)
class GetSegmentAttribute(Command):
    """Asks for one of the numbers that a segment keeps beside its bytes."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    attribute: uuid.UUID = wire(UUID)
    token: str = wire(TOKEN, "")


@command(35)
class SegmentAttribute(Command):
    """An attribute's value."""

    request_id: int = wire(LONG)
    value: int = wire(LONG)
    """`NO_ATTRIBUTE` where it was never set."""


@command(36)
class UpdateSegmentAttribute(Command):
    """Changes an attribute if it has the expected value."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    attribute: uuid.UUID = wire(UUID)
    new_value: int = wire(LONG)
    expected_value: int = wire(LONG)
    token: str = wire(TOKEN, "")


@command(37)
class SegmentAttributeUpdated(Command):
    """Whether an attribute was changed; also the answer to a merge whose attributes have other values than expected."""

    request_id: int = wire(LONG)
    success: bool = wire(FLAG)


@command(38)
class TruncateSegment(Command):
    """Drops the bytes before an offset."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    offset: int = wire(LONG)
    token: str = wire(TOKEN, "")


@command(39)
class SegmentTruncated(Command):
    """The bytes are gone."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)


@command(58)
class MergeSegments(Command):
    """Appends a segment to another one as a whole, and deletes it."""

    request_id: int = wire(LONG)
    target: str = wire(TEXT)
    source: str = wire(TEXT)
    token: str = wire(TOKEN, "")
    updates: tuple[AttributeUpdate, ...] = wire(ATTRIBUTE_UPDATES, ())
    """Attributes of the target that must have the values named; else nothing is merged."""


@command(59)
class SegmentsMerged(Command):
    """The source is part of the target."""

    request_id: int = wire(LONG)
    target: str = wire(TEXT)
    source: str = wire(TEXT)
    target_length: int = wire(LONG)
    """Bytes, after the merge."""
