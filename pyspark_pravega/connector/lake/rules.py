"""Which tables may have a lake, and what can't be done with them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from pyspark_pravega.client import StreamConfiguration
from pyspark_pravega.connector.base import lake_store
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import LAKE, TableDefinition
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.lake import (
    PARTITIONED_BY,
    POSITIONS,
    SORTED_BY,
    Layout,
    SortedBy,
    check_lake_columns,
    lake_schema,
    load_iceberg,
    of_columns,
)
from pyspark_pravega.serde.formats import REGISTERED
from pyspark_pravega.serde.lenient import FAIL_FAST
from pyspark_pravega.spark.types import DataType, StructField, StructType


def check_kept(definition: TableDefinition) -> pa.Schema:
    """Refuse a table whose rows can't go to a lake yet.

    Args:
        definition: what the stream is as a table.

    Returns:
        Its columns there.

    Raises:
        UnsupportedOperationError: it is such a table.
        UnsupportedTypeError: a column has a type that Iceberg hasn't.
    """
    why = ""
    if definition.registered is None or definition.format not in REGISTERED:
        why = f"its format is {definition.format}, and only {', '.join(sorted(REGISTERED))} can have a lake yet"
    elif definition.types is not None:
        why = "its stream holds events of several types, and such tables can't have a lake yet"
    elif definition.mode != FAIL_FAST or definition.properties.bad_events is not None:
        why = f'only tables of mode {FAIL_FAST}, without "bad-events", can have a lake yet'
    elif definition.configuration.retention is not None:
        why = "its retention may remove events before they are in the lake: UNSET it, and set lake-keep-in-stream"
    if why:
        raise UnsupportedOperationError(f'stream "{definition.stream}" can\'t go to the lake: {why}')
    return lake_schema(definition.schema)


def check_new(columns: StructType, configuration: StreamConfiguration, properties: Mapping[str, str]) -> None:
    """Refuse a new table whose rows couldn't go to the lake that it is to have.

    Args:
        columns: the table's.
        configuration: the stream's.
        properties: what is kept with the table.

    Raises:
        UnsupportedOperationError: it is such a table.
        UnsupportedTypeError: a column has a type that Iceberg hasn't.
    """
    if LAKE not in properties:
        return
    check_lake_columns(columns)
    if configuration.retention is not None:
        raise UnsupportedOperationError(
            'a table with a lake can\'t have "retention", which may remove events before they are there: set '
            "lake-keep-in-stream instead"
        )


def layout_of(definition: TableDefinition) -> Layout:
    """How a table's rows are laid out in the lake's files.

    Args:
        definition: what the stream is as a table.

    Raises:
        InvalidNameError: its properties name a column that isn't there.
        UnsupportedTypeError: or one with a type that can't be used so.
        ConfigurationError: one is there twice, or they mean nothing.
    """
    properties, columns = definition.properties, definition.schema
    order = of_columns(SORTED_BY, properties.lake_sorted_by, columns)
    return Layout(
        partitions=of_columns(PARTITIONED_BY, properties.lake_partitioned_by, columns),
        order=order or _order_of_key(definition),
    )


def _order_of_key(definition: TableDefinition) -> tuple[SortedBy, ...]:
    """How rows of a table with a key are sorted where nobody says that: who reads some segments needs few others, and a
    few changed keys lie in few files."""
    if definition.key is None:
        return ()
    names = [name for name in definition.key.columns if not isinstance(definition.schema[name].dataType, StructType)]
    return tuple(SortedBy(column=name) for name in (POSITIONS[0], *names))


def check_added(definition: TableDefinition, name: str, kind: DataType) -> None:
    """Refuse a new column of a table with a lake that can't go there.

    Args:
        definition: what the stream is as a table.
        name: the column's.
        kind: its type.

    Raises:
        UnsupportedOperationError: it is called as one of the lake's, or as partitions there.
        UnsupportedTypeError: Iceberg hasn't its type.
    """
    if not definition.has_lake:
        return
    check_lake_columns(StructType([StructField(name, kind)]))
    ledger = open_ledger(shared_client(definition.settings), definition.stream)
    lake = None if ledger is None else ledger.state().lake
    if lake is not None and lake.snapshot is not None:
        store = lake_store(definition.settings)
        if name in load_iceberg().partition_fields(store, lake.metadata):
            raise UnsupportedOperationError(
                f'column "{name}" of stream "{definition.stream}" can\'t go to the lake: partitions of its Iceberg '
                "table are called so, or were; give the column another name"
            )


def check_unlaked(definition: TableDefinition, what: str) -> None:
    """Refuse what can't be done yet with a table that has rows in the lake, or had some.

    Args:
        definition: what the stream is as a table.
        what: what is asked for.

    Raises:
        UnsupportedOperationError: it has.
    """
    if definition.has_lake:
        raise UnsupportedOperationError(
            f'{what} isn\'t possible yet where rows are in the lake, as those of stream "{definition.stream}" are: '
            "make a new table AS SELECT"
        )
