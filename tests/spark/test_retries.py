"""Tasks fail and are tried again: no row is doubled, and no transaction stays open.

Tasks that run twice at a time are in tests/entry/test_clusters.py: Spark runs them so on several hosts only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from transactions import open_transactions

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log.ledger import open_ledger

pytestmark = [pytest.mark.server, pytest.mark.spark]


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
