"""Tables whose older rows lie in a lake: `rules` (which tables, which columns), `tiering` (rows go there), `versions`
(which row came with which version), `releasing` (what the stream needn't hold any more), `reading` (both as one).

It uses the commit log, reads and the room `lake`, whose part for Iceberg is imported only where a table has a lake.
"""

from pyspark_pravega.connector.lake.reading import (
    LakePartition,
    LakeReader,
    behind_lake,
    lake_figures,
    lake_reader,
    lake_rows,
)
from pyspark_pravega.connector.lake.rules import check_added, check_kept, check_unlaked
from pyspark_pravega.connector.lake.tiering import TierReport, clean_lake, iceberg_name, tier

__all__ = [
    "LakePartition",
    "LakeReader",
    "TierReport",
    "behind_lake",
    "check_added",
    "check_kept",
    "check_unlaked",
    "clean_lake",
    "iceberg_name",
    "lake_figures",
    "lake_reader",
    "lake_rows",
    "tier",
]
