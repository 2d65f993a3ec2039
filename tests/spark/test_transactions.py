"""Transactions over several tables, as users begin and end them: all of their statements are there, or none."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from spark_tools import catalog_processes

import pyspark_pravega
from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

Rows = dict[int, int]


def begin(spark: SparkSession) -> str:
    found: str = spark.sql("CALL pravega.system.begin()").collect()[0]["transaction"]
    return found


def commit(spark: SparkSession) -> str:
    found: str = spark.sql("CALL pravega.system.commit()").collect()[0]["state"]
    return found


def rollback(spark: SparkSession) -> None:
    spark.sql("CALL pravega.system.rollback()").collect()


def rows(spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.table(table).collect())


def both(spark: SparkSession, two: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The rows of both tables, in one statement."""
    found = spark.sql(f"SELECT 'k', * FROM {two}.k UNION ALL SELECT 'p', * FROM {two}.p").collect()
    k, p = ([(id, v) for name, id, v in found if name == table] for table in ("k", "p"))
    return sorted(k), sorted(p)


@contextmanager
def refused(*words: str) -> Iterator[None]:
    with pytest.raises(PySparkException) as caught:
        yield
    for word in words:
        assert word in str(caught.value)


@pytest.fixture
def bank(spark: SparkSession, namespace: str) -> str:
    spark.sql(f"CREATE TABLE {namespace}.accounts (id BIGINT, balance BIGINT) TBLPROPERTIES ('primary-key' = 'id')")
    spark.sql(f"CREATE TABLE {namespace}.transfers (source BIGINT, target BIGINT, amount BIGINT)")
    spark.sql(f"INSERT INTO {namespace}.accounts VALUES (1, 100), (2, 100)")
    return namespace


def test_the_statements_of_a_block_are_there_together(spark: SparkSession, bank: str) -> None:
    other = spark.newSession()
    with pyspark_pravega.transaction(spark, "pravega"):
        spark.sql(f"UPDATE {bank}.accounts SET balance = balance - 10 WHERE id = 1")
        spark.sql(f"UPDATE {bank}.accounts SET balance = balance + 10 WHERE id = 2")
        spark.sql(f"UPDATE {bank}.accounts SET balance = balance - 1 WHERE id = 1")
        spark.sql(f"UPDATE {bank}.accounts SET balance = balance + 1 WHERE id = 2")
        spark.sql(f"INSERT INTO {bank}.transfers VALUES (1, 2, 10)")
        spark.sql(f"INSERT INTO {bank}.transfers VALUES (1, 2, 1)")
        assert rows(spark, f"{bank}.accounts") == [(1, 89), (2, 111)]
        assert rows(spark, f"{bank}.transfers") == [(1, 2, 1), (1, 2, 10)]
        assert spark.table(f"{bank}.transfers").count() == 2
        assert rows(other, f"{bank}.accounts") == [(1, 100), (2, 100)]
        assert other.table(f"{bank}.transfers").count() == 0
    for session in (spark, other):
        assert rows(session, f"{bank}.accounts") == [(1, 89), (2, 111)]
        assert rows(session, f"{bank}.transfers") == [(1, 2, 1), (1, 2, 10)]
    with suppress(ZeroDivisionError), pyspark_pravega.transaction(spark, "pravega"):
        spark.sql(f"UPDATE {bank}.accounts SET balance = 0")
        raise ZeroDivisionError
    assert rows(spark, f"{bank}.accounts") == [(1, 89), (2, 111)]
    # One version of each table.
    assert spark.sql(f"SELECT * FROM {bank}.`accounts$commits`").count() == 2
    assert spark.sql(f"SELECT * FROM {bank}.`transfers$commits`").count() == 1


ENDINGS = ("commit", "rollback", "exception", "conflict", "killed")


