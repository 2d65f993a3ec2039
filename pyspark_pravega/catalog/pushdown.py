"""What a query's predicates and its limit save from being read. Spark looks at each row again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_pravega.client import SegmentPart
from pyspark_pravega.client.names import segment_epoch
from pyspark_pravega.connector.lake import lake_rows
from pyspark_pravega.connector.log import Commit, Ledger, Snapshot, behind_base
from pyspark_pravega.connector.predicates import Predicates
from pyspark_pravega.connector.read import ChainPartition, RowsReader, SlicePartition, chains_of_keys
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.connector.write import ReadSet, Routing, possible_routing_hashes
from pyspark_pravega.serde.codec import Batch, arrow_batch
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.datasource import InputPartition

SEGMENT, OFFSET = "_segment", "_offset"
_LEAST, MOST = 0, 2**63 - 1
_COMPARISONS = frozenset({"=", "<=>", "<", "<=", ">", ">=", "IN"})


def interval_of(column: str, predicates: Predicates) -> tuple[int, int]:
    """The least and the greatest value of a column of numbers that predicates which hold all at once let through.

    Args:
        column: the column's name.
        predicates: see `Predicate`.
    """
    first, last = _LEAST, MOST
    for predicate in predicates:
        if predicate.column == column and predicate.comparison in _COMPARISONS and predicate.values:
            low, high = _interval(predicate.comparison, predicate.values)
            first, last = max(first, low), min(last, high)
    return first, last


def _interval(comparison: str, values: Sequence[int]) -> tuple[int, int]:
    if comparison in ("=", "<=>", "IN"):
        return min(values), max(values)
    if comparison in ("<", "<="):
        return _LEAST, values[0] - (comparison == "<")
    return values[0] + (comparison == ">"), MOST


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Which segments, and which offsets in them, a query may want."""

    segments: frozenset[int] | None = None
    """None for all."""
    first_segment: int = _LEAST
    last_segment: int = MOST
    first: int = _LEAST
    """The offset of the first event, in bytes."""
    last: int = MOST
    """The offset of the last event, in bytes."""

    @classmethod
    def of(cls, predicates: Predicates, own: Collection[str] = ()) -> Bounds:
        """The bounds of predicates that hold all at once; those that say nothing about positions are passed over.

        Args:
            predicates: what Spark tells.
            own: the names of the table's own columns: one that is called as a metadata column is no position.
        """
        bounds = cls()
        for predicate in predicates:
            column, comparison, values = predicate.column, predicate.comparison, predicate.values
            if column in own or column not in (SEGMENT, OFFSET) or comparison not in _COMPARISONS or not values:
                continue
            low, high = _interval(comparison, values)
            if column == OFFSET:
                bounds = replace(bounds, first=max(bounds.first, low), last=min(bounds.last, high))
                continue
            bounds = replace(
                bounds, first_segment=max(bounds.first_segment, low), last_segment=min(bounds.last_segment, high)
            )
            if comparison in ("=", "<=>", "IN"):
                there = frozenset(values) if bounds.segments is None else bounds.segments & frozenset(values)
                bounds = replace(bounds, segments=there)
        return bounds

    def wants(self, segment: int) -> bool:
        """Whether a segment may hold what the query wants."""
        listed = self.segments is None or segment in self.segments
        return listed and self.first_segment <= segment <= self.last_segment


def narrowed(snapshot: Snapshot, bounds: Bounds, ledger: Ledger | None) -> Snapshot:
    """The part of a snapshot within bounds.

    An event's begin can't be told from the middle of a segment, so a lower bound moves up to the last commit before it.

    Args:
        snapshot: what there is.
        bounds: what may be wanted.
        ledger: the stream's commit log, if it has one.
    """
    if bounds == Bounds():
        return snapshot
    parts = [
        _from(part, bounds.first, ledger)
        for part in snapshot.parts
        if bounds.wants(part.segment_id) and part.start <= bounds.last and part.end > bounds.first
    ]
    return replace(snapshot, parts=tuple(parts))


_MOST_COUNTED = 1000
"""Versions whose entries are looked at to count rows: more take as long as the rows, perhaps."""
_MOST_KEYS = 10_000
"""Keys that a query may ask for one by one; more of them lie in all segments anyway."""


