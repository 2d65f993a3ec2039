"""A stream as a table: its last rows, its columns, and what each version of its schema has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark_pravega.catalog.shown import shown_properties
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.log import Ledger, Snapshot, open_ledger, take_snapshot
from pyspark_pravega.connector.shared import shared_client, shared_registry
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import GroupNotFoundError, PravegaError
from pyspark_pravega.live.rows import MOST_ROWS, definition_of, difference, shown_rows
from pyspark_pravega.serde.formats import registered_schema
from pyspark_pravega.settings import Settings
from pyspark_pravega.spark.types import StructType
from pyspark_pravega.sql.last_rows import last_rows
from pyspark_pravega.sql.streams import rows_of_keys

MOST_BYTES = 64 << 20
"""So much is read for the last rows; more is for `pravega-spark tail`."""
_COUNTED_S = 5.0
"""Rows of a table with a key that is written are counted so often at most."""


@dataclass(frozen=True, kw_only=True)
class SchemaVersion:
    """A version of a table's schema."""

    version: int
    type: str
    format: str
    added_at: int
    """In ms since 1970."""
    changes: tuple[str, ...]
    """What differs from the version before, in words; of the first one its columns."""
    difference: tuple[str, ...]
    """The lines of its text that differ from the version before; see `difference`."""


def table_of(settings: Settings, stream: Stream) -> dict[str, Any]:
    """A stream's columns, properties and schema versions.

    Args:
        settings: the connection.
        stream: the stream.

    Returns:
        `columns` (name, type, nullable, comment), `properties`, `versions` (the oldest first), `format`, and `error`
        where it can't be read as a table.

    Raises:
        StreamNotFoundError: there is no such stream.
    """
    try:
        definition = definition_of(settings, stream)
    except PravegaError as error:
        return {"columns": [], "properties": {}, "versions": schema_versions(settings, stream), "error": str(error)}
    return {
        "columns": [
            {
                "name": column.name,
                "type": column.dataType.simpleString(),
                "nullable": column.nullable,
                "comment": (column.metadata or {}).get("comment", ""),
            }
            for column in definition.schema
        ],
        "properties": dict(sorted(shown_properties(definition).items())),
        "format": definition.format,
        "versions": schema_versions(settings, stream),
        "error": None,
    }


def schema_versions(settings: Settings, stream: Stream) -> list[SchemaVersion]:
    """The versions of a stream's schema, the oldest first.

    Args:
        settings: the connection.
        stream: the stream.
    """
    registry = shared_registry(settings)
    try:
        history = [] if registry is None else registry.history(stream.scope, stream.name)
    except GroupNotFoundError:
        return []
    versions, before = [], {}  # type: list[SchemaVersion], dict[str, dict[str, str]]
    texts: dict[str, bytes] = {}
    for schema, version, added_at in history:
        columns = _columns(schema.serialization_format, schema.type, schema.schema_data)
        changes = ("its columns can't be shown",) if columns is None else changed(before.get(schema.type, {}), columns)
        before[schema.type] = columns or {}
        versions.append(
            SchemaVersion(
                version=version.version,
                type=schema.type,
                format=schema.serialization_format,
                added_at=added_at,
                changes=changes,
                difference=difference(texts[schema.type], schema.schema_data) if schema.type in texts else (),
            )
        )
        texts[schema.type] = schema.schema_data
    return versions


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """What differs between the columns of two schemas, in words.

    Args:
        before: name to type.
        after: likewise.
    """
    words = [f"+ {name} {kind}" for name, kind in after.items() if name not in before]
    words += [f"- {name} {kind}" for name, kind in before.items() if name not in after]
    words += [f"~ {n} {before[n]} -> {kind}" for n, kind in after.items() if n in before and before[n] != kind]
    return tuple(words)