@pytest.fixture
def two(spark: SparkSession, namespace: str) -> str:
    """A table with a key and one without, each with the rows 1 to 6."""
    spark.sql(f"CREATE TABLE {namespace}.k (id BIGINT, v BIGINT) TBLPROPERTIES ('primary-key' = 'id')")
    spark.sql(f"CREATE TABLE {namespace}.p (id BIGINT, v BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS")
    for name in ("k", "p"):
        spark.sql(f"INSERT INTO {namespace}.{name} SELECT id, id * 10 FROM range(1, 7)")
    return namespace


def change(kind: str, rng: random.Random, k: Rows, p: list[tuple[int, int]]) -> str:
    """A statement, of which the tables' models are told; {ns} stands for the namespace."""
    id, v = rng.randrange(1, 9), rng.randrange(1000)
    if kind == "INSERT":
        k[id] = v
        return f"INSERT INTO {{ns}}.k VALUES ({id}, {v})"
    if kind == "APPEND":
        p.append((id, v))
        return f"INSERT INTO {{ns}}.p VALUES ({id}, {v})"
    if kind == "UPDATE":
        k.update({one: k[one] + v for one in k if one >= id})
        return f"UPDATE {{ns}}.k SET v = v + {v} WHERE id >= {id}"
    if kind == "DELETE":
        k.pop(id, None)
        return f"DELETE FROM {{ns}}.k WHERE id = {id}"
    if kind == "MERGE":
        sums: Rows = {}
        for one, value in p:
            sums[one] = sums.get(one, 0) + value
        for one, value in sums.items():
            k[one] = k.get(one, 0) + value
        return (
            "MERGE INTO {ns}.k USING (SELECT id, sum(v) AS v FROM {ns}.p GROUP BY id) AS s ON k.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = k.v + s.v WHEN NOT MATCHED THEN INSERT *"
        )
    if kind == "COPY":
        p.extend(k.items())
        return "INSERT INTO {ns}.p SELECT * FROM {ns}.k"
    if kind == "OVERWRITE":
        kept = {one: value for one, value in k.items() if one != id}
        k.clear()
        k.update(kept)
        return f"INSERT OVERWRITE {{ns}}.k SELECT * FROM {{ns}}.k WHERE id <> {id}"
    if kind == "REPLACE":
        p[:] = [(id, v)]
        return f"INSERT OVERWRITE {{ns}}.p VALUES ({id}, {v})"
    if kind == "TRUNCATE":
        p.clear()
        return "TRUNCATE TABLE {ns}.p"
    raise AssertionError(kind)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.in_turn
def test_statements_of_each_kind_are_there_together_or_not_at_all(spark: SparkSession, two: str, ending: str) -> None:
    rng = random.Random(ending)
    other = spark.newSession()
    k: Rows = {id: id * 10 for id in range(1, 7)}
    p = [(id, id * 10) for id in range(1, 7)]
    kinds = ["INSERT", "UPDATE", "APPEND", "DELETE", "MERGE", "COPY", "OVERWRITE", "REPLACE", "TRUNCATE", "APPEND"]
    rng.shuffle(kinds)
    before = (sorted(k.items()), sorted(p))
    begin(spark)
    for kind in [*kinds, "UPDATE", "COPY"] if ending == "commit" else ["MERGE", *kinds[:3]]:
        spark.sql(change(kind, rng, k, p).format(ns=two))
        assert both(spark, two) == (sorted(k.items()), sorted(p)), kind
    assert both(other, two) == before
    expected = before
    if ending == "commit":
        assert commit(spark) == "COMMITTED"
        expected = (sorted(k.items()), sorted(p))
    elif ending == "rollback":
        rollback(spark)
    elif ending == "exception":
        # A statement that fails leaves the others.
        with pytest.raises(PySparkException):
            spark.sql(f"INSERT INTO {two}.p SELECT id, raise_error('no') FROM range(3)")
        with pytest.raises(PySparkException):
            spark.sql(f"SELECT * FROM {two}.nowhere")
        assert rows(spark, f"{two}.p") == sorted(p)
        rollback(spark)
    elif ending == "conflict":
        other.sql(f"INSERT INTO {two}.k VALUES (2, 7)")
        with refused("PRAVEGA_WRITE_CONFLICT"):
            commit(spark)
        expected = (sorted({**dict(before[0]), 2: 7}.items()), before[1])
    else:
        for process in catalog_processes():
            os.kill(process, signal.SIGKILL)
        with refused("PRAVEGA_TRANSACTION_FAILED", "catalog process"):
            spark.sql(f"INSERT INTO {two}.p VALUES (1, 1)")
        with refused("PRAVEGA_TRANSACTION_FAILED", "is gone"):
            commit(spark)
    assert both(spark, two) == both(other, two) == expected
    # The session goes on without it.
    spark.sql(f"INSERT INTO {two}.p VALUES (100, 100)")
    assert (100, 100) in rows(other, f"{two}.p")


