"""Spark's own metric system has what is read and written: Prometheus, JMX and other sinks see it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from program_tools import answer_of

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark]


@pytest.mark.in_turn(8)
def test_reads_and_writes_are_served_to_prometheus_and_by_jmx(sandbox: Sandbox, tmp_path: Path) -> None:
    """Of INSERTs, a SELECT and a streaming query; figures are those of the commit log and of the rows.

    Beside it: `configure` comes after a session that was stopped (`test_sessions.py` has one that goes on), and what
    the environment says of reads makes no second catalog process.
    """
    program, environment = Path(__file__).with_name("metrics_program.py"), {**os.environ, **sandbox.environment()}
    environment.pop("PYSPARK_PYTHON", None)
    told = answer_of(program, str(tmp_path / "checkpoint"), environment=environment, folder=tmp_path)
    written, read, streamed = told["written"], told["read"], told["streamed"]
    names = [f"write_{name}_Count" for name in ("rows", "bytes", "commits", "commitDuration")]
    assert [written[name] for name in names] == [150, told["bytes"], 2, 2]
    assert read["read_rows_Count"] - written.get("read_rows_Count", 0) == 150
    assert read["read_bytes_Count"] - written.get("read_bytes_Count", 0) >= 150 * 8
    # All that tasks had open is closed.
    assert read["read_heldBytes_Value"] == streamed["read_heldBytes_Value"] == 0
    # Segments with so little share a partition.
    assert read["read_partitions_Count"] - written.get("read_partitions_Count", 0) == 1
    assert streamed["write_rows_Count"] - written["write_rows_Count"] == 150
    assert streamed["read_rows_Count"] - read["read_rows_Count"] == 150
    by_jmx = told["beans"]
    assert by_jmx.keys() == {f"read_{name}" for name in ("rows_Count", "bytes_Count", "partitions_Count")} | {
        "read_heldBytes_Value",
        *names,
    }
    assert by_jmx == {name: streamed[name] for name in by_jmx}
    assert (told["copied"], told["processes"]) == (sum(range(100)) + sum(range(50)), 1)
