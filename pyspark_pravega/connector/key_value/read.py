"""Batch reads of a key-value table: a partition is one of the table's, or some keys to look up.

An iteration isn't of one moment: an entry that is there all the time comes once, one that is put or removed meanwhile
may come or not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pyspark_pravega.connector.key_value.definition import METADATA_COLUMNS, VERSION, KeyValueDefinition
from pyspark_pravega.connector.key_value.key_layout import KeyLayout
from pyspark_pravega.connector.plain import told_plainly
from pyspark_pravega.connector.predicates import Predicates
from pyspark_pravega.connector.read import ROW_MARKER
from pyspark_pravega.errors import EventDecodeError, EventEncodeError
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.serde.types import arrow_safe
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.datasource import DataSourceReader, InputPartition
from pyspark_pravega.spark.types import StructType

MOST_KEYS = 10_000
"""Keys that a query may ask for one by one; where it wants more, the table is gone through."""
_MOST_PREFIXES = 100
"""Beginnings of keys by which a query may go through parts of the table."""
_BATCH_ROWS, _BATCH_BYTES = 8192, 8 << 20
_EQUAL = ("=", "<=>", "IN")


@dataclass
class IteratedPartition(InputPartition):
    """Entries of one partition of the table."""

    partition: int
    prefixes: tuple[bytes, ...] = (b"",)
    """What their keys begin with: each one of these."""


@dataclass
class LookedUpPartition(InputPartition):
    """Entries that are looked up."""

    keys: tuple[bytes, ...]


@dataclass(frozen=True)
class Wanted:
    """Which entries a query may want."""

    keys: tuple[bytes, ...] | None = None
    """Whole keys; None where it isn't known which."""
    prefixes: tuple[bytes, ...] = field(default=(b"",))
    """What keys begin with."""

    @classmethod
    def of(cls, definition: KeyValueDefinition, predicates: Predicates) -> Wanted:
        """The entries that predicates let through which hold all at once.

        Args:
            definition: the table.
            predicates: what Spark tells.
        """
        layout = definition.layout
        values: dict[str, list[Any]] = {}
        for predicate in predicates:
            name = predicate.column
            if name in layout.names and predicate.comparison in _EQUAL:
                given = [value for value in predicate.values if value is not None]
                values[name] = given if name not in values else [one for one in values[name] if one in given]
        known = list(itertools.takewhile(lambda name: name in values, layout.names))
        whole = len(known) == len(layout.names)
        count = 1
        for name in known:
            count *= len(values[name])
        if not known or count > (MOST_KEYS if whole else _MOST_PREFIXES):
            return cls()
        part = layout.prefix(len(known))
        try:
            rows = list(itertools.product(*(values[name] for name in known)))
            arrays = [typed([row[i] for row in rows], kind.type) for i, kind in enumerate(part.arrow)]
        except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
            return cls()
        unique = tuple(dict.fromkeys(_encoded(part, pa.RecordBatch.from_arrays(arrays, names=part.names))))
        return cls(keys=unique) if whole else cls(prefixes=unique)


def _encoded(layout: KeyLayout, rows: pa.RecordBatch) -> list[bytes]:
    """Their keys, without those that no entry can have."""
    try:
        return layout.encode(rows)
    except EventEncodeError:
        if rows.num_rows <= 1:
            return []
    half = rows.num_rows // 2
    return _encoded(layout, rows.slice(0, half)) + _encoded(layout, rows.slice(half))


