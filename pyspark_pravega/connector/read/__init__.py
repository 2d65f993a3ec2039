"""Batch reads: from where to where, and how tasks get their parts.

`extent` (what bounds mean in a stream), `bounded`, `versions` (time travel), `committed` (what commits added, as ranges
of bytes), `changes` (the same, as rows), `partitions` (parts for tasks), `reader` (rows as Arrow batches),
`small_parts` (many parts with few bytes). Of tables with keys: `keyed` (the last row of each key), `event_pointers`
(where it lies), `chains` (which segments that takes), `eras` (of which events the rows of a moment are made),
`row_changes` (what versions have changed). It uses `connector.table` and `connector.log`.
"""

from pyspark_pravega.connector.read.bounded import between, bounded_snapshot
from pyspark_pravega.connector.read.chains import ChainPartition, arrange_chains, chains_of_keys, parts_of_keys
from pyspark_pravega.connector.read.changes import (
    CHANGE_COLUMNS,
    INSERT,
    ChangesRange,
    ChangesReader,
)
from pyspark_pravega.connector.read.committed import (
    MOST_ADDITIONS,
    CommittedPartition,
    CommittedRange,
    commits_between,
    committed_partitions,
    committed_ranges,
    first_whole_version,
)
from pyspark_pravega.connector.read.eras import Era, era_at, era_of, eras, events_of, only_compacted_since, rows_at
from pyspark_pravega.connector.read.extent import (
    Extent,
    check_order,
    resolve_end,
    resolve_extent,
    resolve_extents,
    resolve_start,
)
from pyspark_pravega.connector.read.keyed import MERGED_ROWS, KeyedReader, check_bounds, snapshot_reader
from pyspark_pravega.connector.read.partitions import SlicePartition, arrange, pack
from pyspark_pravega.connector.read.reader import OFFICIAL_COLUMNS, PLACE, ROW_MARKER, BatchReader, RowsReader
from pyspark_pravega.connector.read.row_changes import (
    RowChangesPartition,
    RowChangesReader,
    first_told_version,
    row_change_partitions,
    row_changes,
)
from pyspark_pravega.connector.read.small_parts import groups, merged
from pyspark_pravega.connector.read.versions import (
    Moment,
    commit_of,
    last_commit,
    moment_at,
    moment_of,
    parts_until,
    reaches,
    replaced,
    snapshot_until,
    truncated,
)

__all__ = [
    "CHANGE_COLUMNS",
    "INSERT",
    "MERGED_ROWS",
    "MOST_ADDITIONS",
    "OFFICIAL_COLUMNS",
    "PLACE",
    "ROW_MARKER",
    "BatchReader",
    "ChainPartition",
    "ChangesRange",
    "ChangesReader",
    "CommittedPartition",
    "CommittedRange",
    "Era",
    "Extent",
    "KeyedReader",
    "Moment",
    "RowChangesPartition",
    "RowChangesReader",
    "RowsReader",
    "SlicePartition",
    "arrange",
    "arrange_chains",
    "between",
    "bounded_snapshot",
    "chains_of_keys",
    "check_bounds",
    "check_order",
    "commit_of",
    "commits_between",
    "committed_partitions",
    "committed_ranges",
    "era_at",
    "era_of",
    "eras",
    "events_of",
    "first_told_version",
    "first_whole_version",
    "groups",
    "last_commit",
    "merged",
    "moment_at",
    "moment_of",
    "only_compacted_since",
    "pack",
    "parts_of_keys",
    "parts_until",
    "reaches",
    "replaced",
    "resolve_end",
    "resolve_extent",
    "resolve_extents",
    "resolve_start",
    "row_change_partitions",
    "row_changes",
    "rows_at",
    "snapshot_reader",
    "snapshot_until",
    "truncated",
]
