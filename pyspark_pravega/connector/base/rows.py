"""The rows of a table with a key as of a version, which lie in the lake, as tasks read them.

Each key is there once, with the segment in which its event was. So a task that reads some segments by key reads the
rows of these, and of all segments before them that had some of their keys.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client import Stream
from pyspark_pravega.connector.base.fitting import check_fits
from pyspark_pravega.connector.log import Base, open_ledger
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import CORRUPT_EVENTS, TableDefinition
from pyspark_pravega.connector.wanted import check_wanted
from pyspark_pravega.errors import (
    DataLossError,
    NotFoundError,
    PravegaError,
    TableChangedError,
    UnsupportedOperationError,
)
from pyspark_pravega.lake import POSITIONS, VERSION, Between, GroupOfRows, Store, groups_in, load_iceberg, read_groups
from pyspark_pravega.settings import Settings
from pyspark_pravega.spark.types import StructType
from pyspark_pravega.together import all_together

COLUMNS = "pravega.columns"
"""What a snapshot says that has the table's columns."""
SEGMENT = POSITIONS[0]
_AT_ONCE = 16


@dataclass(frozen=True, kw_only=True)
class BaseRows:
    """Rows of some segments; what a task is told of them."""

    settings: Settings
    stream: Stream
    base: Base
    """Of which version they are."""
    store: Store
    groups: tuple[GroupOfRows, ...]
    segments: frozenset[int]
    """Those whose rows are wanted."""
    wanted: tuple[Between, ...] = ()
    """Which values are: row groups that have none are passed over."""

    @property
    def bytes(self) -> int:
        """About how many they have."""
        return sum(group.bytes * len(group.segments & self.segments) // len(group.segments) for group in self.groups)

    def of(self, segments: Collection[int]) -> BaseRows | None:
        """Those of some segments; None where there are none.

        Args:
            segments: which ones.
        """
        left = self.segments & frozenset(segments)
        groups = tuple(group for group in self.groups if group.segments & left)
        return replace(self, segments=left, groups=groups) if groups else None

    def batches(self, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows, always in the same order.

        Args:
            columns: the wanted ones, as they are wanted; those that a file hasn't are null.

        Raises:
            TableChangedError: `clean_lake` has removed them since this was planned.
            DataLossError: a file is gone.
        """
        try:
            yield from self._batches(columns)
        except NotFoundError as error:
            raise _gone(self.settings, self.stream, self.base, error) from None

    def _batches(self, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        ids = pa.array(sorted(self.segments), pa.int64())
        for group in self.groups:
            names = columns.names
            is_whole = group.segments <= self.segments
            read = names if is_whole or SEGMENT in names else [*names, SEGMENT]
            for batch in read_groups(self.store, group, read, self.wanted):
                check_wanted()
                some = batch if is_whole else batch.filter(pc.is_in(batch.column(SEGMENT), value_set=ids))
                if some.num_rows:
                    arrays = [_column(some, field) for field in columns]
                    # Without any column a batch has no length.
                    yield _counted(some.num_rows) if not arrays else pa.RecordBatch.from_arrays(arrays, schema=columns)


def base_rows(
    settings: Settings,
    stream: Stream,
    base: Base,
    wanted: tuple[Between, ...] = (),
    only: Collection[str] | None = None,
) -> BaseRows | None:
    """The rows that lie in the lake; None where there are none.

    Args:
        settings: say how its files are reached.
        stream: the table's stream.
        base: what lies there.
        wanted: which values are wanted.
        only: the files whose rows are; None for all.

    Raises:
        ConfigurationError: pyiceberg isn't installed.
        DataLossError: the files are gone.
        TableChangedError: `clean_lake` has removed them just now.
    """
    store = lake_store(settings)
    try:
        files = load_iceberg().files_of(store, base.metadata, base.snapshot, None, wanted)
        groups = _all_groups(store, [file.path for file in files if only is None or file.path in only])
    except NotFoundError as error:
        raise _gone(settings, stream, base, error) from None
    segments = frozenset(segment for group in groups for segment in group.segments)
    if not groups:
        return None
    return BaseRows(
        settings=settings, stream=stream, base=base, store=store, groups=groups, segments=segments, wanted=wanted
    )


def lake_store(settings: Settings) -> Store:
    """What reaches the lake's files, here and in tasks.

    Args:
        settings: whose `lake` says how.

    Raises:
        ConfigurationError: pyiceberg isn't installed, or they say nothing that means anything.
    """
    store: Store = load_iceberg().store_of(settings.lake)
    return store


def check_base(definition: TableDefinition, base: Base, columns: Sequence[str]) -> StructType:
    """As `check_in_lake`, of the rows of a table with a key.

    Args:
        definition: what the stream is as a table.
        base: what lies there.
        columns: the wanted columns.
    """
    return check_in_lake(definition, columns, base.metadata, base.snapshot)


def check_in_lake(
    definition: TableDefinition, columns: Sequence[str], metadata: str, snapshot: int, more: Collection[str] = ()
) -> StructType:
    """Refuse to read what the lake doesn't hold.

    Args:
        definition: what the stream is as a table.
        columns: the wanted columns.
        metadata: where the metadata lie that show a snapshot.
        snapshot: its id.
        more: columns that a read has beside those of the lake.

    Returns:
        The table's columns as of that snapshot.

    Raises:
        UnsupportedOperationError: the lake doesn't hold it.
        ConfigurationError: pyiceberg isn't installed.
    """
    known = columns_there(definition.settings, metadata, snapshot)
    check_fits(definition, known)
    there = {*definition.schema.names, *POSITIONS, *CORRUPT_EVENTS, *more}
    lacking = [name for name in columns if name not in there]
    if lacking:
        raise UnsupportedOperationError(
            f'column "{lacking[0]}" of rows of stream "{definition.stream}" that are in the lake isn\'t known there: '
            "read the table without it"
        )
    return known


def _all_groups(store: Store, paths: Sequence[str]) -> tuple[GroupOfRows, ...]:
    """The row groups of files. In a bucket each file takes a request, so some are looked at together."""
    size = max(1, -(-len(paths) // _AT_ONCE))
    shares = [paths[first : first + size] for first in range(0, len(paths), size)]
    looks = all_together([partial(_groups_of, store, share) for share in shares])
    return tuple(group for groups in looks for group in groups)


def _groups_of(store: Store, paths: Sequence[str]) -> list[GroupOfRows]:
    return [group for path in paths for group in groups_in(store, path)]


def columns_there(settings: Settings, metadata: str, snapshot: int) -> StructType:
    """A table's columns as of a snapshot.

    Args:
        settings: say how the lake's files are reached.
        metadata: where the metadata lie that show it.
        snapshot: its id.

    Raises:
        ConfigurationError: pyiceberg isn't installed.
    """
    properties = load_iceberg().snapshot_at(lake_store(settings), metadata, snapshot).properties
    return StructType.fromJson(json.loads(properties[COLUMNS]))


def _gone(settings: Settings, stream: Stream, base: Base, error: NotFoundError) -> PravegaError:
    """What has become of rows that aren't there: reads that begin now may need others."""
    ledger = open_ledger(shared_client(settings), stream)
    lake = None if ledger is None else ledger.state().lake
    needed = [] if lake is None else [one.snapshot for one in (lake, lake.kept_base, lake.next_base) if one is not None]
    if base.snapshot not in needed:
        return TableChangedError(
            f'the rows of version {base.version} of stream "{stream}" were removed from the lake after this query was '
            "planned, as CALL clean_lake does: run it again. An older_than that is longer than queries take leaves them"
        )
    return DataLossError(
        f'the rows of version {base.version} of stream "{stream}" aren\'t in the lake any more: {error}'
    )


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    index = batch.schema.get_field_index(field.name)
    array = pa.nulls(batch.num_rows, field.type) if index < 0 else batch.column(index)
    return array if array.type == field.type else array.cast(field.type)


def _counted(rows: int) -> pa.RecordBatch:
    return pa.record_batch({VERSION: np.zeros(rows, np.int64)})
