"""Files of the lake as they are written: how columns are encoded, and what is left of a writer that fails."""

from __future__ import annotations

import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyspark_pravega.lake import FileWriter
from pyspark_pravega.lake.stores import Store

ROWS = 20_000
REPEATED: dict[str, list[Any]] = {
    "few": [f"text {number % 1000}" for number in range(ROWS)],
    "nulls": [None if number % 3 else number % 50 for number in range(ROWS)],
    "truth": [number % 2 == 0 for number in range(ROWS)],
    "a.b": [number // 100 for number in range(ROWS)],
    "bytes": [bytes([number % 256]) for number in range(ROWS)],
}
DIFFERENT: dict[str, list[Any]] = {
    "id": list(range(ROWS)),
    "text": [f"text {number}" for number in range(ROWS)],
    "rarely": [None if number % 3 else number / 8 for number in range(ROWS)],
}
NESTED: dict[str, list[Any]] = {
    "point": [{"x": number, "tags": [f"{number}", "b"]} for number in range(ROWS)],
    "map": [[(f"{number % 5}", number)] for number in range(ROWS)],
}
TYPES = {"map": pa.map_(pa.string(), pa.int64())}


def table(count: int) -> pa.Table:
    columns = REPEATED | DIFFERENT | NESTED
    return pa.table({name: pa.array(values[:count], TYPES.get(name)) for name, values in columns.items()})


def write(rows: pa.Table, folder: Path, *, size: int, group_size: int) -> FileWriter:
    writer = FileWriter(Store(), str(folder), "rows", rows.schema, size, group_size)
    for number, batch in enumerate(rows.to_batches(500)):
        writer.write(batch, number % 3)
    writer.close()
    return writer


@pytest.mark.parametrize("count", [1, 499, ROWS])
@pytest.mark.parametrize(("size", "group_size"), [(1, 1), (1, 1 << 20), (1 << 30, 1 << 16), (1 << 30, 1 << 30)])
def test_rows_are_all_there_and_dictionaries_are_of_columns_that_repeat(
    tmp_path: Path, count: int, size: int, group_size: int
) -> None:
    rows = table(count)
    writer = write(rows, tmp_path, size=size, group_size=group_size)
    assert writer.rows == count
    assert sorted(map(str, tmp_path.iterdir())) == sorted(writer.paths)
    there = pa.concat_tables(pq.read_table(path) for path in writer.paths)
    numbers = there.column("id").to_pylist()
    for lane in range(3):
        assert [n for n in numbers if n // 500 % 3 == lane] == [n for n in range(count) if n // 500 % 3 == lane]
    assert there.sort_by("id").equals(rows)
    if count < ROWS or group_size < 1 << 20:
        return
    for path in writer.paths:
        group = pq.read_metadata(path).row_group(0)
        encoded = {
            group.column(at).path_in_schema: "RLE_DICTIONARY" in group.column(at).encodings
            for at in range(group.num_columns)
        }
        assert {name: encoded[name] for name in DIFFERENT} == dict.fromkeys(DIFFERENT, False)
        # Booleans have no dictionaries.
        assert {name: encoded[name] for name in REPEATED} == {name: name != "truth" for name in REPEATED}
        assert {name for name in encoded if name.startswith(("point.", "map.")) and encoded[name]} == {
            name for name in encoded if name.startswith(("point.", "map."))
        }


FAILING = """
import sys
from pathlib import Path
import pyarrow as pa
from pyspark_pravega.lake import FileWriter
from pyspark_pravega.lake.stores import Store

rows = pa.record_batch({"id": pa.array(range(50_000))})
writer = FileWriter(Store(), sys.argv[1], "rows", rows.schema, 1 << 30, 1 << 16)
try:
    for _ in range(100):
        writer.write(rows, 0)
    writer.close()
except OSError as error:
    print(error.strerror or error)
writer.discard()
print(len(writer.paths), [*Path(sys.argv[1]).iterdir()])
"""


def test_a_file_that_can_t_be_written_is_said_and_removed(tmp_path: Path) -> None:
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (500_000, 500_000))
    command = [sys.executable, "-c", FAILING, str(tmp_path)]
    run = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, check=True, timeout=60)
    assert "File too large" in run.stdout
    assert run.stdout.endswith("1 []\n")
