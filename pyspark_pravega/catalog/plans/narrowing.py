"""What of a planned read is left when a join's other side has told its values, by keys or by an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from pyspark_pravega.catalog.plans.skipping import index_fingerprint, wanted_partitions
from pyspark_pravega.catalog.pushdown import narrowed_chains, routing_fingerprint
from pyspark_pravega.connector.index import Condition
from pyspark_pravega.connector.predicates import Predicates
from pyspark_pravega.connector.read import SlicePartition
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.connector.write import ReadSet


@dataclass(frozen=True, kw_only=True)
class NarrowedScan:
    """What of a `PlannedScan` is left when a join's other side has told its values."""

    partitions: Sequence[InputPartition]
    slices: int
    seen: ReadSet | None = None
    extent: str | None = None
    """As of `PlannedScan`."""
    skipped: int = 0
    """Bytes of events that this saves, by the table's index."""


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
    if routing not in (None, fingerprint(definition)):
        # The table has changed while the query ran: where its keys lie now says nothing of what is read.
        return None
    if definition.key is None:
        wanted = wanted_partitions(definition, partitions, condition, options or {})
        if wanted is None:
            return None
        some, saved = wanted
        slices = {part.segment_id for one in some if isinstance(one, SlicePartition) for part in one.parts}
        return NarrowedScan(partitions=some, slices=len(slices), seen=seen, skipped=saved)
    left = narrowed_chains(definition, partitions, seen, predicates)
    if left is None:
        return None
    chains, seen = left
    segments = {part.segment_id for chain in chains for part in chain.parts}
    return NarrowedScan(partitions=chains, slices=len(segments), seen=seen)


def fingerprint(definition: TableDefinition) -> str:
    """What decides where a table's rows lie, by their keys or an index: equal where a plan may be narrowed.

    Args:
        definition: what the stream is as a table.
    """
    return index_fingerprint(definition) if definition.key is None else routing_fingerprint(definition)