class KeyCounts:
    """How many rows tables with keys have, if few events have to be read for that. Safe for use by several threads."""

    def __init__(self, settings: Settings) -> None:
        """Count nothing yet."""
        self._settings, self._lock = settings, threading.Lock()
        self._counted: dict[Stream, tuple[int, float, int | None]] = {}

    def rows(self, stream: Stream, written: int) -> int | None:
        """How many rows there are, or were some seconds ago.

        Args:
            stream: the table's.
            written: how many bytes were ever written to it: while that stays the same, so do the rows.
        """
        with self._lock:
            before = self._counted.get(stream)
            if before is None or (before[0] != written and time.monotonic() - before[1] > _COUNTED_S):
                try:
                    rows = rows_of_keys(self._settings, stream)
                except PravegaError:
                    rows = None
                before = self._counted[stream] = written, time.monotonic(), rows
            return before[2]


class LastRows:
    """A table's last rows, decoded once as long as nothing is written. Safe for use by several threads."""

    def __init__(self, settings: Settings, stream: Stream, *, log: bool = False) -> None:
        """Begin to look at a table.

        Args:
            settings: the connection.
            stream: the table's.
            log: whether the events of a table with a key are shown, and not its rows.
        """
        self.stream, self._settings, self._log = stream, settings, log
        self._seen: tuple[dict[int, int], int, int] | None = None
        self._answer: dict[str, Any] = {}
        self._lock = threading.Lock()

    def take(self, count: int) -> dict[str, Any]:
        """The last rows.

        Args:
            count: how many, at most `MOST_ROWS`.

        Returns:
            `columns`, `rows` (lists of texts, None for NULL; the last one last), `version`, `keyed` (whether the table
            has a key), and `error` where they can't be shown.
        """
        with self._lock:
            return self._take(max(0, min(count, MOST_ROWS)))

    def _take(self, count: int) -> dict[str, Any]:
        try:
            definition = definition_of(self._settings, self.stream)
            client = shared_client(self._settings)
            keyed = definition.key is not None
            if keyed and self._log:
                definition = definition.as_log()
            ledger = open_ledger(client, self.stream)
            snapshot = take_snapshot(client, self.stream, ledger)
            seen = (snapshot.cut, snapshot.version, count)
            if seen != self._seen:
                self._answer = {**_decoded(definition, snapshot, ledger, count), "keyed": keyed}
                self._seen = seen
        except PravegaError as error:
            self._seen = None
            return {"columns": [], "rows": [], "version": 0, "keyed": False, "error": str(error)}
        return self._answer


def _decoded(definition: TableDefinition, snapshot: Snapshot, ledger: Ledger | None, count: int) -> dict[str, Any]:
    names = definition.schema.fieldNames()
    size = _to_be_read(snapshot, ledger, count)
    if size > MOST_BYTES:
        why = f"{size:,} bytes had to be read for the last rows, and the page reads {MOST_BYTES:,} at most"
        return {
            "columns": names,
            "rows": [],
            "version": snapshot.version,
            "error": f"{why}: `pravega-spark tail` reads all of them",
        }
    batches = last_rows(definition, snapshot, ledger, count, most_bytes=MOST_BYTES).to_batches()
    rows = [row for batch in batches for row in shown_rows(definition, batch)]
    return {"columns": names, "rows": rows, "version": snapshot.version, "error": None}


def _to_be_read(snapshot: Snapshot, ledger: Ledger | None, count: int) -> int:
    """The bytes of the versions that hold the last rows, and of what lies behind them; of all where no log tells.

    Of a table with a key more changes may have to be read than it has rows: so these are about the bytes.
    """
    if ledger is None or not snapshot.version:
        return snapshot.size
    rows = 0
    for version in range(snapshot.version, max(0, snapshot.version - 100), -1):
        commits = ledger.commits([version, version - 1])
        if not commits or commits[0].version != version:
            break
        rows += commits[0].rows
        if rows >= count and len(commits) == 2:
            cut = commits[1].cut
            return sum(max(0, part.end - max(part.start, cut.get(part.segment_id, 0))) for part in snapshot.parts)
    return snapshot.size


def _columns(serialization_format: str, kind: str, data: bytes) -> dict[str, str] | None:
    try:
        columns: StructType = registered_schema(serialization_format, kind, data).columns()
    except PravegaError:
        return None
    return {column.name: column.dataType.simpleString() for column in columns}
