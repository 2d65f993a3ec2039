"""Reads of tables whose older rows lie in the lake: its files up to a version's cut, and the stream behind that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_pravega.connector.base import check_base, columns_there, lake_store
from pyspark_pravega.connector.index import is_ordered, literal
from pyspark_pravega.connector.lake.once import TASK_BYTES
from pyspark_pravega.connector.lake.slices import (
    LakeSlice,
    LakeSpan,
    check_columns,
    lake_slices,
    slice_batches,
)
from pyspark_pravega.connector.log import Base, LakePart, Snapshot, Tiered, behind
from pyspark_pravega.connector.predicates import Predicates
from pyspark_pravega.connector.read import ROW_MARKER, BatchReader, ChainPartition, RowsReader, pack
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.connector.wanted import check_wanted
from pyspark_pravega.errors import DataLossError, NotFoundError
from pyspark_pravega.lake import Between, LakeFile, Store, load_iceberg, read_file, telling_columns
from pyspark_pravega.serde.codec import Batch
from pyspark_pravega.settings import Settings
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.datasource import InputPartition
from pyspark_pravega.spark.types import DataType, DecimalType, StructType

_DIGITS = Context(prec=38)
"""Those of decimals."""
_MOST_VALUES = 1000
"""Of more that a column may have only the first and the last are looked at: they travel with each partition."""


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
    return part.tiered.rows if part.last == part.tiered.version and not part.is_bounded else None


def lake_figures(settings: Settings, tiered: Tiered) -> tuple[int, int]:
    """How many files hold what of a table lies in the lake, and how many bytes.

    Args:
        settings: say how its files are reached.
        tiered: what lies there.

    Raises:
        ConfigurationError: pyiceberg isn't installed.
    """
    if tiered.snapshot is None:
        return 0, 0
    files = load_iceberg().files_of(lake_store(settings), tiered.metadata, tiered.snapshot)
    return len(files), sum(file.size for file in files)


def base_files(definition: TableDefinition, base: Base, wanted: tuple[Between, ...]) -> Sequence[LakeFile]:
    """The files that hold the wanted rows of a table with a key.

    Args:
        definition: what the stream is as a table.
        base: its rows.
        wanted: which values are.

    Raises:
        ConfigurationError: pyiceberg isn't installed.
    """
    files: Sequence[LakeFile] = load_iceberg().files_of(
        lake_store(definition.settings), base.metadata, base.snapshot, None, wanted
    )
    return files


def wanted_of_base(definition: TableDefinition, base: Base, predicates: Predicates) -> tuple[Between, ...]:
    """Which values a query wants of the rows of a table with a key that are in the lake: others needn't be read.

    Args:
        definition: what the stream is as a table.
        base: its rows.
        predicates: what Spark tells of the query's condition.

    Raises:
        As `check_base`.
    """
    return _wanted(check_base(definition, base, []), predicates)


@dataclass(frozen=True, kw_only=True)
class FileShare:
    """Some of a file's row groups."""

    path: str
    number: int
    """Which share, from 0 on."""
    of: int
    """Of how many."""
    size: int
    """In bytes, about."""


class LakePartition(InputPartition):
    """Shares of files of the lake, read by one task one after another."""

    def __init__(self, store: Store, tiered: Tiered, shares: Sequence[FileShare]) -> None:
        super().__init__(shares[0].path)
        self.store, self.shares = store, tuple(shares)
        assert tiered.snapshot is not None
        self.metadata, self.snapshot = tiered.metadata, tiered.snapshot
        self.wanted: tuple[Between, ...] = ()
        """Which values are wanted, beside what its reader knows."""

    def narrowed(self, shares: Sequence[FileShare], wanted: tuple[Between, ...]) -> LakePartition:
        """Some of it.

        Args:
            shares: which ones.
            wanted: which values are wanted of them.
        """
        one = copy(self)
        one.shares, one.wanted = tuple(shares), (*self.wanted, *wanted)
        return one

    def __repr__(self) -> str:
        return f"LakePartition({len(self.shares)} shares, {self.shares[0].path} ...)"


