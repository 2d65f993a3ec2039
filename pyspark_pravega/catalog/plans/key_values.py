"""Batch reads of a key-value table: its entries, gone through or looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql.datasource import InputPartition

from pyspark_pravega import settings
from pyspark_pravega.catalog.plans.narrowing import NarrowedScan
from pyspark_pravega.catalog.plans.scans import PlannedScan, ScanRequest
from pyspark_pravega.catalog.sizes import estimated_memory
from pyspark_pravega.connector.key_value import KeyValueDefinition, KeyValueReader, Wanted, made_as, narrowed
from pyspark_pravega.connector.option_names import FILTER_SIZE, reads_own
from pyspark_pravega.connector.options import ReadOptions, canonical
from pyspark_pravega.connector.predicates import Predicates
from pyspark_pravega.connector.table import check_planned

_WORTH_ENTRIES = 1000
"""A table of fewer is read before a join has told its values."""


def check_options(options: Mapping[str, str]) -> ReadOptions:
    """Refuse options of a read that mean nothing here.

    Args:
        options: the read's.

    Returns:
        Those that mean something.

    Raises:
        ConfigurationError: one is unknown or malformed.
    """
    known = settings.KEYS | {FILTER_SIZE}
    return ReadOptions.parse(canonical(reads_own(options), known, "read option of a key-value table"))


def plan_scan(definition: KeyValueDefinition, request: ScanRequest) -> PlannedScan:
    """Plan a read.

    Args:
        definition: the table.
        request: what is wanted.

    Raises:
        ConfigurationError: an option is unknown or malformed.
        TableChangedError: the table isn't any more what the query was planned with.
    """
    if request.planned is not None:
        check_planned(definition.stream, request.planned, request.columns, definition.schema)
    options = check_options(request.options)
    wanted = Wanted.of(definition, request.predicates)
    reader = KeyValueReader(definition, request.columns, wanted, request.limit)
    there = definition.open().extent()
    rows, size, count = there.entries, there.bytes, len(reader.partitions())
    if wanted.keys is not None:
        size = size * len(wanted.keys) // max(1, rows)
        rows = len(wanted.keys)
    is_large = rows >= _WORTH_ENTRIES or size >= options.filter_size
    return PlannedScan(
        reader=reader,
        schema=reader.schema,
        size=size,
        rows=rows,
        memory=estimated_memory(definition.schema, reader.schema, size, rows),
        slices=count,
        shared_memory=definition.settings.shared_memory,
        routing=made_as(definition.segments),
        filters=[name for name in definition.layout.names if name in request.columns] if is_large else (),
        extent=f"{count} partitions" if wanted.keys is None else _looked_up(len(wanted.keys), count),
    )


def narrow_scan(
    definition: KeyValueDefinition,
    partitions: Sequence[InputPartition],
    predicates: Predicates,
    routing: str | None = None,
) -> NarrowedScan | None:
    """What of a planned read further predicates leave.

    Args:
        definition: the table.
        partitions: those of the plan.
        predicates: what Spark tells of their columns.
        routing: as of the plan; None where it doesn't tell.

    Returns:
        None for all of it.
    """
    if routing not in (None, made_as(definition.segments)):
        return None
    left = narrowed(definition, partitions, predicates)
    if left is None:
        return None
    keys = sum(len(one.keys) for one in left)
    return NarrowedScan(partitions=left, slices=len(left), extent=_looked_up(keys, len(left)))


def _looked_up(keys: int, partitions: int) -> str:
    return f"{keys} keys looked up in {partitions} partitions"
