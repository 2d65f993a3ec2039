"""What is used of `pyarrow.csv`."""

from collections.abc import Mapping, Sequence

from pyarrow import DataType, Table

class ConvertOptions:
    def __init__(
        self,
        *,
        column_types: Mapping[str, DataType] | None = None,
        null_values: Sequence[str] | None = None,
        strings_can_be_null: bool | None = None,
    ) -> None: ...

def read_csv(input_file: object, *, convert_options: ConvertOptions | None = None) -> Table: ...
