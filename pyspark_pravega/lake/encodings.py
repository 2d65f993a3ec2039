"""Which columns of a Parquet file are written by a dictionary of their values."""

from __future__ import annotations

import io
from functools import lru_cache
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SAMPLE_ROWS = 4096
"""Of how many rows values are counted."""


def columns_with_dictionaries(rows: pa.Table) -> list[str]:
    """The columns whose values repeat, so that a dictionary is worth its time.

    A dictionary of values that don't repeat is made in vain. Of 20 columns, half of which repeat, all with dictionaries
    took 1.75 us a row and 22.9 bytes, those that repeat 0.49 and 10.0 (zstd, December 2026). Of columns with fields or
    elements nothing is counted: they have dictionaries.

    Args:
        rows: those of the first row group.

    Returns:
        Paths as Parquet has them.
    """
    step = -(-max(1, rows.num_rows) // _SAMPLE_ROWS)
    sample = rows.take(pa.array(np.arange(0, rows.num_rows, step)))
    return [
        path
        for field, paths in zip(rows.schema, _paths(rows.schema), strict=True)
        if pa.types.is_nested(field.type) or _repeats(sample.column(field.name))
        for path in paths
    ]


@lru_cache(maxsize=16)
def _paths(schema: pa.Schema) -> list[list[str]]:
    """What Parquet makes of each column. A file for each partition may be written of one schema."""
    import pyarrow.parquet as pq

    empty = io.BytesIO()
    pq.write_table(schema.empty_table(), empty)
    names = pq.read_metadata(empty).schema
    leaves = iter(range(len(names)))
    return [[names.column(at).path for at in islice(leaves, _leaves(field.type))] for field in schema]


def _repeats(values: pa.ChunkedArray) -> bool:
    """Whether half of the values have come before."""
    return 2 * int(pc.count_distinct(values).as_py()) <= len(values) - values.null_count


def _leaves(kind: pa.DataType) -> int:
    """How many columns Parquet makes of one."""
    return sum(_leaves(kind.field(at).type) for at in range(kind.num_fields)) if pa.types.is_nested(kind) else 1
