"""Batch reads: from where to where, and how tasks get their parts.

`extent` (what bounds mean in a stream), `bounded`, `versions` (time travel), `committed` (what commits added, as ranges
of bytes), `changes` (the same, as rows), `partitions` (parts for tasks), `reader` (rows as Arrow batches). Of
tables with keys: `keyed` (the last row of each key), `chains` (which segments that takes), `row_changes` (what versions
have changed). It uses `connector.table` and `connector.log`.
"""

from pyspark_pravega.connector.read.bounded import bounded_snapshot
from pyspark_pravega.connector.read.chains import arrange_chains, parts_of_keys
from pyspark_pravega.connector.read.changes import (
    CHANGE_COLUMNS,
    ChangesRange,
    ChangesReader,
)
from pyspark_pravega.connector.read.committed import (
    MOST_ADDITIONS,
    CommittedPartition,
    commits_between,
    committed_partitions,
    committed_ranges,
    first_whole_version,
)
from pyspark_pravega.connector.read.extent import check_extents, check_order, resolve_end, resolve_start
from pyspark_pravega.connector.read.keyed import KeyedReader, snapshot_reader
from pyspark_pravega.connector.read.partitions import SlicePartition, arrange
from pyspark_pravega.connector.read.reader import OFFICIAL_COLUMNS, BatchReader
from pyspark_pravega.connector.read.row_changes import RowChangesReader, changed_ranges
from pyspark_pravega.connector.read.versions import (
    Moment,
    last_commit,
    moment_at,
    moment_of,
    rows_at,
    snapshot_until,
)

__all__ = [
    "CHANGE_COLUMNS",
    "MOST_ADDITIONS",
    "OFFICIAL_COLUMNS",
    "BatchReader",
    "ChangesRange",
    "ChangesReader",
    "CommittedPartition",
    "KeyedReader",
    "Moment",
    "RowChangesReader",
    "SlicePartition",
    "arrange",
    "arrange_chains",
    "bounded_snapshot",
    "changed_ranges",
    "check_extents",
    "check_order",
    "commits_between",
    "committed_partitions",
    "committed_ranges",
    "first_whole_version",
    "last_commit",
    "moment_at",
    "moment_of",
    "parts_of_keys",
    "resolve_end",
    "resolve_start",
    "rows_at",
    "snapshot_reader",
    "snapshot_until",
]
