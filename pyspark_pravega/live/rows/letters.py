"""Dead letters that wait: how many a table of them holds of each source, and since when."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from pyspark_pravega.client import Stream
from pyspark_pravega.connector.log import Snapshot, open_ledger, take_snapshot
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.read import snapshot_reader
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.live.rows.cells import definition_of
from pyspark_pravega.live.rows.searching import MOST_BYTES, too_much
from pyspark_pravega.settings import Settings

COLUMNS = {"source", "segment", "offset", "reason", "event"}
"""By these a table of dead letters is known."""
_COUNTED_S = 5.0


@dataclass(frozen=True, kw_only=True)
class WaitingLetters:
    """Dead letters of one source."""

    letters: int
    since: int | None
    """When the oldest was written, in ms since 1970; None where that isn't known."""


class LetterCounts:
    """Counts dead letters when somebody asks. Safe for use by several threads."""

    def __init__(self, settings: Settings) -> None:
        """Count nothing yet."""
        self._settings, self._lock = settings, threading.Lock()
        self._counted: dict[Stream, tuple[object, float, dict[str, WaitingLetters]]] = {}

    def waiting(self, table: Stream) -> dict[str, WaitingLetters]:
        """The letters of a table that wait, as of some seconds ago, by their sources (`scope/stream`).

        Args:
            table: the table of dead letters.

        Raises:
            PravegaError: it can't be read, or too much had to be read for it.
        """
        client = shared_client(self._settings)
        with self._lock:
            before = self._counted.get(table)
            if before is not None and time.monotonic() - before[1] < _COUNTED_S:
                return before[2]
            snapshot = take_snapshot(client, table, open_ledger(client, table))
            seen = (snapshot.cut, snapshot.version)
            known = before[2] if before is not None and before[0] == seen else self._count(table, snapshot)
            self._counted[table] = seen, time.monotonic(), known
            return known

    def _count(self, table: Stream, snapshot: Snapshot) -> dict[str, WaitingLetters]:
        definition = definition_of(self._settings, table)
        names = set(definition.schema.fieldNames())
        if not names >= COLUMNS:
            raise PravegaError(f'stream "{table}" is no table of dead letters')
        if snapshot.size > MOST_BYTES:
            raise too_much(snapshot.size)
        wanted = ["source", *(["at"] if "at" in names else [])]
        reader = snapshot_reader(definition, snapshot, wanted, ReadOptions(fail_on_data_loss=False))
        counts: dict[str, tuple[int, int | None]] = {}
        for partition in reader.partitions():
            for batch in reader.read(partition):
                times = batch.column("at").to_pylist() if "at" in wanted else [None] * batch.num_rows
                for source, at in zip(batch.column("source").to_pylist(), times, strict=True):
                    count, since = counts.get(source, (0, None))
                    known = [one for one in (since, None if at is None else round(at.timestamp() * 1000)) if one]
                    counts[source] = count + 1, min(known, default=None)
        return {source: WaitingLetters(letters=count, since=since) for source, (count, since) in counts.items()}
