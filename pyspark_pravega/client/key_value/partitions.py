"""The partitions of a key-value table: which one holds a key, and what lies between two keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark_pravega.client.names import StreamSegments
from pyspark_pravega.client.routing import segment_indexes, table_key_fractions
from pyspark_pravega.errors import ConfigurationError


class Partitions:
    """A table's segments, chosen by primary key as Pravega's Java client does it."""

    def __init__(self, table: str, segments: StreamSegments, primary_key_bytes: int) -> None:
        """Remember how keys are made.

        Args:
            table: the table's full name, for messages.
            segments: the table's segments.
            primary_key_bytes: length of the part of each key that chooses the segment.
        """
        self.ids = segments.ids
        self._table, self._segments, self._primary = table, segments, primary_key_bytes

    def of(self, keys: Sequence[bytes]) -> dict[int, list[int]]:
        """Sort keys by partition.

        Args:
            keys: whole keys, or at least their primary parts.

        Returns:
            Segment id to the keys' indexes in `keys`, ascending.

        Raises:
            ConfigurationError: a key is shorter than a primary key.
        """
        if len(self.ids) == 1:
            return {self.ids[0]: list(range(len(keys)))} if keys else {}
        for key in keys:
            if len(key) < self._primary:
                raise ConfigurationError(
                    f'key {key.hex()} has {len(key)} bytes; keys of key-value table "{self._table}" begin with a '
                    f"primary key of {self._primary} bytes"
                )
        by_partition: dict[int, list[int]] = defaultdict(list)
        if keys:
            fractions = table_key_fractions([key[: self._primary] for key in keys])
            for index, partition in enumerate(segment_indexes(fractions, self._segments.ranges).tolist()):
                by_partition[self.ids[partition]].append(index)
        return dict(by_partition)

    def between(self, span: Span) -> tuple[int, ...]:
        """The partitions that may hold keys of a span: one where all of them share a primary key, otherwise all."""
        first, last = span.first[: self._primary], span.last[: self._primary]
        return tuple(self.of([first])) if first == last and len(first) == self._primary else self.ids


@dataclass(frozen=True)
class Span:
    """The keys from one to another, both included; none when `first` is behind `last`."""

    first: bytes
    last: bytes

    @classmethod
    def of(cls, key_bytes: int, *, prefix: bytes, start: bytes | None, stop: bytes | None) -> Span:
        """The keys of a length that begin with something and lie in a range.

        Args:
            key_bytes: the length of every key.
            prefix: what they begin with.
            start: no key comes before it.
            stop: every key comes before it.

        Raises:
            ConfigurationError: one of the bounds is longer than a key.
        """
        for bound in (prefix, start or b"", stop or b""):
            if len(bound) > key_bytes:
                raise ConfigurationError(
                    f"{bound.hex()} has {len(bound)} bytes, more than a key, which has {key_bytes}"
                )
        first = max(prefix, start or b"").ljust(key_bytes, b"\0")
        last = prefix.ljust(key_bytes, b"\xff")
        if stop is not None:
            before = int.from_bytes(stop.ljust(key_bytes, b"\0")) - 1
            if before < 0:
                return cls(b"\1", b"\0")
            last = min(last, before.to_bytes(key_bytes))
        return cls(first, last)

    def after(self, key: bytes) -> Span:
        """The keys of the span that come after a key of it."""
        following = int.from_bytes(key) + 1
        if following >> 8 * len(key):
            return Span(b"\1", b"\0")
        return Span(following.to_bytes(len(key)), self.last)

    def __bool__(self) -> bool:
        return self.first <= self.last
