"""The lake: Iceberg tables of Parquet files. It knows nothing of Pravega.

`configuration` (where the lake is), `stores` (how its files are reached), `columns` (which types go there), `files`
(Parquet files, written and read), `layout` (partitions and sort orders), `laid_out` (files of them), `spill` (rows that
wait), `encodings` (which columns have dictionaries), `spans` (their rows in the order of their events), and `iceberg`
(catalogs, snapshots, what files there are) with `changing` (a snapshot that is made), `specs` and `key_files` (which
may hold some keys). The last four need pyiceberg: `extra` loads them when a table has a lake. Workers need pyarrow
alone.
"""

from pyspark_pravega.lake.columns import POSITIONS, VERSION, check_lake_columns, lake_schema
from pyspark_pravega.lake.configuration import LakeConfiguration
from pyspark_pravega.lake.extra import load_iceberg
from pyspark_pravega.lake.files import (
    NO_END,
    Between,
    FileWriter,
    LakeFile,
    LakeSnapshot,
    made_by,
    read_file,
    telling_columns,
)
from pyspark_pravega.lake.laid_out import LaidOutWriter, runs_of
from pyspark_pravega.lake.layout import (
    PARTITIONED_BY,
    SORTED_BY,
    Layout,
    PartitionedBy,
    SortedBy,
    listed,
    of_columns,
    partitioned_by,
    sorted_by,
)
from pyspark_pravega.lake.spans import (
    GroupOfRows,
    Span,
    by_events,
    groups_in,
    read_groups,
    read_span,
    rows_of_versions,
)
from pyspark_pravega.lake.spill import Spill
from pyspark_pravega.lake.stores import PREFIX, Store, file_properties

__all__ = [
    "NO_END",
    "PARTITIONED_BY",
    "POSITIONS",
    "PREFIX",
    "SORTED_BY",
    "VERSION",
    "Between",
    "FileWriter",
    "GroupOfRows",
    "LaidOutWriter",
    "LakeConfiguration",
    "LakeFile",
    "LakeSnapshot",
    "Layout",
    "PartitionedBy",
    "SortedBy",
    "Span",
    "Spill",
    "Store",
    "by_events",
    "check_lake_columns",
    "file_properties",
    "groups_in",
    "lake_schema",
    "listed",
    "load_iceberg",
    "made_by",
    "of_columns",
    "partitioned_by",
    "read_file",
    "read_groups",
    "read_span",
    "rows_of_versions",
    "runs_of",
    "sorted_by",
    "telling_columns",
]
