"""Statistics of a table's columns, by which it is estimated how many rows a query wants.

`taking` says what Spark is to ask for them, and makes them of its answer, `kept` has them as the commit log keeps them,
and finds those that still hold, and `shares` estimates which share of the rows meets a condition.
"""

from pyspark_pravega.connector.statistics.kept import (
    ColumnStatistics,
    TableStatistics,
    column_keys,
    note_statistics,
    statistics_of,
)
from pyspark_pravega.connector.statistics.shares import LEAST_GUESS, Among, wanted_share
from pyspark_pravega.connector.statistics.taking import analyzed_columns, question, statistics_in

__all__ = [
    "LEAST_GUESS",
    "Among",
    "ColumnStatistics",
    "TableStatistics",
    "analyzed_columns",
    "column_keys",
    "note_statistics",
    "question",
    "statistics_in",
    "statistics_of",
    "wanted_share",
]
