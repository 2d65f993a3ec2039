"""Which events have no figures, and how those are noted that tasks have taken.

What lies at an offset of a segment never changes. So figures of what has been read stay true, whatever is written,
committed, scaled or truncated meanwhile. What values events have in a column is the schema's matter: figures are kept
under the column's shape in the schema by which they were read (`IndexedColumn.read_key`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark_pravega.client import Client
from pyspark_pravega.connector.index import Block, Coverage, Figures, IndexedColumn, Part, without
from pyspark_pravega.connector.log import Ledger, take_snapshot
from pyspark_pravega.connector.table import INDEX_COLUMNS, TableDefinition, indexed_columns
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.serde.formats import REGISTERED


@dataclass(frozen=True, kw_only=True)
class Unindexed:
    """What tasks are to read."""

    parts: tuple[Part, ...]
    keys: tuple[tuple[str, ...], ...]
    """Of the columns that get figures, as of `IndexedColumn.read_key`."""
    task_bytes: int
    """After how many bytes a task ends, even if there are more."""


def check_unindexed(definition: TableDefinition) -> tuple[IndexedColumn, ...]:
    """Refuse a table whose events can't have figures.

    Args:
        definition: what the stream is as a table.

    Returns:
        The columns that have them.

    Raises:
        UnsupportedOperationError: there are none.
    """
    stream = definition.stream
    if definition.key is not None:
        raise UnsupportedOperationError(
            f'stream "{stream}" has a primary key, so its rows are made of all its events: reads can\'t pass over any, '
            "and an index tells them nothing"
        )
    if definition.format not in REGISTERED:
        raise UnsupportedOperationError(
            f'the events of stream "{stream}" are of format {definition.format}: an index is of columns of formats '
            "avro, json and protobuf"
        )
    if not definition.properties.index_columns:
        raise UnsupportedOperationError(
            f'stream "{stream}" has no columns to index: name those by which it is filtered, ALTER TABLE ... SET '
            f"TBLPROPERTIES ('{INDEX_COLUMNS}' = 'column, ...')"
        )
    columns = indexed_columns(definition)
    if not columns:
        names = ", ".join(definition.properties.index_columns)
        raise UnsupportedOperationError(
            f'"{INDEX_COLUMNS}" of stream "{stream}" names {names}, of which the table\'s schema has no column with '
            "an order by now: set it to others"
        )
    return columns


def unindexed(client: Client, ledger: Ledger, columns: Sequence[IndexedColumn]) -> tuple[tuple[Part, ...], int]:
    """What of a stream has no figures of some columns now. Entries that tell nothing any more are dropped.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        columns: the columns.

    Returns:
        Its parts; and how many bytes have figures.
    """
    snapshot, log = take_snapshot(client, ledger.stream, ledger), ledger.indexes()
    there = tuple(Part(part.segment_id, part.start, part.end) for part in snapshot.parts if part.size)
    coverage, read = Coverage(columns), log.read()
    oldest = ledger.first_commit()
    first = snapshot.version + 1 if oldest is None else oldest.version
    for _, index in log.of_versions(range(first, snapshot.version + 1)):
        coverage.add(index)
    unneeded = []
    for number, index in sorted(read.by_number.items(), reverse=True):
        if coverage.lacks_of(index, there):
            coverage.add(index)
        else:
            # Newer ones tell all of it, or the events are gone, or its columns, or these have another shape.
            unneeded.append(number)
    if unneeded:
        # Where another call has changed the log meanwhile, the next one does it.
        log.drop(read, unneeded)
    left = coverage.lacks(there)
    return left, size_of(there) - size_of(left)


def blocks_of(rows: Iterable[Mapping[str, Any]], keys: Sequence[tuple[str, ...]]) -> list[Block]:
    """What tasks have read, as far as it has figures.

    Args:
        rows: of `BLOCK_COLUMNS`.
        keys: as of `Unindexed`.
    """
    blocks = []
    for row in rows:
        if row.get("figures") is None:
            continue
        figures = tuple(
            None if content is None else Figures.of_content(row["rows"], content, kind)
            for content, (_, kind, *_) in zip(json.loads(row["figures"]), keys, strict=True)
        )
        blocks.append(Block(rows=row["rows"], figures=figures, parts=(_part(row),)))
    return blocks


def left_of(parts: Iterable[Part], rows: Iterable[Mapping[str, Any]]) -> tuple[Part, ...]:
    """What is still to be read.

    Args:
        parts: what was to be read.
        rows: of `BLOCK_COLUMNS`, of what was read.
    """
    return tuple(without(parts, map(_part, rows)))


def size_of(parts: Iterable[Part]) -> int:
    """How many bytes parts have.

    Args:
        parts: parts of a stream.
    """
    return sum(part.end - part.start for part in parts)


def _part(row: Mapping[str, Any]) -> Part:
    return Part(row["segment"], row["start"], row["end"])
