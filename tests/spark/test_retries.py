"""Tasks fail and are tried again: no row is doubled, and no transaction stays open.

Tasks that run twice at a time are in tests/entry/test_clusters.py: Spark runs them so on several hosts only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from transactions import open_transactions

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import open_ledger

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn]


def stream_of(namespace: str, table: str) -> Stream:
    return Stream(namespace.removeprefix("pravega.").replace("_", "-"), table)


def failing(partitions: set[int], attempts: set[int]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Hands some rows on and then fails, in some attempts at some partitions."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch
            if context.partitionId() in partitions and context.attemptNumber() in attempts:
                raise RuntimeError("this attempt is meant to fail")

    return run


def test_a_failed_task_that_is_tried_again_leaves_no_duplicate_and_no_open_transaction(
    spark: SparkSession, client: Client, namespace: str
) -> None:
    table, stream = f"{namespace}.retried", stream_of(namespace, "retried")
    spark.sql(f"CREATE TABLE {table} (id BIGINT) CLUSTERED BY (id) INTO 4 BUCKETS")

    rows = spark.range(0, 40_000, 1, 4).mapInArrow(failing({1, 3}, {0}), "id BIGINT")
    rows.writeTo(table).append()

    assert spark.sql(f"SELECT count(*), count(DISTINCT id) FROM {table}").first() == (40_000, 40_000)
    assert open_transactions(client, stream) == []


def test_a_job_that_fails_leaves_nothing(spark: SparkSession, client: Client, namespace: str) -> None:
    table, stream = f"{namespace}.doomed", stream_of(namespace, "doomed")
    spark.sql(f"CREATE TABLE {table} (id BIGINT) CLUSTERED BY (id) INTO 4 BUCKETS")

    with pytest.raises(Exception, match="meant to fail"):
        spark.range(0, 40_000, 1, 4).mapInArrow(failing({3}, {0, 1, 2, 3}), "id BIGINT").writeTo(table).append()

    assert spark.table(table).count() == 0
    assert open_transactions(client, stream) == []
    ledger = open_ledger(client, stream)
    assert ledger is not None
    assert ledger.state().version == 0
    assert ledger.state().pending is None


@pytest.fixture
def nobody_may_commit(spark: SparkSession) -> Iterator[None]:
    """Each task that asks Spark whether it may commit is told no.

    So is one whose earlier attempt has failed after it had asked, as long as Spark hasn't noted that failure.
    """
    jvm: Any = spark._jvm

    def field(class_name: str, name: str) -> Any:
        # Fields, not methods: py4j looks at all methods of a class, and not all of these can be loaded.
        member = jvm.java.lang.Class.forName(f"org.apache.spark.{class_name}").getDeclaredField(name)
        member.setAccessible(True)
        return member

    env = field("SparkContext", "_env").get(spark._jsc.sc())
    coordinator = field("SparkEnv", "outputCommitCoordinator").get(env)
    reference = field("scheduler.OutputCommitCoordinator", "coordinatorRef")
    before = reference.get(coordinator)
    reference.set(coordinator, jvm.scala.Option.empty())
    yield
    reference.set(coordinator, before)


@pytest.mark.usefixtures("nobody_may_commit")
def test_an_attempt_needs_no_leave_of_spark(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    """Attempts are told apart at the job's commit. Leave that a failed one still has makes the next one fail."""
    table, source = f"{namespace}.t", f"{namespace}.source"
    spark.sql(f"CREATE TABLE {table} (id INT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'id')")
    spark.sql(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3)")
    spark.sql(f"UPDATE {table} SET v = 20 WHERE id = 2")
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    with pytest.raises(Exception, match="would change the primary key"):
        # What comes from a source, only its rows tell.
        spark.sql(f"MERGE INTO {table} USING (SELECT 1 AS a, 7 AS b) ON id = a WHEN MATCHED THEN UPDATE SET id = b")
    spark.sql(f"CREATE TABLE {source} (id INT NOT NULL, v INT)")
    spark.sql(f"INSERT OVERWRITE {source} VALUES (4, 4)")
    query = spark.readStream.table(source).writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).toTable(table).awaitTermination()
    assert sorted(spark.table(table).collect()) == [(1, 1), (2, 20), (4, 4)]
