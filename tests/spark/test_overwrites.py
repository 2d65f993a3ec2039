"""Statements that replace all rows, beside a second session that inserts while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pauses import Pause
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

Statement = Callable[[SparkSession, str], object]


def _dataframe(session: SparkSession, table: str) -> None:
    session.table(table).selectExpr("paused(id) AS id").writeTo(table).overwrite(lit(True))


def _cached(session: SparkSession, table: str) -> None:
    rows = session.table(table).where(col("id") >= 0).cache()
    rows.selectExpr("paused(id) AS id").writeTo(table).overwrite(lit(True))
    rows.unpersist()


READING: dict[str, Statement] = {
    "insert": lambda session, t: session.sql(f"INSERT OVERWRITE {t} SELECT paused(id) AS id FROM {t}"),
    "dataframe": _dataframe,
    "cached": _cached,
    "replace": lambda session, t: session.sql(
        f"CREATE OR REPLACE TABLE {t} AS SELECT paused(id) AS id, 'x' AS more FROM {t}"
    ),
    "subquery": lambda session, t: session.sql(
        f"INSERT OVERWRITE {t} SELECT paused(id) AS id FROM range(10) WHERE id < (SELECT count(*) FROM {t})"
    ),
}


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


def ids(session: SparkSession, table: str) -> list[int]:
    return sorted(row.id for row in session.table(table).select("id").collect())


@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize("level", ["serializable", "snapshot"])
@pytest.mark.in_turn(8)
def test_what_another_session_inserts_is_not_lost(
    spark: SparkSession, namespace: str, tmp_path: Path, pool: ThreadPoolExecutor, name: str, level: str
) -> None:
    """The statement has read the table: it conflicts with what came since, or keeps it."""
    first, second, table = spark.newSession(), spark.newSession(), f"{namespace}.t"
    pause = Pause(tmp_path)
    pause.register(first)
    first.sql(f"CREATE TABLE {table} (id BIGINT) TBLPROPERTIES ('isolation-level' = '{level}')")
    first.sql(f"INSERT INTO {table} VALUES (0), (1), (2)")

    def statement() -> object:
        return READING[name](first, table)

    def insert() -> object:
        return second.sql(f"INSERT INTO {table} VALUES (100)")

    if level == "snapshot" and name != "replace":
        pause.around(pool, statement, insert)
    else:
        with pytest.raises(Exception, match=r"(?s)PRAVEGA_WRITE_CONFLICT.*another version") as conflict:
            pause.around(pool, statement, insert)
        assert ("isolation-level" in str(conflict.value)) == (name != "replace")
    assert ids(second, table) == [0, 1, 2, 100]
    second.sql(f"INSERT OVERWRITE {table} SELECT id FROM {table} WHERE id > 1")
    assert ids(first, table) == [2, 100]


def test_rows_that_were_not_read_are_replaced(
    spark: SparkSession, namespace: str, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    """A statement that hasn't read the table replaces all that was committed before it."""
    first, second, table = spark.newSession(), spark.newSession(), f"{namespace}.t"
    pause = Pause(tmp_path)
    pause.register(first)
    first.sql(f"CREATE TABLE {table} (id BIGINT)")
    first.sql(f"INSERT INTO {table} VALUES (0)")
    pause.around(
        pool,
        lambda: first.sql(f"INSERT OVERWRITE {table} SELECT paused(id) AS id FROM range(3)"),
        lambda: second.sql(f"INSERT INTO {table} VALUES (100)"),
    )
    assert ids(second, table) == [0, 1, 2]


@pytest.mark.parametrize("statement", ["sql", "dataframe"])
def test_dynamic_overwrites_replace_all_rows(spark: SparkSession, namespace: str, statement: str) -> None:
    """A stream has no partitions, of which some could stay."""
    session, table = spark.newSession(), f"{namespace}.t"
    session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    session.sql(f"CREATE TABLE {table} AS SELECT * FROM VALUES (1L), (2L) AS v(id)")
    if statement == "sql":
        session.sql(f"INSERT OVERWRITE {table} VALUES (5L)")
    else:
        session.range(5, 6).writeTo(table).overwritePartitions()
    assert ids(session, table) == [5]


def test_a_delete_of_all_rows_is_one_however_it_says_so(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {table} (id BIGINT)")
    for condition in ("1 = 1", "true OR id > 5", "NOT (1 > 2) AND 'a' = 'a'"):
        spark.sql(f"INSERT INTO {table} VALUES (1), (2)")
        spark.sql(f"DELETE FROM {table} WHERE {condition}")
        assert ids(spark, table) == []
    spark.sql(f"INSERT INTO {table} VALUES (1), (2)")
    for condition in ("id = 1", "id IN (SELECT id FROM range(5))", "id IS NOT NULL"):
        with pytest.raises(Exception, match=r"PRAVEGA_UNSUPPORTED_OPERATION.*DELETE isn't possible"):
            spark.sql(f"DELETE FROM {table} WHERE {condition}")
    assert ids(spark, table) == [1, 2]


def test_a_cached_table_is_what_procedures_leave_of_it(spark: SparkSession, namespace: str) -> None:
    session, table = spark.newSession(), f"{namespace}.t"
    session.sql(f"CREATE TABLE {table} AS SELECT * FROM VALUES (1L), (2L) AS v(id)")
    for spelled in ("{short}.t", "pravega.{short}.t", "`{short}`.`t`"):
        session.sql(f"INSERT INTO {table} VALUES (3)")
        session.sql(f"CACHE TABLE {table}")
        assert ids(session, table)
        name = spelled.format(short=namespace.removeprefix("pravega."))
        (last,) = session.sql(f"SELECT max(version) AS version FROM {namespace}.`t$commits`").collect()
        session.sql(f"CALL pravega.system.truncate('{name}', '{last.version}')")
        assert ids(session, table) == []
    session.sql(f"UNCACHE TABLE {table}")
