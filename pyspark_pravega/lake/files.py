"""Parquet files of the lake: written in row groups of a bounded size, read row group by row group."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ArrowException

from pyspark_pravega.errors import PravegaError
from pyspark_pravega.lake.columns import VERSION
from pyspark_pravega.lake.encodings import columns_with_dictionaries
from pyspark_pravega.lake.stores import Store

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_GROUP_ROWS = 1 << 20
"""How many rows a row group has at most."""
GROUPS_HELD = 4
"""How many row groups' rows a writer holds at most."""
BATCH_ROWS = 32_768
NO_END = 2**63 - 1
_FILES_LOOKED_AT = 16
_FEW = 0.5
"""Of row groups: less than that isn't worth while to wait for."""


@dataclass(frozen=True, kw_only=True)
class LakeFile:
    """A file of the lake."""

    path: str
    rows: int
    size: int
    """In bytes."""
    first: int = 0
    last: int = NO_END
    """The first and the last version of which it has rows; where that isn't known, the first and the last there can
    be."""
    is_laid_out: bool = False
    """Whether its rows don't stand in the order of their events."""


@dataclass(frozen=True, kw_only=True)
class LakeSnapshot:
    """A snapshot as it tells of itself."""

    id: int
    parent: int | None
    properties: Mapping[str, str]
    """What its writer has said of it."""
    metadata: str
    """Where the metadata lie that show it."""
    rows: int
    """How many rows the table has with it."""


@dataclass(frozen=True, kw_only=True)
class Between:
    """What a column's values are wanted to be: between two values, both included. None for no bound.

    Values are as Parquet's figures tell theirs: dates in days and instants in microseconds since 1970, texts as bytes;
    but decimals are decimals.
    """

    column: str
    least: Any = None
    most: Any = None
    among: tuple[Any, ...] = ()
    """Which ones, ascending, where it is one of some."""

    def may_hold(self, group: pq.RowGroupMetaData, index: int) -> bool:
        """Whether a row group may have such a value, by its figures.

        Args:
            group: the row group.
            index: the column's, there.
        """
        figures = group.column(index).statistics
        if figures is None or not figures.has_min_max:
            return True
        if isinstance(self.most if self.least is None else self.least, Decimal):
            least, most = figures.min, figures.max
        else:
            least, most = figures.min_raw, figures.max_raw
        too_small = self.least is not None and most < self.least
        too_large = self.most is not None and least > self.most
        if too_small or too_large:
            return False
        return not self.among or self.among[bisect_left(self.among, least)] <= most


def made_by(path: str) -> str:
    """Who has written a file: a `FileWriter` by its name, which has written the files of its name in their order.

    Args:
        path: the file.
    """
    return PurePosixPath(path).name.rpartition("-")[0]


class FileWriter:
    """Writes batches of one schema to files of about one size.

    Batches come by lanes. Each lane has row groups of its own, as far as it has rows enough for them, and its rows
    stay in their order. A row group is written while the rows of the next one come, by a thread.
    """

    def __init__(self, store: Store, folder: str, name: str, schema: pa.Schema, size: int, group_size: int) -> None:
        """Write nothing yet.

        Args:
            store: reaches them.
            folder: where the files are to be.
            name: what their names begin with.
            schema: that of the batches, with the ids of Iceberg's fields.
            size: of how many bytes a file is, about.
            group_size: of how many bytes of rows in memory a row group is made, about.
        """
        self._store, self._folder, self._name, self._schema = store, folder, name, schema
        self.size, self.group_size = size, group_size
        self._held: dict[int, list[pa.RecordBatch]] = {}
        self._bytes: Counter[int] = Counter()
        """Of what is held, by lane."""
        self._writer: pq.ParquetWriter | None = None
        self._sink: pa.NativeFile | None = None
        self._thread = ThreadPoolExecutor(1, "lake-writer")
        self._writing: Future[None] | None = None
        self.paths: list[str] = []
        """The files, in their order."""
        self.rows = 0
        """All rows so far."""
        self.partitions: dict[str, tuple[Any, ...]] = {}
        """None: files are of no partition."""

    @property
    def lanes(self) -> list[int]:
        """Those of which rows are held."""
        return list(self._held)

    def write(self, batch: pa.RecordBatch, lane: int) -> None:
        """Take a batch.

        Args:
            batch: some rows.
            lane: behind whose rows they come.
        """
        self._held.setdefault(lane, []).append(batch)
        self._bytes[lane] += batch.nbytes
        if self._bytes[lane] >= self.group_size:
            self._write_group([lane])
        elif self._bytes.total() >= GROUPS_HELD * self.group_size:
            self.settle()

    def settle(self) -> None:
        """Write what is held: it comes before what comes now."""
        some: list[int] = []
        for lane in sorted(self._held):
            some.append(lane)
            if sum(self._bytes[one] for one in some) >= self.group_size:
                self._write_group(some)
                some = []
        self._write_group(some)

    def close(self) -> None:
        """Write what is left. What comes behind that is in another file."""
        self.settle()
        self._await_group()
        self._end_file()

    def discard(self) -> None:
        """Remove the files, as far as they can be."""
        self._thread.shutdown()
        for close in (self._writer and self._writer.close, self._sink and self._sink.close):
            # One that isn't closed would come when it is collected.
            with suppress(OSError, ArrowException):
                if close:
                    close()
        self._writer = self._sink = None
        for path in self.paths:
            with suppress(OSError, PravegaError):
                self._store.remove(path)

    def _end_file(self) -> None:
        if self._writer is None or self._sink is None:
            return
        with self._store.asking(self.paths[-1]):
            self._writer.close()
            self._sink.close()
        self._writer = self._sink = None

    def _write_group(self, lanes: Sequence[int]) -> None:
        batches = [batch for lane in lanes for batch in self._held.pop(lane)]
        for lane in lanes:
            del self._bytes[lane]
        if not batches:
            return
        rows = pa.Table.from_batches(batches, self._schema)
        self._await_group()
        if self._writer is None:
            # Who has no lake doesn't wait for it to be loaded.
            import pyarrow.parquet as pq

            path = f"{self._folder}/{self._name}-{len(self.paths):05d}.parquet"
            self._sink = self._store.sink(path)
            self.paths.append(path)
            self._writer = pq.ParquetWriter(
                self._sink,
                self._schema,
                compression="zstd",
                use_dictionary=columns_with_dictionaries(rows),
                # Without Arrow's own schema: it would tell readers of types that Iceberg doesn't know.
                store_schema=False,
            )
        self.rows += rows.num_rows
        self._writing = self._thread.submit(self._write_rows, self._writer, rows, self.paths[-1])

    def _write_rows(self, writer: pq.ParquetWriter, rows: pa.Table, path: str) -> None:
        with self._store.asking(path):
            writer.write_table(rows, row_group_size=_GROUP_ROWS)

    def _await_group(self) -> None:
        """Wait until the last row group is written; a file that is large enough ends with it."""
        writing, self._writing = self._writing, None
        if writing is None:
            return
        writing.result()
        assert self._sink is not None
        if self._sink.tell() >= self.size:
            self._end_file()


