"""Drivers whose readers have shared memory are killed, in a way that a seed chooses.

`SHARED_MEMORY_DRIVERS` says how many, each a Spark program of its own; `make nightly` has more. The drivers of seeds 0
and 1 read the same and are killed in the same way, so a sample has seed 0 only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import shared_reader
from ingestion_tools import members
from pyspark.sql import SparkSession
from shared_memory_tools import FORMATS, filled_namespace, make_rows, nothing_stays, readers, rings, shared_files
from waiting import eventually

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.timeout(7200)]

DRIVERS = int(os.environ.get("SHARED_MEMORY_DRIVERS", "1"))


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[str]:
    with filled_namespace(spark, "pravega.killed_drivers", make_rows(spark), *FORMATS) as namespace:
        yield namespace


@pytest.fixture(autouse=True)
def after_each_test(spark: SparkSession) -> Iterator[None]:
    with nothing_stays(spark):
        yield


@pytest.mark.parametrize("seed", range(DRIVERS))
def test_killed_drivers(spark: SparkSession, sandbox: Sandbox, tables: str, tmp_path: Path, seed: int) -> None:
    """Workers end by themselves, whichever part of their driver is killed, and nobody keeps a ring."""
    random = Random(f"{seed}/driver")
    manner, part = random.choice(("1m", "16m")), random.choice(("python", "java", "both"))
    where, files = [sandbox.controller_uri, str(sandbox.schema_registry_uri)], shared_files()
    with (tmp_path / "log").open("w") as log:
        program = subprocess.Popen(
            [sys.executable, shared_reader.__file__, *where, f"{tables}.{random.choice(FORMATS)}", manner],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    assert program.stdout is not None
    try:
        line = program.stdout.readline()
        assert line.startswith("reads "), (tmp_path / "log").read_text()
        java = int(line.split()[1])
        eventually(lambda: readers(java))
        time.sleep(random.uniform(0, 0.2))
        eventually(lambda: readers(java))
        own = {ring for pid, _ in members(program.pid) for ring in rings(pid)}
        for pid in {"python": [program.pid], "java": [java], "both": [program.pid, java]}[part]:
            os.kill(pid, signal.SIGKILL)
        program.wait(60)
        eventually(lambda: not members(program.pid))
    finally:
        for pid, _ in members(program.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        program.stdout.close()
        program.wait()
    assert own
    kept = [process.name for process in Path("/proc").glob("[0-9]*") if own & rings(int(process.name))]
    assert kept == []
    assert shared_files() <= files
