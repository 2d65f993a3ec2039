"""What tests of batches in shared memory have in common: rows of every type, and what stays of a read."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StringType

ROWS = 12_000
COLUMNS = {
    "bo BOOLEAN": "id % 2 = 0",
    "it INT": "CAST(id * 7 AS INT)",
    "lo BIGINT": "(id - 500) * 9000000000000",
    "do DOUBLE": "CAST(id AS DOUBLE) / 7",
    "st STRING": "repeat('ü€x', CAST(id % 200 AS INT))",
    "bi BINARY": "CAST(repeat('z', CAST(id % 90 AS INT)) AS BINARY)",
    "da DATE": "date_add(DATE'1970-01-01', CAST(id % 9000 AS INT))",
    "ti TIMESTAMP": "timestamp_micros((id - 300) * 1234567890)",
    "de DECIMAL(12,3)": "CAST((id - 400) * 1.017 AS DECIMAL(12,3))",
    "ar ARRAY<STRUCT<p: INT, q: STRING>>": "transform(sequence(1, id % 4), i -> named_struct('p', int(i), 'q', 'q'))",
    "ma MAP<STRING, STRUCT<v: BIGINT, w: STRING>>": "map(concat('k', id % 7), named_struct('v', id, 'w', 'www'))",
    "sr STRUCT<x: INT, y: STRUCT<z: STRING, l: ARRAY<INT>>>": (
        "named_struct('x', int(id), 'y', IF(id % 5 = 0, NULL, named_struct('z', 'z', 'l', array(int(id)))))"
    ),
}
MANNERS = ("0", "1m", "16m")
"""What `shared-memory` is: none, buffers that many batches don't fit into, and large ones."""
FORMATS = ("avro", "json", "protobuf")
RING = "memfd:pravega-batches"


def make_rows(spark: SparkSession) -> DataFrame:
    """The rows, with a NULL in every third value."""
    values = [
        f"IF((id + {number}) % 3 = 0, NULL, {value}) AS {column.split()[0]}"
        for number, (column, value) in enumerate(COLUMNS.items())
    ]
    return spark.sql(f"SELECT id, {', '.join(values)} FROM range(0, {ROWS}, 1, 2)").cache()


def make_table(spark: SparkSession, table: str, form: str, rows: DataFrame) -> None:
    """A table of a format with the rows."""
    columns = ", ".join(COLUMNS)
    if form == "protobuf":
        # It has no NULL in a collection, nor a collection that is NULL.
        columns = ", ".join(column for column in COLUMNS if column[:2] not in ("ar", "ma"))
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, {columns}) CLUSTERED BY (id) INTO 2 BUCKETS "
        f"TBLPROPERTIES ('format' = '{form}')"
    )
    rows.select(spark.table(table).columns).writeTo(table).append()


@contextmanager
def filled_namespace(spark: SparkSession, name: str, rows: DataFrame, *forms: str) -> Iterator[str]:
    """A namespace with the rows in a table of each format, while a block runs.

    Args:
        spark: the session.
        name: the namespace, with its catalog.
        rows: what `make_rows` gives.
        forms: the formats, which are the tables' names.
    """
    spark.sql(f"CREATE NAMESPACE {name}")
    for form in forms:
        make_table(spark, f"{name}.{form}", form, rows)
    yield name
    spark.sql(f"DROP NAMESPACE {name} CASCADE")


def read(spark: SparkSession, table: str, manner: str = "16m", **options: str) -> DataFrame:
    return spark.read.options(**options).option("shared-memory", manner).table(table)


def digest(rows: DataFrame) -> tuple[object, ...]:
    """A number that tells all values of all rows, whatever their order.

    Texts and bytes are most of what the rows have: as they are they cost a fifth of what they do in JSON.
    """
    plain = [f"`{one.name}`" for one in rows.schema if isinstance(one.dataType, (StringType, BinaryType))]
    others = [f"`{one.name}`" for one in rows.schema if f"`{one.name}`" not in plain]
    parts = [*plain, *(f"{name} IS NULL" for name in plain), f"to_json(struct({', '.join(others or ['1'])}))"]
    sums = ("count(*)", "sum(c)", "sum((c % 65521) * (c % 65537))")
    return tuple(rows.selectExpr(f"xxhash64({', '.join(parts)}) & 4294967295 c").selectExpr(*sums).first() or ())