def wanted_fractions(definition: TableDefinition, predicates: Predicates) -> npt.NDArray[np.float64] | None:
    """Where in the key space the rows lie that a query wants of a table with a key.

    Args:
        definition: what the stream is as a table; it has a key.
        predicates: what Spark tells.

    Returns:
        A fraction in [0, 1) for each wanted key; None where it isn't known which keys are wanted, or how their
        routing keys are made.
    """
    columns = routing_columns(definition)
    if not columns:
        return None
    wanted: dict[str, list[Any]] = {}
    for predicate in predicates:
        values = [value for value in predicate.values if value is not None]
        if predicate.column in columns and predicate.comparison in ("=", "<=>", "IN"):
            known = wanted.get(predicate.column)
            wanted[predicate.column] = values if known is None else [v for v in known if v in values]
    keys = math.prod(len(wanted.get(name, ())) for name in columns)
    if len(wanted) < len(columns) or not 0 < keys <= _MOST_KEYS:
        return None
    rows = list(itertools.product(*(wanted[name] for name in columns)))
    schema = to_arrow_schema(definition.schema, timezone="UTC")
    try:
        arrays = [_typed([row[i] for row in rows], schema.field(name).type) for i, name in enumerate(columns)]
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
        return None
    return possible_routing_hashes(definition, pa.RecordBatch.from_arrays(arrays, names=list(columns)))


def routing_columns(definition: TableDefinition) -> tuple[str, ...]:
    """The columns of a table with a key that tell in which segments its rows lie; none where that isn't known.

    Args:
        definition: what the stream is as a table.
    """
    if definition.key is None or definition.routing_key is None:
        return ()
    return Routing.parse(definition.routing_key, definition.schema.fieldNames()).columns


def routing_fingerprint(definition: TableDefinition) -> str:
    """What decides a key's routing: equal where the same keys have the same routing hashes.

    Args:
        definition: what the stream is as a table.
    """
    types = [definition.schema[name].dataType.simpleString() for name in routing_columns(definition)]
    return f"{definition.routing_key}: {', '.join(types)}"


