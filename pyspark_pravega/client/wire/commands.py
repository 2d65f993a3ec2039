"""The commands and replies of the segment store's wire protocol (version 16; spoken with Pravega 0.13).

Each is a frozen dataclass whose fields stand in the order of the bytes. `command` gives the class its type number,
`wire` gives a field its layout.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from pyspark_pravega.client.wire.fields import (
    BLOCK,
    FLAG,
    INT,
    LONG,
    TABLE_ENTRIES,
    TABLE_KEYS,
    TEXT,
    UUID,
    VERSIONS,
    Buffer,
    Cursor,
    FieldType,
)
from pyspark_pravega.errors import WireError

WIRE_VERSION = 16
OLDEST_COMPATIBLE_VERSION = 5

NO_EVENT = -(2**63)
"""`AppendSetup.last_event_number` of a writer that has stored nothing in the segment."""
NOT_EXISTS = -1
"""Version of a table key that must not exist yet."""
ANY_VERSION = -(2**63)
"""Version of a table key that is written whatever is there."""


def wire(layout: FieldType, default: Any = dataclasses.MISSING) -> Any:
    """A field with its layout.

    Args:
        layout: how the value is written.
        default: the value when none is given.
    """
    return dataclasses.field(default=default, metadata={"wire": layout})


class Command:
    """Anything that travels between a client and a segment store."""

    TYPE: ClassVar[int]
    LAYOUT: ClassVar[tuple[tuple[str, FieldType], ...]]

    def encode(self) -> list[Buffer]:
        """The payload in pieces, so that large blocks aren't copied.

        Returns:
            Buffers to be sent one after another.
        """
        out: list[Buffer] = []
        for name, layout in self.LAYOUT:
            layout.put(getattr(self, name), out)
        return out

    @classmethod
    def decode(cls, payload: Buffer) -> Self:
        """A command from its payload; bytes that later protocol versions append are passed over.

        Args:
            payload: the bytes after the frame's header. Blocks in the result are views of it.

        Returns:
            The command.

        Raises:
            WireError: the payload is too short.
        """
        cursor = Cursor(payload)
        return cls(**{name: layout.get(cursor) for name, layout in cls.LAYOUT})


COMMANDS: dict[int, type[Command]] = {}
"""Type number to class."""

C = TypeVar("C", bound=Command)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def command(number: int) -> Callable[[type[C]], type[C]]:
    """Make a class the command of a type number.

    Args:
        number: the frame's type.
    """

    def register(cls: type[C]) -> type[C]:
        made = dataclass(frozen=True, kw_only=True)(cls)
        made.TYPE = number
        made.LAYOUT = tuple((f.name, f.metadata["wire"]) for f in dataclasses.fields(made))  # type: ignore[arg-type]
        if number in COMMANDS:
            raise WireError(f"command number {number} is taken by {COMMANDS[number].__name__}")
        COMMANDS[number] = made
        return made

    return register


@command(-127)
class Hello(Command):
    """The first command in each direction."""

    high_version: int = wire(INT, WIRE_VERSION)
    low_version: int = wire(INT, OLDEST_COMPATIBLE_VERSION)


@command(100)
class KeepAlive(Command):
    """Sent by either side of an idle connection, and echoed."""


@command(1)
class SetupAppend(Command):
    """Announces a writer on a segment. One writer id serves one segment on a connection."""

    request_id: int = wire(LONG)
    writer_id: uuid.UUID = wire(UUID)
    segment: str = wire(TEXT)
    token: str = wire(TEXT, "")


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


@command(9)
class ReadSegment(Command):
    """Asks for bytes from an offset; answered at the tail as soon as there are any."""

    segment: str = wire(TEXT)
    offset: int = wire(LONG)
    suggested_length: int = wire(INT)
    token: str = wire(TEXT, "")
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
    token: str = wire(TEXT, "")


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


@command(74)
class UpdateTableEntries(Command):
    """Puts entries into a table segment: all of them, or none when one of their versions isn't met."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    token: str = wire(TEXT, "")
    entries: tuple[tuple[Buffer, int, Buffer | None], ...] = wire(TABLE_ENTRIES)
    """(key, expected version, value) each."""
    table_offset: int = wire(LONG, -1)


@command(75)
class TableEntriesUpdated(Command):
    """The entries' new versions, in their order."""

    request_id: int = wire(LONG)
    versions: tuple[int, ...] = wire(VERSIONS)


@command(76)
class RemoveTableKeys(Command):
    """Removes keys from a table segment: all of them, or none."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    token: str = wire(TEXT, "")
    keys: tuple[tuple[Buffer, int, Buffer | None], ...] = wire(TABLE_KEYS)
    table_offset: int = wire(LONG, -1)


@command(77)
class TableKeysRemoved(Command):
    """The keys are gone."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)


@command(78)
class ReadTable(Command):
    """Asks for entries by key."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    token: str = wire(TEXT, "")
    keys: tuple[tuple[Buffer, int, Buffer | None], ...] = wire(TABLE_KEYS)


@command(79)
class TableRead(Command):
    """The entries asked for, in order; version -1 where there is none."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    entries: tuple[tuple[bytes, int, bytes | None], ...] = wire(TABLE_ENTRIES)


class Failure(Command):
    """A reply that says what went wrong."""


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
    trace: str = wire(TEXT)
    event_number: int = wire(LONG)


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
