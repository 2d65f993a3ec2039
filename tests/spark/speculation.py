"""A write whose slow tasks Spark runs a second time; prints what became of it as JSON."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark import TaskContext
from pyspark.sql import SparkSession
from transactions import open_transactions

import pyspark_pravega
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.settings import Settings


def slow_first_attempts(notes: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Hands rows on; the first attempts at two partitions take long to end, so that second ones begin.

    Each attempt leaves a file in the folder.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        (notes / f"{context.partitionId()}-{context.attemptNumber()}").touch()
        yield from batches
        if context.partitionId() in (1, 5) and context.attemptNumber() == 0:
            # Spark ends it when the second attempt has succeeded.
            time.sleep(60)

    return run


@contextmanager
def cluster() -> Iterator[str]:
    """Spark's own cluster with two workers on hosts of their own: on one host Spark runs no task twice at a time."""
    home = Path(pyspark.__file__).parent
    ports = []
    for _ in range(2):
        with socket.create_server(("127.0.0.1", 0)) as free:
            ports.append(free.getsockname()[1])
    master = f"spark://127.0.0.1:{ports[0]}"
    work = tempfile.mkdtemp()
    daemon = [str(home / "bin" / "spark-class"), "org.apache.spark.deploy"]
    commands = [
        [f"{daemon[1]}.master.Master", "--host", "127.0.0.1", "--port", str(ports[0]), "--webui-port", str(ports[1])],
        *(
            [
                f"{daemon[1]}.worker.Worker",
                "--host",
                host,
                "-c",
                "2",
                "-m",
                "1g",
                "-d",
                work,
                "--webui-port",
                "0",
                master,
            ]
            for host in ("127.0.0.2", "127.0.0.3")
        ),
    ]
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        for command in commands:
            process = subprocess.Popen([daemon[0], *command], env=environment, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        yield master


def main() -> None:
    """Run it."""
    with cluster() as master:
        run(master)


def run(master: str) -> None:
    """Write with slow tasks.

    Args:
        master: the cluster.
    """
    spark = (
        pyspark_pravega.configure(SparkSession.builder.master(master).appName("speculation"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.speculation", "true")
        .config("spark.speculation.interval", "200ms")
        .config("spark.speculation.multiplier", "1.2")
        .config("spark.speculation.quantile", "0.5")
        .config("spark.speculation.minTaskRuntime", "500ms")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS pravega.speculation")
    spark.sql("DROP TABLE IF EXISTS pravega.speculation.t")
    spark.sql("CREATE TABLE pravega.speculation.t (id BIGINT) CLUSTERED BY (id) INTO 4 BUCKETS")
    notes = Path(tempfile.mkdtemp())
    rows = spark.range(0, 8_000, 1, 8).mapInArrow(slow_first_attempts(notes), "id BIGINT")
    rows.writeTo("pravega.speculation.t").append()
    counted = spark.sql("SELECT count(*), count(DISTINCT id) FROM pravega.speculation.t").first()
    assert counted is not None
    speculative = sum(not note.name.endswith("-0") for note in notes.iterdir())
    shutil.rmtree(notes)
    with Client(Settings.resolve()) as client:
        left = open_transactions(client, Stream("speculation", "t"))
    found = {"speculative attempts": speculative, "rows": list(counted), "open transactions": left}
    print(json.dumps(found), flush=True)
    spark.sql("DROP NAMESPACE pravega.speculation CASCADE")
    spark.stop()


if __name__ == "__main__":
    main()
