"""Spark Connect: the catalog is in the server, the client is a Python process without a JVM."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
from entry_tools import FEW_TASKS, clean_environment, descendants, spark_server, wait_until_gone
from program_tools import answer_of

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn(8, whole=True)]

CLIENT = """
import sys
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import pyspark_pravega

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.sql("CREATE NAMESPACE by_connect")
spark.sql("USE by_connect")
spark.sql("CREATE TABLE t (id BIGINT, s STRING) CLUSTERED BY (s) INTO 2 BUCKETS")
spark.sql("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
spark.range(3, 5).selectExpr("id", "'more' AS s").writeTo("by_connect.t").append()
print(spark.catalog.currentCatalog(), [tuple(row) for row in spark.table("t").orderBy("id").collect()])
print(spark.sql("SELECT count(*) FROM t VERSION AS OF 1").first()[0])
spark.sql("CREATE TABLE large AS SELECT id, repeat('x', 500) AS s FROM range(6000)").collect()
for manner in ("0", "16m"):
    large = spark.read.option("shared-memory", manner).table("large")
    kept = [row.id for row, _ in zip(large.toLocalIterator(), range(3))]
    print(large.selectExpr("sum(id)", "sum(length(s))").first(), len(large.toPandas()), len(large.take(9)), len(kept))
try:
    spark.sql("DELETE FROM t WHERE id = 1").collect()
except AnalysisException as error:
    print(str(error).splitlines()[0])
for error in (None, ZeroDivisionError()):
    try:
        with pyspark_pravega.transaction(spark):
            spark.sql("INSERT INTO t VALUES (9, 'together')")
            spark.sql("INSERT INTO large SELECT id, s FROM t WHERE id = 9")
            if error is not None:
                raise error
    except ZeroDivisionError:
        pass
    print(spark.table("t").count(), spark.table("large").count())
spark.sql("DROP NAMESPACE by_connect CASCADE")
spark.stop()
"""


def nyc_flights() -> ModuleType:
    """The demo, which has the flights."""
    spec = importlib.util.spec_from_file_location(
        "nyc_flights", Path(__file__).parents[2] / "examples" / "nyc_flights.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with every fifth flight of the first three months."""
    folder = tmp_path_factory.mktemp("flights")
    with Path(nyc_flights().unpack(folder)["flights"]).open() as file:
        header = file.readline()
        lines = [line for line in file if line.split(",", 2)[1] in ("1", "2", "3")]
    few = folder / "few.csv"
    few.write_text(header + "".join(lines[::5]))
    return few


@pytest.fixture(scope="module")
def seen(connect: str, flights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Any]]]:
    """What the clients with pipelines see: they run at the same time, since neither has work for two cores."""
    programs = {"pipeline_client.py": [str(flights), nyc_flights().COLUMNS], "cdc_client.py": []}
    with ThreadPoolExecutor() as pool:
        answers = {}
        for name, more in programs.items():
            folder = tmp_path_factory.mktemp("pipeline")
            answers[name] = pool.submit(
                answer_of,
                Path(__file__).with_name(name),
                *[connect, str(folder), *more],
                environment=clean_environment({}),
                folder=folder,
                timeout_s=540,
            )
        yield answers


@pytest.mark.usefixtures("seen")  # whose pipelines run meanwhile
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
    rows, version, by_socket, in_memory, error, committed, rolled_back = process.stdout.splitlines()
    assert rows == "pravega [(1, 'one'), (2, 'two'), (3, 'more'), (4, 'more')]"
    assert version == "2"
    assert by_socket == in_memory == "Row(sum(id)=17997000, sum(length(s))=3000000) 6000 9 3"
    assert 'DELETE isn\'t possible on stream "by-connect/t"' in error
    assert committed == rolled_back == "5 6001"


@pytest.mark.since_spark("4.1")
def test_a_pipeline_runs_again_and_its_view_is_never_empty(seen: dict[str, Future[Any]], flights: Path) -> None:
    answer = seen["pipeline_client.py"].result()
    table = pd.read_csv(flights, usecols=["month", "carrier", "origin", "dep_time", "dep_delay"], na_values="NA")
    left = table[table.dep_time.notna()]

    def delays(months: int) -> list[Any]:
        by_carrier = left[left.month <= months].groupby("carrier").dep_delay.agg(["count", "mean"])
        return [
            [carrier, int(row["count"]), pytest.approx(row["mean"], abs=0.006)]
            for carrier, row in by_carrier.iterrows()
        ]

    assert answer["first"] == delays(2)
    assert answer["second"] == delays(3)
    assert answer["between"][0] == answer["first"]
    assert all(rows in (answer["first"], answer["second"]) for rows in answer["between"])
    assert answer["versions"] == [len(answer["first"]), len(answer["second"])]
    counted = left[left.month <= 3].origin.eq("JFK").value_counts()
    assert answer["departures"] == [counted[False], counted[True]]
    assert answer["key"] == "carrier"


@pytest.mark.since_spark("4.3")
def test_auto_cdc_keeps_the_last_rows_and_the_history_of_each_key(seen: dict[str, Future[Any]]) -> None:
    """SCD types 1 and 2 into tables with keys, against a dict: changes come late, delete, and change nothing; the
    pipeline is run again, after compactions, and with a full refresh.
    """
    answer = seen["cdc_client.py"].result()
    assert answer["rows"] == answer["wanted"]
    assert answer["one"] == [row for row in answer["wanted"][-1][1] if row[0] == 3]
    assert answer["key"] == "id,__spark_autocdc_metadata"
    rows, periods = answer["wanted"][0]
    assert answer["compacted"]["customers"] == len(rows)
    assert answer["compacted"]["history"] == len(periods)
    assert sorted(answer["compacted"]) == [
        "__spark_autocdc_aux_state_customers",
        "__spark_autocdc_aux_state_history",
        "customers",
        "history",
    ]
