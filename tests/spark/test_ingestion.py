"""The ingestion of files (examples/ingest_files.py) by two drivers at once; tests/chaos kills it."""

from __future__ import annotations

import runpy
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ingestion_tools import PROGRAM, RECORDS, add_file, command, end, forget_an_offset_that_goes_back, start
from pyspark.sql import SparkSession

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.timeout(1800)]


@pytest.mark.in_turn(8)
def test_of_two_drivers_on_one_checkpoint_one_fails_and_says_why(
    spark: SparkSession,
    sandbox: Sandbox,
    client: Client,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, files = f"{namespace}.contested", tmp_path / "files"
    spark.sql(f"CREATE TABLE {table} (file INT, number INT) CLUSTERED BY (file) INTO 4 BUCKETS")
    files.mkdir()
    stream = Stream(namespace.removeprefix("pravega.").replace("_", "-"), "contested")
    for name, value in sandbox.environment().items():
        monkeypatch.setenv(name, value)
    made = 0

    def add_another() -> None:
        # New files all the time, so that both have something to write.
        nonlocal made
        add_file(files, made)
        made += 1
        time.sleep(0.5)
        assert made < 600

    def version() -> int:
        ledger = open_ledger(client, stream)
        assert ledger is not None
        return ledger.state().version

    # The first driver is this process, whose session is there already; the second one is a program of its own.
    monkeypatch.setattr(sys, "argv", command(tmp_path, table))
    queries = {query.id for query in spark.streams.active}
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(runpy.run_path(str(PROGRAM))["main"])
        second = None
        try:
            for starts in (False, True):
                if starts:
                    second = start(sandbox, tmp_path, table, tmp_path / "second")
                reached = version()
                while version() <= reached and not first.done():
                    add_another()
            assert second is not None
            while not first.done() and second.poll() is None:
                add_another()
        finally:
            if second is not None:
                end(second)
            while not first.done():
                for query in spark.streams.active:
                    if query.id not in queries:
                        query.stop()
                time.sleep(0.1)
    assert second is not None
    said = [str(first.exception()), (tmp_path / "second").read_text(errors="replace")]
    # Ours, or Spark's own: of the query's two logs (with its class or without), of the files that its source saw.
    sentences = (
        "another driver has taken over streaming query",
        "CONCURRENT_STREAM_LOG_UPDATE",
        "Multiple streaming jobs detected",
        "Multiple streaming queries are concurrently using",
    )
    assert any(sentence in text for text in said for sentence in sentences), said[0][-2000:] + said[1][-2000:]

    forget_an_offset_that_goes_back(tmp_path / "checkpoint")
    # A third driver goes on, this process again.
    monkeypatch.setattr(sys, "argv", command(tmp_path, table, "--once"))
    runpy.run_path(str(PROGRAM), run_name="__main__")
    counted = spark.sql(f"SELECT count(*), count(DISTINCT file * 1000 + number) FROM {table}").first()
    assert counted == (made * RECORDS, made * RECORDS)
