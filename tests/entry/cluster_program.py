"""A Spark program whose slow tasks run twice, and whose executors are killed while it writes and while it streams.

It prints what became of it as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

ROWS = 600_000
TABLES = ("orders", "copies")
TWICE, ROWS_TWICE = "twice", 8_000
"""A table, and the rows of it, of whose tasks some run twice at a time."""
_TASKS = 16
_ROWS_OF_A_BATCH = 150_000
_KILLS = 3
"""Of executors, at most, in each of the two parts: until one has ended a task."""


def executors(application: str, host: str = "") -> list[int]:
    """The processes of an application's executors on this machine, or of those on one of its hosts."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_text().split("\0")
        except OSError:  # it has just ended
            continue
        if application in command and "--executor-id" in command and (not host or host in command):
            pids.append(int(folder.name))
    return sorted(pids)


class Killer:
    """Kills an executor while it works."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._tracker = self._context.statusTracker()
        self._struck: set[int] = set()
        self._last = 0.0
        self.kills = 0

    def strike(self, ended: int = 1) -> None:
        """Kill an executor, if a stage has ended so many tasks and now runs others.

        Another one is killed only if after 5 s no task has ended with the last one.
        """
        if self.kills == _KILLS or time.monotonic() < self._last + 5 or self.lost_tasks():
            return
        for number in self._tracker.getActiveStageIds():
            stage = self._tracker.getStageInfo(number)
            if stage is None or not stage.numActiveTasks or stage.numCompletedTasks < ended:
                continue
            if pids := self._at_work():
                os.kill(pids[0], signal.SIGKILL)
                self.kills, self._last = self.kills + 1, time.monotonic()
                self._struck.add(number)
                return

    def _at_work(self) -> list[int]:
        """The executors that run tasks; one that Spark has just started has none yet."""
        infos = self._context._jsc.sc().statusTracker().getExecutorInfos()
        busy = [info.host() for info in infos if info.numRunningTasks()]
        return [pid for host in busy for pid in executors(self._context.applicationId, host)]

    def lost_tasks(self) -> int:
        """How many tasks have ended with their executors, of the stages that ran then; Spark runs them again."""
        stages = [stage for number in self._struck if (stage := self._tracker.getStageInfo(number))]
        return sum(stage.numFailedTasks for stage in stages)


def where(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """From where an executor has the packages, and what it has compiled of one that no task has imported yet."""
    packages = ("pyspark_pravega", "pyspark_pravega_native", "pyarrow", "grpc")
    files = [str(module.origin) for module in map(find_spec, packages) if module is not None]
    grpc = find_spec("grpc")
    files += [grpc.cached] if grpc is not None and grpc.cached is not None and Path(grpc.cached).exists() else []
    yield pa.record_batch([pa.array(files)], names=["file"])


def insert(spark: SparkSession, killer: Killer) -> None:
    """Write all rows by one INSERT."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            spark.sql(
                f"INSERT INTO pravega.cluster.orders SELECT id, concat('k', id % 1000), id * 7 % 1009 "
                f"FROM range(0, {ROWS}, 1, {_TASKS})"
            ).collect()
        except BaseException as error:
            errors.append(error)

    statement = threading.Thread(target=run)
    statement.start()
    while statement.is_alive():
        killer.strike()
        statement.join(0.05)
    if errors:
        raise errors[0]


def stream(spark: SparkSession, killer: Killer, checkpoint: str) -> int:
    """Copy them by a streaming query; returns how many micro-batches it took."""
    rows = spark.readStream.option("maxEventsPerTrigger", _ROWS_OF_A_BATCH).table("pravega.cluster.orders")
    query = rows.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    running = query.toTable("pravega.cluster.copies")
    pause = threading.Event()
    while running.isActive:
        pause.wait(0.01)
        progress = running.lastProgress
        if progress:
            # A stage that has ended some tasks, unless such moments are too short to be met.
            killer.strike(ended=1 if progress["batchId"] < 1 else 0)
    running.awaitTermination()
    assert running.lastProgress is not None
    return 1 + int(running.lastProgress["batchId"])


