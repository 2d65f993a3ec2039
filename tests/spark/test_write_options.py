"""Modes, routing keys, clustering, event time and metrics of writes in Spark."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from waiting import eventually

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import open_ledger

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

ROWS = 4_000


def stream_of(namespace: str, table: str) -> Stream:
    return Stream(namespace.removeprefix("pravega.").replace("_", "-"), table)


def last_metrics(spark: SparkSession) -> dict[str, str]:
    """The SQL metrics of the last statement, as Spark's UI shows them."""
    store = spark._jsparkSession.sharedState().statusStore()
    execution = store.executionsList().last()
    values, pairs = {}, store.executionMetrics(execution.executionId()).iterator()
    while pairs.hasNext():
        pair = pairs.next()
        values[pair._1()] = pair._2()
    found, metrics = {}, execution.metrics().iterator()
    while metrics.hasNext():
        metric = metrics.next()
        if metric.accumulatorId() in values:
            found[metric.name()] = values[metric.accumulatorId()].replace(",", "")
    return found


@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once", "best-effort"])
def test_a_table_has_a_writer_mode_and_a_write_another(
    spark: SparkSession, client: Client, namespace: str, mode: str
) -> None:
    table = f"{namespace}.modes"
    spark.sql(f"CREATE TABLE {table} (id BIGINT) TBLPROPERTIES ('writer-mode' = '{mode}', 'segments' = '4')")
    spark.sql(f"INSERT INTO {table} SELECT id FROM range(0, {ROWS}, 1, 4)")
    spark.sql(f"INSERT INTO {table} WITH ('writer-mode' = 'exactly-once') SELECT id FROM range(0, {ROWS}, 1, 4)")
    assert spark.sql(f"SELECT count(*), count(DISTINCT id) FROM {table}").first() == (2 * ROWS, ROWS)
    ledger = open_ledger(client, stream_of(namespace, "modes"))
    assert ledger is not None
    assert ledger.state().version == (2 if mode == "exactly-once" else 1)