def test_what_was_read_must_still_be_so(spark: SparkSession, two: str) -> None:
    other = spark.newSession()
    # Another key of the table is nobody's business.
    begin(spark)
    spark.sql(f"UPDATE {two}.k SET v = v + 1 WHERE id = 1")
    other.sql(f"UPDATE {two}.k SET v = 5 WHERE id = 2")
    commit(spark)
    assert rows(spark, f"{two}.k")[:2] == [(1, 11), (2, 5)]
    # A table that is only read; the next read finds it out.
    begin(spark)
    assert spark.table(f"{two}.p").count() == 6
    spark.sql(f"INSERT INTO {two}.k VALUES (9, 6)")
    other.sql(f"INSERT INTO {two}.p VALUES (7, 7)")
    with refused("PRAVEGA_WRITE_CONFLICT"):
        spark.table(f"{two}.k").collect()
    with refused("PRAVEGA_TRANSACTION_FAILED", "rollback"):
        spark.sql(f"INSERT INTO {two}.k VALUES (9, 6)")
    rollback(spark)
    assert len(rows(spark, f"{two}.k")) == 6
    # Nothing was written: no version.
    begin(spark)
    spark.table(f"{two}.p").collect()
    commit(spark)


def test_what_a_transaction_cannot_do_is_refused(spark: SparkSession, two: str, sandbox: Sandbox) -> None:
    given = {"controller-uri": sandbox.controller_uri, "schema-registry-uri": sandbox.schema_registry_uri}
    for key, text in given.items():
        spark.conf.set(f"spark.sql.catalog.second.{key}", str(text))
    spark.conf.set("spark.sql.catalog.second", "pyspark.pravega.PravegaCatalog")
    second = two.replace("pravega.", "second.", 1)
    assert spark.table(f"{second}.p").count() == 6
    with refused("PRAVEGA_TRANSACTION_FAILED", "no transaction"):
        commit(spark)
    with refused("PRAVEGA_TRANSACTION_FAILED", "no transaction"):
        rollback(spark)
    with refused("PRAVEGA_INVALID_CONFIGURATION", "needs both: query"):
        spark.sql("CALL pravega.system.begin(epoch => 1)")
    spark.sql(
        f"CREATE TABLE {two}.entries (id BIGINT, v STRING) "
        "TBLPROPERTIES ('primary-key' = 'id', 'table-type' = 'key-value')"
    )
    begin(spark)
    try:
        with refused("PRAVEGA_TRANSACTION_FAILED", "has begun a transaction already"):
            begin(spark)
        for statement in (
            f"CREATE TABLE {two}.t (id BIGINT)",
            f"CREATE TABLE {two}.t AS SELECT 1 AS id",
            f"ALTER TABLE {two}.k SET TBLPROPERTIES ('history' = '5')",
            f"ALTER TABLE {two}.k ADD COLUMN w BIGINT",
            f"DROP TABLE {two}.p",
            f"CREATE NAMESPACE {two}_2",
            f"CALL pravega.system.scale('{two.partition('.')[2]}.p', 3)",
            f"SELECT * FROM {two}.`k$log`",
            f"SELECT * FROM {two}.entries",
            f"INSERT INTO {two}.entries VALUES (1, 'a')",
            f"INSERT INTO {two}.p WITH ('query' = 'q', 'epoch' = '1') VALUES (1, 1)",
        ):
            with refused("transaction"):
                spark.sql(statement).collect()
        with refused("transaction"):
            spark.readStream.table(f"{two}.p")
        stream = two.partition(".")[2].replace("_", "-") + "/p"
        with refused("another catalog's than pravega"):
            spark.table(f"{second}.k").collect()
        with refused("another catalog's than pravega"):
            spark.sql(f"INSERT INTO {second}.p VALUES (1, 1)")
        with refused("can't be in a transaction"):
            spark.read.format("pravega").options(**given).option("stream", stream).load().collect()
        with refused("can't be in a transaction"):
            spark.sql("SELECT 1L AS id, 1L AS v").write.format("pravega").options(**given).mode("append").save(stream)
        # None of that has ended it.
        spark.sql(f"INSERT INTO {two}.p VALUES (1, 1)")
        commit(spark)
    except BaseException:
        with suppress(PySparkException):
            rollback(spark)
        raise
    assert len(rows(spark, f"{two}.p")) == 7


