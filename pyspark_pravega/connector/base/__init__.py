"""Rows of the lake as any read begins with them: `fitting` (which columns fit) and `rows` (those of a table with a key,
as of a version).
"""

from pyspark_pravega.connector.base.fitting import check_fits
from pyspark_pravega.connector.base.rows import (
    COLUMNS,
    BaseRows,
    base_rows,
    check_base,
    check_in_lake,
    columns_there,
    lake_store,
)

__all__ = [
    "COLUMNS",
    "BaseRows",
    "base_rows",
    "check_base",
    "check_fits",
    "check_in_lake",
    "columns_there",
    "lake_store",
]
