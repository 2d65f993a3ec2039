"""Pravega's key-value tables: entries with versions, changed only under conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pyspark_pravega.client.connection import Connection
from pyspark_pravega.client.pool import ConnectionPool
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.client.wire.commands import ANY_VERSION, NOT_EXISTS

__all__ = ["ANY_VERSION", "NOT_EXISTS", "Entry", "KeyValueTable"]

Reply = TypeVar("Reply", bound=wire.Command)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A stored value and the version to name when it is changed."""

    value: bytes
    version: int


class KeyValueTable:
    """A table of one partition, so that one change of several entries is atomic. Safe for use by several threads."""

    def __init__(self, pool: ConnectionPool, scope: str, name: str) -> None:
        """Open an existing table.

        Args:
            pool: connections to the segment stores.
            scope: the table's scope.
            name: its name.

        Raises:
            KeyValueTableNotFoundError: there is no such table.
        """
        segments = pool.controller.key_value_table_segments(scope, name)
        self.scope, self.name = scope, name
        self._pool, self._stream = pool, segments.stream
        self._segment_id = segments.ids[0]
        self._segment = segments.stream.segment_name(self._segment_id)

    def get(self, keys: Sequence[bytes]) -> list[Entry | None]:
        """Look entries up.

        Args:
            keys: any number of keys, each of the table's key length.

        Returns:
            For each key its entry, or None.
        """
        if not keys:
            return []

        def ask(connection: Connection) -> wire.TableRead:
            request = wire.ReadTable(
                request_id=connection.next_id(),
                segment=self._segment,
                token=self._pool.tokens.get(self._stream, write=True),
                keys=tuple((key, ANY_VERSION, None) for key in keys),
            )
            return connection.call(request, wire.TableRead)

        entries = self._pool.call(self._stream, self._segment_id, ask).entries
        return [
            None if version == NOT_EXISTS else Entry(value=value or b"", version=version)
            for _, version, value in entries
        ]

    def put(self, entries: Sequence[tuple[bytes, int, bytes]]) -> list[int]:
        """Change entries: all of them, or none.

        Args:
            entries: (key, expected version, value) each; the version may be `NOT_EXISTS` or `ANY_VERSION`.

        Returns:
            The new versions.

        Raises:
            ConflictError: one of the entries has another version than expected.
            SegmentStoreUnavailableError: the connection was lost; the change may or may not have been made.
        """

        def ask(connection: Connection) -> wire.TableEntriesUpdated:
            request = wire.UpdateTableEntries(
                request_id=connection.next_id(),
                segment=self._segment,
                token=self._pool.tokens.get(self._stream, write=True),
                entries=tuple(entries),
            )
            return connection.call(request, wire.TableEntriesUpdated)

        return list(self._change(ask).versions)

    def remove(self, keys: Sequence[tuple[bytes, int]]) -> None:
        """Remove entries: all of them, or none. Keys that aren't there are passed over for `ANY_VERSION`.

        Args:
            keys: (key, expected version) each.

        Raises:
            ConflictError: one of the entries has another version than expected.
            SegmentStoreUnavailableError: the connection was lost; the change may or may not have been made.
        """
        if not keys:
            return

        def ask(connection: Connection) -> wire.TableKeysRemoved:
            request = wire.RemoveTableKeys(
                request_id=connection.next_id(),
                segment=self._segment,
                token=self._pool.tokens.get(self._stream, write=True),
                keys=tuple((key, version, None) for key, version in keys),
            )
            return connection.call(request, wire.TableKeysRemoved)

        self._change(ask)

    def _change(self, ask: Callable[[Connection], Reply]) -> Reply:
        """A change isn't repeated when the connection breaks: it may have been made, and its versions are then new."""
        # An idle connection may have been closed long ago, which says nothing about this change: take a sound one.
        with self._pool.connection(self._stream, self._segment_id, check=True) as connection:
            return ask(connection)
