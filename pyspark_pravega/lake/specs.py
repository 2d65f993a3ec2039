"""Iceberg's partition specs and sort orders, by which a table's files are laid out. It needs pyiceberg."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform, TimeTransform, Transform, parse_transform
from pyiceberg.typedef import Record

from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.lake.laid_out import Key, PartitionValue
from pyspark_pravega.lake.layout import Layout, PartitionedBy

_UNITS = {"year": "Y", "month": "M", "day": "D", "hour": "h"}
"""Numpy's, of times since 1970."""
_POSITIVE = (1 << 31) - 1
_MODE = "write.metadata.metrics.column"


def lay_out(transaction: Transaction, layout: Layout) -> None:
    """Let a table's next files be laid out so; those that are there keep theirs.

    Args:
        transaction: with which the files will come.
        layout: how.
    """
    metadata = transaction.table_metadata
    schema = metadata.schema()
    wanted = [
        (schema.find_field(one.column).field_id, _transform(one), _name(one, schema)) for one in layout.partitions
    ]
    spec = metadata.spec()
    if [(field.source_id, field.transform, field.name) for field in spec.fields] != wanted:
        with transaction.update_spec() as update:
            for field in spec.fields:
                update.remove_field(field.name)
        # Anew, so that their order is that of the property.
        with transaction.update_spec() as update:
            for one, (_, transform, name) in zip(layout.partitions, wanted, strict=True):
                update.add_field(one.column, transform, name)
    order = [
        (
            schema.find_field(one.column).field_id,
            one.is_descending,
            NullOrder.NULLS_FIRST if one.nulls_first else NullOrder.NULLS_LAST,
        )
        for one in layout.order
    ]
    before = metadata.sort_order().fields
    if [(field.source_id, field.direction.value == "desc", field.null_order) for field in before] != order:
        with transaction.update_sort_order() as sorting:
            for column, (_, is_descending, nulls) in zip(layout.order, order, strict=True):
                add = sorting.desc if is_descending else sorting.asc
                add(column.column, IdentityTransform(), nulls)


def partition_values(metadata: TableMetadata) -> list[PartitionValue]:
    """What rows of a table's partitions have in common.

    Args:
        metadata: the table's.
    """
    schema = metadata.schema()
    return [
        PartitionValue(
            column=schema.find_field(field.source_id).name, values=values_of(field.transform, schema, field.source_id)
        )
        for field in metadata.spec().fields
    ]


def data_file(io: FileIO, metadata: TableMetadata, path: str, key: Key, exact: Sequence[str] = ()) -> DataFile:
    """What Iceberg knows of a file. As `parquet_file_to_data_file`, which can't tell all partitions.

    Args:
        io: reaches it.
        metadata: the table's.
        path: where the file is.
        key: what its rows have in common.
        exact: columns whose least and greatest texts are to be known as a whole, and not by their first letters.
    """
    source = io.new_input(path)
    with source.open() as content:
        figures = pq.read_metadata(content)
    schema = metadata.schema()
    ids = parquet_path_to_id_mapping(schema)
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=figures,
        stats_columns=compute_statistics_plan(
            schema, {**metadata.properties, **{f"{_MODE}.{name}": "full" for name in exact}}
        ),
        parquet_column_mapping=ids,
    )
    known = statistics.to_serialized_dict()
    for field_id in _untold(figures, ids):
        for bounds in (known["lower_bounds"], known["upper_bounds"]):
            bounds.pop(field_id, None)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*key),
        file_size_in_bytes=len(source),
        sort_order_id=metadata.default_sort_order_id or None,
        equality_ids=None,
        key_metadata=None,
        **known,
    )
    file.spec_id = metadata.default_spec_id
    return file


def _untold(figures: pq.FileMetaData, ids: Mapping[str, int]) -> set[int]:
    """Columns with a row group whose least and greatest values aren't known, as texts of many letters have none:
    pyiceberg takes those of the other row groups for the file's.
    """
    some = set()
    for number in range(figures.num_row_groups):
        group = figures.row_group(number)
        for index in range(group.num_columns):
            column = group.column(index)
            of_column = column.statistics
            if of_column is None or not (of_column.has_min_max or of_column.null_count == column.num_values):
                some.add(ids[column.path_in_schema])
    return some


