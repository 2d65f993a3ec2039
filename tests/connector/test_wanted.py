"""A Spark worker comes to its end when nobody reads what it gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from test_handover import Reader, dump_stream, numbers

from pyspark_pravega.connector import handover
from pyspark_pravega.connector.wanted import check_wanted


@pytest.mark.parametrize("columns", [2, 4])
@pytest.mark.parametrize("size", [10, 40_000])
def test_a_worker_ends_when_nobody_reads_on(tmp_path: Path, columns: int, size: int) -> None:
    made: list[int] = []

    def given() -> Iterator[pa.RecordBatch]:
        for at in range(100):
            check_wanted()
            made.append(at)
            yield numbers(size)

    stop = tmp_path / "stop"
    with (tmp_path / "output").open("wb") as output:
        messages = dump_stream(given(), output, columns, str(stop))
        if (columns, size) == (4, 40_000):
            reader = Reader(messages)
            reader.next()
            assert reader.next() == numbers(size)
            stop.touch()
            reader.end()
            reader.worker.join(30)
            assert not reader.worker.is_alive()
            assert len(made) <= handover.BUFFERS + 2
        else:
            assert next(messages) == numbers(size)
            stop.touch()
            assert list(messages) == []
            assert made == [0]
    check_wanted()
