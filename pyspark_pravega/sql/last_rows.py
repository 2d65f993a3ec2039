"""The last rows of a table, be it of events, with a key, or a key-value table: for `tail` and the live page."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.connector.key_value import VERSION, KeyValueDefinition, KeyValueReader, Wanted
from pyspark_pravega.connector.log import Ledger, Snapshot, behind
from pyspark_pravega.connector.read import BatchReader, ChangesReader, KeyedReader, SlicePartition, committed_ranges
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import COMPACTED, TableDefinition, TableKey, flat_key
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.progress import Bar

_VERSION = "_commit_version"
MOST_EVENTS = 100_000
"""So many of the last changes are looked at for the last rows of a table with a key; where these are too few rows, all
of it is read."""
_AT = "\x1fat"


def last_rows(
    definition: TableDefinition,
    snapshot: Snapshot,
    ledger: Ledger | None,
    count: int,
    progress: Bar | None = None,
    *,
    most_bytes: int | None = None,
) -> pa.Table:
    """A table's last rows, in the order of the versions that have added them, or changed them last.

    The commit log tells where the last versions begin, and these are read whole. Where it knows too few rows, as of a
    stream that others write, all is read, one segment after another.

    Args:
        definition: what the stream is as a table.
        snapshot: its bytes.
        ledger: its commit log, if it has one.
        count: how many rows.
        progress: is told how many bytes of events are read.
        most_bytes: of a table with a key that is larger, only rows are given that have changed lately; None for all.

    Raises:
        UnsupportedOperationError: the table is larger, and a compaction was the last thing that has happened to it.
    """
    if definition.key is not None:
        whole = most_bytes is None or (snapshot.size <= most_bytes and snapshot.base is None)
        return _last_of_keys(definition, definition.key, snapshot, ledger, count, progress, whole=whole)
    return _last_events(definition, snapshot, ledger, count, progress)


def last_entries(definition: KeyValueDefinition, count: int) -> pa.Table:
    """Rows of a key-value table, those last that were put last into their partitions.

    Args:
        definition: the table.
        count: how many.
    """
    names = definition.schema.fieldNames()
    reader = KeyValueReader(definition, [*names, VERSION], Wanted())
    kept: list[pa.RecordBatch] = []
    for partition in reader.partitions():
        kept.extend(reader.read(partition))
        if sum(batch.num_rows for batch in kept) > MOST_EVENTS + count:
            kept = _newest(kept, reader._arrow, count).to_batches()
    return _newest(kept, reader._arrow, count).select(names)


def _newest(batches: list[pa.RecordBatch], schema: pa.Schema, count: int) -> pa.Table:
    table = pa.Table.from_batches(batches, schema=schema)
    order = pc.sort_indices(table, sort_keys=[(VERSION, "ascending")])
    return table.take(order[max(0, len(order) - count) :])


def _last_of_keys(
    definition: TableDefinition,
    key: TableKey,
    snapshot: Snapshot,
    ledger: Ledger | None,
    count: int,
    progress: Bar | None,
    *,
    whole: bool,
) -> pa.Table:
    names = definition.schema.fieldNames()
    changes = 2 * count
    rows: pa.Table | None = None
    while count and key.is_written and changes <= MOST_EVENTS:
        events = _last_events(definition.as_log(), snapshot, ledger, changes, progress)
        rows = current_rows(events, key)
        if rows is None:
            break
        if rows.num_rows >= count or (events.num_rows < changes and snapshot.base is None):
            return rows.select(names).slice(max(0, rows.num_rows - count))
        if events.num_rows < changes:
            # The others are in the lake.
            break
        changes *= 8
    if not whole and rows is None:
        raise UnsupportedOperationError(
            f"{snapshot.size:,} bytes had to be read for the last rows, as a compaction has written rows once more: "
            "`pravega-spark tail` reads all of them"
        )
    if not whole and rows is not None:
        return rows.select(names)
    reader = KeyedReader(definition, snapshot, names, fail_on_data_loss=False)
    kept: deque[pa.RecordBatch] = deque()
    for batch in _rows(reader, progress) if count else ():
        _keep(kept, batch, count)
    table = _table(definition, kept).select(names)
    return table.slice(max(0, table.num_rows - count))


def current_rows(events: pa.Table, key: TableKey) -> pa.Table | None:
    """What of changes is the last one of its row, without those that delete it.

    Args:
        events: the last changes of a table, in their order.
        key: the table's.

    Returns:
        None where a compaction has written some once more: what came before it may be newer.
    """
    events = events.combine_chunks()
    operations = None if key.operation is None else events.column(key.operation).cast(pa.string())
    if operations is not None and pc.any(pc.equal(operations, COMPACTED)).as_py():
        return None
    flat = [one for name in key.columns for one in flat_key(name, events.column(name).combine_chunks())]
    keys = pa.table({**dict(flat), _AT: pa.array(np.arange(events.num_rows))})
    last = keys.group_by([name for name, _ in flat], use_threads=False).aggregate([(_AT, "max")])
    at = np.sort(last.column(f"{_AT}_max").to_numpy())
    rows = events.take(pa.array(at, pa.int64())).combine_chunks()
    return pa.Table.from_batches([rows_of_changes(batch, key) for batch in rows.to_batches()], schema=rows.schema)


def rows_of_changes(changes: pa.RecordBatch, key: TableKey) -> pa.RecordBatch:
    """Changes without those that delete a row, and those by which a compaction has written one once more.

    Args:
        changes: events of a table with a key.
        key: the table's.
    """
    if key.operation is None:
        return changes
    passed_over = {*key.deletes, COMPACTED}
    operations = changes.column(key.operation).cast(pa.string()).to_pylist()
    return changes.filter(pa.array([one not in passed_over for one in operations], pa.bool_()))


def _last_events(
    definition: TableDefinition, snapshot: Snapshot, ledger: Ledger | None, count: int, progress: Bar | None
) -> pa.Table:
    names = definition.schema.fieldNames()
    kept: deque[pa.RecordBatch] = deque()
    if not count:
        return _table(definition, kept)
    begin = None if ledger is None else _first_version(ledger, snapshot, count)
    if ledger is not None and begin is not None:
        # A snapshot counts a commit in progress, too, of which all is visible: its rows lie behind the last known cut.
        last = min(snapshot.version, ledger.state().version)
        ranges = committed_ranges(shared_client(definition.settings), ledger, begin, last, fail_on_data_loss=False)
        reader = ChangesReader(definition, ranges, [*names, _VERSION], fail_on_data_loss=False)
        added = pa.Table.from_batches(_rows(reader, progress), schema=reader._arrow_schema)
        order = pc.sort_indices(added, sort_keys=[(_VERSION, "ascending")])
        kept.extend(added.take(order).select(names).to_batches())
        cut = ledger.commits([last])[0].cut
        newer = BatchReader(definition, behind(snapshot, cut), names, fail_on_data_loss=False)
        kept.extend(_rows(newer, progress))
    if sum(batch.num_rows for batch in kept) < count:
        kept.clear()
        for batch in _rows(BatchReader(definition, snapshot, names, fail_on_data_loss=False), progress):
            _keep(kept, batch, count)
    table = _table(definition, kept)
    return table.slice(max(0, table.num_rows - count))


def _keep(kept: deque[pa.RecordBatch], batch: pa.RecordBatch, count: int) -> None:
    """Keep a batch, and of those before it what is needed for so many rows."""
    kept.append(batch)
    rows = sum(one.num_rows for one in kept)
    while rows - kept[0].num_rows >= count:
        rows -= kept.popleft().num_rows


def _first_version(ledger: Ledger, snapshot: Snapshot, count: int) -> int | None:
    """The last version from which on there are so many rows; None where the log can't tell."""
    rows, first, version = 0, max(1, ledger.state().replaced_rows), snapshot.version
    while version >= first:
        some = ledger.commits(range(version, max(first, version - 100) - 1, -1))
        for commit in some:
            rows += commit.rows
            if rows >= count:
                return commit.version
        version -= 101
    return None


def _rows(reader: BatchReader, progress: Bar | None) -> Iterator[pa.RecordBatch]:
    partitions = [one for one in reader.partitions() if isinstance(one, SlicePartition)]
    if progress is not None:
        progress.expect(sum(part.end - part.start for one in partitions for part in one.parts))
    bytes_told = 0
    for partition in partitions:
        for batch in reader.read(partition):
            if progress is not None:
                progress.add(reader.bytes_read - bytes_told)
                bytes_told = reader.bytes_read
            yield batch


def _table(definition: TableDefinition, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    there = list(batches)
    return pa.Table.from_batches(there) if there else definition.codec.schema.empty_table()
