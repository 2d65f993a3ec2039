"""The lake: Iceberg tables of Parquet files. It knows nothing of Pravega.

`configuration` (where the lake is), `stores` (how its files are reached), `columns` (which types go there), `files`
(Parquet files, written and read), `spans` (their rows in the order of their events), and `iceberg` (catalogs,
snapshots, what files there are). The last one needs pyiceberg: `extra` loads it when a table has a lake. Workers need
pyarrow alone.
"""

from pyspark_pravega.lake.columns import POSITIONS, VERSION, lake_schema
from pyspark_pravega.lake.configuration import LakeConfiguration
from pyspark_pravega.lake.extra import load_iceberg
from pyspark_pravega.lake.files import Between, FileWriter, LakeFile, LakeSnapshot, read_file
from pyspark_pravega.lake.spans import NO_END, GroupOfRows, Span, groups_in, read_groups, read_span, rows_of_versions
from pyspark_pravega.lake.stores import PREFIX, Store, file_properties

__all__ = [
    "NO_END",
    "POSITIONS",
    "PREFIX",
    "VERSION",
    "Between",
    "FileWriter",
    "GroupOfRows",
    "LakeConfiguration",
    "LakeFile",
    "LakeSnapshot",
    "Span",
    "Store",
    "file_properties",
    "groups_in",
    "lake_schema",
    "load_iceberg",
    "read_file",
    "read_groups",
    "read_span",
    "rows_of_versions",
]
