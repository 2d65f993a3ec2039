"""A program that has Spark before it knows of Pravega, as in a shell or a notebook: `configure` comes late.

Argument: `there`, a session is there, or `stopped`, one has been stopped. It prints what it has read as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import pyspark_pravega


def main(way: str, checkpoint: str) -> None:
    builder: SparkSession.Builder = SparkSession.builder
    first = builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    assert first.range(3).count() == 3
    if way == "stopped":
        first.stop()
    # The JVM was started in another environment.
    os.environ["PRAVEGA_SHARED_MEMORY"] = "2m"
    session = pyspark_pravega.configure(SparkSession.builder).getOrCreate()
    assert (session is first) == (way == "there")
    assert [one.conf.get("spark.pravega.shared-memory") for one in (session, session.newSession())] == ["2m", "2m"]
    namespace, table = f"pravega.late_{way}", f"pravega.late_{way}.a"
    session.sql(f"CREATE NAMESPACE {namespace}")
    session.sql(f"CREATE TABLE {table} (id BIGINT, name STRING)")
    session.sql(f"INSERT INTO {table} VALUES (1, 'ann'), (2, NULL)")
    session.sql(f"CREATE TABLE {table}_copy LIKE {table}")
    rows: Any = session.readStream.table(table).writeStream.option("checkpointLocation", checkpoint)
    rows.trigger(availableNow=True).toTable(f"{table}_copy").awaitTermination()
    rows = session.sql(f"SELECT * FROM {table}_copy ORDER BY id").collect()
    print(json.dumps([list(row) for row in rows]))


if __name__ == "__main__":
    main(sys.argv[1], str(Path.cwd() / "checkpoint"))
