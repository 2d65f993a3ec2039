"""How many rows a read gives, about, and how large they are: by what the stream tells, and the table's statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

from pyspark.sql.types import StructType

from pyspark_pravega.catalog.sizes import estimated_memory, width
from pyspark_pravega.connector.index import Condition, is_ordered
from pyspark_pravega.connector.statistics import Among, ColumnStatistics, TableStatistics, wanted_share
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.serde.formats import JSON
from pyspark_pravega.spark.types import TimestampNTZType

_MOST_NEW = 0.1
"""Of a table that has grown by more than this share Spark isn't told between which values a column's lie: it takes
others for impossible."""


class ColumnFigures(TypedDict):
    """Of a column."""

    distinct: int
    """How many values there are, about."""
    nulls: int
    least: Any
    """As of `ColumnStatistics`."""
    greatest: Any
    length: int
    """Of a value in bytes, on average."""
    longest: int
    """Of the longest value."""


@dataclass(frozen=True, kw_only=True)
class Analyzed:
    """What Spark estimates by itself what conditions leave: figures of all rows, whatever is wanted of them."""

    rows: int
    memory: int
    """As of `PlannedScan`."""
    columns: dict[str, ColumnFigures]
    """Of some columns, by their names."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a read gives, about."""

    rows: int | None
    """None when there's nothing to tell by."""
    memory: int
    """How many bytes its rows are as Spark's."""
    analyzed: Analyzed | None = None
    """None of a table without statistics."""


@dataclass(frozen=True, kw_only=True)
class Amount:
    """What is read."""

    size: int
    """Bytes of events and of files."""
    rows: int | None
    """About how many events that is; None when there's nothing to tell by."""
    skipped: int = 0
    """Bytes that an index saves from being read."""
    is_part: bool = False
    """Whether keys have narrowed it down, so that the rest of the table isn't known."""

    @property
    def whole(self) -> int | None:
        """About how many events the table has."""
        return self.rows if not self.size or self.rows is None else self.rows * (self.size + self.skipped) // self.size


def estimate(
    definition: TableDefinition,
    statistics: TableStatistics | None,
    wanted: StructType,
    condition: Condition,
    amount: Amount,
) -> Estimate:
    """What a read gives.

    Args:
        definition: what the stream is as a table.
        statistics: the table's, if it has some that hold.
        wanted: the columns that are read.
        condition: what Spark tells of the query's.
        amount: what is read.
    """
    columns = {} if statistics is None else statistics.columns
    whole = amount.whole if statistics is None else _rows_now(definition, statistics, amount)
    among = Among(schema=definition.schema, statistics=columns, rows=None if amount.is_part else whole)
    share = wanted_share(condition, among)
    lengths = {name: one.length for name, one in columns.items() if one.length is not None}
    read = amount.rows if statistics is None or amount.rows is None or whole is None else min(amount.rows, whole)
    if read is None and whole is not None:
        read = whole

    def memory(rows: int | None) -> int:
        has_names = definition.format == JSON
        return estimated_memory(definition.schema, wanted, amount.size, rows, has_names=has_names, lengths=lengths)

    if read is None or whole is None:
        return Estimate(rows=None, memory=round(memory(None) * share))
    of_table = max(whole, statistics.rows) if amount.is_part and statistics is not None else whole
    rows = min(read, max(1, round(of_table * share))) if read else 0
    size = memory(read)
    analyzed = None
    if statistics is not None and not amount.is_part:
        figures = {
            one.name: _figures(columns[one.name], whole, one.dataType)
            for one in wanted
            if one.name in columns and _is_for_spark(columns[one.name], whole, one.dataType)
        }
        analyzed = Analyzed(rows=whole, memory=size * whole // max(1, read), columns=figures)
    return Estimate(rows=rows, memory=size * rows // max(1, read), analyzed=analyzed)


def _rows_now(definition: TableDefinition, statistics: TableStatistics, amount: Amount) -> int | None:
    """About how many rows a table has by now."""
    events = amount.whole
    if events is None:
        size = amount.size + amount.skipped
        return round(statistics.rows * size / statistics.bytes) if statistics.bytes else statistics.rows
    if definition.key is None or statistics.events is None or definition.replaced_rows > statistics.version:
        # Behind a compaction a table with a key has about as many rows as events.
        return events
    return min(events, statistics.rows + max(0, events - statistics.events))


def _is_for_spark(one: ColumnStatistics, rows: int, kind: Any) -> bool:
    """Whether Spark may count on a column's figures: on numbers of all rows, and of types that it compares."""
    is_old = one.rows < rows * (1 - _MOST_NEW)
    return one.distinct is not None and is_ordered(kind) and not isinstance(kind, TimestampNTZType) and not is_old


def _figures(one: ColumnStatistics, rows: int, kind: Any) -> ColumnFigures:
    assert one.distinct is not None
    fixed, scale = width(kind), rows / max(1, one.rows)
    length, longest = (round(one.length or 0), one.longest or 0) if fixed is None else (fixed, fixed)
    return {
        "distinct": one.distinct,
        "nulls": round(one.nulls * scale),
        "least": one.least,
        "greatest": one.greatest,
        "length": length,
        "longest": longest,
    }
