"""Files of rows that are laid out by partitions, or sorted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.lake.files import GROUPS_HELD, FileWriter
from pyspark_pravega.lake.layout import PARTITIONED_BY, SortedBy
from pyspark_pravega.lake.spill import Spill

_SPILLED_BYTES = 1 << 30
"""How many bytes of rows wait at most, in memory and in a file of this machine, before files are written of them."""
_SORTED_BYTES = 128 << 20
"""How many bytes of rows are sorted together at most."""
_FILES_OF_LANES = 4
"""A sorted file that has the most rows by this number takes none of another lane."""
_MOST_PARTITIONS = 10_000
"""Of how many partitions there may be rows of one commit."""

Key = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class PartitionValue:
    """One of the values that rows of a partition have in common."""

    column: str
    values: Callable[[pa.Array], pa.Array]
    """Those of a column's values, as Iceberg keeps them."""


class LaidOutWriter:
    """Writes batches to files, each of one partition, and sorted as a whole.

    Rows wait in memory, and in a file of this machine; then partition by partition is written. So few files are open,
    whatever partitions there are, and each partition has few files.
    """

    lanes: Sequence[int] = ()
    """Rows needn't come in the order of their events: who wants that sorts them."""

    def __init__(self, files: FileWriter, partitioned_by: Sequence[PartitionValue], order: Sequence[SortedBy]) -> None:
        """Write nothing yet.

        Args:
            files: what writes the files.
            partitioned_by: what rows of a partition have in common.
            order: how rows of a file are sorted.
        """
        self._files, self._partitioned_by, self._order = files, partitioned_by, order
        self._waiting: Spill[tuple[Key, int]] = Spill(GROUPS_HELD * files.group_size)
        self._keys: set[Key] = set()
        self.partitions: dict[str, Key] = {}
        """By file: what its rows have in common."""

    @property
    def paths(self) -> list[str]:
        """The files, in their order."""
        return self._files.paths

    @property
    def rows(self) -> int:
        """All rows that are written."""
        return self._files.rows

    def write(self, batch: pa.RecordBatch, lane: int) -> None:
        """Take a batch.

        Args:
            batch: some rows.
            lane: with whose rows they share row groups.

        Raises:
            ConfigurationError: there are too many partitions.
        """
        for key, rows in self._parted(batch):
            self._keys.add(key)
            self._waiting.add((key, lane), rows)
        if len(self._keys) > _MOST_PARTITIONS:
            raise ConfigurationError(
                f'"{PARTITIONED_BY}": these rows are of more than {_MOST_PARTITIONS} partitions, each of which needs a '
                "file: take a coarser transform, as months for days, or fewer buckets"
            )
        if self._waiting.bytes >= _SPILLED_BYTES:
            self._write_out()

    def settle(self) -> None:
        """Nothing: rows needn't come in the order of their events."""

    def close(self) -> None:
        """Write what is left."""
        self._write_out()

    def discard(self) -> None:
        """Remove the files, as far as they can be."""
        self._waiting.close()
        self._files.discard()

    def _parted(self, batch: pa.RecordBatch) -> Iterator[tuple[Key, pa.RecordBatch]]:
        """A batch's rows by their partitions, each with its rows in their order."""
        values = [one.values(batch.column(one.column)) for one in self._partitioned_by]
        codes = np.zeros(batch.num_rows, np.int64)
        for some in values:
            encoded = some.dictionary_encode(null_encoding="encode")
            codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
            # So that they stay small, however many there are.
            codes = np.unique(codes, return_inverse=True)[1]
        order = np.argsort(codes, kind="stable")
        begins = np.flatnonzero(np.diff(codes[order], prepend=-1)).tolist()
        if len(begins) > 1:
            batch = batch.take(pa.array(order))
        for begin, end in zip(begins, [*begins[1:], len(order)], strict=True):
            key = tuple(some[int(order[begin])].as_py() for some in values)
            yield key, batch.slice(begin, end - begin)

    def _write_out(self) -> None:
        lanes: dict[Key, list[int]] = {}
        # In the order of their segments, and so one partition after another.
        for key, lane in sorted(self._waiting.groups, key=lambda group: group[1]):
            lanes.setdefault(key, []).append(lane)
        for key, some in lanes.items():
            before = len(self.paths)
            if self._order:
                self._write_sorted(self._waiting.of((key, lane)) for lane in some)
            else:
                for lane in some:
                    for batch in self._waiting.of((key, lane)):
                        self._files.write(batch, lane)
                self._files.close()
            for path in self.paths[before:]:
                self.partitions[path] = key
        self._waiting.close()

    def _write_sorted(self, lanes: Iterator[Iterator[pa.RecordBatch]]) -> None:
        """Lanes share files where each has few rows: else a task that reads one of them would read others, too."""
        held: list[pa.RecordBatch] = []
        size, most = 0, min(self._files.size, _SORTED_BYTES)
        for batches in lanes:
            if held and size >= most // _FILES_OF_LANES:
                self._write_file(held)
                held, size = [], 0
            for batch in batches:
                held.append(batch)
                size += batch.nbytes
                if size >= most:
                    self._write_file(held)
                    held, size = [], 0
        if held:
            self._write_file(held)

    def _write_file(self, batches: Sequence[pa.RecordBatch]) -> None:
        rows = pa.Table.from_batches(batches).combine_chunks()
        rows = rows.take(_sorted(rows, self._order))
        for batch in rows.to_batches(max(1, self._files.group_size * rows.num_rows // max(1, rows.nbytes))):
            self._files.write(batch, 0)
        self._files.close()


def _sorted(rows: pa.Table, order: Sequence[SortedBy]) -> pa.Array:
    """The rows' numbers in their order: NaN is the greatest number, as in Spark and in Iceberg."""
    columns: list[pa.ChunkedArray] = []
    directions: list[str] = []
    for one in order:
        column = rows.column(one.column)
        direction = "descending" if one.is_descending else "ascending"
        columns.append(pc.is_null(column).cast(pa.int8()))
        directions.append("descending" if one.nulls_first else "ascending")
        if pa.types.is_floating(column.type):
            is_nan = pc.is_nan(column)
            columns.append(is_nan.cast(pa.int8()))
            directions.append(direction)
            column = pc.if_else(is_nan, 0, column)
        columns.append(column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column)
        directions.append(direction)
    names = [str(number) for number in range(len(columns))]
    return pc.sort_indices(pa.table(columns, names), sort_keys=list(zip(names, directions, strict=True)))
