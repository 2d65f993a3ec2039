"""Which blocks of events have figures.

A version's rows have theirs in an entry of its own, which never changes. Of what `CALL index` has read there are
entries with numbers, and one that says which of these count. Both change together, so a call that dies has noted whole
entries, or nothing. A number is never given again.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from pyspark_pravega.client.key_value import ANY_VERSION, NOT_EXISTS
from pyspark_pravega.connector.index import Block, BlockIndex, gathered, without
from pyspark_pravega.connector.log.entries import Intent, commit_of
from pyspark_pravega.connector.log.entry_keys import (
    FIGURES,
    READ_INDEXES,
    commit_key,
    index_key,
    job_key,
    read_index_key,
)
from pyspark_pravega.connector.log.json_table import Change, JsonTable
from pyspark_pravega.errors import ConflictError

_VERSIONS_AT_ONCE, _AT_ONCE = 500, 20
"""Versions, and entries, that are asked for together: each entry may have a megabyte."""
_NONE: Mapping[int, BlockIndex] = MappingProxyType({})


def index_of(table: JsonTable, done: Intent, version: int, cut: Mapping[int, int]) -> list[Change]:
    """The index of a commit that becomes a version, as a change of the log; none where no place of it is known.

    Args:
        table: holds the log.
        done: the commit.
        version: which one it becomes.
        cut: the tail that it has reached.
    """
    noted, before = table.get(job_key(uuid.UUID(done.job), FIGURES), commit_key(version - 1))
    if noted is None or (before is None and version > 1):
        return []
    tail = {} if before is None else commit_of(before.content).cut
    index = BlockIndex.of_content(noted.content["index"]).placed(tail, cut, done.bytes)
    return [] if index is None else [(index_key(version), NOT_EXISTS, index.content())]


@dataclass(frozen=True, kw_only=True)
class ReadIndexes:
    """Of what `CALL index` has read, as the log had it at a moment."""

    by_number: Mapping[int, BlockIndex]
    numbers: tuple[int, ...] = ()
    """Those that count, in ascending order."""
    next: int = 1
    """The number of the next one."""
    gone: tuple[int, ...] = ()
    """Those that don't count any more, and may still be there."""
    stored_as: int = NOT_EXISTS
    """The version in the key-value table of the entry that says so."""


class IndexLog:
    """Figures of blocks in a commit log. Safe for use by several threads."""

    def __init__(self, table: JsonTable) -> None:
        """Use an opened log; see `Ledger.indexes`."""
        self._table = table

    def of_versions(self, versions: Sequence[int]) -> Iterator[tuple[int, BlockIndex]]:
        """The indexes of completed versions, of those that have one. Some are asked for at a time.

        Args:
            versions: which ones.
        """
        for first in range(0, len(versions), _VERSIONS_AT_ONCE):
            some = versions[first : first + _VERSIONS_AT_ONCE]
            for version, document in zip(some, self._table.get(*map(index_key, some)), strict=True):
                if document is not None:
                    yield version, BlockIndex.of_content(document.content)

    def read(self, known: Mapping[int, BlockIndex] = _NONE) -> ReadIndexes:
        """What there is of events that were read.

        Args:
            known: entries that were asked for before, by their numbers.
        """
        listed = self._listed()
        missing = [number for number in listed.numbers if number not in known]
        by_number = {number: known[number] for number in listed.numbers if number in known}
        for first in range(0, len(missing), _AT_ONCE):
            by_number |= self._entries(missing[first : first + _AT_ONCE])
        return replace(listed, by_number=by_number)

    def add(self, columns: tuple[tuple[str, ...], ...], blocks: Sequence[Block]) -> None:
        """Note the figures of events that were read.

        Args:
            columns: as of `BlockIndex`.
            blocks: each of one part of the stream.
        """
        left = blocks
        while left:
            listed = self._listed()
            entries = self._entries(listed.numbers[-1:])
            last = entries.get(max(entries, default=0))
            if last is not None and last.columns == columns:
                # Another call may have read them, too. Or they are there already: the answer was lost.
                there = last.whole.parts
                left = [block for block in left if next(without(block.parts, there), None) is not None]
            if not left:
                return
            index, others, takes_last = gathered(columns, last, left)
            try:
                self._change(listed, index, list(entries) if takes_last else ())
            except ConflictError:
                continue
            left = others

    def drop(self, read: ReadIndexes, numbers: Collection[int]) -> bool:
        """Forget entries.

        Args:
            read: what there is.
            numbers: those that aren't needed any more.

        Returns:
            False where the log has changed since.
        """
        try:
            self._change(read, None, numbers)
        except ConflictError:
            return False
        return True

    def _listed(self) -> ReadIndexes:
        document = self._table.get(READ_INDEXES)[0]
        if document is None:
            return ReadIndexes(by_number={})
        content = document.content
        return ReadIndexes(
            by_number={},
            numbers=tuple(content["numbers"]),
            next=content["next"],
            gone=tuple(content["gone"]),
            stored_as=document.version,
        )

    def _entries(self, numbers: Sequence[int]) -> dict[int, BlockIndex]:
        """Those that are there: another call may have put a larger one in an entry's place."""
        documents = self._table.get(*map(read_index_key, numbers)) if numbers else []
        return {
            number: BlockIndex.of_content(document.content)
            for number, document in zip(numbers, documents, strict=True)
            if document is not None
        }

    def _change(self, before: ReadIndexes, new: BlockIndex | None, gone: Collection[int]) -> None:
        self._remove(before.gone)
        numbers = [number for number in before.numbers if number not in gone]
        changes: list[Change] = []
        if new is not None:
            numbers.append(before.next)
            changes.append((read_index_key(before.next), NOT_EXISTS, new.content()))
        behind = before.next + len(changes)
        listed = (READ_INDEXES, before.stored_as, {"numbers": numbers, "next": behind, "gone": sorted(gone)})
        self._table.repeated(lambda: self._table.put(listed, *changes))
        self._remove(gone)

    def _remove(self, numbers: Collection[int]) -> None:
        if numbers:
            self._table.repeated(
                lambda: self._table.remove(*((read_index_key(number), ANY_VERSION) for number in numbers))
            )
