"""What is used of `pyarrow.parquet`."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

from pyarrow import RecordBatch, Schema, Table

class Statistics:
    has_min_max: bool
    min: Any
    max: Any
    min_raw: Any
    max_raw: Any
    null_count: int

class ColumnChunkMetaData:
    path_in_schema: str
    encodings: tuple[str, ...]
    statistics: Statistics | None
    num_values: int

class RowGroupMetaData:
    total_byte_size: int
    num_columns: int
    def column(self, i: int) -> ColumnChunkMetaData: ...

class ColumnSchema:
    path: str

class ParquetSchema:
    def __len__(self) -> int: ...
    def column(self, i: int) -> ColumnSchema: ...

class FileMetaData:
    num_row_groups: int
    schema: ParquetSchema
    def row_group(self, i: int) -> RowGroupMetaData: ...

def read_metadata(where: object) -> FileMetaData: ...

class ParquetFile:
    metadata: FileMetaData
    schema_arrow: Schema
    def __init__(self, source: object, *, memory_map: bool = False, pre_buffer: bool = False) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...
    def iter_batches(
        self, batch_size: int, *, row_groups: Sequence[int], columns: Sequence[str], use_threads: bool = True
    ) -> Iterator[RecordBatch]: ...
    def read_row_group(self, i: int, columns: Sequence[str] | None = None) -> Table: ...

class ParquetWriter:
    def __init__(
        self,
        where: object,
        schema: Schema,
        *,
        compression: str,
        use_dictionary: bool | Sequence[str] = True,
        store_schema: bool = True,
    ) -> None: ...
    def write_table(self, table: Table, *, row_group_size: int | None = None) -> None: ...
    def close(self) -> None: ...

def read_table(source: object, *, columns: Sequence[str] | None = None) -> Table: ...
def write_table(table: Table, where: object, *, compression: str = "snappy") -> None: ...
