"""CREATE TABLE AS SELECT, CREATE OR REPLACE TABLE AS SELECT and INSERT OVERWRITE whose query fails."""

from __future__ import annotations

import pytest
from pyspark.sql import Row, SparkSession

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn]

FAILS = "SELECT IF(id = 3, CAST(raise_error('no') AS BIGINT), id) AS {0} FROM range(5)"


def test_a_query_that_fails_leaves_everything_as_it_was(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {table} AS SELECT CAST(1 AS BIGINT) AS id")
    for statement in (
        f"CREATE TABLE {namespace}.new AS {FAILS.format('id')}",
        f"CREATE OR REPLACE TABLE {namespace}.new AS {FAILS.format('id')}",
        f"CREATE OR REPLACE TABLE {table} AS {FAILS.format('other')}",
        f"INSERT OVERWRITE {table} {FAILS.format('id')}",
    ):
        with pytest.raises(Exception, match="USER_RAISED_EXCEPTION"):
            spark.sql(statement)
        assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace}").collect()] == ["t"]
        assert spark.table(table).collect() == [Row(id=1)]
    spark.sql(f"INSERT INTO {table} VALUES (2)")
    assert spark.table(table).count() == 2
