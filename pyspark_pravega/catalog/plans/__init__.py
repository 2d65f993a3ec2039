"""Plans of what statements read and write: `planner` finds the table, and asks who plans for its kind.

`scans` plans batch reads of streams, `key_values` those of key-value tables, `streams` streaming reads, and `writes`
writes. `transactions` is what a transaction's statements have read and written. `read_request` is what a read's options
and position make of a table, `moments` when a query reads it, `estimates` about how many rows it gives. In the
background work `compactions`, which commits start, and `sampling`, which notes versions of what others write. It uses
`catalog.catalog` and below, and knows nothing of how the JVM is told.
"""

from pyspark_pravega.catalog.plans.estimates import ColumnFigures
from pyspark_pravega.catalog.plans.moments import QueryMoment
from pyspark_pravega.catalog.plans.narrowing import NarrowedScan
from pyspark_pravega.catalog.plans.planner import Planner
from pyspark_pravega.catalog.plans.read_request import (
    ChangesBounds,
    ExtentText,
    PositionText,
    position_of,
    text_of_extent,
    text_of_moment,
    text_of_unindexed,
)
from pyspark_pravega.catalog.plans.sampling import Sampling
from pyspark_pravega.catalog.plans.scans import PlannedScan, ScanRequest
from pyspark_pravega.catalog.plans.streams import Source, StreamReads
from pyspark_pravega.catalog.plans.transactions import ENDS, OpenTransaction, OwnRows, Transactions
from pyspark_pravega.catalog.plans.writes import (
    Job,
    Plan,
    RealTimeBatch,
    WriteJobs,
    begin_job,
    forget_commit,
    id_in_log,
)

__all__ = [
    "ENDS",
    "ChangesBounds",
    "ColumnFigures",
    "ExtentText",
    "Job",
    "NarrowedScan",
    "OpenTransaction",
    "OwnRows",
    "Plan",
    "PlannedScan",
    "Planner",
    "PositionText",
    "QueryMoment",
    "RealTimeBatch",
    "Sampling",
    "ScanRequest",
    "Source",
    "StreamReads",
    "Transactions",
    "WriteJobs",
    "begin_job",
    "forget_commit",
    "id_in_log",
    "position_of",
    "text_of_extent",
    "text_of_moment",
    "text_of_unindexed",
]
