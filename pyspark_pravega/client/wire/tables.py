"""Commands on table segments, which key-value tables are made of."""

from __future__ import annotations

from pyspark_pravega.client.wire.command import Command, command, wire
from pyspark_pravega.client.wire.fields import (
    BLOCK,
    FLAG,
    INT,
    LONG,
    TABLE_ENTRIES,
    TABLE_KEYS,
    TEXT,
    TOKEN,
    VERSIONS,
    Buffer,
)

NOT_EXISTS = -1
"""Version of a table key that must not exist yet."""
ANY_VERSION = -(2**63)
"""Version of a table key that is written whatever is there."""
TableEntry = tuple[Buffer, int, Buffer | None]
"""Key, version, value; the value is None where only keys travel."""
StoredEntry = tuple[bytes, int, bytes | None]
"""The same in a reply."""


@command(68)
class GetTableSegmentInfo(Command):
    """Asks for a table segment's state."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    token: str = wire(TOKEN, "")


@command(69)
class TableSegmentInfo(Command):
    """A table segment's state."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    start_offset: int = wire(LONG)
    length: int = wire(LONG)
    entry_count: int = wire(LONG)
    key_length: int = wire(INT)
    """Bytes of every key; 0 where keys have any length."""


@command(70)
class CreateTableSegment(Command):
    """Makes a table segment; SegmentCreated answers."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    token: str = wire(TOKEN, "")
    sorted_keys: bool = wire(FLAG, False)
    """Of servers before 0.10."""
    key_length: int = wire(INT, 0)
    rollover_size: int = wire(LONG, 0)


@command(71)
class DeleteTableSegment(Command):
    """Deletes a table segment; SegmentDeleted answers."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    must_be_empty: bool = wire(FLAG)
    token: str = wire(TOKEN, "")


@command(74)
class UpdateTableEntries(Command):
    """Puts entries into a table segment: all of them, or none when one of their versions isn't met."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    token: str = wire(TOKEN, "")
    entries: tuple[TableEntry, ...] = wire(TABLE_ENTRIES)
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
    token: str = wire(TOKEN, "")
    keys: tuple[TableEntry, ...] = wire(TABLE_KEYS)
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
    token: str = wire(TOKEN, "")
    keys: tuple[TableEntry, ...] = wire(TABLE_KEYS)


@command(79)
class TableRead(Command):
    """The entries asked for, in order; version -1 where there is none."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    entries: tuple[StoredEntry, ...] = wire(TABLE_ENTRIES)


@command(83)
class ReadTableKeys(Command):
    """Asks for a page of keys, in their order."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    token: str = wire(TOKEN, "")
    suggested_count: int = wire(INT)
    continuation: Buffer = wire(BLOCK, b"")
    """From the page before; empty for the first one."""
    prefix: Buffer = wire(BLOCK, b"")
    """Ignored by servers since 0.10."""
    first_key: Buffer = wire(BLOCK, b"")
    """Inclusive; empty for the first one there is."""
    last_key: Buffer = wire(BLOCK, b"")
    """Inclusive; empty for the last one there is."""


@command(84)
class TableKeysRead(Command):
    """A page of keys with their versions."""

    request_id: int = wire(LONG)
    segment: str = wire(TEXT)
    keys: tuple[StoredEntry, ...] = wire(TABLE_KEYS)
    continuation: Buffer = wire(BLOCK)