class LakeReader(RowsReader):
    """Reads files of the lake, and what lies behind them in the stream."""

    def __init__(
        self,
        store: Store,
        rest: BatchReader,
        tiered: Tiered,
        files: Sequence[LakeFile],
        last: int | None,
        wanted: Sequence[Between],
        slices: Sequence[LakeSlice] = (),
    ) -> None:
        """Plan a read.

        Args:
            store: reaches the lake's files.
            rest: reads the stream's part.
            tiered: what lies in the lake.
            files: the lake's.
            last: the last version whose rows are wanted of them; None for all.
            wanted: which values are wanted.
            slices: what is read in place of files, in the order of events.
        """
        self._slices = tuple(slices)
        self._store, self._rest, self._tiered = store, rest, tiered
        self._files, self._last, self._wanted = tuple(files), last, tuple(wanted)

    @property
    def schema(self) -> StructType:
        """What the batches hold."""
        return self._rest.schema

    @property
    def paths(self) -> list[str]:
        """Its files in the lake."""
        return [file.path for file in self._files]

    def __getstate__(self) -> dict[str, Any]:
        # Each task is told its own files.
        return {**self.__dict__, "_files": (), "_slices": ()}

    def partitions(self) -> Sequence[InputPartition]:
        """Those of the lake, and those of the stream."""
        return [*self._slices, *_packed(self._store, self._tiered, self._files), *self._rest.partitions()]

    def batches(self, partition: InputPartition) -> Iterator[Batch]:
        """The rows of a partition.

        Args:
            partition: one of `partitions()`.
        """
        if isinstance(partition, LakeSlice):
            yield from slice_batches(partition, self.schema)
        elif isinstance(partition, LakePartition):
            yield from file_batches(partition, self.schema, self._last, self._wanted)
        else:
            yield from self._rest.batches(partition)


def file_batches(
    partition: LakePartition, columns: StructType, last: int | None = None, wanted: Sequence[Between] = ()
) -> Iterator[pa.RecordBatch]:
    """The rows of files.

    Args:
        partition: the files.
        columns: the wanted ones.
        last: the last version whose rows are wanted; None for all.
        wanted: which values are wanted.
    """
    schema = to_arrow_schema(columns, timezone="UTC")
    is_counted = columns == ROW_MARKER
    read = pa.schema([]) if is_counted else schema
    for share in partition.shares:
        some = (*wanted, *partition.wanted)
        for batch in read_file(partition.store, share.path, read, last, some, (share.number, share.of)):
            check_wanted()
            if is_counted:
                batch = pa.record_batch([pa.array(np.zeros(batch.num_rows, np.int32))], schema=schema)
            yield batch


def lake_read(definition: TableDefinition, part: LakePart, columns: Sequence[str]) -> Sequence[InputPartition]:
    """What tasks read in the lake, for who reads the stream's part himself: by `slice_batches` and `file_batches`.

    Args:
        definition: what the stream is as a table.
        part: what is read from the lake.
        columns: the wanted columns.

    Raises:
        As `lake_reader`.
    """
    tiered = part.tiered
    assert tiered.snapshot is not None
    check_columns(definition, columns, tiered.metadata, tiered.snapshot)
    if part.is_bounded:
        return _slices(definition, part)
    store = lake_store(definition.settings)
    return _packed(store, tiered, load_iceberg().files_of(store, tiered.metadata, tiered.snapshot))


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
    tiered = part.tiered
    assert tiered.snapshot is not None
    known = check_columns(definition, columns, tiered.metadata, tiered.snapshot)
    store = lake_store(definition.settings)
    if part.is_bounded:
        slices = _slices(definition, part)
        return LakeReader(store, rest, tiered, (), None, (), slices), sum(one.bytes for one in slices)
    wanted = _wanted(known, predicates)
    last = None if part.last == tiered.version else part.last
    files = load_iceberg().files_of(store, tiered.metadata, tiered.snapshot, last, wanted)
    return LakeReader(store, rest, tiered, files, last, wanted), sum(file.size for file in files)


def told_columns(definition: TableDefinition, files: Sequence[str], *, only_telling: bool) -> list[str]:
    """The columns of a table of which files of the lake tell what values they have.

    Args:
        definition: what the stream is as a table.
        files: the paths.
        only_telling: whether those only are meant of which a value is found in few row groups.
    """
    if not files:
        return []
    names = [field.name for field in definition.schema if is_ordered(field.dataType)]
    if not only_telling:
        return names
    telling = telling_columns(lake_store(definition.settings), files)
    return [name for name in names if name in telling]


