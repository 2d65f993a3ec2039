"""Batches in shared memory and what else Spark does with a read: joins, Python functions, caches, half-read results."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from changes_tools import changes_by
from program_tools import answer_of
from pyspark import StorageLevel, TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.functions import broadcast, udf
from shared_memory_tools import (
    MANNERS,
    RINGS_NOW,
    ROWS,
    digest,
    filled_namespace,
    looked_at,
    make_rows,
    nothing_stays,
    read,
)
from since import SPARK

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn(8)]

_PROGRAM = Path(__file__).parent / "unreadable_workers.py"
# Workers don't find this module by its name.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
Query = Callable[[DataFrame, DataFrame], DataFrame]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return make_rows(spark)


@pytest.fixture(scope="module")
def table(spark: SparkSession, rows: DataFrame) -> Iterator[str]:
    with filled_namespace(spark, "pravega.shared_memory_crossed", rows, "avro") as namespace:
        yield f"{namespace}.avro"


SPARK_KEEPS_GROUPS = SPARK == (4, 1)
"""Spark 4.1.4 keeps 16 KiB behind a pandas function of groups, also of those in Parquet; 4.0, 4.2 and 4.3 don't."""


@pytest.fixture(scope="module")
def mapped_before(spark: SparkSession) -> Iterator[set[str]]:
    """What the test before has left mapped: the next one looks whether that is gone."""
    with nothing_stays(spark, spark_keeps=SPARK_KEEPS_GROUPS):
        yield set()


@pytest.fixture(autouse=True)
def after_each_test(spark: SparkSession, mapped_before: set[str]) -> Iterator[None]:
    with nothing_stays(spark, spark_keeps=SPARK_KEEPS_GROUPS, mapped_before=mapped_before):
        yield


def joined(hint: str) -> Query:
    """Both sides by shuffles, or a broadcast."""
    return lambda left, right: left.join(right.hint(hint).selectExpr("id", "st AS other", "sr AS inner"), "id")


def in_one_task(left: DataFrame, right: DataFrame) -> DataFrame:
    """Both sides are read by turns in one task, which has a ring for each partition."""
    right = right.selectExpr("id", "st AS other", "sr AS inner").coalesce(1)
    return left.coalesce(1).hint("merge").join(right, "id")


TWO_READS: dict[str, Query] = {
    "broadcast": lambda left, right: left.join(broadcast(right.selectExpr("id", "st AS other")), "id"),
    "merge": joined("merge"),
    "shuffle_hash": joined("shuffle_hash"),
    "in one task": in_one_task,
    "union": lambda left, right: left.union(right),
    "union in one task": lambda left, right: left.union(right).coalesce(1),
    "semi": lambda left, right: left.join(right.where("it % 3 = 1"), "id", "semi"),
    "anti": lambda left, right: left.join(right.where("it % 3 = 1").select("id"), "id", "anti"),
    "every pair": lambda left, right: (
        left.where("id % 400 = 1").select("id", "st").crossJoin(right.where("id % 7 = 0").selectExpr("id AS i"))
    ),
    "window": lambda left, _right: left.selectExpr("*", "lag(st) OVER (PARTITION BY id % 8 ORDER BY id) AS earlier"),
    "sorted": lambda left, _right: left.orderBy("st", "id").selectExpr("*", "monotonically_increasing_id() >= 0 AS m"),
    # Values that outlive the batch that they came in.
    "largest": lambda left, _right: left.selectExpr("max(st)", "min(bi)", "max_by(st, id)", "max(sr.y)", "max(de)"),
    "grouped": lambda left, _right: left.groupBy("da").agg({"st": "max", "id": "sum", "do": "max"}),
}
ONE_READ = {"window", "sorted", "largest", "grouped"}
"""They have one side only."""


@pytest.mark.parametrize("query", TWO_READS)
def test_two_reads_in_a_query(spark: SparkSession, rows: DataFrame, table: str, query: str) -> None:
    # And one side of a query in each way.
    check(spark, rows, table, TWO_READS[query], *([] if query in ONE_READ else [("1m", "0")]))


def check(spark: SparkSession, rows: DataFrame, table: str, query: Query, *others: tuple[str, str]) -> None:
    """A query gives the same of the table, read in each manner, as of the rows themselves; all at a time.

    Args:
        spark: the session.
        rows: what is in the table.
        table: its name.
        query: what is made of two reads.
        others: further pairs of manners for them.
    """
    manners = [*((each, each) for each in MANNERS), *others]
    with ThreadPoolExecutor() as threads:
        expected = threads.submit(lambda: digest(query(rows, rows)))
        answers = threads.map(lambda pair: digest(query(*(read(spark, table, each) for each in pair))), manners)
        assert dict(zip(manners, answers, strict=True)) == dict.fromkeys(manners, expected.result())


def arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    kept = list(batches)
    yield from reversed(kept)


def frames(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for part in parts:
        yield part.assign(st=part.st.str.upper())


def longest(group: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"k": [int(group.id.iloc[0]) % 50], "n": [len(group)], "s": [group.st.dropna().max()]})


def shout(text: pd.Series) -> pd.Series:
    return text.str.upper() + "!"


def shout_on(texts: Iterator[pd.Series]) -> Iterator[pd.Series]:
    for text in texts:
        yield text.str.upper() + "!"


def total(lengths: pd.Series) -> int:
    return int(lengths.fillna(0).sum())


vectorized: Any = getattr(functions, "pandas_udf")  # noqa: B009
SMALL = "id BIGINT, st STRING, it INT"
GROUPS = "k BIGINT, n BIGINT, s STRING"
FUNCTIONS: dict[str, Query] = {
    "mapInArrow": lambda left, _right: left.select("id", "st", "it").mapInArrow(arrow, SMALL),
    "mapInPandas": lambda left, _right: left.select("id", "st", "it").mapInPandas(frames, SMALL),
    "pandas_udf": lambda left, _right: left.select("*", vectorized(shout, "string")("st").alias("loud")),
    "pandas_udf of parts": lambda left, _right: left.select("*", vectorized(shout_on, "string")("st").alias("loud")),
    # Each group is a call: of each date's own there would be 8,000.
    "pandas_udf of a group": lambda left, _right: left.groupBy((left.id % 300).alias("k")).agg(
        vectorized(total, "long")("it").alias("t")
    ),
    "udf by Arrow": lambda left, _right: left.select("id", udf(str, "string", useArrow=True)("ar").alias("a")),
    "udf": lambda left, _right: left.select("id", udf(lambda text: text and text[::-1], "string")("st").alias("t")),
    "applyInPandas": lambda left, _right: (
        left.select("id", "st").groupBy((left.id % 50).alias("k")).applyInPandas(longest, GROUPS)
    ),
    "one behind another": lambda left, _right: (
        left.select("id", "st", "it").mapInArrow(arrow, SMALL).select(vectorized(shout, "string")("st").alias("s"))
    ),
}


@pytest.mark.parametrize("query", FUNCTIONS)
def test_python_functions(spark: SparkSession, rows: DataFrame, table: str, query: str) -> None:
    check(spark, rows, table, FUNCTIONS[query])


def test_what_is_kept_behind_a_read(spark: SparkSession, rows: DataFrame, table: str) -> None:
    expected = digest(rows)
    for manner in MANNERS[1:]:
        for level in (StorageLevel.MEMORY_ONLY, StorageLevel.DISK_ONLY, StorageLevel.MEMORY_AND_DISK_DESER):
            kept = read(spark, table, manner).persist(level)
            with nothing_stays(spark):
                assert kept.count() == ROWS
            # No read any more: the columns' memory is the cache's own.
            assert digest(kept) == expected
            assert kept.where("id = 17").selectExpr("lo").first() == rows.where("id = 17").selectExpr("lo").first()
            kept.unpersist(blocking=True)
        checked = read(spark, table, manner).localCheckpoint()
        assert digest(checked) == expected
        arrow_table = read(spark, table, manner).select("id", "st", "do").toArrow()
        with nothing_stays(spark):
            frame: Any = read(spark, table, manner).select("id", "st", "do").toPandas()
        by_id = {row["id"]: row for row in arrow_table.to_pylist()}
        assert [by_id[key] for key in range(ROWS)] == [
            row.asDict() for row in rows.select("id", "st", "do").orderBy("id").collect()
        ]
        assert sorted(frame["id"]) == list(range(ROWS))


def test_results_that_are_half_read(spark: SparkSession, table: str) -> None:
    # The last one's worker has kept a ring from the read before.
    for manner in (*MANNERS, MANNERS[-1]):
        some = read(spark, table, manner)
        for prefetch in (False, True):
            walked = some.select("id", "st", "sr").toLocalIterator(prefetchPartitions=prefetch)
            assert len(list(itertools.islice(walked, 10))) == 10
            del walked
        assert len(some.take(3)) == len(some.tail(3)) == len(some.limit(9).offset(6).collect()) == 3
        assert some.where("id % 3 = 1").first() is not None
        assert not some.isEmpty()
        assert some.limit(5000).groupBy("bo").count().selectExpr("sum(count)").first() == (5000,)
        assert some.orderBy("id").limit(2).collect()[1].id == 1
        # Of a join one side ends first.
        ended = some.where("id < 3").select("id").join(some.select("id", "st").hint("merge"), "id")
        assert ended.count() == 3


