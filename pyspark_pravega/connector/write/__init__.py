"""Writes: settled as a `plan`, done by tasks (`task`), made one commit by a `job`; `overwrite` replaces and `deltas`
changes rows, `compaction` writes those of a table with a key once more, `dead_letters` are rows of bad events.

`writer` is Spark's view of it, `routing` gives rows their keys, `unsafe_rows` reads rows that Spark's JVM has packed.
It uses `connector.table` and `connector.log`.
"""

from pyspark_pravega.connector.write.compaction import Compacted, CompactingJob, compact
from pyspark_pravega.connector.write.dead_letters import parse_bad_events, with_dead_letters
from pyspark_pravega.connector.write.deltas import DeltaJob
from pyspark_pravega.connector.write.job import CommitReport, Epoch, WriteJob
from pyspark_pravega.connector.write.overwrite import (
    OverwritingJob,
    ReadingJob,
    Seen,
    is_replaced,
    is_same,
    replace_all,
)
from pyspark_pravega.connector.write.plan import StagedTable, WritePlan, check_rows, check_trigger, time_column
from pyspark_pravega.connector.write.routing import Routing
from pyspark_pravega.connector.write.unsafe_rows import can_unpack, unpack
from pyspark_pravega.connector.write.writer import BatchWriter, EpochWriter, take_over

__all__ = [
    "BatchWriter",
    "CommitReport",
    "Compacted",
    "CompactingJob",
    "DeltaJob",
    "Epoch",
    "EpochWriter",
    "OverwritingJob",
    "ReadingJob",
    "Routing",
    "Seen",
    "StagedTable",
    "WriteJob",
    "WritePlan",
    "can_unpack",
    "check_rows",
    "check_trigger",
    "compact",
    "is_replaced",
    "is_same",
    "parse_bad_events",
    "replace_all",
    "take_over",
    "time_column",
    "unpack",
    "with_dead_letters",
]
