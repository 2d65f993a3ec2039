"""CALL analyze: statistics of columns, by which Spark plans queries.

Spark asks the table for them, in one statement that it runs like any other. What it answers is noted in the commit log.
"""

from __future__ import annotations

from pyspark_pravega.catalog.base import CatalogBase
from pyspark_pravega.catalog.sizes import estimated_rows
from pyspark_pravega.catalog.statements.procedures.running import Caller, Statement, Step
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.lake import behind_lake
from pyspark_pravega.connector.log import Ledger, Snapshot, behind_base, create_ledger, take_snapshot
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.statistics import (
    TableStatistics,
    analyzed_columns,
    column_keys,
    note_statistics,
    question,
    statistics_in,
)
from pyspark_pravega.connector.table import changed_table, check_schema_is_there

COLUMNS = (
    "version BIGINT, column STRING, rows BIGINT, nulls BIGINT, distinct_count BIGINT, min STRING, max STRING, "
    "avg_length DOUBLE"
)
_EVENT_BYTES = 30
"""Of events that nobody has counted, for a guess that isn't too low."""


def analyze(base: CatalogBase, caller: Caller, stream: Stream, names: list[str] | None) -> Step:
    """The next step.

    Args:
        base: the cluster, and what was looked up.
        caller: who has called it.
        stream: the table's stream.
        names: the columns; None for all.

    Returns:
        A row for each column, or what Spark is to ask.

    Raises:
        InvalidNameError: one of the columns isn't there.
        TableChangedError: one has changed since the call began.
        PravegaError: it can't be done.
    """
    definition = base.definition(stream, age_s=0)
    check_schema_is_there(definition)
    columns, keys = analyzed_columns(definition, names), column_keys(definition)
    ledger = create_ledger(shared_client(definition.settings), stream)
    of_columns = [keys[column.name] for column in columns]
    if not caller.after:
        snapshot = take_snapshot(shared_client(definition.settings), stream, ledger)
        events = _events(snapshot, ledger)
        rows = snapshot.size // _EVENT_BYTES if events is None else events
        after = {"version": snapshot.version, "events": events, "bytes": snapshot.size, "keys": of_columns}
        return Statement(text=question(caller.table(stream), columns, rows), kind="fetch", after=after)
    begun = caller.after
    if begun["keys"] != of_columns:
        raise changed_table(stream, "its columns have changed while statistics of them were taken")
    taken = statistics_in(caller.rows[0], columns, begun["version"])
    statistics = TableStatistics(
        version=begun["version"],
        rows=caller.rows[0]["total"],
        events=begun["events"],
        bytes=begun["bytes"],
        columns={key: one for key, (one, *_) in zip(of_columns, taken, strict=True)},
    )
    note_statistics(ledger, statistics, frozenset(keys.values()))
    return [
        [one.version, column.name, one.rows, one.nulls, one.distinct, least, greatest, one.length]
        for column, (one, least, greatest) in zip(columns, taken, strict=True)
    ]


def _events(snapshot: Snapshot, ledger: Ledger) -> int | None:
    """About how many events a table is made of, those of its lake included; None where nothing tells that."""
    there, in_lake = snapshot, 0
    if snapshot.base is not None:
        there, in_lake = behind_base(snapshot), snapshot.base.rows
    elif snapshot.tiered is not None:
        there, in_lake = behind_lake(snapshot), snapshot.tiered.rows
    events = estimated_rows(there.size, ledger, snapshot.counted)
    return None if events is None else events + in_lake
