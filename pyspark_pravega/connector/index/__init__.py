"""Which rows blocks of events can hold: figures of some columns, so that a query needn't read all blocks.

`figures` has the least and the greatest value of a column among some rows, `conditions` tells whether such rows can
meet a query's condition, `blocks` says where in a stream the rows lie, as the commit log keeps it, `writing` makes
that while a task writes, and `coverage` says what has none yet. It asks no server.
"""

from pyspark_pravega.connector.index.blocks import Block, BlockIndex, Part, skipped
from pyspark_pravega.connector.index.conditions import Condition, names_in, values_of
from pyspark_pravega.connector.index.coverage import BLOCK_BYTES, Coverage, gathered, without
from pyspark_pravega.connector.index.figures import (
    Figures,
    IndexedColumn,
    behind_prefix,
    check_indexed,
    figures_of,
    is_ordered,
    literal,
)
from pyspark_pravega.connector.index.writing import IndexWriter

__all__ = [
    "BLOCK_BYTES",
    "Block",
    "BlockIndex",
    "Condition",
    "Coverage",
    "Figures",
    "IndexWriter",
    "IndexedColumn",
    "Part",
    "behind_prefix",
    "check_indexed",
    "figures_of",
    "gathered",
    "is_ordered",
    "literal",
    "names_in",
    "skipped",
    "values_of",
    "without",
]
