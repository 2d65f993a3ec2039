"""Scans and writes of key-value tables that Spark's JVM asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition

from pyspark_pravega import settings
from pyspark_pravega.catalog.process.jobs import ScanRequest
from pyspark_pravega.catalog.process.messages import NarrowedScan, PlannedScan, PlannedWrite, Table, Text64
from pyspark_pravega.catalog.process.pickles import pickle, pickled_read, unpickle
from pyspark_pravega.catalog.process.protocol import bytes_of, text_of
from pyspark_pravega.catalog.statements import shown_key_value_properties
from pyspark_pravega.connector.key_value import (
    METADATA_COLUMNS,
    VERSION,
    KeyValueDefinition,
    KeyValuePlan,
    KeyValueReader,
    Wanted,
    made_as,
    narrowed,
)
from pyspark_pravega.connector.options import canonical, reads_own
from pyspark_pravega.connector.table import avro_defaults, check_planned, checks_of, defaults_of, with_defaults


def table_of(definition: KeyValueDefinition) -> Table:
    """A key-value table, for Spark's analysis.

    Args:
        definition: the table.
    """
    names, defaults = definition.layout.names, defaults_of(definition.properties)
    if definition.values.registered is not None:
        schema = definition.values.registered[0]
        of_values = avro_defaults(schema.serialization_format, schema.schema_data)
        defaults = {**{name: value for name, value in of_values.items() if name not in names}, **defaults}
    return {
        "schema": with_defaults(definition.schema, defaults).json(),
        "checks": [
            {"name": check.name, "condition": check.condition, "enforced": check.enforced}
            for check in checks_of(definition.properties)
        ],
        "properties": shown_key_value_properties(definition),
        "stream": str(definition.stream),
        "id": made_as(definition.segments),
        "primaryKey": names,
        "rowId": [*names, VERSION],
        "lookup": names,
        "metadata": METADATA_COLUMNS.json(),
    }


def check_options(options: Mapping[str, str]) -> None:
    """Refuse options of a read that mean nothing here.

    Args:
        options: the read's.

    Raises:
        ConfigurationError: one is unknown or malformed.
    """
    canonical(reads_own(options), settings.KEYS, "read option of a key-value table")


def plan_scan(definition: KeyValueDefinition, request: ScanRequest) -> PlannedScan:
    """Plan a read.

    Args:
        definition: the table.
        request: what is wanted; its predicates are those of `Wanted.of`.

    Raises:
        ConfigurationError: an option is unknown or malformed.
        TableChangedError: the table isn't any more what the query was planned with.
    """
    if request.planned is not None:
        check_planned(definition.stream, request.planned, request.columns, definition.schema)
    check_options(request.options)
    wanted = Wanted.of(definition, request.predicates)
    reader = KeyValueReader(definition, request.columns, wanted, request.limit)
    function, partitions = pickled_read(reader, reader.schema)
    there = definition.open().extent()
    rows, size, count = there.entries, there.bytes, len(reader.partitions())
    if wanted.keys is not None:
        size = size * len(wanted.keys) // max(1, rows)
        rows = len(wanted.keys)
    return {
        "function": text_of(function),
        "partitions": [text_of(partition) for partition in partitions],
        "schema": reader.schema.json(),
        "size": size,
        "rows": rows,
        "segments": count,
        "seen": None,
        "sharedMemory": definition.settings.shared_memory,
        "places": made_as(definition.segments),
        "moment": None,
        "extent": f"{count} partitions" if wanted.keys is None else _looked_up(len(wanted.keys), count),
    }


def narrow_scan(
    definition: KeyValueDefinition,
    partitions: Sequence[Text64],
    predicates: Sequence[Mapping[str, Any]],
    places: str | None,
) -> NarrowedScan | None:
    """What of a planned read further predicates leave; None for all of it.

    Args:
        definition: the table.
        partitions: those of the plan.
        predicates: see `Wanted.of`.
        places: as of the plan.
    """
    if places not in (None, made_as(definition.segments)):
        return None
    planned: list[InputPartition] = [unpickle(bytes_of(partition)) for partition in partitions]
    left = narrowed(definition, planned, predicates)
    if left is None:
        return None
    keys = sum(len(one.keys) for one in left)
    return {
        "partitions": [text_of(pickle(partition)) for partition in left],
        "segments": len(left),
        "seen": None,
        "extent": _looked_up(keys, len(left)),
    }


def plan_write(plan: KeyValuePlan) -> PlannedWrite:
    """A write that is settled.

    Args:
        plan: how rows are written.
    """
    return {"plan": text_of(pickle(plan)), "clusterBy": [], "orderBy": None, "atOnce": False}


def _looked_up(keys: int, partitions: int) -> str:
    return f"{keys} keys looked up in {partitions} partitions"
