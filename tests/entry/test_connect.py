"""Spark Connect: the catalog is in the server, the client is a Python process without a JVM."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from entry_tools import FEW_TASKS, clean_environment, descendants, spark_server, wait_until_gone

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark]

CLIENT = """
import sys
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.sql("CREATE NAMESPACE by_connect")
spark.sql("USE by_connect")
spark.sql("CREATE TABLE t (id BIGINT, s STRING) CLUSTERED BY (s) INTO 2 BUCKETS")
spark.sql("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
spark.range(3, 5).selectExpr("id", "'more' AS s").writeTo("by_connect.t").append()
print(spark.catalog.currentCatalog(), [tuple(row) for row in spark.table("t").orderBy("id").collect()])
print(spark.sql("SELECT count(*) FROM t VERSION AS OF 1").first()[0])
try:
    spark.sql("DELETE FROM t WHERE id = 1").collect()
except AnalysisException as error:
    print(str(error).splitlines()[0])
spark.sql("DROP NAMESPACE by_connect CASCADE")
spark.stop()
"""


@pytest.fixture(scope="module")
def connect(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running `pravega-spark connect`, which must leave neither processes nor files."""
    folder = tmp_path_factory.mktemp("connect")
    with spark_server("connect", sandbox.environment(), folder, *FEW_TASKS) as running:
        yield running.url
        processes = descendants(running.process.pid)
        assert any("pyspark_pravega.catalog.process.service" in command for command in processes.values())
        assert running.stop() == 0
    wait_until_gone(processes)
    assert list((folder / "home").iterdir()) == []


def test_a_client_without_a_jvm(connect: str, tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", CLIENT, connect],
        env=clean_environment({}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr[-5000:]
    rows, version, error = process.stdout.splitlines()
    assert rows == "pravega [(1, 'one'), (2, 'two'), (3, 'more'), (4, 'more')]"
    assert version == "2"
    assert 'DELETE isn\'t possible on stream "by-connect/t"' in error
