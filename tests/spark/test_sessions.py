"""Many sessions at once share one catalog process, and see what each other has changed."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from program_tools import answer_of
from pyspark.sql import Row, SparkSession
from since import is_missing

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn]

SESSIONS, STATEMENTS = 24, 12
VIEW = "TEMPORARY VIEW" if is_missing("4.2") else "VIEW"


def catalog_processes(spark: SparkSession) -> set[str]:
    """The process ids of this JVM's catalog processes; other tests' catalogs have theirs."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    pid = jvm.java.lang.ProcessHandle.current().pid()
    command = ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(pid)]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    return {line.split()[0] for line in listed.stdout.splitlines() if "pyspark_pravega.catalog.process.service" in line}


def test_many_sessions_share_one_process(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.shared (id BIGINT)")
    spark.sql(f"INSERT INTO {namespace}.shared VALUES (1)")
    before = catalog_processes(spark)

    def session(number: int) -> int:
        own = spark.newSession()
        own.sql(f"USE {namespace}")
        statements = [
            f"CREATE {VIEW} v{number} AS SELECT id FROM shared",
            f"DESCRIBE v{number}",
            "SHOW TABLES",
            "DESCRIBE EXTENDED shared",
            "SHOW TBLPROPERTIES shared",
            "SELECT epoch FROM `shared$epochs`",
            "SELECT version, rows FROM `shared$commits`",
            "SHOW COLUMNS IN shared",
            "SHOW NAMESPACES IN pravega",
        ]
        answered = 0
        for statement in (*statements, "SHOW CATALOGS" if is_missing("4.2") else "SHOW VIEWS", f"DROP VIEW v{number}"):
            own.sql(statement).collect()
            answered += 1
        assert own.sql("SELECT rows FROM `shared$commits`").collect() == [Row(rows=1)]
        return answered + 1

    with ThreadPoolExecutor(SESSIONS) as threads:
        assert list(threads.map(session, range(SESSIONS))) == [STATEMENTS] * SESSIONS
    assert before
    # Those of other tests' sessions may end meanwhile.
    assert catalog_processes(spark) <= before
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace}").collect()] == ["shared"]


def test_a_statement_sees_what_another_session_has_changed(spark: SparkSession, namespace: str) -> None:
    one, other = spark.newSession(), spark.newSession()
    for number in range(5):
        one.sql(f"CREATE OR REPLACE TABLE {namespace}.t (a{number} INT, b STRING)")
        assert other.table(f"{namespace}.t").columns == [f"a{number}", "b"]
        one.sql(f"ALTER TABLE {namespace}.t ADD COLUMN c INT")
        assert other.table(f"{namespace}.t").columns == [f"a{number}", "b", "c"]


@pytest.mark.in_turn(8)
def test_configure_comes_late(sandbox: Sandbox, tmp_path: Path) -> None:
    """In a shell or a notebook Spark is often there before this package is. Its session is there, too; one that has
    been stopped is in `test_metric_sources.py`.

    Beside it: workers may be reached by Unix sockets, and what the environment says of reads makes no second catalog
    process.
    """
    environment = {**os.environ, **sandbox.environment(), "PRAVEGA_SHARED_MEMORY": "1m"}
    environment.pop("PYSPARK_PYTHON", None)
    answer = answer_of(Path(__file__).with_name("late_program.py"), environment=environment, folder=tmp_path)
    assert answer == [[[1, "ann"], [2, None]], 1]
