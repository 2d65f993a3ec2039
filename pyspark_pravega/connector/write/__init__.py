"""Writes: settled as a `plan`, done by tasks (`task`) of a `job`, made a version in `commit`; `overwrite` replaces and
`deltas` changes rows, `compaction` writes those of a table with a key once more, and `retention` removes what nobody
needs then. `numbered` writes what a real-time query writes exactly once. `dead_letters` are rows of bad events.
`together` makes statements over several tables versions together.

`read_set` tells whether what a statement has read is still so. `writer` is Spark's view of it all, `routing` gives rows
their keys. It uses `connector.table`, `connector.log` and `connector.read`.
"""

from pyspark_pravega.connector.write.changed_rows import ROW_OPERATION, ChangesOfKeys
from pyspark_pravega.connector.write.commit import Stage
from pyspark_pravega.connector.write.compaction import Compacted, CompactingJob, compact, compact_if_due
from pyspark_pravega.connector.write.dead_letters import (
    check_letters,
    with_dead_letters,
)
from pyspark_pravega.connector.write.deltas import DeltaJob
from pyspark_pravega.connector.write.job import CommitReport, WriteJob
from pyspark_pravega.connector.write.numbered import NumberedJob, RowOrigins, numbered, without_coordinates
from pyspark_pravega.connector.write.overwrite import (
    OverwritingJob,
    ReadingJob,
    forget_replacement,
    is_replaced,
    replace_all,
)
from pyspark_pravega.connector.write.plan import (
    REAL_TIME,
    Epoch,
    StagedTable,
    WritePlan,
    check_case,
    check_rows,
    check_trigger,
    time_column,
)
from pyspark_pravega.connector.write.read_set import (
    ReadSet,
    is_unchanged,
    parts_since,
    possible_routing_hashes,
    routing_hashes,
)
from pyspark_pravega.connector.write.retention import create_cut, release
from pyspark_pravega.connector.write.routing import Routing, key_texts
from pyspark_pravega.connector.write.together import (
    Prepared,
    TableRead,
    check_unchanged,
    commit_together,
    forget_together,
    joined,
    prepare,
    withdraw_together,
)
from pyspark_pravega.connector.write.writer import BatchWriter, EpochWriter, take_over
from pyspark_pravega.spark.unsafe_rows import can_unpack, unpack

__all__ = [
    "REAL_TIME",
    "ROW_OPERATION",
    "BatchWriter",
    "ChangesOfKeys",
    "CommitReport",
    "Compacted",
    "CompactingJob",
    "DeltaJob",
    "Epoch",
    "EpochWriter",
    "NumberedJob",
    "OverwritingJob",
    "Prepared",
    "ReadSet",
    "ReadingJob",
    "Routing",
    "RowOrigins",
    "Stage",
    "StagedTable",
    "TableRead",
    "WriteJob",
    "WritePlan",
    "can_unpack",
    "check_case",
    "check_letters",
    "check_rows",
    "check_trigger",
    "check_unchanged",
    "commit_together",
    "compact",
    "compact_if_due",
    "create_cut",
    "forget_replacement",
    "forget_together",
    "is_replaced",
    "is_unchanged",
    "joined",
    "key_texts",
    "numbered",
    "parts_since",
    "possible_routing_hashes",
    "prepare",
    "release",
    "replace_all",
    "routing_hashes",
    "take_over",
    "time_column",
    "unpack",
    "with_dead_letters",
    "withdraw_together",
    "without_coordinates",
]
