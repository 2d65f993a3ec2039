"""Pravega's key-value tables: entries with versions, changed only under conditions.

A key is a primary key, by which its partition is chosen, and a secondary key right behind it where the table has
secondary keys. Both have the lengths that the table was made with, so here a key is one `bytes` of both.

A version is a number that grows with each change of a partition; it means something only together with its key.
`NOT_EXISTS` stands for an entry that must not be there yet, `ANY_VERSION` for whatever is there.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import itemgetter
from typing import TypeVar

from pyspark_pravega.client.connections import Connection, ConnectionPool, call_once
from pyspark_pravega.client.key_value.partitions import Partitions, Span
from pyspark_pravega.client.names import StreamSegments
from pyspark_pravega.client.policies import KeyValueTableConfiguration
from pyspark_pravega.client.wire import ANY_VERSION, NOT_EXISTS
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.errors import ConfigurationError, ConflictError, NotFoundError, WireError

__all__ = ["ANY_VERSION", "NOT_EXISTS", "Entry", "KeyValueTable"]

MAX_CHANGE_BYTES = (16 << 20) - 1 - 8192
"""Keys and values of one change, with 24 bytes for each entry (TableSegment.MAXIMUM_BATCH_LENGTH)."""
KEYS_IN_REQUEST = 30
"""So that their entries fit into an answer, however long they are."""
SMALL_VALUE_BYTES, SMALL_VALUES_IN_REQUEST = 4096, 200
"""As long as an iteration's last values were no longer, it asks for so many at a time."""
REQUESTS_IN_FLIGHT = 3
_KEPT = 4096
"""How many tables a pool remembers."""
PAGE_KEYS = 1000
"""A page of keys; servers take it for a hint, and send up to some thousand."""

Reply = TypeVar("Reply", bound=wire.Command)
Change = tuple[bytes, int, bytes | None]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A stored value and the version to name when it is changed."""

    value: bytes
    version: int


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How much a table holds, about: a server counts changes only when it has indexed them."""

    entries: int
    bytes: int
    """With those of entries that were replaced or removed and aren't cleaned up yet."""