def test_a_write_of_a_query_s_epoch_is_done_once(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.numbered"
    spark.sql(f"CREATE TABLE {table} (id BIGINT)")
    for epoch in (1, 1, 2, 1):
        spark.range(10).writeTo(table).option("query", "load").option("epoch", str(epoch)).append()
    spark.range(10).writeTo(table).option("query", "other load").option("epoch", "1").append()
    assert spark.table(table).count() == 30


def test_spark_shows_what_a_commit_came_to(spark: SparkSession, client: Client, namespace: str) -> None:
    table = f"{namespace}.metrics"
    spark.sql(f"CREATE TABLE {table} (id BIGINT) CLUSTERED BY (id) INTO 4 BUCKETS")
    spark.sql(f"INSERT INTO {table} SELECT id FROM range(0, {ROWS}, 1, 4)")
    ledger = open_ledger(client, stream_of(namespace, "metrics"))
    assert ledger is not None
    (commit,) = ledger.commits([1])

    def shown() -> bool:
        found = last_metrics(spark)
        return (
            found.get("rows written to Pravega") == str(ROWS)
            and found.get("bytes written to Pravega, frames included") == str(commit.bytes)
            # The tasks have shared it.
            and found.get("Pravega transactions of tasks, made one commit") == "1"
            and int(found.get("milliseconds of the commit to Pravega", "0")) > 0
        )

    eventually(shown)


@pytest.mark.parametrize("key", ["a,b", "{a}/{b}", "'all'", "b"])
def test_rows_of_a_key_lie_in_one_segment(spark: SparkSession, namespace: str, key: str) -> None:
    table = f"{namespace}.keys"
    quoted = key.replace("'", "\\'")
    spark.sql(
        f"CREATE TABLE {table} (a STRING, b INT, n BIGINT) TBLPROPERTIES ('routing-key' = '{quoted}', 'segments' = '8')"
    )
    spark.sql(f"INSERT INTO {table} SELECT 'a' || (id % 7), id % 11, id FROM range(0, {ROWS}, 1, 1)")
    columns = {"a,b": "a, b", "{a}/{b}": "a, b", "'all'": "'all'", "b": "b"}[key]
    several = spark.sql(
        f"SELECT {columns} FROM (SELECT *, _segment FROM {table}) GROUP BY {columns} "
        "HAVING count(DISTINCT _segment) > 1"
    )
    assert several.collect() == []
    used = spark.sql(f"SELECT count(DISTINCT _segment) FROM {table}").first()
    assert used is not None
    assert used[0] == (1 if key == "'all'" else used[0])
    assert key == "'all'" or used[0] > 2


def test_rows_can_be_brought_together_by_key_and_put_in_order(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.ordered"
    spark.sql(
        f"CREATE TABLE {table} (k INT, at TIMESTAMP, n BIGINT) CLUSTERED BY (k) INTO 4 BUCKETS "
        "TBLPROPERTIES ('cluster-by-key' = 'true', 'event-time' = 'at')"
    )
    spark.sql(
        f"INSERT INTO {table} SELECT id % 20, timestamp_millis(1000 * ({ROWS} - id)), {ROWS} - id "
        f"FROM range(0, {ROWS}, 1, 8)"
    )
    rows = spark.sql(f"SELECT k, n, _segment, _offset FROM {table}").collect()
    by_key: dict[int, list[tuple[int, int]]] = {}
    for row in rows:
        by_key.setdefault(row.k, []).append((row._offset, row.n))
    assert len(rows) == ROWS
    for places in by_key.values():
        numbers = [n for _, n in sorted(places)]
        assert numbers == sorted(numbers)


def test_commits_carry_their_event_time(spark: SparkSession, client: Client, namespace: str) -> None:
    table, stream = f"{namespace}.timed", stream_of(namespace, "timed")
    spark.sql(f"CREATE TABLE {table} (at TIMESTAMP) TBLPROPERTIES ('event-time' = 'AT')")
    spark.sql(f"INSERT INTO {table} SELECT timestamp_millis(id) FROM range(0, 5000, 1, 4)")
    # The time is noted under this writer's name: it can't go back behind it.
    (current,) = client.controller.current_segments(stream).ids
    with pytest.raises(Exception, match="can't go back to time 4998"):
        client.controller.note_timestamp(stream, "pyspark-pravega", 4998, {current: 1 << 40})


REFUSED = [
    ({"writer-mode": "twice"}, '"writerMode" must be one of exactly-once, at-least-once, best-effort, not "twice"'),
    ({"writer-mode": "at-least-once", "event-time": "at"}, "it needs writer mode exactly-once"),
    ({"event-time": "s"}, "has no times"),
    ({"event-time": "att"}, 'did you mean "at"?'),
    ({"cluster-by-key": "true"}, "needs routing-key with a column"),
    ({"cluster-by-key": "yes"}, "must be true or false"),
    ({"query": "q"}, '"query" and "epoch" go together'),
    ({"query": "q", "epoch": "-1"}, "must be a number from 0"),
    ({"query": "q", "epoch": "1", "writer-mode": "best-effort"}, "are for writer mode exactly-once"),
    ({"routing-key": "{nope}"}, '"nope" is not a column'),
    ({"routing-key": ""}, '"" is not a column'),
    ({"routing-key": "tags"}, "of type array<string> can't be the routing key"),
    ({"event-time": ""}, '"" is not a column'),
]


def test_options_that_cannot_be_are_refused_before_a_job_starts(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.refusing"
    spark.sql(f"CREATE TABLE {table} (s STRING, at TIMESTAMP, tags ARRAY<STRING>)")
    rows = spark.sql("SELECT 'a' AS s, now() AS at, array('t') AS tags")
    for options, words in REFUSED:
        writer = rows.writeTo(table)
        for name, value in options.items():
            writer = writer.option(name, value)
        with pytest.raises(AnalysisException) as refused:
            writer.append()
        assert words in str(refused.value)
    assert spark.table(table).count() == 0
