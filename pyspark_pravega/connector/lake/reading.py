"""Reads of tables whose older rows lie in the lake: its files up to a version's cut, and the stream behind that."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_pravega.connector.lake.rules import check_fits
from pyspark_pravega.connector.lake.tiering import COLUMNS
from pyspark_pravega.connector.log import LakePart, Snapshot, Tiered, behind
from pyspark_pravega.connector.predicates import Predicates
from pyspark_pravega.connector.read import ROW_MARKER, BatchReader, RowsReader, pack
from pyspark_pravega.connector.table import CORRUPT_EVENTS, TableDefinition
from pyspark_pravega.connector.wanted import check_wanted
from pyspark_pravega.errors import DataLossError, UnsupportedOperationError
from pyspark_pravega.lake import POSITIONS, VERSION, Between, LakeFile, lake_schema, load_iceberg, read_file
from pyspark_pravega.serde.codec import Batch
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.datasource import InputPartition
from pyspark_pravega.spark.types import StructType

_TASK_BYTES = 8 << 20
"""Files with less than this share a task."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def behind_lake(snapshot: Snapshot) -> Snapshot:
    """A table at a moment, of which the lake's part is read from the lake.

    Args:
        snapshot: the whole table, as `take_snapshot` has found it.

    Raises:
        DataLossError: events behind the lake's part are gone.
    """
    tiered = snapshot.tiered
    if tiered is None or snapshot.lake is not None:
        return snapshot
    parts = behind(snapshot, tiered.cut).parts
    there = {part.segment_id: part.start for part in parts}
    if any(there.get(id) != max(0, begin) for id, begin in tiered.cut.items()) or any(
        start for id, start in there.items() if id not in tiered.cut
    ):
        raise DataLossError(
            f'events of stream "{snapshot.stream}" behind version {tiered.version}, up to which its rows are in the '
            "lake, were truncated before they got there"
        )
    return replace(snapshot, parts=parts, lake=LakePart(tiered=tiered, last=tiered.version))


def lake_rows(part: LakePart) -> int | None:
    """How many rows are read from the lake; None where that isn't known without reading them."""
    return part.tiered.rows if part.last == part.tiered.version else None


def lake_figures(tiered: Tiered) -> tuple[int, int]:
    """How many files hold what of a table lies in the lake, and how many bytes.

    Args:
        tiered: what lies there.

    Raises:
        ConfigurationError: pyiceberg isn't installed.
    """
    files = [] if tiered.snapshot is None else load_iceberg().files_of(tiered.metadata, tiered.snapshot)
    return len(files), sum(file.size for file in files)


class LakePartition(InputPartition):
    """Files of the lake, read by one task one after another."""

    def __init__(self, files: Sequence[LakeFile]) -> None:
        super().__init__(files[0].path)
        self.files = tuple(files)

    def __repr__(self) -> str:
        return f"LakePartition({len(self.files)} files, {self.files[0].path} ...)"


class LakeReader(RowsReader):
    """Reads files of the lake, and what lies behind them in the stream."""

    def __init__(
        self, rest: BatchReader, files: Sequence[LakeFile], last: int | None, wanted: Sequence[Between]
    ) -> None:
        """Plan a read.

        Args:
            rest: reads the stream's part.
            files: the lake's.
            last: the last version whose rows are wanted of them; None for all.
            wanted: which values are wanted.
        """
        self._rest, self._files, self._last, self._wanted = rest, tuple(files), last, tuple(wanted)

    @property
    def schema(self) -> StructType:
        """What the batches hold."""
        return self._rest.schema

    def __getstate__(self) -> dict[str, Any]:
        # Each task is told its own files.
        return {**self.__dict__, "_files": ()}

    def partitions(self) -> Sequence[InputPartition]:
        """Those of the lake, and those of the stream."""
        packs = pack(self._files, lambda file: file.size, _TASK_BYTES)
        return [*map(LakePartition, packs), *self._rest.partitions()]

    def batches(self, partition: InputPartition) -> Iterator[Batch]:
        """The rows of a partition.

        Args:
            partition: one of `partitions()`.
        """
        if not isinstance(partition, LakePartition):
            yield from self._rest.batches(partition)
            return
        schema = to_arrow_schema(self.schema, timezone="UTC")
        is_counted = self.schema == ROW_MARKER
        for file in partition.files:
            for batch in read_file(file.path, pa.schema([]) if is_counted else schema, self._last, self._wanted):
                check_wanted()
                if is_counted:
                    batch = pa.record_batch([pa.array(np.zeros(batch.num_rows, np.int32))], schema=schema)
                yield batch


def lake_reader(
    definition: TableDefinition, rest: BatchReader, part: LakePart, columns: Sequence[str], predicates: Predicates
) -> tuple[LakeReader, int]:
    """A read of rows in the lake and of those behind them.

    Args:
        definition: what the stream is as a table.
        rest: reads the stream's part.
        part: what is read from the lake.
        columns: the wanted columns, metadata columns among them.
        predicates: what Spark tells of the query's condition; rows that don't meet it may come all the same.

    Returns:
        The reader, and how many bytes its files have.

    Raises:
        UnsupportedOperationError: the lake doesn't hold what is wanted.
        ConfigurationError: pyiceberg isn't installed.
    """
    tiered, module = part.tiered, load_iceberg()
    assert tiered.snapshot is not None
    snapshot = module.snapshot_at(tiered.metadata, tiered.snapshot)
    known = StructType.fromJson(json.loads(snapshot.properties[COLUMNS]))
    check_fits(definition, known)
    lacking = [name for name in columns if name not in (*definition.schema.names, *POSITIONS, *CORRUPT_EVENTS)]
    if lacking:
        raise UnsupportedOperationError(
            f'column "{lacking[0]}" of rows of stream "{definition.stream}" that are in the lake isn\'t known there: '
            "read the table without it"
        )
    wanted = _wanted(lake_schema(known), predicates)
    last = None if part.last == tiered.version else part.last
    files = module.files_of(tiered.metadata, tiered.snapshot, last, wanted)
    return LakeReader(rest, files, last, wanted), sum(file.size for file in files)


def _wanted(schema: pa.Schema, predicates: Predicates) -> tuple[Between, ...]:
    """Which values a query wants of the lake's columns of whole numbers, dates and instants."""
    wanted = []
    for predicate in predicates:
        index = schema.get_field_index(predicate.column)
        values = [value for value in predicate.values if isinstance(value, int) and not isinstance(value, bool)]
        if index < 0 or not values or len(values) < len(predicate.values) or predicate.column == VERSION:
            continue
        try:
            bounds = [_value(schema.field(index).type, value) for value in values]
        except (OverflowError, ValueError):
            continue
        if None in bounds:
            continue
        match predicate.comparison:
            case "=" | "<=>" | "IN":
                wanted.append(Between(column=predicate.column, least=min(bounds), most=max(bounds)))
            case "<" | "<=":
                wanted.append(Between(column=predicate.column, most=bounds[0]))
            case ">" | ">=":
                wanted.append(Between(column=predicate.column, least=bounds[0]))
    return tuple(wanted)


def _value(kind: pa.DataType, value: int) -> Any:
    """A predicate's value as files tell of theirs; None where they tell in another way."""
    if pa.types.is_integer(kind):
        return value
    if pa.types.is_date32(kind):
        return _EPOCH.date() + dt.timedelta(days=value)
    if pa.types.is_timestamp(kind):
        instant = _EPOCH + dt.timedelta(microseconds=value)
        return instant if kind.tz is not None else instant.replace(tzinfo=None)
    return None
