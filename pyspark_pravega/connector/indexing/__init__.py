"""Events of which nobody knows figures are read for that, whoever has written them: `CALL index`.

`unindexed` says which events these are, and what tasks have read of them, `reader` takes the figures, in tasks.
"""

from pyspark_pravega.connector.indexing.reader import BLOCK_COLUMNS, BlockReader
from pyspark_pravega.connector.indexing.unindexed import (
    Unindexed,
    blocks_of,
    check_unindexed,
    left_of,
    size_of,
    unindexed,
)

__all__ = [
    "BLOCK_COLUMNS",
    "BlockReader",
    "Unindexed",
    "blocks_of",
    "check_unindexed",
    "left_of",
    "size_of",
    "unindexed",
]
