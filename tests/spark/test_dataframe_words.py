"""The DataFrame API's own words, which name no source: `saveAsTable`, `toTable`, `createTable`, `clusterBy`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted")]


def properties(spark: SparkSession, table: str) -> dict[str, str]:
    return {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


def test_tables_are_made_by_words_that_name_no_source(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    rows = spark.range(3).selectExpr("id", "CAST(id AS STRING) AS name")
    new = f"{namespace}.new"
    rows.write.saveAsTable(new)
    rows.write.mode("append").saveAsTable(new)
    assert ids(spark.table(new)) == [0, 0, 1, 1, 2, 2]
    rows.write.mode("overwrite").saveAsTable(new)
    rows.write.mode("ignore").saveAsTable(new)
    assert ids(spark.table(new)) == [0, 1, 2]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        rows.write.saveAsTable(new)

    rows.write.clusterBy("name").option("transaction-timeout-ms", "20000").saveAsTable(f"{namespace}.clustered")
    assert properties(spark, f"{namespace}.clustered")["routing-key"] == "name"
    assert ids(spark.table(f"{namespace}.clustered")) == [0, 1, 2]

    made_empty = spark.catalog.createTable(f"{namespace}.empty", schema=rows.schema, description="mine", segments="2")
    assert made_empty.schema == rows.schema
    assert made_empty.count() == 0
    assert properties(spark, f"{namespace}.empty")["segments"] == "2"

    for name, key in (("streamed", None), ("by_name", "name")):
        writer = spark.readStream.table(new).writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / name))
        writer = writer if key is None else writer.clusterBy(key)
        writer.toTable(f"{namespace}.{name}").awaitTermination()
        assert ids(spark.table(f"{namespace}.{name}")) == [0, 1, 2]
        assert properties(spark, f"{namespace}.{name}").get("routing-key") == key

    spark.sql(f"CREATE TABLE {namespace}.by_sql (id BIGINT, name STRING) CLUSTER BY (name)")
    assert properties(spark, f"{namespace}.by_sql")["routing-key"] == "name"
    rows.write.insertInto(f"{namespace}.by_sql")
    assert ids(spark.table(f"{namespace}.by_sql")) == [0, 1, 2]

    # What the default is, the session says.
    own = spark.newSession()
    own.conf.set("spark.sql.sources.default", "orc")
    own.sql(f"CREATE TABLE {namespace}.orc_is_nothing (id BIGINT) USING ORC")
    with pytest.raises(AnalysisException, match="USING parquet isn't possible"):
        own.sql(f"CREATE TABLE {namespace}.parquet_is (id BIGINT) USING parquet")


def test_functions_are_shown_where_the_catalog_is_the_current_one(spark: SparkSession, namespace: str) -> None:
    own = spark.newSession()
    own.sql(f"USE {namespace}")
    assert ("upper",) in own.sql("SHOW FUNCTIONS").collect()
    assert own.sql(f"SHOW USER FUNCTIONS IN {namespace}").collect() == []
    assert len(own.catalog.listFunctions()) > 100
    assert not own.catalog.functionExists("nope")
    assert own.sql("SELECT upper('a') AS a").collect() == [("A",)]
    with pytest.raises(AnalysisException, match="UNRESOLVED_ROUTINE"):
        own.sql("SELECT nope(1)")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        own.sql("SHOW FUNCTIONS IN pravega.no_such_scope").collect()
