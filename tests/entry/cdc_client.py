"""A client of Spark Connect that runs a pipeline with two AUTO CDC flows, of SCD type 1 and 2, from one stream of
changes: twice as changes come, once with a compaction between, and once with a full refresh. Its arguments are those
of the test.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from pipeline_client import run_here
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
PLANNED_ONCE = """
configuration:
  spark.sql.adaptive.enabled: "false"
  spark.sql.shuffle.partitions: "1"
"""
"""Each run plans long statements. To plan them again after each of their stages, with a text of the whole plan each
time, takes a good part of the server's CPU. `cdc_steps.py` does so, with several tasks in each stage, too.
"""
FLOWS = """
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

dp.create_streaming_table("history", cluster_by=["id"], table_properties={"primary-key": "id"})
dp.create_auto_cdc_flow(
    target="history",
    source="changes",
    keys=["id"],
    sequence_by="number",
    apply_as_deletes="operation = 'delete'",
    except_column_list=["operation", "number"],
    track_history_except_column_list=["note"],
    stored_as_scd_type=2,
)
"""
RUN = 40
"""Changes that come before each run."""


@dataclass(frozen=True)
class Change:
    """What happened to a customer."""

    id: int
    number: int
    deletes: bool
    name: str
    note: str

    @property
    def row(self) -> str:
        operation = "delete" if self.deletes else "upsert"
        return f"({self.id}, '{self.name}', '{self.note}', '{operation}', {self.number})"


@dataclass
class Period:
    """A row of the history: while the name was the same; the note is the last one."""

    id: int
    name: str
    note: str
    begin: int
    end: int | None = None


def history(changes: list[Change]) -> list[Period]:
    """The periods of all names."""
    periods: list[Period] = []
    for id in sorted({change.id for change in changes}):
        period: Period | None = None
        for change in sorted((c for c in changes if c.id == id), key=lambda c: c.number):
            if period is not None and not change.deletes and change.name == period.name:
                period.note = change.note
                continue
            if period is not None:
                period.end = change.number
            period = None if change.deletes else Period(id, change.name, change.note, change.number)
            if period is not None:
                periods.append(period)
    return periods


def last_rows(changes: list[Change]) -> dict[int, tuple[str, str]]:
    """The rows that are left: name and note by id."""
    last = {change.id: change for change in sorted(changes, key=lambda c: c.number)}
    return {id: (change.name, change.note) for id, change in last.items() if not change.deletes}


def main(address: str, folder: Path) -> dict[str, Any]:
    spark = SparkSession.builder.remote(address).getOrCreate()
    spark.sql("CREATE NAMESPACE cdc")
    spark.sql("CREATE TABLE cdc.changes (id BIGINT, name STRING, note STRING, operation STRING, number BIGINT)")
    project = folder / "cdc"
    (project / "transformations").mkdir(parents=True)
    (project / "transformations" / "customers.py").write_text(FLOWS)
    spec = project / "spark-pipeline.yml"
    spec.write_text(SPEC.format(storage=(folder / "cdc-storage").as_uri()) + PLANNED_ONCE)
    # Each number once, in an order of its own: many changes of a run are older than those of the runs before. There are
    # few names, so that some change nothing that the history tracks.
    chance = random.Random(7)
    changes = [
        Change(chance.randrange(7), number, chance.random() < 0.25, f"name {chance.randrange(2)}", f"note {number}")
        for number in range(2 * RUN)
    ]
    chance.shuffle(changes)
    seen: dict[str, Any] = {"rows": [], "wanted": []}

    def look(known: list[Change]) -> None:
        rows = {row.id: [row.name, row.note] for row in spark.sql("SELECT id, name, note FROM cdc.customers").collect()}
        periods = spark.sql("SELECT id, name, note, __START_AT, __END_AT FROM cdc.history ORDER BY id, __START_AT")
        seen["rows"].append([rows, [list(row) for row in periods.collect()]])
        seen["wanted"].append([last_rows(known), [astuple(period) for period in history(known)]])

    for come in range(RUN, 2 * RUN + 1, RUN):
        for some in (changes[come - RUN : come - 10], changes[come - 10 : come]):
            spark.sql(f"INSERT INTO cdc.changes VALUES {', '.join(change.row for change in some)}")
        spark = run_here(address, spec)
        look(changes[:come])
        if come == RUN:
            tables = [row.tableName for row in spark.sql("SHOW TABLES IN cdc").collect() if row.tableName != "changes"]
            seen["compacted"] = {
                table: spark.sql(f"CALL pravega.system.compact(table => 'cdc.{table}')").collect()[0].rows
                for table in tables
            }
    spark = run_here(address, spec, full_refresh_all=True)
    look(changes)
    seen["one"] = [
        list(row)
        for row in spark.sql(
            "SELECT id, name, note, __START_AT, __END_AT FROM cdc.history WHERE id = 3 ORDER BY __START_AT"
        ).collect()
    ]
    seen["key"] = spark.sql("SHOW TBLPROPERTIES cdc.history ('primary-key')").collect()[0].value
    spark.sql("DROP NAMESPACE cdc CASCADE")
    spark.stop()
    return seen


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
