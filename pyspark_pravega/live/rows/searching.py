"""Rows of a table as it is or was, with a filter; and what a version has changed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import translate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega import values
from pyspark_pravega.catalog.pushdown import wanted_fractions
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import Snapshot, behind, check_in_stream, open_ledger, take_snapshot
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.predicates import Predicate
from pyspark_pravega.connector.read import (
    ChangesReader,
    RowChangesReader,
    RowsReader,
    commit_of,
    committed_ranges,
    moment_at,
    moment_of,
    parts_of_keys,
    row_changes,
    rows_at,
    snapshot_reader,
    snapshot_until,
)
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import ConfigurationError, PravegaError, did_you_mean
from pyspark_pravega.live.rows.cells import MOST_ROWS, Cells, definition_of, shown_rows
from pyspark_pravega.settings import Settings
from pyspark_pravega.spark.types import ByteType, IntegerType, LongType, ShortType, StringType

MOST_BYTES = 16 << 20
"""So much is gone through for a search; more is for SQL."""
TYPE = "_change_type"
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_BEFORE, _AFTER = "update_preimage", "update_postimage"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which rows."""

    count: int = 20
    version: str = ""
    """The number of a version, the name of a cut, or a stream cut; empty for now, as `time` is, too."""
    time: str = ""
    """ISO 8601, or milliseconds since 1970."""
    column: str = ""
    """A column; empty for any of them."""
    value: str = ""
    """What the column holds, as it is shown; `*` stands for any text. Empty for all rows."""

    @property
    def is_plain(self) -> bool:
        """Whether nothing but the last rows is wanted."""
        return not (self.version or self.time or self.value)


def search(settings: Settings, stream: Stream, wanted: Wanted) -> dict[str, Any]:
    """Rows of a table at a moment, those that a filter lets through.

    Args:
        settings: the connection.
        stream: the table.
        wanted: which rows.

    Returns:
        `columns`, `rows` (lists of texts, None for NULL), `matching` and `searched` (how many rows), `moment` (in
        words), `is_part` (whether older rows weren't gone through), and `error` where they can't be shown.
    """
    try:
        return _search(settings, stream, wanted)
    except PravegaError as error:
        return {"columns": [], "rows": [], "matching": 0, "searched": 0, "moment": "", "error": str(error)}


def changes(settings: Settings, stream: Stream, version: int) -> dict[str, Any]:
    """What a version has changed.

    Args:
        settings: the connection.
        stream: the table.
        version: its number.

    Returns:
        `columns`, `key`, `changes` (`type`, `cells`, and of an update `before`, cells too), `counts` by type, `version`
        and `error` where it can't be told.
    """
    try:
        return _changes(settings, stream, version)
    except PravegaError as error:
        return {"columns": [], "key": [], "changes": [], "counts": {}, "version": version, "error": str(error)}


def _search(settings: Settings, stream: Stream, wanted: Wanted) -> dict[str, Any]:
    definition, client = definition_of(settings, stream), shared_client(settings)
    names = definition.schema.fieldNames()
    if wanted.column and wanted.column not in names:
        raise ConfigurationError(f'there is no column "{wanted.column}"{did_you_mean(wanted.column, names)}')
    snapshot, moment = _moment(client, definition, wanted)
    snapshot = _of_key(client, definition, snapshot, wanted)
    is_part = snapshot.size > MOST_BYTES
    if is_part:
        shorter = None if definition.key is not None else _last_part(client, snapshot)
        if shorter is None:
            raise too_much(snapshot.size)
        snapshot = shorter
    reader = snapshot_reader(definition, snapshot, names, ReadOptions(fail_on_data_loss=False))
    rows: list[list[str | None]] = []
    searched = matching = 0
    for batch in _batches(reader):
        searched += batch.num_rows
        some, count = _filtered(definition, batch, wanted)
        matching += count
        rows = [*rows, *some][-wanted.count :]
    return {
        "columns": names,
        "rows": rows,
        "matching": matching,
        "searched": searched,
        "moment": moment,
        "is_part": is_part,
        "error": None,
    }


def _of_key(client: Client, definition: TableDefinition, snapshot: Snapshot, wanted: Wanted) -> Snapshot:
    """The part of a snapshot that may hold the rows of a key, where a key is wanted."""
    if definition.key is None or not wanted.column or not wanted.value or "*" in wanted.value:
        return snapshot
    kind = definition.schema[wanted.column].dataType
    if not isinstance(kind, (StringType, *_WHOLE)):
        return snapshot
    try:
        value = wanted.value if isinstance(kind, StringType) else int(wanted.value)
    except ValueError:
        return snapshot
    predicate = Predicate(column=wanted.column, comparison="=", values=(value,))
    fractions = wanted_fractions(definition, [predicate])
    return snapshot if fractions is None else parts_of_keys(client, snapshot, fractions)


