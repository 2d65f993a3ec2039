"""A program that has Spark before it knows of Pravega, as in a shell or a notebook: `configure` comes late.

Arguments: `there`, a session is there, or `stopped`, one has been stopped; and `true` or `false`, whether Spark reaches
its workers by Unix sockets. It prints what it has read, and how many catalog processes there are, as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import pyspark_pravega


def main(way: str, unix_sockets: str, checkpoint: str) -> None:
    builder: SparkSession.Builder = SparkSession.builder
    builder = builder.master("local[2]").config("spark.python.unix.domain.socket.enabled", unix_sockets)
    first = builder.config("spark.ui.enabled", "false").getOrCreate()
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
    # A catalog with the same options.
    own = session.sparkContext.getConf()
    for key, value in {**dict(own.getAll()), **dict(session.conf.getAll.items())}.items():
        if key.startswith("spark.sql.catalog.pravega"):
            session.conf.set(key.replace("pravega", "other", 1), value)
    assert session.sql(f"SHOW TABLES IN other.late_{way}").count() == 2
    jvm: Any = session._jvm
    command = ["ps", "-ww", "-o", "args=", "--ppid", str(jvm.java.lang.ProcessHandle.current().pid())]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    print(json.dumps([[list(row) for row in rows], listed.count("pyspark_pravega.catalog.process.service")]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], str(Path.cwd() / "checkpoint"))
