"""A client of Spark Connect that runs `examples/pipelines` twice, and reads its materialized view meanwhile.

Its arguments: the server's address, a folder, the flights' file and columns. It prints what it has seen as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.pipelines import cli as pipelines
from pyspark.sql.connect.session import SparkSession

ROOT = Path(__file__).parents[2]


def start(address: str, spec: Path, *more: str) -> subprocess.Popen[str]:
    """Run the pipeline once, by Spark's script, with more arguments."""
    home = str(Path(pyspark.__file__).parent)
    environment = {**os.environ, "SPARK_HOME": home, "PYSPARK_PYTHON": sys.executable}
    return _run([f"{home}/bin/spark-pipelines", "--remote", address], environment, spec, *more)


def start_sooner(address: str, spec: Path, *more: str) -> subprocess.Popen[str]:
    """The same by the program that the script runs, which needs no JVM."""
    environment = {**os.environ, "SPARK_REMOTE": address, "SPARK_CONNECT_MODE_ENABLED": "1"}
    return _run([sys.executable, pipelines.__file__], environment, spec, *more)


def run_here(address: str, spec: Path, *, full_refresh_all: bool = False) -> SparkSession:
    """The same in this process, which saves the start of another one. It takes this process's session, and stops it.

    Returns:
        A new session.
    """
    os.environ.update(SPARK_REMOTE=address, SPARK_CONNECT_MODE_ENABLED="1")
    pipelines.run(spec, full_refresh=[], full_refresh_all=full_refresh_all, refresh=[], dry=False)
    return SparkSession.builder.remote(address).getOrCreate()


def _run(command: Sequence[str], environment: Mapping[str, str], spec: Path, *more: str) -> subprocess.Popen[str]:
    command = [*command, "run", "--spec", str(spec), *more]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=spec.parent
    )


def ended(pipeline: subprocess.Popen[str]) -> None:
    output, _ = pipeline.communicate(timeout=300)
    assert pipeline.returncode == 0, output[-5000:]


def main(address: str, folder: Path, flights: str, columns: str) -> dict[str, Any]:
    spark = SparkSession.builder.remote(address).getOrCreate()
    spark.sql("CREATE NAMESPACE nyc")
    spark.sql(f"CREATE TABLE nyc.flights ({columns}) CLUSTERED BY (carrier) INTO 2 BUCKETS")
    rows = spark.read.csv(flights, schema=columns, header=True, nullValue="NA")
    rows.where("month <= 2").writeTo("nyc.flights").append()

    project = folder / "project"
    shutil.copytree(ROOT / "examples" / "pipelines", project)
    spec = project / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/pravega-pipelines", (folder / "storage").as_uri()))

    def delays() -> list[Any]:
        while True:
            try:
                rows = spark.sql("SELECT carrier, departures, delay FROM nyc.delays ORDER BY carrier").collect()
            except PySparkException as error:
                # It was planned with the old rows, and they were removed before it came to read them.
                if "truncated while they were read" not in str(error):
                    raise
                continue
            return [list(row) for row in rows]

    ended(start(address, spec))
    seen: dict[str, Any] = {"first": delays(), "between": []}
    rows.where("month = 3").writeTo("nyc.flights").append()
    second = start_sooner(address, spec)
    while second.poll() is None:
        now = delays()
        if not seen["between"] or seen["between"][-1] != now:
            seen["between"].append(now)
        time.sleep(0.05)
    ended(second)
    seen["second"] = delays()
    versions = spark.sql("SELECT rows FROM nyc.`delays$commits` ORDER BY version").collect()
    seen["versions"] = [row.rows for row in versions]
    of_flows = spark.sql("SELECT origin = 'JFK' AS jfk, count(*) AS n FROM nyc.departures GROUP BY 1 ORDER BY 1")
    seen["departures"] = [row.n for row in of_flows.collect()]
    seen["key"] = spark.sql("SHOW TBLPROPERTIES nyc.departures ('routing-key')").collect()[0].value
    spark.sql("DROP NAMESPACE nyc CASCADE")
    spark.stop()
    return seen


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])))
