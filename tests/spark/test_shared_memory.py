"""Reads in memory that task and worker share: the same rows as through the socket, and nothing that stays."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.server, pytest.mark.spark]

ROWS = 24_000
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
FORMATS = ("avro", "json", "protobuf")


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """The rows, with a NULL in every third value."""
    values = [
        f"IF((id + {number}) % 3 = 0, NULL, {value}) AS {column.split()[0]}"
        for number, (column, value) in enumerate(COLUMNS.items())
    ]
    return spark.sql(f"SELECT id, {', '.join(values)} FROM range(0, {ROWS}, 1, 2)").cache()


@pytest.fixture(scope="module")
def tables(spark: SparkSession, rows: DataFrame) -> Iterator[str]:
    """A namespace with the rows in a table of each format."""
    namespace = "pravega.shared_memory"
    spark.sql(f"CREATE NAMESPACE {namespace}")
    for form in FORMATS:
        columns = ", ".join(COLUMNS)
        if form == "protobuf":
            # It has no NULL in a collection, nor a collection that is NULL.
            columns = ", ".join(column for column in COLUMNS if column[:2] not in ("ar", "ma"))
        spark.sql(
            f"CREATE TABLE {namespace}.{form} (id BIGINT, {columns}) CLUSTERED BY (id) INTO 2 BUCKETS "
            f"TBLPROPERTIES ('format' = '{form}')"
        )
        table = spark.table(f"{namespace}.{form}")
        rows.select(table.columns).writeTo(f"{namespace}.{form}").append()
    yield namespace
    spark.sql(f"DROP NAMESPACE {namespace} CASCADE")


def read(spark: SparkSession, table: str, manner: str = "16m") -> DataFrame:
    return spark.read.option("shared-memory", manner).table(table)


def digest(rows: DataFrame) -> tuple[object, ...]:
    """A number that tells all values of all rows, whatever their order."""
    sums = ("count(*)", "sum(c)", "sum((c % 65521) * (c % 65537))")
    found = rows.selectExpr("crc32(to_json(struct(*))) c").selectExpr(*sums)
    return tuple(found.first() or ())


def jvm(spark: SparkSession) -> int:
    assert spark._jvm is not None
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())


def mapped(pid: int) -> int:
    """How many rings a process has mapped."""
    return Path(f"/proc/{pid}/maps").read_text().count("memfd:pravega-batches")


def opened(pid: int, kind: str = "memfd:pravega-batches") -> list[str]:
    """The files of a kind that a process has open: rings, or pipes."""
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(link))
        except OSError:
            continue
    return [name for name in found if kind in name]


def shared_files() -> set[str]:
    """What lies in /dev/shm, without the semaphores of Python programs on this machine."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.mp-")}


