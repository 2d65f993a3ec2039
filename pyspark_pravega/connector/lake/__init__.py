"""Tables whose older rows lie in a lake: `rules` (which tables, which columns), `tiering` (rows go there), `versions`
(which row came with which version), `last_rows` (rows of tables with a key), `releasing` (what the stream needn't hold
any more), `reading` (both as one), `slices` (rows of the lake in the order of their events), `once` (how these are
shared out), `bounds` (reads between cuts), `changes` (what versions have added), `leaving` (how a table leaves it),
`apart` (a process of its own for tiering).

It uses the commit log, reads and the room `lake`, whose part for Iceberg is imported only where a table has a lake.
"""

from pyspark_pravega.connector.lake.apart import tier_apart
from pyspark_pravega.connector.lake.bounds import holds_behind, lake_between, table_begin
from pyspark_pravega.connector.lake.changes import Additions, LakeChangesReader, added_between, end_added, first_told
from pyspark_pravega.connector.lake.leaving import check_needless, purge_of
from pyspark_pravega.connector.lake.reading import (
    LakePartition,
    LakeReader,
    base_files,
    behind_lake,
    file_batches,
    lake_figures,
    lake_read,
    lake_reader,
    lake_rows,
    told_columns,
    wanted_in_lake,
    wanted_of_base,
)
from pyspark_pravega.connector.lake.rules import check_added, check_kept, check_new, check_unlaked
from pyspark_pravega.connector.lake.slices import (
    LakeSlice,
    LakeSpan,
    check_slices,
    end_in_lake,
    lake_slices,
    rows_behind,
    slice_batches,
)
from pyspark_pravega.connector.lake.tiering import TierReport, clean_lake, iceberg_name, tier

__all__ = [
    "Additions",
    "LakeChangesReader",
    "LakePartition",
    "LakeReader",
    "LakeSlice",
    "LakeSpan",
    "TierReport",
    "added_between",
    "base_files",
    "behind_lake",
    "check_added",
    "check_kept",
    "check_needless",
    "check_new",
    "check_slices",
    "check_unlaked",
    "clean_lake",
    "end_added",
    "end_in_lake",
    "file_batches",
    "first_told",
    "holds_behind",
    "iceberg_name",
    "lake_between",
    "lake_figures",
    "lake_read",
    "lake_reader",
    "lake_rows",
    "lake_slices",
    "purge_of",
    "rows_behind",
    "slice_batches",
    "table_begin",
    "tier",
    "tier_apart",
    "told_columns",
    "wanted_in_lake",
    "wanted_of_base",
]
