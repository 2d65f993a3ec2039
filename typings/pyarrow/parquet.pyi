"""What is used of `pyarrow.parquet`."""

from pyarrow import Table

def write_table(table: Table, where: object, *, compression: str = "snappy") -> None: ...