def test_a_constraint_holds_for_what_was_written_before_it_came(spark: SparkSession, two: str) -> None:
    other = spark.newSession()
    begin(spark)
    spark.sql(f"INSERT INTO {two}.k VALUES (9, -5)")
    other.sql(f"ALTER TABLE {two}.k ADD CONSTRAINT positive CHECK (v > 0)")
    with refused("PRAVEGA_TABLE_CHANGED", "CHECK"):
        spark.sql(f"UPDATE {two}.k SET v = v + 1 WHERE id = 2")
    rollback(spark)
    assert rows(other, f"{two}.k") == [(id, id * 10) for id in range(1, 7)]


def test_cached_rows_are_committed_ones(spark: SparkSession, two: str) -> None:
    cached = spark.table(f"{two}.p").cache()
    try:
        assert cached.count() == 6
        begin(spark)
        spark.sql(f"INSERT INTO {two}.p VALUES (7, 70)")
        with refused("cached"):
            spark.sql(f"INSERT INTO {two}.k SELECT * FROM {two}.p")
        rollback(spark)
        begin(spark)
        spark.sql(f"INSERT INTO {two}.p VALUES (7, 70)")
        commit(spark)
        assert spark.table(f"{two}.p").count() == 7
        assert len(rows(spark, f"{two}.p")) == 7
    finally:
        cached.unpersist()


def test_a_batch_of_a_query_counts_once(spark: SparkSession, two: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {two}.source (id BIGINT, v BIGINT)")
    failed: list[int] = []

    def both(batch: DataFrame, epoch: int) -> None:
        for _ in range(2):
            with pyspark_pravega.transaction(batch.sparkSession, "pravega", query="both", epoch=epoch):
                batch.writeTo(f"{two}.p").append()
                batch.writeTo(f"{two}.k").append()
        if epoch == 1 and not failed:
            failed.append(epoch)
            raise ZeroDivisionError

    def run() -> None:
        reader = spark.readStream.table(f"{two}.source")
        writer = reader.writeStream.foreachBatch(both).option("checkpointLocation", str(tmp_path / "c"))
        writer.trigger(availableNow=True).start().awaitTermination()

    spark.sql(f"INSERT INTO {two}.source VALUES (11, 1), (12, 1)")
    run()
    spark.sql(f"INSERT INTO {two}.source VALUES (13, 1)")
    with pytest.raises(PySparkException):
        run()
    run()
    assert rows(spark, f"{two}.p")[6:] == [(11, 1), (12, 1), (13, 1)]
    assert rows(spark, f"{two}.k")[6:] == [(11, 1), (12, 1), (13, 1)]