def typed(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values as predicates tell them, as an array.

    Args:
        values: see `Wanted.of`.
        kind: their column's type.
    """
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_decimal(kind):
        return pa.array([Decimal(value) for value in values], kind)
    if pa.types.is_binary(kind):
        return pa.array([bytes.fromhex(value) for value in values], kind)
    return pa.array(values, kind)


class KeyValueReader(DataSourceReader):
    """Reads a key-value table."""

    def __init__(
        self, definition: KeyValueDefinition, columns: Sequence[str], wanted: Wanted, limit: int | None = None
    ) -> None:
        """Plan a read.

        Args:
            definition: the table.
            columns: the wanted columns in their order; none for rows only.
            wanted: which entries.
            limit: rows of each partition that are enough.
        """
        self._definition, self._wanted, self._limit = definition, wanted, limit
        known = {column.name: column for column in (*definition.schema, *METADATA_COLUMNS)}
        self.schema = StructType([known[name] for name in columns]) if columns else ROW_MARKER
        self._arrow = to_arrow_schema(arrow_safe(self.schema), timezone="UTC")
        self._of_key = [name for name in columns if name in definition.layout.names]
        self._of_value = [name for name in columns if name not in self._of_key and name != VERSION]

    def partitions(self) -> Sequence[InputPartition]:
        """A partition for each of the table's, or for the keys of each."""
        return partitions_of(self._definition, self._wanted)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition.

        Args:
            partition: one of `partitions()`, or Spark's stand-in when there are none.

        Yields:
            Batches of the schema.

        Raises:
            EventDecodeError: an entry can't be decoded; the message says which.
        """
        with told_plainly():
            keys: list[bytes] = []
            versions: list[int] = []
            values: list[bytes] = []
            size = 0
            for key, version, value in itertools.islice(self._entries(partition), self._limit):
                keys.append(key)
                versions.append(version)
                values.append(value)
                size += len(value)
                if len(keys) >= _BATCH_ROWS or size >= _BATCH_BYTES:
                    yield self._batch(keys, versions, values)
                    keys, versions, values, size = [], [], [], 0
            if keys:
                yield self._batch(keys, versions, values)

    def _entries(self, partition: InputPartition) -> Iterator[tuple[bytes, int, bytes]]:
        table = self._definition.open()
        if isinstance(partition, LookedUpPartition):
            for at in range(0, len(partition.keys), 1000):
                some = partition.keys[at : at + 1000]
                for key, entry in zip(some, table.get(some), strict=True):
                    if entry is not None:
                        yield key, entry.version, entry.value
        elif isinstance(partition, IteratedPartition):
            for prefix in partition.prefixes:
                if self._of_value:
                    for key, entry in table.iterate_entries(prefix=prefix, partition=partition.partition):
                        yield key, entry.version, entry.value
                else:
                    for key, version in table.iterate_keys(prefix=prefix, partition=partition.partition):
                        yield key, version, b""

    def _batch(self, keys: list[bytes], versions: list[int], values: list[bytes]) -> pa.RecordBatch:
        (row,) = ROW_MARKER.fieldNames()
        columns = {VERSION: pa.array(versions, pa.int64()), row: pa.repeat(pa.scalar(0, pa.int32()), len(keys))}
        columns |= self._definition.layout.decode(keys, self._of_key)
        if self._of_value:
            try:
                columns |= self._definition.decoded(pa.array(values, pa.binary()), self._of_value)
            except BadEventError as error:
                raise EventDecodeError(
                    f"the value of key {keys[error.index].hex()} (hexadecimal) of key-value table "
                    f'"{self._definition.stream}" can\'t be decoded: {error.reason}'
                ) from error
        return pa.RecordBatch.from_arrays([columns[name] for name in self._arrow.names], schema=self._arrow)


def partitions_of(definition: KeyValueDefinition, wanted: Wanted) -> list[InputPartition]:
    """The partitions of a read.

    Args:
        definition: the table.
        wanted: which entries.
    """
    table = definition.open()
    if wanted.keys is not None:
        return [
            LookedUpPartition(tuple(wanted.keys[index] for index in indexes))
            for indexes in table.placed(wanted.keys).values()
        ]
    primary = definition.configuration.key_bytes
    if wanted.prefixes and len(wanted.prefixes[0]) >= primary:
        return [
            IteratedPartition(partition, tuple(wanted.prefixes[index] for index in indexes))
            for partition, indexes in table.placed(wanted.prefixes).items()
        ]
    return [IteratedPartition(partition, wanted.prefixes) for partition in table.partitions] if wanted.prefixes else []


def narrowed(
    definition: KeyValueDefinition, partitions: Sequence[InputPartition], predicates: Predicates
) -> list[LookedUpPartition] | None:
    """What of a planned read is wanted when a join's other side has told its keys.

    Args:
        definition: the table.
        partitions: those of the plan.
        predicates: see `Wanted.of`.

    Returns:
        None where all are.
    """
    wanted = Wanted.of(definition, predicates)
    if wanted.keys is None:
        return None
    keys, table = wanted.keys, definition.open()
    there: set[bytes] = set()
    whole: dict[int, tuple[bytes, ...]] = {}
    for one in partitions:
        if isinstance(one, LookedUpPartition):
            there.update(one.keys)
        elif isinstance(one, IteratedPartition):
            whole[one.partition] = one.prefixes
    left: list[LookedUpPartition] = []
    for partition, indexes in table.placed(keys).items():
        of_partition = [keys[index] for index in indexes]
        kept = tuple(k for k in of_partition if k in there or k.startswith(whole.get(partition, ())))
        if kept:
            left.append(LookedUpPartition(kept))
    return left
