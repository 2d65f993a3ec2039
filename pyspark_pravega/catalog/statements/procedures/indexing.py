"""CALL index: figures of events that have none, by which reads pass over blocks of them.

Spark's tasks read what has none (`connector.indexing`), some gigabytes in one job. Then its blocks are noted in the
commit log. A call that comes later finds them, whatever has become of this one.
"""

from __future__ import annotations

from typing import Any

from pyspark_pravega.catalog.base import CatalogBase
from pyspark_pravega.catalog.statements.procedures.running import Caller, Reading, Step
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.index import Part
from pyspark_pravega.connector.indexing import (
    Unindexed,
    blocks_of,
    check_unindexed,
    left_of,
    size_of,
    unindexed,
)
from pyspark_pravega.connector.log import create_ledger
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import check_schema_is_there
from pyspark_pravega.errors import TableChangedError

COLUMNS = "blocks BIGINT, events BIGINT, bytes BIGINT, bytes_before BIGINT, bytes_left BIGINT"
STEP_BYTES, LEAST_TASK_BYTES = 16 << 30, 64 << 20
"""How much one job reads, about, and each of its tasks at least: the rows of its blocks have to be kept in memory."""


def index(base: CatalogBase, caller: Caller, stream: Stream) -> Step:
    """The next step.

    Args:
        base: the cluster, and what was looked up.
        caller: who has called it.
        stream: the table's stream.

    Returns:
        A row of what was done, or what tasks are to read next.

    Raises:
        UnsupportedOperationError: the table's events can't have figures.
        TableChangedError: its columns have changed since the call began.
        PravegaError: it can't be done.
    """
    definition = base.definition(stream, age_s=0)
    check_schema_is_there(definition)
    columns = check_unindexed(definition)
    keys = tuple(column.read_key for column in columns)
    client = shared_client(definition.settings)
    ledger = create_ledger(client, stream)
    state: dict[str, Any] = dict(caller.after)
    if state:
        read_keys = tuple(tuple(key) for key in state["keys"])
        blocks = blocks_of(caller.rows, read_keys)
        ledger.indexes().add(read_keys, blocks)
        state["blocks"] += len(blocks)
        state["events"] += sum(block.rows for block in blocks)
        state["bytes"] += sum(size_of(block.parts) for block in blocks)
        state["bad"] += sum(row["end"] - row["start"] for row in caller.rows if row.get("figures") is None)
        # Where tasks have read nothing, all that was left is gone.
        left = left_of([Part(*part) for part in state["left"]], caller.rows) if caller.rows else ()
        if left and read_keys != keys:
            raise TableChangedError(
                f'the indexed columns of stream "{stream}", or their schema, have changed while it was indexed: what '
                "was read until then is noted; call it again"
            )
    else:
        left, before = unindexed(client, ledger, columns)
        state = {"keys": keys, "blocks": 0, "events": 0, "bytes": 0, "before": before, "bad": 0}
    if not left:
        return [[state[name] for name in ("blocks", "events", "bytes", "before", "bad")]]
    task_bytes = max(LEAST_TASK_BYTES, STEP_BYTES // len(left))
    wanted = Unindexed(parts=left, keys=keys, task_bytes=task_bytes)
    return Reading(definition=definition, wanted=wanted, after={**state, "left": left})
