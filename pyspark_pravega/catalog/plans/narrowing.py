"""What of a planned read is left when a join's other side has told its values: by keys, an index, and what files of the
lake tell of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from pyspark_pravega.catalog.plans.skipping import index_fingerprint, wanted_partitions
from pyspark_pravega.catalog.pushdown import narrowed_chains, routing_columns, routing_fingerprint
from pyspark_pravega.connector.index import Condition
from pyspark_pravega.connector.lake import told_columns, wanted_in_lake
from pyspark_pravega.connector.predicates import Predicates
from pyspark_pravega.connector.read import SlicePartition
from pyspark_pravega.connector.table import TableDefinition, indexed_columns
from pyspark_pravega.connector.write import ReadSet
from pyspark_pravega.errors import InvalidNameError

_WORTH_PIECES = 32
"""A read of as many segments and files takes a while, however small they are."""


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How much is read."""

    size: int
    """In bytes."""
    slices: int
    """Of how many segments."""
    files: Sequence[str]
    """Which files of the lake, by their paths."""
    least: int
    """Of how many bytes on it is worth while to wait until a join has told its values."""


def filter_columns(definition: TableDefinition, columns: Sequence[str], reach: Reach) -> list[str]:
    """The columns whose values leave out much of a read, when a join tells them.

    A query in which many scans wait for each other's values takes long to plan: Spark 4.3 plans each again for each
    that waits for it. So only large reads do, and of the lake by columns whose values come together in files.

    Args:
        definition: what the stream is as a table.
        columns: those that the query reads.
        reach: how much is read.
    """
    if definition.is_changes or (reach.size < reach.least and reach.slices + len(reach.files) < _WORTH_PIECES):
        return []
    names: list[str] = []
    # That a routing key names no columns is told who reads or writes.
    with suppress(InvalidNameError):
        by_key = definition.key is not None
        names += routing_columns(definition) if by_key else [one.name for one in indexed_columns(definition)]
    names += told_columns(definition, reach.files, only_telling=reach.least > 0)
    return [name for name in dict.fromkeys(names) if name in columns]


@dataclass(frozen=True, kw_only=True)
class NarrowedScan:
    """What of a `PlannedScan` is left when a join's other side has told its values."""

    partitions: Sequence[InputPartition]
    slices: int
    seen: ReadSet | None = None
    extent: str | None = None
    """As of `PlannedScan`."""
    skipped: int = 0
    """Bytes that this saves: of events by the table's index, and of files of the lake."""


def narrow_scan(
    definition: TableDefinition,
    partitions: Sequence[InputPartition],
    seen: ReadSet | None,
    predicates: Predicates,
    routing: str | None = None,
    condition: Condition = None,
    options: Mapping[str, str] | None = None,
) -> NarrowedScan | None:
    """What of a planned read further predicates leave, as of the same moment.

    Args:
        definition: what the stream is as a table.
        partitions: those of the plan.
        seen: as of the plan.
        predicates: what Spark tells of their columns.
        routing: as of the plan; None where it doesn't tell.
        condition: all of them that can be told.
        options: the read's.

    Returns:
        None for all of it.
    """
    left, skipped = wanted_in_lake(definition, partitions, predicates) or (partitions, 0)
    is_narrowed = left is not partitions
    # If the table has changed while the query ran, where its keys lie now says nothing of what is read.
    if routing in (None, fingerprint(definition)):
        if definition.key is not None:
            if (chains := narrowed_chains(definition, left, seen, predicates)) is not None:
                (left, seen), is_narrowed = chains, True
        elif (wanted := wanted_partitions(definition, left, condition, options or {})) is not None:
            left, saved = wanted
            skipped, is_narrowed = skipped + saved, True
    if not is_narrowed:
        return None
    slices = {part.segment_id for one in left if isinstance(one, SlicePartition) for part in one.parts}
    return NarrowedScan(partitions=left, slices=len(slices), seen=seen, skipped=skipped)


def fingerprint(definition: TableDefinition) -> str:
    """What decides where a table's rows lie, by their keys or an index: equal where a plan may be narrowed.

    Args:
        definition: what the stream is as a table.
    """
    return index_fingerprint(definition) if definition.key is None else routing_fingerprint(definition)