@pytest.fixture(autouse=True)
def nothing_stays(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test: no mapped memory, no file of a worker's, no file in /dev/shm, no Arrow memory."""
    assert spark._jvm is not None
    pid, files = jvm(spark), shared_files()
    batches = spark._jvm.pyspark.pravega.OwnedBatches
    everything = spark._jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
    before = everything.getAllocatedMemory()
    yield
    # Spark 4.3.0 itself keeps what it had laid out for a Python function whose task is cancelled.
    spark_keeps = request.function is test_killed_workers_and_tasks

    def remains() -> tuple[int, ...]:
        grown = 0 if spark_keeps else max(0, everything.getAllocatedMemory() - before)
        return mapped(pid), len(opened(pid)), batches.heldBytes(), grown

    deadline = time.monotonic() + 30
    while any(remains()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(remains())
    assert shared_files() <= files


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_rows_in_every_format(spark: SparkSession, rows: DataFrame, tables: str, form: str) -> None:
    table = f"{tables}.{form}"
    expected = digest(rows.select(spark.table(table).columns))
    assert [digest(read(spark, table, manner)) for manner in MANNERS] == [expected] * 3
    places = [read(spark, table, manner).select("_offset", "_event_size", "st") for manner in MANNERS]
    assert len({digest(one) for one in places}) == 1
    # Few columns, none, and a filter that leaves nothing.
    for manner in MANNERS:
        some = read(spark, table, manner)
        assert some.where("lo IS NULL AND st = 'none'").collect() == []
        assert some.selectExpr("count(1)", "sum(it)").first() == rows.selectExpr("count(1)", "sum(it)").first()


def test_it_is_memory_that_both_have(spark: SparkSession, tables: str) -> None:
    """Seen from a function that Spark runs while it reads; batches that wait for such a function stay as they are."""
    pid = jvm(spark)

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            lengths = [len(text) for text in batch.column(1).to_pylist()]
            yield pa.record_batch({"rings": [mapped_there(pid)], "length": [sum(lengths)], "rows": [len(lengths)]})

    def mapped_there(pid: int) -> int:
        return Path(f"/proc/{pid}/maps").read_text().count("memfd:pravega-batches")

    for manner, seen in (("0", False), ("1m", True), ("16m", True)):
        texts = read(spark, f"{tables}.avro", manner).selectExpr("id", "coalesce(st, '') || sr.x || '!' AS t")
        texts = texts.where("t IS NOT NULL")
        found = texts.mapInArrow(look, "rings BIGINT, length BIGINT, rows BIGINT").selectExpr(
            "max(rings) > 0", "sum(length)", "sum(rows)"
        )
        length, count = texts.selectExpr("sum(length(t))", "count(*)").first() or (0, 0)
        assert found.first() == (seen, length, count)


def test_reads_that_stop_early(spark: SparkSession, tables: str) -> None:
    for manner in MANNERS * 2:
        table = read(spark, f"{tables}.avro", manner)
        assert len(table.limit(5).collect()) == 5
        assert len(table.where("id % 2 = 1").limit(7).collect()) == 7
        assert len(table.select("st", "ar").take(3)) == 3
        assert table.where("id >= 0").selectExpr("max(id)").first() == (ROWS - 1,)


def test_events_larger_than_the_ring(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.sizes (id BIGINT, s STRING)")
    made = spark.sql("SELECT id, repeat(CAST(id % 10 AS STRING), IF(id % 50 = 3, 5000000, 50)) s FROM range(200)")
    made.writeTo(f"{namespace}.sizes").append()
    for manner in MANNERS:
        assert digest(read(spark, f"{namespace}.sizes", manner)) == digest(made)
    spark.sql(f"CREATE TABLE {namespace}.raw TBLPROPERTIES ('format' = 'raw') AS SELECT CAST(s AS BINARY) event "
              f"FROM {namespace}.sizes")  # fmt: skip
    for manner in MANNERS:
        raw = read(spark, f"{namespace}.raw", manner).selectExpr("CAST(event AS STRING) s")
        assert digest(raw) == digest(made.select("s"))


def test_streams_of_micro_batches(spark: SparkSession, tables: str, tmp_path: Path) -> None:
    for manner in MANNERS:
        source = spark.readStream.option("shared-memory", manner).option("max-events-per-trigger", 9000)
        seen: list[int] = []

        def take(batch: DataFrame, _: int, seen: list[int] = seen) -> None:
            seen.append(batch.selectExpr("sum(id)").first()[0])  # type: ignore[index]

        query = (
            source.table(f"{tables}.json")
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / manner))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert len(seen) > 1
        assert sum(seen) == ROWS * (ROWS - 1) // 2


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


@pytest.mark.parametrize("seed", range(int(os.environ.get("SHARED_MEMORY_SEEDS", "3"))))
def test_killed_at_any_moment(spark: SparkSession, tables: str, seed: int) -> None:
    """A worker is killed, or its job cancelled, somewhere in a read; what stays is looked for behind each seed."""
    random = Random(seed)
    manner, kill = random.choice(("1m", "16m")), random.choice(("worker", "task"))
    table = read(spark, f"{tables}.{random.choice(FORMATS)}", manner).selectExpr("sum(id)", "sum(length(st))")
    expected = table.first()
    group = f"killed {seed}"
    ended = threading.Event()
    errors: list[Exception] = []

    def run() -> None:
        spark.sparkContext.setJobGroup(group, group, interruptOnCancel=True)
        while not ended.is_set():
            try:
                table.collect()
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
            while not (workers := readers(jvm(spark))) and time.monotonic() < deadline:
                time.sleep(0.001)
            assert workers
            for worker in workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
    finally:
        ended.set()
        spark.sparkContext.cancelJobGroup(group)
        thread.join(60)
    assert not thread.is_alive()
    assert table.first() == expected


def readers(driver: int) -> list[int]:
    """The workers of a driver that have a ring, which they keep from task to task; not those of other tests."""
    workers = []
    for process in Path("/proc").iterdir():
        # A worker's parent is Spark's daemon, whose parent is the driver.
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if process.name.isdigit() and parent(parent(int(process.name))) == driver and opened(int(process.name)):
                workers.append(int(process.name))
    return workers


def parent(pid: int) -> int:
    """A process's parent; 0 has none."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]) if pid else 0


def test_a_worker_keeps_its_ring_from_task_to_task(spark: SparkSession, tables: str) -> None:
    table = read(spark, f"{tables}.avro")
    expected = digest(table)
    before = rings(jvm(spark))
    assert before
    for _ in range(4):
        assert digest(table) == expected
    after = rings(jvm(spark))
    assert all(len(files) == 1 for files in after.values())
    # Spark may have taken another worker for some task, but not for all.
    assert set(before.values()) & set(after.values())
    # Behind a task that doesn't read to its end others still have the right rows.
    assert len(table.limit(5).collect()) == 5
    assert digest(table) == expected


def rings(driver: int) -> dict[int, frozenset[int]]:
    """The memory files that each worker of a driver has open, by their numbers."""
    files = {}
    for worker in readers(driver):
        links = Path(f"/proc/{worker}/fd").iterdir()
        files[worker] = frozenset(link.stat().st_ino for link in links if "pravega-batches" in os.readlink(link))
    return files


def test_many_queries_leave_memory_as_it_was(spark: SparkSession, tables: str) -> None:
    pid = jvm(spark)

    def resident() -> int:
        status = Path(f"/proc/{pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssShmem"))

    table = read(spark, f"{tables}.avro")
    table.write.format("noop").mode("overwrite").save()
    pipes = len(opened(pid, "pipe:"))
    for _ in range(12):
        table.selectExpr("sum(it)", "max(length(st))").collect()
        table.write.format("noop").mode("overwrite").save()
    assert len(opened(pid, "pipe:")) <= pipes
    deadline = time.monotonic() + 30
    while resident() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert resident() == 0
