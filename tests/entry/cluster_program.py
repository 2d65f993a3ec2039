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
_ROWS_OF_A_BATCH = 140_000
_TOLD_S = 60
"""How long a busy driver may take to tell of tasks that have failed."""
_HELD_TASK = 9
"""Whose executor is killed: others have ended by then."""


def executors(application: str) -> list[int]:
    """The processes of an application's executors on this machine."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_text().split("\0")
        except OSError:  # it has just ended
            continue
        if application in command and "--executor-id" in command:
            pids.append(int(folder.name))
    return sorted(pids)


class Killer:
    """Kills the executor of a task that waits for that in the midst of its rows."""

    def __init__(self, spark: SparkSession, note: Path) -> None:
        self._application = spark.sparkContext.applicationId
        self._tracker = spark.sparkContext.statusTracker()
        self._note = note
        self._struck: set[int] = set()

    def strike(self) -> None:
        """Kill the executor whose worker has left the note; do nothing before, or afterwards."""
        if self._struck or not self._note.exists():
            return
        (executor,) = [pid for pid in executors(self._application) if int(self._note.read_text()) in workers(pid)]
        stages = self._tracker.getActiveStageIds()
        if not stages:
            # The task waits, but Spark hasn't told of its stage yet: a busy driver tells late.
            return
        self._struck.update(stages)
        os.kill(executor, signal.SIGKILL)

    def lost_tasks(self) -> int:
        """How many tasks have ended with the executor, of the stages that ran then; Spark runs them again."""
        deadline = time.monotonic() + _TOLD_S
        while True:
            stages = [stage for number in self._struck if (stage := self._tracker.getStageInfo(number))]
            lost = sum(stage.numFailedTasks for stage in stages)
            if lost or time.monotonic() > deadline:
                return lost
            time.sleep(0.1)


def waiting(
    note: Path, partition: int, micro_batch: str | None = None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Hands rows on; the first attempt at a partition waits behind its first rows, to be killed.

    Args:
        note: a file; it gets the number of the process that waits.
        partition: which one.
        micro_batch: in a streaming query, of which micro-batch.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        held = context.partitionId() == partition and context.attemptNumber() == 0
        if micro_batch is not None:
            held = held and context.getLocalProperty("streaming.sql.batchId") == micro_batch
        for batch in batches:
            yield batch
            if held and not note.exists():
                written = note.with_suffix(".new")
                written.write_text(str(os.getpid()))
                written.rename(note)
                time.sleep(60)

    return run


def where(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """From where an executor has the packages, and what it has compiled of one that no task has imported yet."""
    packages = ("pyspark_pravega", "pyspark_pravega_native", "pyarrow", "grpc")
    files = [str(module.origin) for module in map(find_spec, packages) if module is not None]
    grpc = find_spec("grpc")
    files += [grpc.cached] if grpc is not None and grpc.cached is not None and Path(grpc.cached).exists() else []
    yield pa.record_batch([pa.array(files)], names=["file"])


def insert(spark: SparkSession, note: Path) -> int:
    """Write all rows by one INSERT; returns how many of its tasks ended with an executor."""
    errors: list[BaseException] = []
    killer = Killer(spark, note)
    ids = spark.range(0, ROWS, 1, _TASKS).mapInArrow(waiting(note, _HELD_TASK), "id BIGINT")
    ids.createOrReplaceTempView("ids")

    def run() -> None:
        try:
            spark.sql(
                "INSERT INTO pravega.cluster.orders SELECT id, concat('k', id % 1000), id * 7 % 1009 FROM ids"
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
    return killer.lost_tasks()


def stream(spark: SparkSession, note: Path, checkpoint: str) -> tuple[int, int]:
    """Copy them by a streaming query; returns how many micro-batches it took, and what `insert` returns."""
    killer = Killer(spark, note)
    rows = spark.readStream.option("maxEventsPerTrigger", _ROWS_OF_A_BATCH).table("pravega.cluster.orders")
    held = rows.mapInArrow(waiting(note, 0, micro_batch="1"), rows.schema)
    query = held.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    running = query.toTable("pravega.cluster.copies")
    pause = threading.Event()
    while running.isActive:
        killer.strike()
        pause.wait(0.05)
    running.awaitTermination()
    assert running.lastProgress is not None
    return 1 + int(running.lastProgress["batchId"]), killer.lost_tasks()


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
    folder = Path(sys.argv[1])
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
    result["speculative attempts"] = write_twice(spark, folder / "notes")
    result[TWICE] = summary(spark, TWICE)[:2]
    in_insert = insert(spark, folder / "insert")
    result["micro-batches"], in_query = stream(spark, folder / "query", str(folder / "checkpoint"))
    result |= {table: summary(spark, table) for table in TABLES}
    # Workers that a query has had may have ended with the last executor that was killed; these have read since.
    result["workers that share memory"] = sharing(spark.sparkContext.applicationId)
    result["tasks that ended with an executor"] = [in_insert, in_query]
    print(json.dumps(result), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
