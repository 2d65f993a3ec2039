"""3 GB in a sandbox with 1 GB of heap, whose servers are killed while a streaming query copies them.

All rows have to be in both tables, once each: what is there is compared with sums that Spark makes without Pravega.
`python tests/tools/durable_gigabytes.py [--rows 3000000] [--heap 1g]`; it takes about 10 minutes and 10 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from pyspark_pravega import configure
from pyspark_pravega.sandbox.processes import ProcessId

ROW = "id, CAST(id % 1000 AS INT) k, repeat(md5(CAST(id AS STRING)), 32) s"
SUMS = "count(*), count(DISTINCT id), sum(id), sum(k), sum(xxhash64(id, k, s) % 1000003)"


def command(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pyspark_pravega.cli", "sandbox", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"sandbox {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def kill_servers(folder: Path) -> None:
    for process in json.loads((folder / "sandbox.json").read_text())["servers"].values():
        ProcessId(**process).send(signal.SIGKILL)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--rows", type=int, default=3_000_000, help="of 1,036 bytes each")
    arguments.add_argument("--heap", default="1g")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="durable-gigabytes-") as temporary:
        folder = Path(temporary) / "sandbox"
        start = ("start", "--detach", "--heap", given.heap, "--data-dir", str(folder))
        command(*start)
        try:
            return run(given.rows, folder, Path(temporary) / "checkpoint", start)
        finally:
            command("stop", "--data-dir", str(folder))


def run(rows: int, folder: Path, checkpoint: Path, start: tuple[str, ...]) -> int:
    exports = command("status", "--env", "--data-dir", str(folder)).splitlines()
    environment = dict(line.removeprefix("export ").split("=", 1) for line in exports)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = configure(
        builder,
        controller=environment["PRAVEGA_CONTROLLER_URI"],
        schema_registry=environment["PRAVEGA_SCHEMA_REGISTRY_URI"],
    ).getOrCreate()
    spark.sql("CREATE NAMESPACE pravega.big")
    for table in ("rows", "copied"):
        spark.sql(f"CREATE TABLE pravega.big.{table} (id BIGINT, k INT, s STRING) CLUSTERED BY (id) INTO 4 BUCKETS")
    expected = spark.sql(f"SELECT {SUMS} FROM (SELECT {ROW} FROM range({rows}))").collect()

    began = time.monotonic()
    spark.sql(f"INSERT INTO pravega.big.rows SELECT {ROW} FROM range(0, {rows}, 1, 4)")
    print(f"INSERT of {rows * 1036 / 1e9:.1f} GB: {time.monotonic() - began:.0f} s", flush=True)
    print(command("status", "--data-dir", str(folder)), flush=True)

    reading = spark.readStream.option("maxBytesPerTrigger", "200m").table("pravega.big.rows")
    query = reading.writeStream.option("checkpointLocation", str(checkpoint)).toTable("pravega.big.copied")
    while query.lastProgress is None or query.lastProgress["batchId"] < 3:
        query.awaitTermination(1)
    kill_servers(folder)
    killed = time.monotonic()
    command(*start)
    print(
        f"killed in micro-batch {query.lastProgress['batchId'] + 1}, and started in {time.monotonic() - killed:.0f} s",
        flush=True,
    )
    began = time.monotonic()
    query.processAllAvailable()
    print(f"the query that was running went on: {time.monotonic() - began:.0f} s", flush=True)
    query.stop()

    wrong = 0
    for table in ("rows", "copied"):
        began = time.monotonic()
        found = spark.sql(f"SELECT {SUMS} FROM pravega.big.{table}").collect()
        print(f"{table}: {found[0]}, read in {time.monotonic() - began:.0f} s", flush=True)
        wrong += found != expected
    print(command("status", "--data-dir", str(folder)))
    print("all is there, once each" if not wrong else f"expected {expected[0]}")
    return wrong


if __name__ == "__main__":
    raise SystemExit(main())
