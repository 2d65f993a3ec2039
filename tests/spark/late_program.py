"""A program that has a Spark session before it knows of Pravega, as in a shell or a notebook: `configure` comes late.

Spark reaches its workers by Unix sockets here. It prints what it has read, and how many catalog processes there are, as
JSON. Then it stops the session and begins anew. That a session has been stopped before the program knew of Pravega is
shown by `metrics_program.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import pyspark_pravega


def configured_late(builder: SparkSession.Builder) -> SparkSession:
    """What `configure` makes of a JVM that was started in another environment."""
    os.environ["PRAVEGA_SHARED_MEMORY"] = "2m"
    session = pyspark_pravega.configure(builder).getOrCreate()
    assert [one.conf.get("spark.pravega.shared-memory") for one in (session, session.newSession())] == ["2m", "2m"]
    return session


def catalog_processes(session: SparkSession, namespace: str) -> int:
    """How many this JVM has, when a catalog with the same options is used, too. The namespace has two tables."""
    own = session.sparkContext.getConf()
    for key, value in {**dict(own.getAll()), **dict(session.conf.getAll.items())}.items():
        if key.startswith("spark.sql.catalog.pravega"):
            session.conf.set(key.replace("pravega", "other", 1), value)
    assert session.sql(f"SHOW TABLES IN other.{namespace}").count() == 2
    jvm: Any = session._jvm
    command = ["ps", "-ww", "-o", "args=", "--ppid", str(jvm.java.lang.ProcessHandle.current().pid())]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return listed.count("pyspark_pravega.catalog.process.service")


def main(checkpoint: str) -> None:
    builder: SparkSession.Builder = SparkSession.builder
    builder = builder.master("local[2]").config("spark.python.unix.domain.socket.enabled", "true")
    first = builder.config("spark.ui.enabled", "false").getOrCreate()
    assert first.range(3).count() == 3
    session = configured_late(SparkSession.builder)
    assert session is first
    table = "pravega.late.a"
    session.sql("CREATE NAMESPACE pravega.late")
    session.sql(f"CREATE TABLE {table} (id BIGINT, name STRING)")
    session.sql(f"INSERT INTO {table} VALUES (1, 'ann'), (2, NULL)")
    session.sql(f"CREATE TABLE {table}_copy (id BIGINT, name STRING)")
    rows: Any = session.readStream.table(table).writeStream.option("checkpointLocation", checkpoint)
    rows.trigger(availableNow=True).toTable(f"{table}_copy").awaitTermination()
    rows = session.sql(f"SELECT * FROM {table}_copy ORDER BY id").collect()
    answer = [[list(row) for row in rows], catalog_processes(session, "late")]
    # The JVM has the classes by now, but another context's executors have not.
    session.stop()
    builder.getOrCreate()
    again = configured_late(SparkSession.builder)
    assert "pyspark-pravega" in again.sparkContext._jsc.sc().listJars().toString()
    print(json.dumps(answer))


if __name__ == "__main__":
    main(str(Path.cwd() / "checkpoint"))
