"""A client of Spark Connect for the pipeline of `cdc_client.py`, one step at a time, so that the server can be killed
between them and within them.

Its arguments: the server's address, a folder, the step, and how many changes there are: `begin` makes tables and
project, `insert` writes the changes that aren't there yet, `run` runs the pipeline, `look` prints rows and periods, as
they are and as they should be.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import astuple
from pathlib import Path

from cdc_client import FLOWS, SPEC, Change, history, last_rows
from pipeline_client import ended, start_sooner
from pyspark.sql.connect.session import SparkSession

GENERATED = """
configuration:
  spark.sql.codegen.wholeStage: "true"
  spark.sql.codegen.factoryMode: FALLBACK
"""
"""The server itself does without generated code, as all programs that tests start (tests/conftest.py)."""
ALL = 400


def all_changes() -> list[Change]:
    """Each number once, in an order of its own."""
    chance = random.Random(19)
    changes = [
        Change(chance.randrange(7), number, chance.random() < 0.25, f"name {chance.randrange(2)}", f"note {number}")
        for number in range(ALL)
    ]
    chance.shuffle(changes)
    return changes


def main(address: str, folder: Path, step: str, count: int) -> None:
    spec = folder / "cdc" / "spark-pipeline.yml"
    if step == "run":
        ended(start_sooner(address, spec))
        return
    spark = SparkSession.builder.remote(address).getOrCreate()
    changes = all_changes()[:count]
    if step == "begin":
        spark.sql("CREATE NAMESPACE cdc")
        spark.sql("CREATE TABLE cdc.changes (id BIGINT, name STRING, note STRING, operation STRING, number BIGINT)")
        (spec.parent / "transformations").mkdir(parents=True)
        (spec.parent / "transformations" / "customers.py").write_text(FLOWS)
        spec.write_text(SPEC.format(storage=(folder / "cdc-storage").as_uri()) + GENERATED)
    elif step == "insert":
        known = spark.table("cdc.changes").count()
        spark.sql(f"INSERT INTO cdc.changes VALUES {', '.join(change.row for change in changes[known:])}")
    else:
        rows = {row.id: [row.name, row.note] for row in spark.sql("SELECT id, name, note FROM cdc.customers").collect()}
        periods = spark.sql("SELECT id, name, note, __START_AT, __END_AT FROM cdc.history ORDER BY id, __START_AT")
        wanted = {"rows": last_rows(changes), "periods": [astuple(period) for period in history(changes)]}
        print(json.dumps([{"rows": rows, "periods": [list(row) for row in periods.collect()]}, wanted], sort_keys=True))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