@pytest.mark.parametrize("form", ["avro", "json"])
def test_long_texts_of_keyed_rows_and_of_their_changes(spark: SparkSession, namespace: str, form: str) -> None:
    """Long texts are decoded as views, but not where rows are changed further before they are handed over."""
    table = f"{namespace}.{form}"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'format' = '{form}')")
    versions = [
        spark.sql(
            f"SELECT id, IF(id % 5 = {n}, NULL, repeat(concat(id, 'ü', {n}), 80)) v FROM range({4000 * n}, 12000)"
        )
        for n in (0, 1)
    ]
    for rows in versions:
        rows.write.insertInto(table)
    last = versions[0].where("id < 4000").union(versions[1])
    # Who drops malformed events takes no views.
    for options in ({}, {"mode": "drop-malformed"}):
        reads = [read(spark, table, manner, **options) for manner in MANNERS]
        assert [digest(one) for one in reads] == [digest(last)] * 3
    readers = [spark.read.option("shared-memory", manner).option("startingVersion", 2) for manner in MANNERS]
    changes = [changes_by(reader, table).drop("_commit_timestamp") for reader in readers]
    assert [len(set(one.select("_change_type").distinct().collect())) for one in changes] == [2] * 3
    assert len({digest(one) for one in changes}) == 1
    images = changes[2].where("_change_type = 'update_postimage'").select("id", "v")
    assert digest(images) == digest(versions[1])


def test_scripts(spark: SparkSession, table: str) -> None:
    """Another thread of a task's reads the rows; a script may end before it has read all."""
    for manner in MANNERS:
        read(spark, table, manner).selectExpr("id", "it", "st").createOrReplaceTempView("shared_script")
        columns = "id BIGINT, it BIGINT, st STRING"
        copied = spark.sql(f"SELECT TRANSFORM (id, it, st) USING 'cat' AS ({columns}) FROM shared_script")
        assert (
            copied.selectExpr("sum(id)", "sum(it)").first()
            == spark.sql("SELECT sum(id), sum(it) FROM shared_script").first()
        )
        assert len(copied.limit(5).collect()) == 5


def test_attempts(spark: SparkSession, table: str, tmp_path: Path) -> None:
    """A task that fails in the middle of its read, twice, and is made again."""

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch
            if context.attemptNumber() < 2:
                (tmp_path / f"{context.partitionId()}-{context.attemptNumber()}").touch()
                raise ValueError("not yet")

    with nothing_stays(spark, spark_keeps=True):
        for manner in MANNERS:
            attempts = read(spark, table, manner).select("id", "st").mapInArrow(fail, "id BIGINT, st STRING")
            assert attempts.selectExpr("sum(id)", "count(*)").first() == (ROWS * (ROWS - 1) // 2, ROWS)
    assert len(list(tmp_path.iterdir())) >= 2


def test_partitions_one_after_another(spark: SparkSession, table: str) -> None:
    """A task that reads many gives a ring back when it has read its partition, and doesn't keep all of them."""
    many = read(spark, table).select("id", "st")
    for _ in range(9):
        many = many.union(read(spark, table).select("id", "st"))
    assert many.rdd.getNumPartitions() >= 20
    with nothing_stays(spark):
        rings = many.coalesce(1).selectExpr("st", f"{RINGS_NOW} AS rings")
        most, _ = rings.selectExpr("max(rings)", "max(st)").first() or (0, None)
    # The one that is read, and those that wait to be unmapped.
    assert 1 <= most <= 6


def test_workers_whose_files_cannot_be_opened(spark: SparkSession, sandbox: Sandbox, table: str) -> None:
    """As where `/proc` hides other processes. Reads go by socket, and workers aren't asked again and again."""
    answer = answer_of(
        _PROGRAM,
        sandbox.controller_uri,
        str(sandbox.schema_registry_uri),
        table,
        environment={**os.environ, "PYTHONPATH": os.pathsep.join([str(_PROGRAM.parent), *sys.path])},
    )
    rows = [[ROWS, ROWS * (ROWS - 1) // 2]] * 6
    assert answer == {"rows": rows, "shares": False, "rings": False, "warnings": 1}
    # Where they can be opened, the same shows a ring.
    assert looked_at(spark, table) == {"rows": rows, "shares": True, "rings": True}
