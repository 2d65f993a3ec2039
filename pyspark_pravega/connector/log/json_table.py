"""JSON documents in a key-value table: each names the format that it was written in, and changes under conditions."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark_pravega.client import KeyValueTable
from pyspark_pravega.client.key_value import NOT_EXISTS, Entry
from pyspark_pravega.clock import now_ms
from pyspark_pravega.deadlines import Limit
from pyspark_pravega.errors import (
    AuthenticationError,
    ConflictError,
    DeadlineExceededError,
    PravegaError,
    UnavailableError,
)

FORMAT = 1
Content = dict[str, Any]
Change = tuple[bytes, int, Content]
"""Key, expected version of the entry (or `NOT_EXISTS`, `ANY_VERSION`), new content."""
Made = TypeVar("Made")
_READABLE_S, _POLL_S = 2.0, 0.002
_LOCKED_MS, _LOCK_POLL_S = 60_000, 0.05
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_REPEATED_S = 10.0
"""How long after its begin a change is made again whose answer was lost, at least: it may have waited for a server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """What an entry holds."""

    content: Content
    version: int
    """The entry's version in the key-value table, to be named when it is changed."""


class JsonTable:
    """A key-value table of documents. Safe for use by several threads."""

    def __init__(self, table: KeyValueTable, what: str) -> None:
        """Use an opened key-value table.

        Args:
            table: the table.
            what: what it is, as errors name it: `the commit log of stream "shop/orders"`.
        """
        self._table, self._what = table, what

    def get(self, *keys: bytes) -> list[Document | None]:
        """For each key its document, or None."""
        return [None if entry is None else self._load(entry) for entry in self._table.get(keys)]

    @property
    def looked_up(self) -> Document | None:
        """The document that was looked up when the table was opened, as it was then; None where there was none."""
        return None if self._table.looked_up is None else self._load(self._table.looked_up)

    def content(self, key: bytes) -> Content | None:
        """What the document of a key says, or None."""
        document = self.get(key)[0]
        return None if document is None else document.content

    def iterate(
        self, *, prefix: bytes = b"", start: bytes | None = None, stop: bytes | None = None
    ) -> Iterator[tuple[bytes, Document]]:
        """All documents, in the order of their keys.

        Args:
            prefix: what their keys begin with.
            start: the least key.
            stop: the first key that isn't wanted any more.
        """
        for key, entry in self._table.iterate_entries(prefix=prefix, start=start, stop=stop):
            yield key, self._load(entry)

    def put(self, *changes: Change) -> list[int]:
        """Make all changes, or none.

        Returns:
            The entries' new versions.

        Raises:
            ConflictError: an entry has another version than expected.
        """
        return self._table.put([(key, version, _dump(content)) for key, version, content in changes])

    def remove(self, *entries: tuple[bytes, int]) -> None:
        """Remove all entries, or none.

        Args:
            entries: key and expected version each.

        Raises:
            ConflictError: an entry has another version than expected.
        """
        self._table.remove(entries)

    def change(self, key: bytes, change: Callable[[Content | None], Content | None]) -> Content | None:
        """Change a document, however many do so at once.

        Args:
            key: its key.
            change: makes the new content of the present one; None stands for no document. It may be called several
                times, and what it raises ends it.

        Returns:
            What was there before.
        """
        while True:
            document = self.get(key)[0]
            before, version = (None, NOT_EXISTS) if document is None else (document.content, document.version)
            after = change(before)
            try:
                if after is not None:
                    self.put((key, version, after))
                elif document is not None:
                    self.remove((key, version))
                return before
            except ConflictError:
                continue

    @contextmanager
    def locked(self, key: bytes) -> Iterator[None]:
        """Be the only one who holds an entry meanwhile. Who has died holds others up for a minute.

        Args:
            key: its key.
        """

        mine = {"by": uuid.uuid4().hex}

        def take(holder: Content | None) -> Content:
            if holder is not None and holder["by"] != mine["by"] and now_ms() - holder["at"] < _LOCKED_MS:
                return holder
            return {**mine, "at": now_ms()}

        def give_back(holder: Content | None) -> Content | None:
            return None if holder is not None and holder["by"] == mine["by"] else holder

        while True:
            self.repeated(lambda: self.change(key, take))
            holder = self.content(key)
            if holder is not None and holder["by"] == mine["by"]:
                break
            time.sleep(_LOCK_POLL_S)
        try:
            yield
        finally:
            self.repeated(lambda: self.change(key, give_back))

    def may_change(self) -> bool:
        """Whether the user has the right to change documents."""
        try:
            self._table.check_right_to_change()
        except AuthenticationError:
            return False
        return True

    def in_the_way(self, *keys: bytes) -> list[Document | None]:
        """The documents of these keys, one of which has kept a change from being made.

        A server compares a change with those that are under way, too; these can be read only a moment later.
        """
        limit = Limit(_READABLE_S)
        while True:
            documents = self.get(*keys)
            if any(document is not None for document in documents) or not limit.wait(_POLL_S):
                return documents

    def repeated(self, change: Callable[[], Made]) -> Made:
        """Make a change that does no harm when it is made twice; where its answer is lost, it is made again.

        Args:
            change: the change, of this table.
        """
        limit = Limit(max(_REPEATED_S, self._table.timeout))
        while True:
            try:
                return change()
            except DeadlineExceededError:
                raise
            except UnavailableError:
                if not limit.wait():
                    raise

    def _load(self, entry: Entry) -> Document:
        content: Content = json.loads(entry.value.decode())
        if content.get("format") != FORMAT:
            raise PravegaError(
                f"{self._what} was written by another version of pyspark-pravega "
                f"(format {content.get('format')}, known is {FORMAT}): upgrade this one"
            )
        return Document(content=content, version=entry.version)


def _dump(content: Content) -> bytes:
    return _ENCODER.encode({"format": FORMAT, **content}).encode()
