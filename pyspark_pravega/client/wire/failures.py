"""Replies that say what went wrong."""

from __future__ import annotations

import uuid

from pyspark_pravega.client.wire.command import Failure, command, wire
from pyspark_pravega.client.wire.fields import INT, LATER_LONG, LONG, TEXT, UUID


@command(50)
class WrongHost(Failure):
    """Another segment store owns the segment."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    correct_host: str = wire(TEXT)
    trace: str = wire(TEXT)


@command(51)
class SegmentIsSealed(Failure):
    """The segment takes no more events."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    trace: str = wire(TEXT)
    offset: int = wire(LONG)


@command(52)
class SegmentAlreadyExists(Failure):
    """The segment was there before."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    trace: str = wire(TEXT)


@command(53)
class NoSuchSegment(Failure):
    """The segment doesn't exist."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    trace: str = wire(TEXT)
    offset: int = wire(LONG)


@command(55)
class InvalidEventNumber(Failure):
    """The writer has a newer connection, or sent its blocks out of order; the server closes this one."""

    writer_id: uuid.UUID = wire(UUID)
    request_id: int = wire(LONG)
    """Before Pravega 0.13 (version 16 of the protocol) the event number."""
    trace: str = wire(TEXT)
    event_number: int = wire(LATER_LONG)


@command(56)
class SegmentIsTruncated(Failure):
    """The offset lies before the segment's start."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    start_offset: int = wire(LONG)
    trace: str = wire(TEXT)
    offset: int = wire(LONG)


@command(57)
class OperationUnsupported(Failure):
    """The server doesn't know the command."""

    request_id: int = wire(LONG)
    operation: str = wire(TEXT)
    trace: str = wire(TEXT)


@command(60)
class AuthTokenCheckFailed(Failure):
    """The delegation token is missing, wrong or expired."""

    request_id: int = wire(LONG)
    trace: str = wire(TEXT)
    code: int = wire(INT)
    """0 refused, 1 expired."""


@command(61)
class ErrorMessage(Failure):
    """Any other failure, in words."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    message: str = wire(TEXT)
    code: int = wire(INT)


@command(80)
class TableSegmentNotEmpty(Failure):
    """A table segment that must be empty to be deleted holds entries."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    trace: str = wire(TEXT)


@command(81)
class TableKeyDoesNotExist(Failure):
    """A conditional change named a key that isn't there."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    trace: str = wire(TEXT)


@command(82)
class TableKeyBadVersion(Failure):
    """A conditional change named another version than the stored one."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    trace: str = wire(TEXT)