def sharing(application: str) -> int:
    """How many of an application's Python workers have a ring of shared memory, which they keep between tasks."""
    pids = [worker for executor in executors(application) for worker in workers(executor)]
    return sum(any("pravega-batches" in name for name in opened(pid)) for pid in pids)


def workers(executor: int) -> list[int]:
    """An executor's Python workers, which are children of its daemon."""
    return [worker for daemon in children(executor) for worker in children(daemon)]


def children(pid: int) -> list[int]:
    """The processes that a process has started and that are still there."""
    pids: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # it has just ended
            pids += map(int, file.read_text().split())
    return pids


def opened(pid: int) -> list[str]:
    """The files that a process has open."""
    names = []
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):  # it was closed meanwhile
            names.append(os.readlink(link))
    return names


def slow_first_attempts(notes: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Hands rows on; the first attempts at two partitions take long to end, so that second ones begin.

    Each attempt leaves a file in the folder.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        (notes / f"{context.partitionId()}-{context.attemptNumber()}").touch()
        yield from batches
        if context.partitionId() in (1, 5) and context.attemptNumber() == 0:
            # Spark ends it when the second attempt has succeeded.
            time.sleep(60)

    return run


def write_twice(spark: SparkSession, folder: Path) -> int:
    """Write rows by tasks of which Spark runs the slow ones a second time; returns how many it has run so."""
    folder.mkdir()
    rows = spark.range(0, ROWS_TWICE, 1, 8).mapInArrow(slow_first_attempts(folder), "id BIGINT")
    rows.selectExpr("id", "'ann' AS customer", "id AS amount").writeTo(f"pravega.cluster.{TWICE}").append()
    return sum(not note.name.endswith("-0") for note in folder.iterdir())


def summary(spark: SparkSession, table: str) -> list[int]:
    """How many rows a table has, and how many ids; sums of ids, of amounts and of their products; how many customers.

    All rows are fetched. Without generated code Spark took half of the time of this program to count distinct ones.
    """
    rows = spark.table(f"pravega.cluster.{table}").toArrow()
    ids, amounts = rows["id"].to_numpy(), rows["amount"].to_numpy()
    sums = [int(ids.sum()), int(amounts.sum()), int((ids * amounts).sum())]
    return [rows.num_rows, len(np.unique(ids)), *sums, len(rows["customer"].unique())]


def main() -> None:
    """Run it; the argument is a folder for the checkpoint and for notes."""
    spark = SparkSession.builder.appName("cluster").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.sql("CREATE NAMESPACE pravega.cluster")
    for table in (*TABLES, TWICE):
        spark.sql(
            f"CREATE TABLE pravega.cluster.{table} (id BIGINT NOT NULL, customer STRING, amount BIGINT) "
            "CLUSTERED BY (customer) INTO 4 BUCKETS"
        )
    result: dict[str, object] = {
        "files": sorted({row.file for row in spark.range(0, 4, 1, 4).mapInArrow(where, "file STRING").collect()})
    }
    result["speculative attempts"] = write_twice(spark, Path(sys.argv[1]) / "notes")
    result[TWICE] = summary(spark, TWICE)[:2]
    killer = Killer(spark)
    insert(spark, killer)
    striker = Killer(spark)
    result["micro-batches"] = stream(spark, striker, f"{sys.argv[1]}/checkpoint")
    result["workers that share memory"] = sharing(spark.sparkContext.applicationId)
    result |= {table: summary(spark, table) for table in TABLES}
    result["kills"] = [killer.kills, striker.kills]
    result["tasks that ended with an executor"] = [killer.lost_tasks(), striker.lost_tasks()]
    print(json.dumps(result), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