def _moment(client: Client, definition: TableDefinition, wanted: Wanted) -> tuple[Snapshot, str]:
    stream = definition.stream
    if not (wanted.version or wanted.time):
        now = take_snapshot(client, stream, open_ledger(client, stream))
        check_in_stream(now, "the live page")
        return now, "now"
    if wanted.version:
        moment = moment_of(client, stream, wanted.version)
    else:
        moment = moment_at(client, stream, values.time_ms("time", wanted.time) * 1000)
    look = snapshot_until if definition.key is None else rows_at
    past = look(client, stream, moment)
    check_in_stream(past, "the live page")
    return past, moment.name


def _last_part(client: Client, snapshot: Snapshot) -> Snapshot | None:
    """What the last versions have added; None where no log tells where they begin."""
    ledger = open_ledger(client, snapshot.stream)
    if ledger is None:
        return None
    last = ledger.state().version
    shortest = None
    for commit in reversed(ledger.commits(range(max(1, last - 500), last + 1))):
        part = behind(snapshot, commit.cut)
        if part.size > MOST_BYTES:
            break
        shortest = part
    return shortest


def too_much(size: int) -> PravegaError:
    """The error of what the page doesn't read, as it would take long.

    Args:
        size: bytes.
    """
    return PravegaError(
        f"{size:,} bytes had to be gone through, and the page goes through {MOST_BYTES:,} at most: the SQL below does"
    )


def _batches(reader: RowsReader) -> Iterator[pa.RecordBatch]:
    for partition in reader.partitions():
        yield from reader.read(partition)


def _filtered(definition: TableDefinition, batch: pa.RecordBatch, wanted: Wanted) -> tuple[list[Cells], int]:
    """The last rows of a batch that are wanted, and how many are."""
    if not wanted.value:
        return shown_rows(definition, _end_of(batch, wanted.count)), batch.num_rows
    if wanted.column and "*" not in wanted.value:
        column = batch.column(wanted.column)
        if pa.types.is_string(column.type) or pa.types.is_integer(column.type):
            batch = batch.filter(pc.equal(column.cast(pa.string()), wanted.value))
            return shown_rows(definition, _end_of(batch, wanted.count)), batch.num_rows
    fits = re.compile(translate(wanted.value if wanted.column else f"*{wanted.value}*"), re.DOTALL).match
    places = [definition.schema.fieldNames().index(wanted.column)] if wanted.column else range(len(definition.schema))
    rows = [
        row
        for row in shown_rows(definition, batch)
        if any((text := row[place]) is not None and fits(text) for place in places)
    ]
    return rows[-wanted.count :], len(rows)


def _end_of(batch: pa.RecordBatch, count: int) -> pa.RecordBatch:
    return batch.slice(max(0, batch.num_rows - count))


def _changes(settings: Settings, stream: Stream, version: int) -> dict[str, Any]:
    definition, client = definition_of(settings, stream), shared_client(settings)
    ledger = open_ledger(client, stream)
    commit = commit_of(ledger, stream, version)
    assert ledger is not None
    if commit.bytes > MOST_BYTES:
        raise too_much(commit.bytes)
    names = definition.schema.fieldNames()
    key = [] if definition.key is None else [name for name in definition.key.columns if name in names]
    reader: RowsReader
    if definition.key is None:
        reader = ChangesReader(definition, committed_ranges(client, ledger, version, version), [*names, TYPE])
    else:
        reader = RowChangesReader(definition, row_changes(client, ledger, version, version), [*names, TYPE])
    changed_rows: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    before: dict[tuple[str | None, ...], Cells] = {}
    for batch in _batches(reader):
        kinds = batch.column(TYPE).to_pylist()
        counts.update(kinds)
        if len(changed_rows) >= MOST_ROWS:
            continue
        for kind, cells in zip(kinds, shown_rows(definition, batch), strict=True):
            values = tuple(cells[names.index(name)] for name in key)
            if kind == _BEFORE:
                before[values] = cells
            elif kind == _AFTER:
                changed_rows.append({"type": "update", "cells": cells, "key": values})
            else:
                changed_rows.append({"type": kind, "cells": cells})
    for one in changed_rows:
        if one["type"] == "update":
            one["before"] = before.get(one.pop("key"))
    counted = {"insert": counts["insert"], "update": counts[_AFTER], "delete": counts["delete"]}
    kept = changed_rows[:MOST_ROWS]
    return {"columns": names, "key": key, "changes": kept, "counts": counted, "version": version, "error": None}
