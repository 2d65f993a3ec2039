"""Which files of a snapshot may hold some keys, by what Iceberg tells of them. It needs pyiceberg."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import NestedField, PrimitiveType

from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.lake.specs import as_numbers, of_numbers, values_of
from pyspark_pravega.lake.stores import Store, place_of


@dataclass(frozen=True, kw_only=True)
class KeyFile:
    """A file, and which of some keys it may hold."""

    path: str
    rows: int
    partition: tuple[Any, ...]
    """What its rows have in common, with the number of the spec that says so."""
    first: int
    behind: int
    """Those of the keys' rows: from one on, and before another one."""
    begins: tuple[Any, ...] | None
    """The least values of columns by which files are sorted, as Iceberg tells them; None where it doesn't tell one."""

    @property
    def may_hold_some(self) -> bool:
        """Whether there is any."""
        return self.first < self.behind


def key_files(store: Store, metadata: str, snapshot: int, keys: pa.Table, order: Sequence[str] = ()) -> list[KeyFile]:
    """All files of a snapshot, each with those of some keys that it may hold. What isn't known of a file doesn't leave
    a key out.

    Args:
        store: reaches the lake's files.
        metadata: where the metadata lie that show the snapshot.
        snapshot: its id.
        keys: the keys, ascending by their first column. Columns that the lake hasn't, as fields of structs, tell
            nothing.
        order: columns by which files are sorted.

    Raises:
        UnsupportedOperationError: another program has deleted rows of files.
    """
    with store.asking(place_of(metadata)):
        table = StaticTable.from_metadata(metadata, dict(store.properties))
        tasks = list(table.scan(snapshot_id=snapshot).plan_files())
    if any(task.delete_files for task in tasks):
        raise UnsupportedOperationError(f'another program has deleted rows of the Iceberg table of "{metadata}"')
    wanted = _Wanted(table.metadata, keys, order)
    return [wanted.of(task.file) for task in tasks]


class _Wanted:
    """Keys that are looked for."""

    def __init__(self, metadata: TableMetadata, keys: pa.Table, order: Sequence[str]) -> None:
        self._metadata, self._keys = metadata, keys
        self._order = [metadata.schema().find_field(name) for name in order]
        self._columns = list(_compared(metadata.schema(), keys))
        self._ordered = {
            field.field_id: _Ordered(keys[field.name] if is_first else keys.sort_by(field.name)[field.name])
            for field, is_first in self._columns
        }
        self._buckets: dict[tuple[int, int], set[Any]] = {}

    def of(self, file: DataFile) -> KeyFile:
        """A file, with what it may hold."""
        first, behind = 0, self._keys.num_rows
        for field, is_first in self._columns:
            one, other = self._between(file, field)
            if is_first:
                first, behind = one, other
            elif one >= other:
                behind = first
        if not self._is_in_buckets(file):
            behind = first
        return KeyFile(
            path=place_of(file.file_path),
            rows=file.record_count,
            partition=(file.spec_id, *(file.partition[index] for index in range(len(file.partition)))),
            first=first,
            behind=max(first, behind),
            begins=_least(file, self._order),
        )

    def _between(self, file: DataFile, field: NestedField) -> tuple[int, int]:
        """Which values of a column lie between the least and the greatest one of a file."""
        ordered, kind = self._ordered[field.field_id], field.field_type
        least, most = ((bounds or {}).get(field.field_id) for bounds in (file.lower_bounds, file.upper_bounds))
        assert isinstance(kind, PrimitiveType)
        return (
            0 if least is None else bisect_left(ordered, from_bytes(kind, least)),
            len(ordered) if most is None else bisect_right(ordered, from_bytes(kind, most)),
        )

    def _is_in_buckets(self, file: DataFile) -> bool:
        """Whether some key has the hash by which the file was laid out."""
        schema, ids = self._metadata.schema(), {field.field_id: field.name for field, _ in self._columns}
        for index, one in enumerate(self._metadata.specs()[file.spec_id].fields):
            if not isinstance(one.transform, BucketTransform) or one.source_id not in ids:
                continue
            known = (one.source_id, one.transform.num_buckets)
            if known not in self._buckets:
                values = pc.unique(self._keys[ids[one.source_id]])
                self._buckets[known] = set(values_of(one.transform, schema, one.source_id)(values).to_pylist())
            if file.partition[index] not in self._buckets[known]:
                return False
        return True


def _least(file: DataFile, columns: Sequence[NestedField]) -> tuple[Any, ...] | None:
    some = []
    for field in columns:
        least = (file.lower_bounds or {}).get(field.field_id)
        if least is None or not isinstance(field.field_type, PrimitiveType):
            return None
        some.append(from_bytes(field.field_type, least))
    return tuple(some)


def begins_of(files: Sequence[KeyFile], schema: pa.Schema) -> pa.Table:
    """Where files begin, as rows.

    Args:
        files: the files.
        schema: the columns by which they are sorted.
    """
    known = [file.begins for file in files if file.begins is not None]
    return pa.table(
        [of_numbers([begins[index] for begins in known], field.type) for index, field in enumerate(schema)],
        schema=schema,
    )


def _compared(schema: Schema, keys: pa.Table) -> Iterator[tuple[NestedField, bool]]:
    """The lake's columns that keys have, and whether it is the first one of these."""
    there = {field.name: field for field in schema.fields}
    for number, name in enumerate(keys.column_names):
        if name in there and isinstance(there[name].field_type, PrimitiveType):
            yield there[name], not number


class _Ordered(Sequence[Any]):
    """Values as Iceberg tells of its own, ascending; each is made when it is looked at."""

    def __init__(self, values: pa.ChunkedArray | pa.Array) -> None:
        whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        self._values: pa.Array = as_numbers(whole)

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        assert isinstance(index, int)
        return self._values[index].as_py()
