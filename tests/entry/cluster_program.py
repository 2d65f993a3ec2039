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

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

ROWS = 900_000
TABLES = ("orders", "copies")
TWICE, ROWS_TWICE = "twice", 8_000
"""A table, and the rows of it, of whose tasks some run twice at a time."""
_TASKS = 16
_ROWS_OF_A_BATCH = 150_000
_KILLS = 1
"""Of executors, at most, in each of the two parts."""


def executors(application: str) -> list[int]:
    """The processes of an application's executors on this machine."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_text()
        except OSError:  # it has just ended
            continue
        if "CoarseGrainedExecutorBackend" in command and application in command:
            pids.append(int(folder.name))
    return sorted(pids)


class Killer:
    """Kills executors while they work."""

    def __init__(self, spark: SparkSession) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._application = spark.sparkContext.applicationId
        self.kills = 0

    def strike(self, ended: int = 1) -> bool:
        """Kill an executor, if a stage has ended so many tasks and now runs others; whether it was done."""
        for number in self._tracker.getActiveStageIds():
            stage = self._tracker.getStageInfo(number)
            if stage is None or not stage.numActiveTasks or stage.numCompletedTasks < ended:
                continue
            pids = executors(self._application)
            if pids:
                os.kill(pids[self.kills % len(pids)], signal.SIGKILL)
                self.kills += 1
                return True
        return False


def where(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """From where an executor has the packages."""
    packages = ("pyspark_pravega", "pyspark_pravega_native", "pyarrow", "grpc")
    files = [str(module.origin) for module in map(find_spec, packages) if module is not None]
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
        if killer.kills < _KILLS and killer.strike():
            statement.join(0.5)
        statement.join(0.05)
    if errors:
        raise errors[0]


def stream(spark: SparkSession, killer: Killer, checkpoint: str) -> int:
    """Copy them by a streaming query; returns how many micro-batches it took."""
    rows = spark.readStream.option("maxEventsPerTrigger", _ROWS_OF_A_BATCH).table("pravega.cluster.orders")
    query = rows.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    running = query.toTable("pravega.cluster.copies")
    before, last_batch = killer.kills, -1
    pause = threading.Event()
    while running.isActive:
        pause.wait(0.01)
        progress = running.lastProgress
        if not progress or killer.kills == before + _KILLS or progress["batchId"] == last_batch:
            continue
        # A stage that has ended some tasks, unless such moments are too short to be met.
        if killer.strike(ended=1 if progress["batchId"] < 2 else 0):
            last_batch = progress["batchId"]
    running.awaitTermination()
    assert running.lastProgress is not None
    return 1 + int(running.lastProgress["batchId"])


def sharing(application: str) -> int:
    """How many of an application's Python workers have a ring of shared memory, which they keep between tasks."""
    workers = [worker for pid in executors(application) for daemon in children(pid) for worker in children(daemon)]
    return sum(any("pravega-batches" in name for name in opened(worker)) for worker in workers)


def children(pid: int) -> list[int]:
    """The processes that a process has started and that are still there."""
    return [int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()]


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
    counted = spark.sql(f"SELECT count(*), count(DISTINCT id) FROM pravega.cluster.{TWICE}").first()
    assert counted is not None
    result[TWICE] = list(counted)
    killer = Killer(spark)
    insert(spark, killer)
    result["kills in the INSERT"] = kills = killer.kills
    result["micro-batches"] = stream(spark, killer, f"{sys.argv[1]}/checkpoint")
    result["kills in the query"] = killer.kills - kills
    result["workers that share memory"] = sharing(spark.sparkContext.applicationId)
    for table in TABLES:
        row = spark.sql(
            "SELECT count(*), count(DISTINCT id), sum(id), sum(amount), sum(id * amount), count(DISTINCT customer) "
            f"FROM (SELECT * FROM pravega.cluster.{table} WHERE amount IS NOT NULL)"
        ).first()
        assert row is not None
        result[table] = list(row)
    print(json.dumps(result), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