def has_its_columns(metadata: TableMetadata, file: DataFile) -> bool:
    """Whether a table still has the columns by which a file was laid out.

    Args:
        metadata: the table's.
        file: the file.
    """
    known = metadata.schema().field_ids
    return all(field.source_id in known for field in metadata.specs()[file.spec_id].fields)


def is_laid_out(metadata: TableMetadata, file: DataFile) -> bool:
    """Whether rows of a file don't stand in the order of their events.

    Args:
        metadata: the table's.
        file: the file.
    """
    return bool(metadata.specs()[file.spec_id].fields or file.sort_order_id)


def _transform(one: PartitionedBy) -> Transform[Any, Any]:
    name = one.transform.removesuffix("s")
    transform: Transform[Any, Any] = parse_transform(f"{name}[{one.number}]" if one.number else name)
    return transform


def _name(one: PartitionedBy, schema: Schema) -> str:
    """What Iceberg is to call it. No column may ever be called so, nor one that comes in place of another."""
    transform = one.transform.removesuffix("s")
    name = "_".join([one.column, transform, *([str(one.number)] if one.number else []), "partition"])
    while name in schema.column_names:
        name += "_"
    return name


def values_of(transform: Transform[Any, Any], schema: Schema, column: int) -> Callable[[pa.Array], pa.Array]:
    """What makes a column's values those that rows of a partition have in common.

    Args:
        transform: Iceberg's.
        schema: the table's.
        column: the column's id.
    """
    field = schema.find_field(column)
    if isinstance(transform, IdentityTransform):
        return as_numbers
    if isinstance(transform, TimeTransform):
        unit = _UNITS[str(transform)]
        return lambda array: _times(array, unit)
    if isinstance(transform, BucketTransform):
        hashed, buckets = transform.transform(field.field_type, bucket=False), transform.num_buckets
        return lambda array: _by_distinct(as_numbers(array), lambda some: _buckets(some, hashed, buckets))
    of_one = transform.transform(field.field_type)

    def values(array: pa.Array) -> pa.Array:
        try:
            return _by_distinct(array, lambda some: pa.array(map(of_one, some.to_pylist()), some.type))
        except (OverflowError, pa.ArrowInvalid) as error:
            raise UnsupportedOperationError(
                f'column "{field.name}" has a value for which its type has no {transform}: take another partition '
                f"({error})"
            ) from None

    return values


def _by_distinct(array: pa.Array, values: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """What a transform makes of values, of each once: pyiceberg's own way for Arrow needs a package more."""
    encoded = array.dictionary_encode()
    return values(encoded.dictionary).take(encoded.indices)


def _buckets(some: pa.Array, hashed: Callable[[Any], int | None], number: int) -> pa.Array:
    hashes = np.fromiter(map(hashed, some.to_pylist()), np.int64, len(some))
    return pa.array((hashes & _POSITIVE) % number, pa.int32())


def as_numbers(array: pa.Array) -> pa.Array:
    """Values as Iceberg keeps them: times as numbers.

    Args:
        array: the values; times in microseconds.
    """
    if pa.types.is_date(array.type):
        return array.cast(pa.int32())
    return array.cast(pa.int64()) if pa.types.is_timestamp(array.type) else array


def of_numbers(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values of which Iceberg tells, as a column has them.

    Args:
        values: the values: times as numbers.
        kind: the column's type.
    """
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else pa.array(values, kind)


def _times(array: pa.Array, unit: str) -> pa.Array:
    kind = "M8[D]" if pa.types.is_date(array.type) else "M8[us]"
    numbers = as_numbers(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    since = numbers.astype(kind).astype(f"M8[{unit}]").astype(np.int64)
    return pa.array(since, pa.int32(), mask=array.is_null().to_numpy(zero_copy_only=False))
