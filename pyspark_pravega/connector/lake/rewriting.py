"""Tables with a key: which files of the lake hold rows that have changed. Only these are written anew, with what has
changed; the others stay.

A file stays only where it holds no changed key: its key columns are read, if Iceberg's figures don't say so. All are
written anew when other rows have taken the place of all, or a compaction has written each of them, when columns are
others, or files are to be laid out in another way.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pyspark_pravega.client import Client
from pyspark_pravega.connector.base import COLUMNS, check_fits, lake_store
from pyspark_pravega.connector.lake.last_rows import LastRowsReader
from pyspark_pravega.connector.lake.rules import layout_of
from pyspark_pravega.connector.log import Snapshot, State, Tiered
from pyspark_pravega.connector.read import Era, Moment, events_of
from pyspark_pravega.connector.shared import shared_registry
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import NotFoundError, SegmentTruncatedError, UnsupportedOperationError
from pyspark_pravega.lake import LakeSnapshot, Store, lake_schema, listed, load_iceberg, read_file
from pyspark_pravega.registry import SchemaInfo
from pyspark_pravega.serde.formats import AVRO
from pyspark_pravega.spark.types import StructType

LAYOUT, SCHEMA, FILE_ROWS = "pravega.layout", "pravega.schema", "pravega.file-rows"
"""What a snapshot says: how files of the table are laid out, and what makes its rows; by which schema its events were
read; and how many rows a whole file has."""
_MOST_SMALL = 8
"""How many small files a partition has, before they are written anew as fewer."""


@dataclass(frozen=True, kw_only=True)
class Rewriting:
    """What is written anew."""

    whole: Snapshot
    """The rows that are in the lake, and the events behind them."""
    gone: frozenset[str]
    """The files whose rows are."""
    begins: pa.Table | None
    """Where these begin, by the columns by which they are sorted; None where that isn't known."""
    file_rows: int
    """How many rows a whole file has, as far as that is known."""


def rewriting(
    client: Client, definition: TableDefinition, state: State, lake: Tiered, target: Moment
) -> Rewriting | None:
    """What a tiering writes anew; None for all rows.

    Args:
        client: the cluster.
        definition: what the stream is as a table; it has a key.
        state: the commit log's.
        lake: what lies in the lake.
        target: the version up to which rows are to lie there.

    Raises:
        UnsupportedOperationError: another program has deleted rows of the Iceberg table.
    """
    if not lake.by_key or lake.snapshot is None or lake.version < state.replaced_rows:
        return None
    store, iceberg = lake_store(definition.settings), load_iceberg()
    snapshot: LakeSnapshot = iceberg.snapshot_at(store, lake.metadata, lake.snapshot)
    if snapshot.properties.get(LAYOUT) != layout_text(definition) or not _fits(definition, snapshot, lake):
        return None
    try:
        whole = events_of(client, definition.stream, Era.of_lake(lake.base, is_last=True), target)
    except SegmentTruncatedError:
        return None
    reader = LastRowsReader(definition, whole)
    keys = reader.changed_keys()
    if keys is None:
        return None
    order = layout_of(definition).order
    files = iceberg.key_files(store, lake.metadata, lake.snapshot, keys, [one.column for one in order])
    try:
        gone = {file.path for file in files if file.may_hold_some and _holds(reader, store, file, keys)}
    except NotFoundError:
        # It isn't needed, where the stream has all.
        return None
    file_rows = int(snapshot.properties.get(FILE_ROWS, "0"))
    gone |= _small(files, gone, file_rows)
    begins = None
    if not any(one.is_descending for one in order):
        kinds = lake_schema(definition.schema)
        sorted_by = pa.schema([kinds.field(one.column) for one in order])
        begins = iceberg.begins_of([file for file in files if file.path in gone], sorted_by)
    return Rewriting(whole=whole, gone=frozenset(gone), begins=begins, file_rows=file_rows)


def layout_text(definition: TableDefinition) -> str:
    """How a table's files are laid out, and what makes its rows of events.

    Args:
        definition: what the stream is as a table.
    """
    layout, key = layout_of(definition), definition.key
    events = None if key is None else (*key.columns, key.operation, *key.deletes, key.row, key.deleted_row)
    return json.dumps([listed(layout.partitions), listed(layout.order), events])


def schema_text(definition: TableDefinition) -> str:
    """By which schema a table's events are read.

    Args:
        definition: what the stream is as a table.
    """
    assert definition.registered is not None
    return json.dumps([definition.group_made, definition.registered[1].id])


def _holds(reader: LastRowsReader, store: Store, file: Any, keys: pa.Table) -> bool:
    """Whether a file holds some key."""
    some = keys.slice(file.first, file.behind - file.first)
    batches = read_file(store, file.path, reader.key_schema())
    return any(reader.has_some(batch, some) for batch in batches)


def _small(files: Iterable[Any], gone: set[str], file_rows: int) -> set[str]:
    """Small files that are to become fewer: there are many of a partition."""
    small: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for file in files:
        if file.path not in gone and 2 * file.rows < file_rows:
            small[file.partition].append(file.path)
    return {path for paths in small.values() if len(paths) >= _MOST_SMALL for path in paths}


def _fits(definition: TableDefinition, snapshot: LakeSnapshot, lake: Tiered) -> bool:
    """Whether rows in the lake are what the events behind them would give with the table's columns."""
    try:
        check_fits(definition, StructType.fromJson(json.loads(snapshot.properties[COLUMNS])))
    except UnsupportedOperationError:
        return False
    # Else reads begin with these rows, whatever events would give.
    if lake.kept_base is not None or snapshot.properties.get(SCHEMA) == schema_text(definition):
        return True
    group_made, before = json.loads(snapshot.properties.get(SCHEMA, "[0, 0]"))
    registry, stream = shared_registry(definition.settings), definition.stream
    if group_made != definition.group_made or definition.format != AVRO or registry is None:
        return False
    history = registry.history(stream.scope, stream.name)
    return _has_only_new(definition, [schema for schema, version, _ in history if version.id <= before], before)


def _has_only_new(definition: TableDefinition, known: list[SchemaInfo], before: int) -> bool:
    """Whether a schema has what another one has, and fields that no schema until then had."""
    assert definition.registered is not None
    if len(known) != before + 1:
        return False
    then, now = _fields(known[-1]), _fields(definition.registered[0])
    ever = {name for schema in known for name in _fields(schema)}
    return {name: now.get(name) for name in then} == then and not (now.keys() - then.keys()) & ever


def _fields(schema: SchemaInfo) -> dict[str, Any]:
    content = json.loads(schema.schema_data)
    return {field["name"]: field for field in content["fields"]}