def read_file(
    store: Store,
    path: str,
    schema: pa.Schema,
    last: int | None = None,
    wanted: Sequence[Between] = (),
    share: tuple[int, int] = (0, 1),
) -> Iterator[pa.RecordBatch]:
    """Read a file, or a share of its row groups.

    Args:
        store: reaches it.
        path: the file.
        schema: the wanted columns, as they are wanted; those that it hasn't are null. None for rows only: then a
            column comes that nobody has asked for.
        last: the last version whose rows are wanted; None for all.
        wanted: which values are wanted: row groups that have none are passed over, and all other rows come.
        share: which share, from 0 on, and of how many.
    """
    with store.parquet(path) as file:
        there = file.schema_arrow.names
        names = [name for name in schema.names if name in there]
        leaves = {file.metadata.schema.column(i).path: i for i in range(len(file.metadata.schema))}
        newest = Between(column=VERSION, most=last)
        conditions = [one for one in (*wanted, newest) if one.column in leaves]
        read = names if names and (last is None or VERSION in names) else [*names, VERSION]
        groups = [
            number
            for number in range(file.metadata.num_row_groups)
            if number * share[1] // file.metadata.num_row_groups == share[0]
            and all(one.may_hold(file.metadata.row_group(number), leaves[one.column]) for one in conditions)
        ]
        if not groups:
            return
        for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=read, use_threads=False):
            if last is not None:
                batch = batch.filter(pc.less_equal(batch.column(VERSION), last))
            if batch.num_rows:
                yield _as_wanted(batch, schema) if schema.names else batch


def telling_columns(store: Store, paths: Sequence[str]) -> frozenset[str]:
    """Columns of which a value is found in few row groups, by their figures: as times, where rows stand in their order.

    Args:
        store: reaches the files.
        paths: the files, of which some are looked at.
    """
    return _telling(store, tuple(paths[:: max(1, len(paths) // _FILES_LOOKED_AT)][:_FILES_LOOKED_AT]))


@lru_cache(maxsize=64)
def _telling(store: Store, paths: tuple[str, ...]) -> frozenset[str]:
    bounds: dict[str, list[tuple[Any, Any]]] = {}
    for path in paths:
        for group in _bounds(store, path):
            for name, ends in group.items():
                bounds.setdefault(name, []).append(ends)
    return frozenset(name for name, some in bounds.items() if len(some) > 1 and _share(some) <= _FEW)


def _share(bounds: Sequence[tuple[Any, Any]]) -> float:
    """In which share of row groups a value may be found: on average, of the least values of each."""
    least, most = sorted(one for one, _ in bounds), sorted(one for _, one in bounds)
    hits = sum(bisect_right(least, value) - bisect_left(most, value) for value in least)
    return hits / len(bounds) ** 2


@lru_cache(maxsize=1024)
def _bounds(store: Store, path: str) -> tuple[Mapping[str, tuple[Any, Any]], ...]:
    """What a file tells of its columns' values, row group by row group. It never changes."""
    groups = []
    with store.parquet(path) as file:
        for number in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(number)
            columns = [group.column(i) for i in range(group.num_columns)]
            groups.append(
                {
                    one.path_in_schema: (one.statistics.min, one.statistics.max)
                    for one in columns
                    if one.statistics is not None and one.statistics.has_min_max
                }
            )
    return tuple(groups)


def _as_wanted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            arrays.append(pa.nulls(batch.num_rows, field.type))
            continue
        array = batch.column(index)
        arrays.append(array if array.type == field.type else array.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