def wanted_in_lake(
    definition: TableDefinition, partitions: Sequence[InputPartition], predicates: Predicates
) -> tuple[list[InputPartition], int] | None:
    """What of a read that is planned already is wanted in the lake, when a join's other side has told its values.

    It goes by the columns of the snapshot that is read, whatever the table has become meanwhile.

    Args:
        definition: what the stream is as a table.
        partitions: those of the plan.
        predicates: what Spark tells.

    Returns:
        The partitions that are left, and how many bytes of files that saves; None where all are wanted as they are.
    """
    # Nearly always all partitions are of one snapshot, of which a join may want thousands of values.
    wanted_files = cache(partial(_wanted_files, definition, predicates))
    saved, is_told = 0, False
    left: list[InputPartition] = []
    for one in partitions:
        some: InputPartition | None = one
        if isinstance(one, LakePartition):
            wanted, paths = wanted_files(one.store, one.metadata, one.snapshot)
            if wanted:
                shares = [share for share in one.shares if share.path in paths]
                saved += sum(share.size for share in one.shares) - sum(share.size for share in shares)
                some, is_told = one.narrowed(shares, wanted) if shares else None, True
        elif type(one) is ChainPartition and one.lake is not None:
            rows = one.lake
            wanted, paths = wanted_files(rows.store, rows.base.metadata, rows.base.snapshot)
            if wanted:
                groups = tuple(group for group in rows.groups if group.path in paths)
                lake = replace(rows, groups=groups, wanted=(*rows.wanted, *wanted)) if groups else None
                saved += rows.bytes - (0 if lake is None else lake.bytes)
                parts = list(zip(one.parts, one.compacted, strict=True))
                some, is_told = ChainPartition(parts, lake) if parts or lake is not None else None, True
        if some is not None:
            left.append(some)
    return (left, saved) if is_told else None


def _wanted_files(
    definition: TableDefinition, predicates: Predicates, store: Store, metadata: str, snapshot: int
) -> tuple[tuple[Between, ...], set[str]]:
    """Which values are wanted, and the files that may have them; none where nothing is told, or all that is gone."""
    try:
        wanted = _wanted(columns_there(definition.settings, metadata, snapshot), predicates)
        files = load_iceberg().files_of(store, metadata, snapshot, None, wanted) if wanted else []
    except NotFoundError:
        # Tasks say what has become of it.
        return (), set()
    return wanted, {file.path for file in files}


def _packed(store: Store, tiered: Tiered, files: Sequence[LakeFile]) -> list[LakePartition]:
    shares = []
    for file in files:
        of = max(1, file.size // TASK_BYTES)
        shares += [FileShare(path=file.path, number=number, of=of, size=file.size // of) for number in range(of)]
    return [LakePartition(store, tiered, some) for some in pack(shares, lambda share: share.size, TASK_BYTES)]


def _slices(definition: TableDefinition, part: LakePart) -> list[LakeSlice]:
    span = LakeSpan.of(part.tiered, last=part.last, behind=part.behind, until=part.until)
    return lake_slices(shared_client(definition.settings), definition.stream, span)


def _wanted(columns: StructType, predicates: Predicates) -> tuple[Between, ...]:
    """Which values a query wants of the lake's columns."""
    wanted = []
    for predicate in predicates:
        if predicate.column not in columns.names or not predicate.values:
            continue
        kind = columns[predicate.column].dataType
        values: list[Any] = [_value(kind, value) for value in predicate.values] if is_ordered(kind) else [None]
        if None in values:
            continue
        match predicate.comparison:
            case "=" | "<=>" | "IN":
                among = tuple(sorted(set(values)))
                if len(among) > _MOST_VALUES:
                    among = ()
                wanted.append(Between(column=predicate.column, least=min(values), most=max(values), among=among))
            case "<" | "<=":
                wanted.append(Between(column=predicate.column, most=values[0]))
            case ">" | ">=" if not isinstance(values[0], float):
                # NaN is greater than all numbers, and files don't tell of it.
                wanted.append(Between(column=predicate.column, least=values[0]))
    return tuple(wanted)


def _value(kind: DataType, value: Any) -> Any:
    """A predicate's value as files tell of theirs; None where they tell in another way."""
    known = literal(value, kind)
    if isinstance(known, tuple):
        is_nan, number = known
        return None if is_nan else number
    if isinstance(kind, DecimalType) and isinstance(known, Decimal):
        try:
            # A context of its own: some have more digits than Python's usual one.
            scaled = known.quantize(Decimal(1).scaleb(-kind.scale), context=_DIGITS)
        except ArithmeticError:
            return None
        return scaled if scaled == known else None
    return known
