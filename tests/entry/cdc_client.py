"""A client of Spark Connect that runs a pipeline with an AUTO CDC flow twice: its arguments are those of the test."""

from __future__ import annotations

import json
import random
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
    # Each number once, in an order of its own: many changes of the second run are older than those of the first one.
    chance = random.Random(7)
    changes = [(chance.randrange(12), number, chance.random() < 0.3) for number in range(60)]
    chance.shuffle(changes)
    seen: dict[str, Any] = {"rows": [], "wanted": []}
    for come in (30, 60):
        rows = [(id, f"v{n}", "delete" if gone else "upsert", n) for id, n, gone in changes[come - 30 : come]]
        for some in (rows[:10], rows[10:]):
            spark.sql(f"INSERT INTO cdc.changes VALUES {', '.join(map(str, some))}")
        ended(start(address, spec))
        seen["rows"].append({row.id: row.name for row in spark.sql("SELECT id, name FROM cdc.customers").collect()})
        last: dict[int, tuple[int, bool]] = {}
        for id, n, gone in changes[:come]:
            last[id] = max(last.get(id, (-1, True)), (n, gone))
        seen["wanted"].append({id: f"v{n}" for id, (n, gone) in last.items() if not gone})
    seen["tables"] = [row.tableName for row in spark.sql("SHOW TABLES IN cdc").collect()]
    spark.sql("DROP NAMESPACE cdc CASCADE")
    spark.stop()
    return seen


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