def _typed(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_decimal(kind):
        return pa.array([Decimal(value) for value in values], kind)
    return pa.array(values, kind)


def narrowed_chains(
    definition: TableDefinition,
    partitions: Sequence[InputPartition],
    seen: ReadSet | None,
    predicates: Predicates,
) -> tuple[list[ChainPartition], ReadSet | None] | None:
    """What of a read that is planned already is wanted, when a join's other side has told its keys.

    Args:
        definition: what the stream is as a table.
        partitions: those of the plan.
        seen: as of `PlannedScan`.
        predicates: what Spark tells.

    Returns:
        The partitions that are left, and what the statement then has read; None where all are wanted.
    """
    chains = [partition for partition in partitions if type(partition) is ChainPartition]
    fractions = None if definition.key is None else wanted_fractions(definition, predicates)
    if fractions is None or len(chains) < len(partitions):
        return None
    keys = fractions if seen is None or seen.keys is None else np.intersect1d(fractions, np.array(seen.keys))
    left = chains_of_keys(shared_client(definition.settings), chains, keys)
    return left, None if seen is None else replace(seen, keys=tuple(keys.tolist()))


def counted_rows(snapshot: Snapshot, ledger: Ledger | None) -> int | None:
    """How many rows a whole stream has, as the commit log has counted them.

    Args:
        snapshot: the stream.
        ledger: its commit log, if it has one.

    Returns:
        None where they have to be counted: events of others are in the stream, or some were truncated away, or a
        commit is under way.
    """
    state = None if ledger is None else ledger.state()
    if ledger is None or state is None or state.rows is None or state.pending is not None:
        return None
    ends = {part.segment_id: part.end for part in snapshot.parts if part.end}
    # All that commits have ever written is there, and nothing else.
    if sum(ends.values()) != state.bytes or any(part.start for part in snapshot.parts):
        return None
    for commit in ledger.commits([state.version] if state.version else []):
        # Of segments that were sealed before it a version needn't say anything.
        if all(ends.get(segment_id, 0) == end for segment_id, end in commit.cut.items()):
            return state.rows
    return None if state.version else 0


def counted_until(snapshot: Snapshot, ledger: Ledger | None, version: int | None) -> int | None:
    """How many rows a stream had when a version was committed, as the commit log has counted them.

    Args:
        snapshot: the stream up to there.
        ledger: its commit log, if it has one.
        version: the version; None where it is no version's moment.

    Returns:
        None where they have to be counted, as of `counted_rows`, or much was committed since.
    """
    state = None if ledger is None else ledger.state()
    if ledger is None or state is None or version is None or state.rows is None or state.bytes is None:
        return None
    later = _additions(ledger, version + 1, state.version)
    if later is None:
        return None
    is_whole = sum(part.end for part in snapshot.parts) == state.bytes - sum(one.bytes for one in later)
    if not is_whole or any(part.start for part in snapshot.parts):
        return None
    return state.rows - sum(one.rows for one in later)


def counted_changes(parts: Sequence[SegmentPart], ledger: Ledger | None, first: int, last: int) -> int | None:
    """How many rows versions have added, as the commit log has counted them.

    Args:
        parts: where their events lie.
        ledger: the stream's commit log, if it has one.
        first: the first version.
        last: the last one; less where there are none.

    Returns:
        None where they have to be counted: events of others lie between, or there are many versions.
    """
    commits = None if ledger is None else _additions(ledger, first, last)
    if commits is None or sum(part.size for part in parts) != sum(one.bytes for one in commits):
        return None
    return sum(one.rows for one in commits)


def counted_with_lake(snapshot: Snapshot, ledger: Ledger | None, version: int | None) -> int | None:
    """How many rows a table with a lake has at a version's end, by what lies there and what commits have counted.

    Args:
        snapshot: the table, of which the lake's part is read there.
        ledger: the stream's commit log.
        version: the version; None where it isn't known.

    Returns:
        None where they have to be counted, as of `counted_changes`.
    """
    assert snapshot.lake is not None
    there = lake_rows(snapshot.lake)
    if there is None or version is None:
        return None
    behind = counted_changes(snapshot.parts, ledger, snapshot.lake.last + 1, version)
    return None if behind is None else there + behind


def _additions(ledger: Ledger, first: int, last: int) -> list[Commit] | None:
    """The entries of versions; None where there are many, one is gone, or one has done more than add rows."""
    if last - first >= _MOST_COUNTED:
        return None
    commits = list(ledger.commits(range(first, last + 1)))
    if len(commits) < last - first + 1 or any(one.of_others or one.begins or one.replaced for one in commits):
        return None
    return commits


def counted_keys(snapshot: Snapshot, ledger: Ledger | None) -> int | None:
    """How many rows a whole table with a key has, where it holds nothing but what a compaction has written.

    Args:
        snapshot: the table.
        ledger: its commit log, if it has one.

    Returns:
        None where the keys have to be counted.
    """
    if snapshot.base is not None:
        return None if any(part.size for part in behind_base(snapshot).parts) else snapshot.base.rows
    parts = [part for part in snapshot.parts if part.size]
    if not parts:
        return 0
    if ledger is None or any(snapshot.compacted.get(part.segment_id) != (part.start, part.end) for part in parts):
        return None
    for compaction in ledger.commits([snapshot.version]):
        if compaction.base is not None and compaction.bytes == sum(part.size for part in parts):
            return compaction.rows
    return None


@dataclass
class EarlyEnd(RowsReader):
    """A reader that stops before the ends of its partitions."""

    reader: Any
    """A `RowsReader`, which knows its schema."""
    limit: int | None
    """Rows of each partition that are enough."""
    last: int = MOST
    """The offset of the last event that may be wanted; the rows hold their offsets."""

    @property
    def schema(self) -> Any:
        """What the batches hold."""
        return self.reader.schema

    def partitions(self) -> Sequence[InputPartition]:
        """The reader's."""
        some: Sequence[InputPartition] = self.reader.partitions()
        return some

    def batches(self, partition: InputPartition) -> Iterator[Batch]:
        """The rows of a partition, up to where it is enough.

        Args:
            partition: one of the reader's.
        """
        left = self.limit
        # What comes behind the last wanted offset may be another segment.
        single = isinstance(partition, SlicePartition) and len(partition.parts) == 1
        for batch in self.reader.batches(partition):
            if left is not None and batch.num_rows >= left:
                yield arrow_batch(batch).slice(0, left)
                return
            yield batch
            left = None if left is None else left - batch.num_rows
            if (
                single
                and self.last < MOST
                and batch.num_rows
                and arrow_batch(batch).column(OFFSET)[batch.num_rows - 1].as_py() >= self.last
            ):
                return


def _from(part: SegmentPart, first: int, ledger: Ledger | None) -> SegmentPart:
    if ledger is None or first <= part.start:
        return part
    low, high, start = 0, ledger.state().version, part.start
    while low < high:
        middle = (low + high + 1) // 2
        commits = ledger.commits([middle])
        offset = _reached(commits[0], part) if commits else 0
        if offset <= first:
            low, start = middle, max(start, offset)
        else:
            high = middle - 1
    return replace(part, start=min(start, part.end))


def _reached(commit: Commit, part: SegmentPart) -> int:
    """How far a segment went when a version was committed."""
    offset = commit.cut.get(part.segment_id)
    if offset is not None:
        return offset
    # A version names the segments of its time: later ones than this one stand for its end.
    is_past = any(segment_epoch(other) > segment_epoch(part.segment_id) for other in commit.cut)
    return part.end if is_past else 0
