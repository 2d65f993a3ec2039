"""Files of rows that are laid out by partitions, or sorted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.lake.columns import POSITIONS
from pyspark_pravega.lake.files import GROUPS_HELD, FileWriter
from pyspark_pravega.lake.layout import PARTITIONED_BY, SortedBy
from pyspark_pravega.lake.spill import Spill

_SPILLED_BYTES = 1 << 30
"""How many bytes of rows wait at most, in memory and in a file of this machine, before files are written of them."""
_SORTED_BYTES = 128 << 20
"""How many bytes of rows are sorted together at most."""
_FILES_OF_LANES = 4
"""A sorted file that has the most rows by this number takes none of another lane."""
_LEAST_BYTES, _SHARES = 2 << 20, 128
"""Of a table of which only some files are written anew at a time: how many bytes of rows a file has at least, and into
about how many files it goes, so that few rows lie in each."""
_SAMPLED = 64
"""How many rows of each file are looked at before, so that all become about as large."""
_NEAR = 4
"""By which share of a file another one may begin sooner or later, so that it begins where one did before."""
_MOST_PARTITIONS = 10_000
"""Of how many partitions there may be rows of one commit."""

Key = tuple[Any, ...]
Group = tuple[Key, int]
"""A partition and a lane."""


@dataclass(frozen=True, kw_only=True)
class PartitionValue:
    """One of the values that rows of a partition have in common."""

    column: str
    values: Callable[[pa.Array], pa.Array]
    """Those of a column's values, as Iceberg keeps them."""


def runs_of(numbers: npt.NDArray[Any]) -> list[tuple[int, int]]:
    """Where runs of equal numbers begin, and where each ends.

    Args:
        numbers: none is negative.
    """
    begins = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    return list(zip(begins, [*begins[1:], len(numbers)], strict=True))


