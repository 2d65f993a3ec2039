"""Commands of writers: events, and the answers that say what is stored."""

from __future__ import annotations

import uuid

from pyspark_pravega.client.wire.command import Command, command, wire
from pyspark_pravega.client.wire.fields import BLOCK, EVENT, INT, LONG, REST, TEXT, TOKEN, UUID, Buffer

NO_EVENT = -(2**63)
"""`AppendSetup.last_event_number` of a writer that has stored nothing in the segment."""


@command(0)
class Event(Command):
    """An event as it lies in a segment: only ever a part of a block of appended data, or of what is read."""

    data: Buffer = wire(REST)


@command(1)
class SetupAppend(Command):
    """Announces a writer on a segment. One writer id serves one segment on a connection."""

    request_id: int = wire(LONG)
    writer_id: uuid.UUID = wire(UUID)
    segment: str = wire(TEXT)
    token: str = wire(TOKEN, "")


@command(2)
class AppendSetup(Command):
    """The writer may append; tells what of its events is stored already."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    writer_id: uuid.UUID = wire(UUID)
    last_event_number: int = wire(LONG)


@command(4)
class AppendBlockEnd(Command):
    """A block of whole events, in its simplest form: no AppendBlock before it, all bytes in `data`."""

    writer_id: uuid.UUID = wire(UUID)
    size_of_whole_events: int = wire(INT, 0)
    data: Buffer = wire(BLOCK)
    event_count: int = wire(INT)
    last_event_number: int = wire(LONG)
    request_id: int = wire(LONG)


@command(5)
class ConditionalAppend(Command):
    """An event that is appended only where it is expected to go."""

    writer_id: uuid.UUID = wire(UUID)
    event_number: int = wire(LONG)
    expected_offset: int = wire(LONG)
    """The segment's length that the append depends on, in bytes."""
    event: Buffer = wire(EVENT)
    """The event without its frame."""
    request_id: int = wire(LONG)


@command(89)
class ConditionalBlockEnd(Command):
    """Bytes that are appended only where they are expected to go; the server puts no frame around them."""

    writer_id: uuid.UUID = wire(UUID)
    event_number: int = wire(LONG)
    expected_offset: int = wire(LONG)
    data: Buffer = wire(BLOCK)
    request_id: int = wire(LONG)


@command(7)
class DataAppended(Command):
    """Everything up to `event_number` is stored; one acknowledgement may cover several blocks."""

    writer_id: uuid.UUID = wire(UUID)
    event_number: int = wire(LONG)
    previous_event_number: int = wire(LONG)
    request_id: int = wire(LONG)
    segment_length: int = wire(LONG)


@command(8)
class ConditionalCheckFailed(Command):
    """A conditional append found another length than expected."""

    writer_id: uuid.UUID = wire(UUID)
    event_number: int = wire(LONG)
    request_id: int = wire(LONG)
