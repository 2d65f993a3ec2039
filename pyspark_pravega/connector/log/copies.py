"""What `CALL copy` has copied into a table: an entry for each copy, found by its name.

A copy is done in pieces, each of which is one commit: the epoch `piece.number` of the query `Copy.query`. Where a piece
begins and ends is noted before it is written. So a copy that is resumed asks whether that epoch is there, and
writes the same events once more where it isn't.

What `CALL redeliver` is bringing into a table has an entry for each table of dead letters and each source. The events
of a piece are noted before they are written; their commit is the epoch `piece.number` of the query `Redelivery.query`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pyspark_pravega.client.key_value import NOT_EXISTS
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log.entry_keys import FIRST_COPY, FIRST_QUERY, copy_key, redelivery_key
from pyspark_pravega.connector.log.json_table import Content, Document, JsonTable
from pyspark_pravega.connector.log.tiered import offsets_of


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What one commit of a copy holds."""

    number: int
    """From 0."""
    end: dict[int, int]
    """The stream cut of the source at which it ends: segment id to offset in bytes."""
    version: int | None = None
    """The source's version at which it ends, where it is copied by versions."""
    after: int
    """The target's last version before the piece was begun."""


@dataclass(frozen=True, kw_only=True)
class Copy:
    """How far a copy has come."""

    name: str
    arguments: dict[str, str | None]
    """As they were given: another call of that name must have the same ones."""
    segment_id: int
    """A segment that the source had: a stream that was dropped and made again never has it."""
    first: int | None = None
    """The first version of the source that is copied; None where it begins at a cut, or with all that is there."""
    last: int | None = None
    """The last version; None where the source isn't copied by versions."""
    begin: dict[int, int]
    """The stream cut of the source at which it begins."""
    end: dict[int, int]
    """The one at which it ends."""
    reached: dict[int, int]
    """The one up to which all is copied."""
    reached_version: int | None = None
    """The version up to which all is copied, where it is copied by versions."""
    piece: Piece | None = None
    """What is being copied."""
    pieces: int = 0
    """How many pieces are copied."""
    commits: int = 0
    """How many of them held rows, and so are versions of the target."""
    rows: int | None = 0
    """Of these commits; None where one of them isn't known any more."""
    bytes: int | None = 0
    """Likewise, frames included."""
    version: int | None = None
    """The target's version that is the last of these commits."""
    begun_at: int
    """Milliseconds since 1970."""
    done_at: int | None = None
    """When all was copied; None as long as it isn't."""
    stored_as: int = NOT_EXISTS
    """The entry's version in the key-value table, to be named when it is changed."""

    @property
    def query(self) -> str:
        """The query whose epochs the pieces are."""
        return f"copy {self.name}"

    @property
    def from_version(self) -> str | None:
        """Where it begins, as it was given."""
        return self.arguments["from_version"]

    @property
    def to_version(self) -> str | None:
        """Where it ends: the number of a version where that has been settled, else as it was given."""
        return self.arguments["to_version"] if self.last is None else str(self.last)


class CopyLog:
    """The copies into a table. Safe for use by several threads."""

    def __init__(self, table: JsonTable) -> None:
        """Use an opened log; see `Ledger.copies`."""
        self._table = table

    def get(self, name: str) -> Copy | None:
        """How far a copy has come; None when there is none of that name.

        Args:
            name: its name.
        """
        document = self._table.get(copy_key(name))[0]
        return None if document is None else _copy(document)

    def put(self, copy: Copy) -> Copy:
        """Note how far a copy has come.

        Args:
            copy: the copy; based on what `get` or `put` gave.

        Returns:
            The copy as it is stored.

        Raises:
            ConflictError: another process has written the entry since.
        """
        content = {**vars(copy), "piece": None if copy.piece is None else vars(copy.piece), "at": now_ms()}
        del content["stored_as"]
        (stored_as,) = self._table.put((copy_key(copy.name), copy.stored_as, content))
        return replace(copy, stored_as=stored_as)

    def all(self) -> Iterator[Copy]:
        """All copies, in no order."""
        for _, document in self._table.iterate(start=FIRST_COPY, stop=FIRST_QUERY):
            yield _copy(document)


def _copy(document: Document) -> Copy:
    content: Content = {name: value for name, value in document.content.items() if name not in ("format", "at")}
    cuts = {name: offsets_of(content[name]) for name in ("begin", "end", "reached")}
    piece = content["piece"]
    if piece is not None:
        piece = Piece(**{**piece, "end": offsets_of(piece["end"])})
    return Copy(**{**content, **cuts, "piece": piece, "stored_as": document.version})


@dataclass(frozen=True, kw_only=True)
class Letters:
    """Dead letters of one segment whose events are brought in by one commit."""

    number: int
    """From 0."""
    segment: int
    """The source's segment."""
    offsets: list[int]
    """Where the events lie in it, in bytes."""
    after: int
    """The target's last version before the piece was begun."""


@dataclass(frozen=True, kw_only=True)
class Redelivery:
    """How far events of a source have been brought in."""

    letters: str
    """The table of dead letters, as `scope/stream`."""
    source: str
    """The stream that the letters are of."""
    pieces: int = 0
    """How many pieces are there, and their letters removed."""
    piece: Letters | None = None
    """What is being brought in."""
    stored_as: int = NOT_EXISTS
    """The entry's version in the key-value table, to be named when it is changed."""

    @property
    def query(self) -> str:
        """The query whose epochs the pieces are."""
        return f"redeliver {self.letters} {self.source}"


class RedeliveryLog:
    """What is being brought into a table. Safe for use by several threads."""

    def __init__(self, table: JsonTable) -> None:
        """Use an opened log; see `Ledger.redeliveries`."""
        self._table = table

    def get(self, letters: str, source: str) -> Redelivery:
        """How far events of a source have been brought in.

        Args:
            letters: the table of dead letters, as `scope/stream`.
            source: the stream that the letters are of.
        """
        new = Redelivery(letters=letters, source=source)
        document = self._table.get(redelivery_key(new.query))[0]
        if document is None:
            return new
        piece = document.content["piece"]
        return replace(
            new,
            pieces=document.content["pieces"],
            piece=None if piece is None else Letters(**piece),
            stored_as=document.version,
        )

    def put(self, redelivery: Redelivery) -> None:
        """Note how far events have been brought in.

        Args:
            redelivery: based on what `get` gave.

        Raises:
            ConflictError: another process has written the entry since.
        """
        content = {**vars(redelivery), "piece": None if redelivery.piece is None else vars(redelivery.piece)}
        del content["stored_as"]
        key = redelivery_key(redelivery.query)
        self._table.put((key, redelivery.stored_as, {**content, "at": now_ms()}))
