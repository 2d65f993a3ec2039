"""Spark Connect: the catalog is in the server, the client is a Python process without a JVM."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from entry_tools import CLI, clean_environment, descendants, wait_until_gone

from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.sandbox.ports import free_ports, is_free
from pyspark_pravega.sql.commands import spark_program

pytestmark = [pytest.mark.server, pytest.mark.spark]

_START_S = 180
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
    """The address of a Connect server that was started by spark-submit with what `pravega-spark config` says."""
    folder = tmp_path_factory.mktemp("connect")
    environment = clean_environment(sandbox.environment())
    flags = subprocess.run([*CLI, "config"], env=environment, capture_output=True, text=True, check=True).stdout.split()
    (port,) = free_ports(1)
    conf = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.sql.defaultCatalog": "pravega",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    command = [spark_program("spark-submit"), "--master", "local[2]", *flags]
    command += [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + _START_S
        while is_free(port):
            assert process.poll() is None, (folder / "server.log").read_text()[-5000:]
            assert time.monotonic() < deadline, (folder / "server.log").read_text()[-5000:]
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
        processes = descendants(process.pid)
        assert any("pyspark_pravega.catalog.process.service" in command for command in processes.values())
    finally:
        process.terminate()
        process.wait(60)
    wait_until_gone(processes)


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
