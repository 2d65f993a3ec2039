"""Tables with a key whose stream is truncated behind the lake, in SQL: compared with one that has no lake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import test_lake_in_spark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark]

ROWS = test_lake_in_spark.ROWS


@pytest.fixture
def lakes(spark: SparkSession, sandbox: Sandbox, tmp_path: Path) -> Iterator[str]:
    """A catalog whose lake is in a folder of the test's."""
    yield from test_lake_in_spark.catalog_in(spark, sandbox, tmp_path)


@pytest.mark.in_turn(8)
def test_statements_go_on_behind_the_lake(spark: SparkSession, namespace: str, lakes: str, tmp_path: Path) -> None:
    """Of each type, and a key of two columns; the log of events tells that the stream was truncated."""
    scope = namespace.rpartition(".")[2]
    t, plain = f"{lakes}.{scope}.t", f"{lakes}.{scope}.plain"
    for table, properties in ((t, ", 'lake' = 'iceberg', 'lake-keep-in-stream' = '0 ms'"), (plain, "")):
        spark.sql(
            f"CREATE TABLE {table} TBLPROPERTIES ('primary-key' = 'id, t'{properties}) AS "
            f"SELECT * EXCEPT (id, t), ifnull(id, 0) AS id, ifnull(t, '') AS t FROM ({ROWS.format(first=0, last=200)})"
        )
    update = "UPDATE {t} SET n = n + 1 WHERE id BETWEEN 20 AND 40"
    delete = "DELETE FROM {t} WHERE id % 10 = 3"
    merge = (
        "MERGE INTO {t} x USING (SELECT id + 150 AS id, concat('t', id + 150) AS t, id % 3 AS way FROM range(100)) y "
        "ON x.id = y.id AND x.t = y.t WHEN MATCHED AND way = 0 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET nothing = way "
        "WHEN NOT MATCHED AND way = 1 THEN INSERT (id, t) VALUES (y.id, y.t)"
    )

    def run(*statements: str) -> None:
        for statement in statements:
            for table in (t, plain):
                spark.sql(statement.format(t=table)).collect()

    def same(query: str) -> None:
        ours, theirs = (sorted(map(str, spark.sql(query.format(t=table)).collect())) for table in (t, plain))
        assert ours == theirs, query

    def tier() -> int:
        done = spark.sql(f"CALL {lakes}.system.tier(table => '{scope}.t')").first()
        assert done is not None
        assert done.kept_from == done.version + 1
        assert spark.sql(f"SELECT 1 FROM {lakes}.{scope}.`t$log`").count() == 0
        version: int = done.version
        return version

    run(update, delete)
    first = tier()
    same("SELECT * FROM {t}")
    run(update, merge)
    for query in (
        "SELECT * FROM {t}",
        f"SELECT * FROM {{t}} VERSION AS OF {first}",
        f"SELECT * FROM {{t}} VERSION AS OF {first + 1}",
        "SELECT count(*) FROM {t}",
        "SELECT n, m FROM {t} WHERE id = 25 AND t = 't25'",
        "SELECT id FROM {t} WHERE n > 30 AND day < DATE'2026-05-01'",
        "SELECT x.id, y.n FROM {t} x JOIN {t} y ON x.id = y.id + 5 AND x.t = concat('t', y.id + 5)",
        f"SELECT * FROM {{t}} CHANGES FROM VERSION {first + 1} TO VERSION {first + 2}",
        f"SELECT * FROM {{t}} CHANGES FROM VERSION {first + 2} TO VERSION {first + 2}",
    ):
        same(query if "CHANGES" not in query else query.replace("*", "* EXCEPT (_commit_timestamp)"))
    second = tier()
    run(delete.replace("3", "4"), "ALTER TABLE {t} ADD COLUMN more STRING", "UPDATE {t} SET more = t WHERE id < 30")
    same("SELECT * FROM {t}")
    same(f"SELECT * FROM {{t}} VERSION AS OF {second}")
    spark.sql(f"CALL {lakes}.system.compact(table => '{scope}.t')").collect()
    same("SELECT * FROM {t}")
    tier()
    run(merge, "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id < 100")
    same("SELECT * FROM {t}")
    tier()
    run(update)
    same("SELECT * FROM {t}")
    for statement, why in (
        (f"SELECT * FROM {t} VERSION AS OF {first}", f"version {first}"),
        (f"SELECT * FROM {t} CHANGES FROM VERSION 2", "begin with"),
        (f"ALTER TABLE {t} DROP COLUMN a", "rows are in the lake"),
        (f"SELECT _event_size FROM {t}", "isn't known there"),
    ):
        with pytest.raises(PySparkException, match=why):
            spark.sql(statement).collect()
