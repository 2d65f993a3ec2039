"""Readers in shared memory that are killed: workers and tasks, at moments that a seed chooses.

`SHARED_MEMORY_SEEDS` says how many times a worker is killed or a job cancelled in one JVM; `make nightly` has more.
Drivers are killed in `tests/chaos/test_killed_drivers.py`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from shared_memory_tools import (
    FORMATS,
    filled_namespace,
    jvm,
    make_rows,
    mapped,
    nothing_stays,
    opened,
    read,
    readers,
    resident,
)
from waiting import eventually

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.timeout(7200), pytest.mark.in_turn]

SEEDS = int(os.environ.get("SHARED_MEMORY_SEEDS", "3"))
NO_RING = 1 << 16
"""Bytes; a ring is larger: of 1 MiB, less what its buffers are rounded down by."""


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return make_rows(spark)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, rows: DataFrame) -> Iterator[str]:
    with filled_namespace(spark, "pravega.shared_memory_killed", rows, *FORMATS) as namespace:
        yield namespace


@pytest.fixture(autouse=True)
def after_each_test(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    with nothing_stays(spark, spark_keeps=request.function is test_killed_workers_and_tasks):
        yield


@pytest.fixture(scope="module")
def memory(spark: SparkSession) -> Iterator[list[dict[str, int]]]:
    """What the JVM had after each seed: `-s` shows it."""
    samples: list[dict[str, int]] = []
    yield samples
    for sample in samples[:1] + samples[9::10]:
        print("\n", sample, end="")
    mapped = [sample["mapped files"] for sample in samples]
    # Once the JVM had 66 bytes mapped that weren't a ring's: probably a file of a shuffle whose copy was interrupted.
    assert max(mapped, default=0) < NO_RING, mapped


def sampled(spark: SparkSession) -> dict[str, int]:
    """Bytes of a JVM: on its heap behind a collection, in files that it has mapped, and of the process."""
    assert spark._jvm is not None
    java: Any = spark._jvm.java
    java.lang.System.gc()
    runtime, management = java.lang.Runtime.getRuntime(), java.lang.management.ManagementFactory
    pools = management.getPlatformMXBeans(java.lang.Class.forName("java.lang.management.BufferPoolMXBean"))
    sample = {f"{pool.getName()} files": pool.getMemoryUsed() for pool in pools if pool.getName() == "mapped"}
    kinds = {kind: resident(jvm(spark), kind) << 10 for kind in ("VmRSS", "RssAnon", "RssShmem")}
    return {"heap": runtime.totalMemory() - runtime.freeMemory(), **sample, **kinds}


def test_killed_workers_and_tasks(spark: SparkSession, tables: str, tmp_path: Path) -> None:
    """A worker that dies while it reads, and a task that ends while its worker waits for a buffer."""
    reached, pid = tmp_path / "reached", jvm(spark)

    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            reached.touch()
            deadline = time.monotonic() + 60
            while not (reached.parent / "go on").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            yield batch

    table = read(spark, f"{tables}.avro", "1m").select("id", "st")
    expected = table.selectExpr("sum(id)").first()
    for kill in ("worker", "task"):
        reached.unlink(missing_ok=True)
        errors: list[BaseException] = []

        def run(group: str = kill, errors: list[BaseException] = errors) -> None:
            spark.sparkContext.setJobGroup(group, group, interruptOnCancel=True)
            try:
                table.mapInArrow(slowly, "id BIGINT, st STRING").write.format("noop").mode("overwrite").save()
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        deadline = time.monotonic() + 60
        while not reached.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        if kill == "worker":
            for worker in readers(pid):
                os.kill(worker, signal.SIGKILL)
            (tmp_path / "go on").touch()
        else:
            spark.sparkContext.cancelJobGroup(kill)
        thread.join(60)
        (tmp_path / "go on").unlink(missing_ok=True)
        assert not thread.is_alive()
        if kill == "task":
            assert errors
        assert table.selectExpr("sum(id)").first() == expected


@pytest.mark.parametrize("seed", range(SEEDS))
def test_killed_at_any_moment(spark: SparkSession, tables: str, memory: list[dict[str, int]], seed: int) -> None:
    """A worker is killed, or its job cancelled, somewhere in a read; what stays is looked for behind each seed."""
    random = Random(seed)
    manner, kill = random.choice(("1m", "16m")), random.choice(("worker", "task"))
    form = random.choice(FORMATS)

    def sums() -> list[Any]:
        # Spark keeps what a plan's stages have given: the same one would read but once.
        return read(spark, f"{tables}.{form}", manner).selectExpr("sum(id)", "sum(length(st))").collect()

    expected = sums()
    group = f"killed {seed}"
    ended = threading.Event()
    errors: list[Exception] = []

    def run() -> None:
        spark.sparkContext.setJobGroup(group, group, interruptOnCancel=True)
        while not ended.is_set():
            try:
                sums()
            except Exception as error:  # a cancelled job's; the read of a killed worker is made again
                errors.append(error)
                return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while not mapped(jvm(spark)) and not errors and time.monotonic() < deadline:
            time.sleep(0.001)
        assert not errors
        assert time.monotonic() < deadline
        time.sleep(random.uniform(0, 0.1))
        if kill == "worker":
            while not (workers := readers(jvm(spark))) and not errors and time.monotonic() < deadline:
                time.sleep(0.001)
            assert workers, errors
            for worker in workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
    finally:
        ended.set()
        spark.sparkContext.cancelJobGroup(group)
        thread.join(60)
    assert not thread.is_alive()
    assert sums() == expected
    eventually(lambda: not opened(jvm(spark)) and not resident(jvm(spark), "RssShmem"))
    memory.append(sampled(spark))
