"""The lake: Iceberg tables of Parquet files. It knows nothing of Pravega.

`configuration` (where the lake is), `columns` (which types go there), `files` (Parquet files, written and read), and
`iceberg` (catalogs, snapshots, what files there are). The last one needs pyiceberg: `extra` loads it when a table has a
lake. Workers need pyarrow alone.
"""

from pyspark_pravega.lake.columns import POSITIONS, VERSION, lake_schema
from pyspark_pravega.lake.configuration import PREFIX, LakeConfiguration
from pyspark_pravega.lake.extra import load_iceberg
from pyspark_pravega.lake.files import Between, FileWriter, LakeFile, LakeSnapshot, read_file

__all__ = [
    "POSITIONS",
    "PREFIX",
    "VERSION",
    "Between",
    "FileWriter",
    "LakeConfiguration",
    "LakeFile",
    "LakeSnapshot",
    "lake_schema",
    "load_iceberg",
    "read_file",
]