class LaidOutWriter:
    """Writes batches to files, each of one partition, and sorted as a whole.

    Rows wait in memory, and in a file of this machine; then partition by partition is written. So few files are open,
    whatever partitions there are, and each partition has few files. Of one that is sorted each has a range of its own.
    """

    lanes: Sequence[int] = ()
    """Rows needn't come in the order of their events: who wants that sorts them."""

    def __init__(
        self,
        files: FileWriter,
        partitioned_by: Sequence[PartitionValue],
        order: Sequence[SortedBy],
        *,
        all_rows: int | None = None,
        begins: pa.Table | None = None,
    ) -> None:
        """Write nothing yet.

        Args:
            files: what writes the files.
            partitioned_by: what rows of a partition have in common.
            order: how rows of a file are sorted.
            all_rows: about how many the table has, of which these are some: files become smaller then, as only some
                are written anew at a time. None for files of the usual size.
            begins: where files began whose rows are written anew, by the columns by which these are sorted: new ones
                begin there, too, where that goes. So none has a range that goes over those of files that stay.
        """
        self._files, self._partitioned_by, self._order = files, partitioned_by, order
        self._waiting: Spill[Group] = Spill(GROUPS_HELD * files.group_size)
        self._keys: set[Key] = set()
        self._all_rows, self._begins = all_rows, begins
        self.file_rows = 0
        """How many rows a whole file has, about; 0 while none is written."""
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
        runs = runs_of(codes[order])
        if len(runs) > 1:
            batch = batch.take(pa.array(order))
        for begin, end in runs:
            key = tuple(some[int(order[begin])].as_py() for some in values)
            yield key, batch.slice(begin, end - begin)

    def _most_bytes(self) -> int:
        """How many bytes of rows are sorted together, and make a file."""
        most = min(self._files.size, _SORTED_BYTES)
        of_row = max(1.0, self._waiting.bytes / max(1, self._waiting.rows))
        if self._all_rows is not None:
            whole = max(self._waiting.rows, self._all_rows) * of_row
            most = min(most, max(_LEAST_BYTES, int(whole / _SHARES)))
        self.file_rows = max(1, int(most / of_row))
        return most

    def _write_out(self) -> None:
        if not self._waiting.rows:
            return
        most = self._most_bytes()
        lanes: dict[Key, list[int]] = {}
        # In the order of their segments, and so one partition after another.
        for key, lane in sorted(self._waiting.groups, key=lambda group: group[1]):
            lanes.setdefault(key, []).append(lane)
        for key, some in lanes.items():
            before = len(self.paths)
            if self._order:
                for share in self._shared([(key, lane) for lane in some], most):
                    self._write_sorted(share, most)
            else:
                for lane in some:
                    for batch in self._waiting.of((key, lane)):
                        self._files.write(batch, lane)
                self._files.close()
            for path in self.paths[before:]:
                self.partitions[path] = key
        self._waiting.close()

    def _shared(self, groups: Sequence[Group], most: int) -> Iterator[list[Group]]:
        """Lanes share files where each has few rows: else a task that reads one of them would read others, too. Of a
        table with a key all do."""
        share: list[Group] = []
        size = 0
        for group in groups:
            if self._all_rows is None and size >= most // _FILES_OF_LANES:
                yield share
                share, size = [], 0
            share.append(group)
            size += self._waiting.bytes_of(group)
        yield share

    def _write_sorted(self, groups: Sequence[Group], most: int) -> None:
        size = sum(self._waiting.bytes_of(group) for group in groups)
        files = (2 * size + most) // (2 * most)
        if files <= 1:
            self._write_files((batch for group in groups for batch in self._waiting.of(group)), size)
            return
        edges = self._edges([batch for group in groups for batch in self._sample(group, most)], files)
        ranges: Spill[int] = Spill(GROUPS_HELD * self._files.group_size)
        try:
            for group in groups:
                for batch in self._waiting.of(group):
                    for number, rows in _by_ranges(batch, edges, self._order):
                        ranges.add(number, rows)
            for number in sorted(ranges.groups):
                # Many rows that are sorted alike may be of one range.
                self._write_files(ranges.of(number), 2 * most)
        finally:
            ranges.close()

    def _sample(self, group: Group, most: int) -> Iterator[pa.RecordBatch]:
        """Some rows of a group, without columns by which they aren't sorted."""
        for batch in self._waiting.of(group):
            wanted = max(1, _SAMPLED * batch.nbytes // most)
            indexes = np.unique(np.linspace(0, batch.num_rows - 1, min(wanted, batch.num_rows)).astype(np.int64))
            yield batch.select([one.column for one in self._order]).take(pa.array(indexes))

    def _edges(self, sample: Sequence[pa.RecordBatch], files: int) -> pa.Table:
        """Where ranges of about one size begin, but the first one."""
        rows = pa.Table.from_batches(sample).combine_chunks()
        rows = rows.take(_sorted(rows, self._order))
        places = [number * rows.num_rows // files for number in range(1, files)]
        begins = rows.slice(0, 0) if self._begins is None else self._begins
        both = pa.concat_tables([begins, rows]).combine_chunks()
        order = _sorted(both, self._order).to_numpy()
        are_begins = order < begins.num_rows
        which, reached = order[are_begins], np.cumsum(~are_begins)[are_begins]
        edges = []
        for place in places:
            nearest = int(np.argmin(np.abs(reached - place))) if len(reached) else 0
            is_near = len(reached) and abs(int(reached[nearest]) - place) * files * _NEAR <= rows.num_rows
            edges.append(int(which[nearest]) if is_near else begins.num_rows + place)
        return both.take(pa.array(edges))

    def _write_files(self, batches: Iterator[pa.RecordBatch], most: int) -> None:
        held: list[pa.RecordBatch] = []
        size = 0
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
        for some in self._alike(rows):
            for batch in some.to_batches(max(1, self._files.group_size * rows.num_rows // max(1, rows.nbytes))):
                self._files.write(batch, 0)
            if some.nbytes >= self._files.group_size // 4:
                # So that who wants some segments needn't read others.
                self._files.settle()
        self._files.close()

    def _alike(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Rows that are sorted by their segments first: those of each."""
        if self._order[0].column != POSITIONS[0]:
            yield rows
            return
        for begin, end in runs_of(rows.column(POSITIONS[0]).to_numpy()):
            yield rows.slice(begin, end - begin)


def _by_ranges(
    batch: pa.RecordBatch, edges: pa.Table, order: Sequence[SortedBy]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """A batch's rows by ranges: behind how many edges they are."""
    names = [one.column for one in order]
    both = pa.concat_tables([edges, pa.Table.from_batches([batch]).select(names)]).combine_chunks()
    places = _sorted(both, order).to_numpy()
    are_edges = places < edges.num_rows
    numbers = np.cumsum(are_edges)[~are_edges]
    rows = batch.take(pa.array((places[~are_edges] - edges.num_rows).astype(np.int64)))
    for begin, end in runs_of(numbers):
        yield int(numbers[begin]), rows.slice(begin, end - begin)


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
