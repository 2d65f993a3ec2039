"""Spark's own metric system has what is read and written: Prometheus, JMX and other sinks see it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark]


def test_reads_and_writes_are_served_to_prometheus_and_by_jmx(sandbox: Sandbox, tmp_path: Path) -> None:
    """Of INSERTs, a SELECT and a streaming query; figures are those of the commit log and of the rows."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "metrics_program.py"), str(tmp_path / "checkpoint")],
        env={**os.environ, **sandbox.environment()},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
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
