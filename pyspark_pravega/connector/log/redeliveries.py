"""What `CALL redeliver` is bringing into a table: an entry for each table of dead letters and each source.

It is done piece by piece. The events of a piece are noted before they are written; their commit is the epoch
`piece.number` of the query `Redelivery.query`. So a resumed one knows whether they are there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark_pravega.client.key_value import NOT_EXISTS
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log.entry_keys import redelivery_key
from pyspark_pravega.connector.log.json_table import JsonTable


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