def jvm(spark: SparkSession) -> int:
    assert spark._jvm is not None
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())


def mapped(pid: int) -> set[str]:
    """The rings that a process has mapped, each as where it lies."""
    return {line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if RING in line}


RINGS_NOW = "CAST(reflect('pyspark.pravega.read.OwnedBatches', 'sharedRings') AS INT)"
"""How many rings the JVM has mapped, asked for each row, while the batch that it is in is open."""


def looked_at(spark: SparkSession, table: str) -> dict[str, object]:
    """What six reads find, whether one had a ring, and whether tasks still ask for shared memory behind them.

    They don't any more once the JVM's log has told that it can't open its workers' files.
    """
    assert spark._jvm is not None
    reads = []
    for _ in range(6):
        found = read(spark, table).selectExpr("id", "st", f"{RINGS_NOW} AS rings")
        reads.append(found.selectExpr("count(*)", "sum(id)", "max(rings) > 0", "max(st)").collect()[0])
    shares = spark._jvm.pyspark.pravega.read.OwnedBatches.sharesMemory()
    return {"rows": [list(row)[:2] for row in reads], "shares": shares, "rings": any(row[2] for row in reads)}


def opened(pid: int, kind: str = RING) -> list[str]:
    """The files of a kind that a process has open: rings, or pipes."""
    names = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # it was closed meanwhile
            names.append(os.readlink(link))
    return [name for name in names if kind in name]


def rings(pid: int) -> set[str]:
    """The rings that a process has open or mapped: the numbers of their files."""
    numbers = set()
    with contextlib.suppress(OSError):  # it has ended meanwhile
        folder = Path(f"/proc/{pid}")
        numbers = {line.split()[4] for line in (folder / "maps").read_text().splitlines() if RING in line}
        for link in (folder / "fd").iterdir():
            with contextlib.suppress(OSError):
                if RING in os.readlink(link):
                    numbers.add(str(link.stat().st_ino))
    return numbers


def shared_files() -> set[str]:
    """What lies in /dev/shm, without the semaphores of Python programs on this machine."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.mp-")}


def resident(pid: int, kind: str = "VmRSS") -> int:
    """Kilobytes of a process in memory: all, or those of a kind, as RssShmem."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{kind}:"))


@contextmanager
def nothing_stays(
    spark: SparkSession, *, spark_keeps: bool = False, mapped_before: set[str] | None = None
) -> Iterator[None]:
    """After a block: no mapped memory, no file of a worker's, no file in /dev/shm, no Arrow memory.

    Args:
        spark: whose JVM is looked at.
        spark_keeps: whether Spark itself keeps what it had laid out for a Python function, as 4.3.0 does where a task
            ended early.
        mapped_before: rings that may have been mapped when the block began, but not any more; those that are now come
            in their place. Where a task ends early, its rings stay mapped for a second.
    """
    assert spark._jvm is not None
    pid, files = jvm(spark), shared_files()
    batches = spark._jvm.pyspark.pravega.read.OwnedBatches
    everything = spark._jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
    before = everything.getAllocatedMemory()
    yield

    def remains() -> tuple[int, ...]:
        grown = 0 if spark_keeps else max(0, everything.getAllocatedMemory() - before)
        rings = mapped(pid) if mapped_before is None else mapped(pid) & mapped_before
        return len(rings), len(opened(pid)), batches.heldBytes(), grown

    deadline = time.monotonic() + 30
    while any(remains()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(remains())
    assert shared_files() <= files
    if mapped_before is not None:
        mapped_before.clear()
        mapped_before |= mapped(pid)


def readers(driver: int) -> list[int]:
    """The workers of a driver that have a ring: not those of another test process, on the same machine."""
    workers = []
    # A worker's parent is Spark's daemon, whose parent is the driver.
    for worker in [worker for daemon in children(driver) for worker in children(daemon)]:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if opened(worker):
                workers.append(worker)
    return workers


def children(pid: int) -> list[int]:
    """The processes that a process has started and that are still there."""
    pids: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            pids += map(int, thread.read_text().split())
    return pids