class KeyValueTable:
    """A key-value table. Changes are atomic within a partition. Safe for use by several threads."""

    def __init__(self, pool: ConnectionPool, scope: str, name: str, *, segments: StreamSegments | None = None) -> None:
        """Open an existing table.

        Args:
            pool: connections to the segment stores.
            scope: the table's scope.
            name: its name.
            segments: its segments, where they are known; see `reopened`.

        Raises:
            KeyValueTableNotFoundError: there is no such table.
        """
        if segments is None:
            segments = pool.controller.key_value_table_segments(scope, name)
        self.scope, self.name = scope, name
        self.segments = segments
        self.looked_up: Entry | None = None
        """What `reopened` has found under its key, as it was then."""
        self._pool, self._stream = pool, segments.stream
        several = len(segments.ids) > 1
        self._partitions = Partitions(str(self), segments, self._configuration.key_bytes if several else 0)

    @property
    def timeout(self) -> float:
        """For how long a server that is gone is waited for, in seconds."""
        return self._pool.timeout

    @classmethod
    def reopened(cls, pool: ConnectionPool, scope: str, name: str, *, key: bytes) -> KeyValueTable:
        """Open an existing table of one partition, without the controller where it was opened before.

        A table that is made again under an old name has a segment of another name (measured with 0.13), so its segment
        store knows whether it is still the same one.

        Args:
            pool: connections to the segment stores.
            scope: the table's scope.
            name: its name.
            key: any key, which is looked up to see whether the table is there.

        Raises:
            KeyValueTableNotFoundError: there is no such table.
            SegmentNotFoundError: there is its name, and no entries: it is being deleted.
        """
        known = pool.table_segments.get((scope, name))
        if known is not None:
            table = cls(pool, scope, name, segments=known)
            try:
                (table.looked_up,) = table.get([key])
                return table
            except NotFoundError:
                pool.table_segments.pop((scope, name), None)
        table = cls(pool, scope, name)
        (table.looked_up,) = table.get([key])
        if len(pool.table_segments) >= _KEPT:
            pool.table_segments.clear()
        pool.table_segments[scope, name] = replace(table.segments, token="")
        return table

    def __str__(self) -> str:
        return f"{self.scope}/{self.name}"

    @property
    def partitions(self) -> tuple[int, ...]:
        """The ids of its partitions."""
        return self._partitions.ids

    def placed(self, keys: Sequence[bytes]) -> dict[int, list[int]]:
        """Sort keys by partition.

        Args:
            keys: whole keys, or at least their primary parts.

        Returns:
            Partition to the keys' indexes in `keys`, ascending.

        Raises:
            ConfigurationError: a key is shorter than a primary key.
        """
        return self._partitions.of(keys)

    def extent(self) -> Extent:
        """How much the table holds, about.

        Raises:
            SegmentStoreUnavailableError: the segment store can't be reached.
        """
        infos = [self._pool.call(self._stream, one, partial(self._info, one)) for one in self.partitions]
        return Extent(entries=sum(i.entry_count for i in infos), bytes=sum(i.length - i.start_offset for i in infos))

    def get(self, keys: Sequence[bytes]) -> list[Entry | None]:
        """Look entries up, in as many partitions as there are keys for.

        Args:
            keys: any number of keys, each of the table's key length.

        Returns:
            For each key its entry, or None. Those of different partitions needn't be of one moment.

        Raises:
            SegmentStoreUnavailableError: the segment store can't be reached.
        """
        answers: list[Entry | None] = [None] * len(keys)
        for partition, indexes in self._partitions.of(keys).items():
            partition_keys = [keys[index] for index in indexes]
            entries = self._pool.call(self._stream, partition, partial(self._read, partition, partition_keys))
            for index, (_, version, value) in zip(indexes, entries, strict=True):
                if version != NOT_EXISTS:
                    answers[index] = Entry(value=value or b"", version=version)
        return answers

    def check_right_to_change(self) -> None:
        """Ask whether the user may change entries.

        Raises:
            AuthenticationError: no.
        """
        self._token(write=True)

    def put(self, entries: Sequence[tuple[bytes, int, bytes]]) -> list[int]:
        """Change entries of one partition: all of them, or none.

        Args:
            entries: (key, expected version, value) each; the version may be `NOT_EXISTS`, to insert, or `ANY_VERSION`.
                A server takes nearly 1 MiB for an entry, and nearly 16 MiB for all.

        Returns:
            The new versions.

        Raises:
            ConflictError: one of the entries has another version than expected. Nothing was changed. A server compares
                with changes that are under way, too: what was faster may be readable only some milliseconds later.
            ConfigurationError: the entries are of several partitions, or longer than 16 MiB. Nothing was sent.
            OperationFailedError: the server refused an entry, as for its length. Nothing was changed.
            SegmentStoreUnavailableError: the connection was lost; the change may or may not have been made.
        """
        changes: list[Change] = list(entries)
        if not changes:
            return []
        partition = self._partition(changes)

        def request(connection: Connection) -> wire.UpdateTableEntries:
            return wire.UpdateTableEntries(
                request_id=connection.next_id(),
                segment=self._stream.segment_name(partition),
                token=self._token(write=True),
                entries=tuple(changes),
            )

        return list(self._change(partition, changes, request, wire.TableEntriesUpdated).versions)

    def remove(self, keys: Sequence[tuple[bytes, int]]) -> None:
        """Remove entries of one partition: all of them, or none. `ANY_VERSION` passes over keys that aren't there.

        Args:
            keys: (key, expected version) each.

        Raises:
            ConflictError: one of the entries has another version than expected. Nothing was changed.
            ConfigurationError: the keys are of several partitions. Nothing was sent.
            OperationFailedError: the server refused a key, as for its length. Nothing was changed.
            SegmentStoreUnavailableError: the connection was lost; the change may or may not have been made.
        """
        changes: list[Change] = [(key, version, None) for key, version in keys]
        if not changes:
            return
        partition = self._partition(changes)

        def request(connection: Connection) -> wire.RemoveTableKeys:
            return wire.RemoveTableKeys(
                request_id=connection.next_id(),
                segment=self._stream.segment_name(partition),
                token=self._token(write=True),
                keys=tuple(changes),
            )

        self._change(partition, changes, request, wire.TableKeysRemoved)

    def iterate_keys(
        self,
        *,
        prefix: bytes = b"",
        start: bytes | None = None,
        stop: bytes | None = None,
        partition: int | None = None,
    ) -> Iterator[tuple[bytes, int]]:
        """The keys that are there, in their order; fetched page by page, as they are asked for.

        Keys that come or go meanwhile may be among them or not; every other one is, once.

        Args:
            prefix: what the keys begin with. With a whole primary key only its partition is asked.
            start: the first key, or its beginning.
            stop: the first key that isn't wanted any more, or its beginning.
            partition: the only partition that is asked; None for all that may hold such keys.

        Yields:
            Key and version.

        Raises:
            ConfigurationError: a bound is longer than a key.
            SegmentStoreUnavailableError: the segment store can't be reached.
        """
        pages = self._pages(prefix, start, stop, partition)
        return heapq.merge(*(_flat(partition_pages) for _, partition_pages in pages), key=itemgetter(0))

    def iterate_entries(
        self,
        *,
        prefix: bytes = b"",
        start: bytes | None = None,
        stop: bytes | None = None,
        partition: int | None = None,
    ) -> Iterator[tuple[bytes, Entry]]:
        """The entries, in the order of their keys; otherwise as `iterate_keys`.

        Yields:
            Key and entry.
        """
        pages = self._pages(prefix, start, stop, partition)
        return heapq.merge(*(self._entries(*of_partition) for of_partition in pages), key=itemgetter(0))

    # Reading

    def _read(
        self, partition: int, keys: list[bytes], connection: Connection, at_a_time: int = KEYS_IN_REQUEST
    ) -> list[wire.StoredEntry]:
        """Asks for keys in several requests, of which some are under way at a time."""
        segment, token = self._stream.segment_name(partition), self._token(write=False)
        replies: dict[int, tuple[wire.StoredEntry, ...]] = {}
        request_ids: list[int] = []
        for begin in range(0, len(keys), at_a_time):
            some = keys[begin : begin + at_a_time]
            request_ids.append(connection.next_id())
            connection.send(
                wire.ReadTable(
                    request_id=request_ids[-1],
                    segment=segment,
                    token=token,
                    keys=tuple((key, ANY_VERSION, None) for key in some),
                )
            )
            if len(request_ids) - len(replies) == REQUESTS_IN_FLIGHT:
                self._receive(connection, request_ids, replies)
        while len(replies) < len(request_ids):
            self._receive(connection, request_ids, replies)
        entries = [entry for request_id in request_ids for entry in replies[request_id]]
        if len(entries) != len(keys):
            raise WireError(f'{len(entries)} entries of key-value table "{self}" came where {len(keys)} were asked for')
        return entries

    def _receive(
        self, connection: Connection, request_ids: list[int], replies: dict[int, tuple[wire.StoredEntry, ...]]
    ) -> None:
        reply = connection.expect(connection.receive(), wire.TableRead)
        if reply.request_id not in request_ids:
            raise WireError(f'entries of key-value table "{self}" came that were not asked for')
        replies[reply.request_id] = reply.entries

    def _pages(
        self, prefix: bytes, start: bytes | None, stop: bytes | None, only: int | None
    ) -> list[tuple[int, Iterator[list[tuple[bytes, int]]]]]:
        """Partitions and their pages of keys."""
        key_bytes = self._configuration.key_bytes + self._configuration.secondary_key_bytes
        span = Span.of(key_bytes, prefix=prefix, start=start, stop=stop)
        partitions = self._partitions.between(span) if span else ()
        return [(one, self._pages_of(one, span)) for one in partitions if only in (None, one)]

    def _pages_of(self, partition: int, span: Span) -> Iterator[list[tuple[bytes, int]]]:
        while span:
            page = self._pool.call(self._stream, partition, partial(self._page, partition, span))
            if not page:
                return
            if not span.first <= page[-1][0] <= span.last:
                raise WireError(f'keys of key-value table "{self}" came that were not asked for')
            yield page
            span = span.after(page[-1][0])

    def _page(self, partition: int, span: Span, connection: Connection) -> list[tuple[bytes, int]]:
        request = wire.ReadTableKeys(
            request_id=connection.next_id(),
            segment=self._stream.segment_name(partition),
            token=self._token(write=False),
            suggested_count=PAGE_KEYS,
            first_key=span.first,
            last_key=span.last,
        )
        return [(key, version) for key, version, _ in connection.call(request, wire.TableKeysRead).keys]

    def _entries(self, partition: int, pages: Iterator[list[tuple[bytes, int]]]) -> Iterator[tuple[bytes, Entry]]:
        # Pages of entries are as long as those of keys, whatever their values' length: a server answered with 120
        # entries of 1 MiB where one was asked for. So the values are asked for by key.
        at_a_time = KEYS_IN_REQUEST
        for page in pages:
            begin = 0
            while begin < len(page):
                keys = [key for key, _ in page[begin : begin + at_a_time * REQUESTS_IN_FLIGHT]]
                begin += len(keys)
                read = partial(self._read, partition, keys, at_a_time=at_a_time)
                entries = self._pool.call(self._stream, partition, read)
                longest = max((len(value or b"") for _, _, value in entries), default=0)
                at_a_time = SMALL_VALUES_IN_REQUEST if longest <= SMALL_VALUE_BYTES else KEYS_IN_REQUEST
                for key, version, value in entries:
                    if version != NOT_EXISTS:
                        yield key, Entry(value=value or b"", version=version)

    def _info(self, partition: int, connection: Connection) -> wire.TableSegmentInfo:
        request = wire.GetTableSegmentInfo(
            request_id=connection.next_id(),
            segment=self._stream.segment_name(partition),
            token=self._token(write=False),
        )
        return connection.call(request, wire.TableSegmentInfo)

    @cached_property
    def _configuration(self) -> KeyValueTableConfiguration:
        return self._pool.controller.key_value_table_configuration(self.scope, self.name)

    # Changing

    def _partition(self, changes: Sequence[Change]) -> int:
        """The partition of a change, which must fit into one command."""
        size = sum(24 + len(key) + len(value or b"") for key, _, value in changes)
        if size > MAX_CHANGE_BYTES:
            raise ConfigurationError(
                f'a change of key-value table "{self}" has {size} bytes; {MAX_CHANGE_BYTES} is the most'
            )
        partitions = self._partitions.of([key for key, _, _ in changes])
        if len(partitions) > 1:
            one, other = (changes[indexes[0]][0].hex() for indexes in list(partitions.values())[:2])
            raise ConfigurationError(
                f'a change of key-value table "{self}" spans {len(partitions)} partitions (as of keys {one} and '
                f"{other}), and so can't be made whole or not at all: change the keys of one primary key together"
            )
        return next(iter(partitions))

    def _change(
        self,
        partition: int,
        changes: Sequence[Change],
        request: Callable[[Connection], wire.Command],
        expected: type[Reply],
    ) -> Reply:
        """A change whose answer is lost may have been made. It is repeated only where that shows, by its versions."""
        what = f'a change of {_named(changes)} in key-value table "{self}"'
        conflicts = (wire.TableKeyBadVersion, wire.TableKeyDoesNotExist)
        is_conditional = all(version != ANY_VERSION for _, version, _ in changes)
        reply = call_once(
            self._pool,
            self._stream,
            partition,
            request,
            expected,
            *conflicts,
            what=what,
            conflicts=conflicts if is_conditional else (),
        )
        if isinstance(reply, expected):
            return reply
        gone = "is gone" if isinstance(reply, wire.TableKeyDoesNotExist) else "has been changed"
        raise ConflictError(f'an entry of key-value table "{self}" {gone}: {_named(changes)}')

    def _token(self, *, write: bool) -> str:
        return self._pool.tokens.get(self._stream, write=write)


def _flat(pages: Iterator[list[tuple[bytes, int]]]) -> Iterator[tuple[bytes, int]]:
    return (item for page in pages for item in page)


def _named(changes: Sequence[Change]) -> str:
    keys = ", ".join(key.hex() for key, _, _ in changes[:3])
    return f"key {keys}" if len(changes) == 1 else f"keys {keys}{', ...' if len(changes) > 3 else ''}"
