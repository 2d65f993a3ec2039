"""A client of Spark Connect that runs a pipeline with an AUTO CDC flow: its arguments are those of the test."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pipeline_client import ended, start
from pyspark.sql.connect.session import SparkSession

SPEC = """
name: customers
catalog: pravega
database: cdc
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""
FLOW = """
from pyspark import pipelines as dp

dp.create_streaming_table("customers", cluster_by=["id"], table_properties={"primary-key": "id"})
dp.create_auto_cdc_flow(
    target="customers",
    source="changes",
    keys=["id"],
    sequence_by="number",
    apply_as_deletes="operation = 'delete'",
    except_column_list=["operation", "number"],
    stored_as_scd_type=1,
)
"""


def main(address: str, folder: Path) -> dict[str, Any]:
    spark = SparkSession.builder.remote(address).getOrCreate()
    spark.sql("CREATE NAMESPACE cdc")
    spark.sql("CREATE TABLE cdc.changes (id BIGINT, name STRING, operation STRING, number BIGINT)")
    project = folder / "cdc"
    (project / "transformations").mkdir(parents=True)
    (project / "transformations" / "customers.py").write_text(FLOW)
    spec = project / "spark-pipeline.yml"
    spec.write_text(SPEC.format(storage=(folder / "cdc-storage").as_uri()))
    seen: dict[str, Any] = {}
    for changes in (
        "(1, 'a', 'upsert', 1), (2, 'b', 'upsert', 2), (1, 'late', 'upsert', 0), (3, 'c', 'upsert', 3)",
        "(2, 'b', 'delete', 5), (3, 'cc', 'upsert', 6), (2, 'too late', 'upsert', 4), (4, 'd', 'upsert', 7)",
    ):
        spark.sql(f"INSERT INTO cdc.changes VALUES {changes}")
    ended(start(address, spec))
    seen["rows"] = {row.id: row.name for row in spark.sql("SELECT id, name FROM cdc.customers").collect()}
    seen["tables"] = [row.tableName for row in spark.sql("SHOW TABLES IN cdc").collect()]
    spark.sql("DROP NAMESPACE cdc CASCADE")
    spark.stop()
    return seen


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
