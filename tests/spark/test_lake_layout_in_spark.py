"""Lakes whose files have partitions and are sorted, in SQL: compared with tables that have no lake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_lake_in_spark
from pyiceberg.catalog import load_catalog
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from since import is_missing

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark]

ROWS = """
SELECT id, concat('c', id % 7) AS customer, TIMESTAMP'2026-01-30 00:00:00' + make_dt_interval(0, id) AS at,
  IF(id % 3 = 0, NULL, id) AS nothing FROM range({first}, {last})
"""


@pytest.fixture
def lakes(spark: SparkSession, sandbox: Sandbox, tmp_path: Path) -> Iterator[str]:
    """A catalog whose lake is in a folder of the test's."""
    yield from test_lake_in_spark.catalog_in(spark, sandbox, tmp_path)


@pytest.mark.parametrize("key", [None, "id, customer"])
@pytest.mark.in_turn
def test_queries_pass_other_partitions_over(
    spark: SparkSession, namespace: str, lakes: str, tmp_path: Path, key: str | None
) -> None:
    """Of a plain table and of one with a key; the partitions change, and go."""
    scope = namespace.rpartition(".")[2]
    t, plain = f"{lakes}.{scope}.t", f"{lakes}.{scope}.plain"
    lake = {
        "lake": "iceberg",
        "lake-keep-in-stream": "0 ms",
        "lake-partitioned-by": "days(at), bucket(4, customer)",
        "lake-sorted-by": "customer, at DESC NULLS LAST",
    }
    for table, more in ((t, lake), (plain, {"compression": "none"})):
        given = {**more, **({} if key is None else {"primary-key": key})}
        words = ", ".join(f"'{name}' = '{text}'" for name, text in given.items())
        columns = "id BIGINT NOT NULL, customer STRING NOT NULL, at TIMESTAMP, nothing BIGINT"
        spark.sql(f"CREATE TABLE {table} ({columns}) TBLPROPERTIES ({words})")

    def run(statement: str) -> None:
        for table in (t, plain):
            spark.sql(statement.format(t=table)).collect()

    def same(query: str) -> None:
        ours, theirs = (sorted(map(str, spark.sql(query.format(t=table)).collect())) for table in (t, plain))
        assert ours == theirs, query

    def tier() -> None:
        spark.sql(f"CALL {lakes}.system.tier(table => '{scope}.t')").collect()

    def planned(where: str) -> int:
        """How many bytes a query reads, by EXPLAIN."""
        ((plan,),) = spark.sql(f"EXPLAIN SELECT id FROM {t} WHERE {where}").collect()
        (size,) = re.findall(r"segments with events, (\d+) bytes", plan)
        return int(size)

    def iceberg() -> Any:
        there = load_catalog("pravega", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db")
        return there.load_table((scope.replace("-", "_"), "t"))

    run(f"INSERT INTO {{t}} {ROWS.format(first=0, last=96)}")
    tier()
    run(f"INSERT INTO {{t}} {ROWS.format(first=96, last=192)}")
    tier()
    there = iceberg()
    assert [field.name for field in there.spec().fields] == ["at_day_partition", "customer_bucket_4_partition"]
    assert len(there.sort_order().fields) == 2
    all_bytes = planned("id >= 0")
    assert 0 < planned("at < TIMESTAMP'2026-01-31'") < all_bytes / 4
    assert 0 < planned("customer = 'c3'") < all_bytes * 0.6
    assert 0 < planned("at >= TIMESTAMP'2026-02-05' AND customer IN ('c3', 'c4')") < all_bytes / 8
    files = len(list(there.scan().plan_files()))
    late = there.scan(row_filter="at >= '2026-02-05T00:00:00+00:00'")
    assert 0 < len(list(late.plan_files())) <= files / 4
    of_changes = "SELECT * EXCEPT (_commit_timestamp) FROM {t} CHANGES FROM VERSION 2"
    changes = [of_changes] if key is None and not is_missing("4.2") else []
    queries = (
        "SELECT * FROM {t}",
        "SELECT id FROM {t} WHERE at BETWEEN TIMESTAMP'2026-01-31 03:00:00' AND TIMESTAMP'2026-02-03 01:00:00'",
        "SELECT at FROM {t} WHERE customer IN ('c1', 'c5') AND nothing IS NULL",
        "SELECT customer, count(*), max(at) FROM {t} GROUP BY customer",
        "SELECT count(*) FROM {t}",
    )
    for query in queries:
        same(query)
    spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('lake-partitioned-by' = 'months(at), customer')")
    if key is None:
        run("INSERT INTO {t} VALUES (500, 'c0', NULL, NULL), (501, 'cz', TIMESTAMP'1969-12-31 23:59:59', 1)")
    else:
        run("UPDATE {t} SET at = NULL, nothing = 7 WHERE id % 5 = 0")
        run("DELETE FROM {t} WHERE id % 11 = 3")
    for query in queries:
        same(query)
    tier()
    assert [field.name for field in iceberg().spec().fields] == ["at_month_partition", "customer_identity_partition"]
    spark.sql(f"ALTER TABLE {t} UNSET TBLPROPERTIES ('lake-partitioned-by', 'lake-sorted-by')")
    run(f"INSERT INTO {{t}} {ROWS.format(first=600, last=610)}")
    tier()
    there = iceberg()
    assert not there.spec().fields
    order = [there.schema().find_column_name(field.source_id) for field in there.sort_order().fields]
    assert order == ([] if key is None else ["_segment", *key.split(", ")])
    for query in (*queries, *changes):
        same(query)
    alone = there.scan(selected_fields=("id", "customer", "at", "nothing")).to_arrow()
    ours = spark.sql(f"SELECT * FROM {plain}").toArrow().cast(alone.schema)
    assert sorted(map(str, alone.to_pylist())) == sorted(map(str, ours.to_pylist()))
    if key is None:
        read: list[int] = []
        stream = spark.readStream.table(t).writeStream.trigger(availableNow=True)
        stream = stream.foreachBatch(lambda batch, _: read.extend(row.id for row in batch.collect()))
        stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
        assert sorted(read) == sorted(row.id for row in spark.sql(f"SELECT id FROM {plain}").collect())
    with pytest.raises(PySparkException, match=r'"days\(customer\)" can.t partition rows'):
        spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('lake-partitioned-by' = 'days(customer)')")
