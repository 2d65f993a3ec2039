"""What Spark hands down to the scan and so needn't read or start."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from changes_tools import changes_in
from entry_tools import descendants
from pyspark.sql import SparkSession

from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.spark]


def test_count_is_answered_by_the_commit_log_where_it_knows_all(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.counted"
    spark.sql(f"CREATE TABLE {table} (id BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS")
    spark.sql(f"INSERT INTO {table} SELECT id FROM range(100)")

    def asked(query: str) -> tuple[tuple[Any, ...], bool]:
        """The answer, and whether the log gave it."""
        frame = spark.sql(query)
        row = frame.first()
        assert row is not None
        return tuple(row), "LocalTableScan" in frame._jdf.queryExecution().toString()

    assert asked(f"SELECT count(*) FROM {table}") == ((100,), True)
    assert asked(f"SELECT count(1), count(*) + 1 FROM {table}") == ((100, 101), True)
    assert spark.table(table).count() == 100
    assert asked(f"SELECT count(*) FROM {table} VERSION AS OF 1") == ((100,), True)
    told = f"{namespace}.`counted$changes` WITH (startingVersion = 1, endingVersion = 1)"
    for changes in (changes_in(table, 1), told):
        assert asked(f"SELECT count(*) FROM {changes}") == ((100,), True)
    for query, answer in {
        f"SELECT count(*) FROM {table} WHERE id < 7": (7,),
        f"SELECT count(*) FILTER (WHERE id < 8) FROM {table}": (8,),
        f"SELECT count(*), max(id) FROM {table}": (100, 99),
        f"SELECT count(*) FROM (SELECT * FROM {table} LIMIT 9)": (9,),
        f"SELECT count(*) FROM {table} GROUP BY id % 1": (100,),
        f"SELECT count(DISTINCT id % 3) FROM {table}": (3,),
        f"SELECT count(*) FROM {table} WITH ('mode' = 'permissive')": (100,),
    }.items():
        assert asked(query) == (answer, False), query
    spark.sql(f"INSERT INTO {table} WITH ('writer-mode' = 'at-least-once') VALUES (100)")
    assert asked(f"SELECT count(*) FROM {table}") == ((101,), False)


def test_a_query_that_stops_early_leaves_its_worker_for_the_next_one(spark: SparkSession, namespace: str) -> None:
    """Otherwise each such query waits for a new one."""
    made = "id BIGINT NOT NULL, s STRING) TBLPROPERTIES"
    spark.sql(f"CREATE TABLE {namespace}.plain ({made} ('segments' = '1')")
    spark.sql(f"CREATE TABLE {namespace}.many ({made} ('segments' = '40', 'format' = 'json')")
    spark.sql(f"CREATE TABLE {namespace}.keyed ({made} ('segments' = '1', 'primary-key' = 'id')")
    rows = "SELECT id, repeat(hex(id), 50) FROM range(60000)"
    for table in ("plain", "many", "keyed"):
        spark.sql(f"INSERT INTO {namespace}.{table} {rows if table != 'many' else rows.replace('60000', '400')}")
    jvm = spark.sparkContext._gateway
    assert jvm is not None

    def workers() -> set[int]:
        return {pid for pid, command in descendants(jvm.proc.pid).items() if "daemon" in command}

    for manner in ("16m", "0"):
        before: set[int] = set()
        for table in ("plain", "many", "keyed"):
            rows_of = f"{namespace}.{table} WITH ('shared-memory' = '{manner}')"
            assert len(spark.sql(f"SELECT sum(id) FROM {rows_of}").collect()) == 1
            before = before or workers()
            for condition, limit in (("true", 10), ("id % 2 = 1", 1), ("length(s) > 0", 3), ("id % 2 = 0", 30)):
                asked = spark.sql(f"SELECT id, s FROM {rows_of} WHERE {condition} LIMIT {limit}")
                assert len(asked.collect()) == limit
                assert workers() <= before, (manner, table, condition)


def test_a_query_that_stops_early_waits_for_no_silent_store(
    spark: SparkSession, sandbox: Sandbox, namespace: str, tmp_path: Path
) -> None:
    """The first rows halt the servers, and the rest of the task's is behind them: the query has what it wants."""
    once = tmp_path / "once"
    halting = f"'format' = 'ini_format:Halting', 'halting.process' = '{sandbox.pravega_pid}', 'halting.once' = '{once}'"
    columns = "id BIGINT NOT NULL, name STRING"
    spark.sql(f"CREATE TABLE {namespace}.silent ({columns}) TBLPROPERTIES ({halting}, 'segments' = '2')")
    spark.sql(f"INSERT INTO {namespace}.silent SELECT id, repeat(id % 10, 1000) FROM range(800)")
    asked = spark.sql(f"SELECT * FROM {namespace}.silent WHERE id >= 0 LIMIT 1")
    once.touch()
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(asked.collect)
        try:
            (row,) = running.result(60)
            assert not once.exists()
        finally:
            os.kill(sandbox.pravega_pid, signal.SIGCONT)
    assert row.name == str(row.id % 10) * 1000
    spark.sql(f"INSERT INTO {namespace}.silent VALUES (800, 'a')")
    assert spark.table(f"{namespace}.silent").count() == 801


@pytest.mark.parametrize(
    "columns", ["_offset BIGINT, _segment INT, _corrupt_event BINARY", "_OFFSET INT, _Segment BIGINT"]
)
def test_own_columns_that_are_called_as_metadata_are_no_positions(
    spark: SparkSession, settings: Settings, namespace: str, columns: str
) -> None:
    """Own columns win, whatever they are called: nothing of them is taken for a place in the stream."""
    table = f"{namespace}.own"
    spark.sql(f"CREATE TABLE {table} (id INT, {columns}, _event_size STRING) CLUSTERED BY (id) INTO 2 BUCKETS")
    own = [field.name for field in spark.table(table).schema][1:]
    values = ["id * 1000", "17", "X'01'", "'big'"] if len(own) == 4 else ["id * 1000", "17", "'big'"]
    spark.sql(f"INSERT INTO {table} SELECT int(id), {', '.join(values)} FROM range(100)")
    for query, answer in {
        f"SELECT count(*) FROM {table} WHERE _segment = 17": 100,
        f"SELECT count(*) FROM {table} WHERE _segment = 0": 0,
        f"SELECT sum(id) FROM {table} WHERE _offset >= 50000": sum(range(50, 100)),
        f"SELECT count(id) FROM {table} WHERE _offset <= 5000": 6,
        f"SELECT count(*) FROM (SELECT * FROM {table} WHERE _offset = 99000 LIMIT 1)": 1,
        f"SELECT count(*) FROM {table} WHERE _event_size = 'big'": 100,
        f"SELECT max(_offset) FROM {table}": 99_000,
    }.items():
        row = spark.sql(query).first()
        assert row is not None
        assert row[0] == answer, query
    if len(own) == 4:
        lenient = spark.read.option("mode", "failfast").table(table)
        assert {bytes(row[0]) for row in lenient.select("_corrupt_event").collect()} == {b"\x01"}
        stream = f"{namespace.rpartition('.')[2].replace('_', '-')}/own"
        source = spark.read.format("pravega").options(**settings.to_options()).option("stream", stream)
        assert source.option("mode", "permissive").load().where("_segment = 17").count() == 100
