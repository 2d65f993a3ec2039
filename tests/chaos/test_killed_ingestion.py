"""The ingestion of files (examples/ingest_files.py), killed at random moments: every record is there once.

INGESTION_KILLS says how often, INGESTION_SEED when and what.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from ingestion_tools import FILES, RECORDS, add_file, end, members, start
from pyspark.sql import SparkSession
from transactions import open_transactions

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.timeout(1800)]

KILLS = int(os.environ.get("INGESTION_KILLS", "2"))
SEED = int(os.environ.get("INGESTION_SEED", "0"))


def kill_something(chance: random.Random, program: subprocess.Popen[bytes]) -> None:
    """The whole program, or its Spark driver, its catalog process or a worker."""
    own = members(program.pid)
    kinds = {"java": b"java", "catalog": b"process.service", "worker": b"process.daemon"}
    victim = chance.choice(["all", *kinds])
    for pid, command in own:
        if victim == "all" or kinds[victim] in command:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def test_every_record_is_there_once_though_the_program_is_killed(
    spark: SparkSession, sandbox: Sandbox, client: Client, namespace: str, tmp_path: Path
) -> None:
    print(f"INGESTION_SEED={SEED} repeats it, as far as time can be repeated")
    chance, table, files = random.Random(SEED), f"{namespace}.ingested", tmp_path / "files"
    spark.sql(f"CREATE TABLE {table} (file INT, number INT) CLUSTERED BY (file) INTO 4 BUCKETS")
    files.mkdir()
    for file in range(FILES):
        add_file(files, file)

    stream, log = Stream(namespace.removeprefix("pravega.").replace("_", "-"), "ingested"), tmp_path / "log"

    def versions() -> int:
        ledger = open_ledger(client, stream)
        assert ledger is not None
        return ledger.state().version

    for _ in range(KILLS):
        reached, program = versions(), start(sandbox, tmp_path, table, log, "--once")
        while program.poll() is None and versions() <= reached:
            time.sleep(0.02)
        time.sleep(chance.random() * 1.5)
        kill_something(chance, program)
        # Whatever has survived goes on, or fails for want of the others; it is restarted in any case.
        time.sleep(chance.random())
        end(program)
    killed_at = versions()
    last = start(sandbox, tmp_path, table, log, "--once")
    assert last.wait(600) == 0, log.read_text(errors="replace")[-5000:]

    counted = spark.sql(f"SELECT count(*), count(DISTINCT file * 1000 + number) FROM {table}").first()
    assert counted == (FILES * RECORDS, FILES * RECORDS)
    torn = spark.sql(f"SELECT file FROM {table} GROUP BY file HAVING count(*) <> {RECORDS}").collect()
    assert torn == []
    # An epoch is one commit. It is of one file, or of two if Spark died between noting a file and noting its epoch.
    epochs = [path.name for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name.isdecimal()]
    assert versions() == len(epochs)
    assert FILES - KILLS <= versions() <= FILES
    assert killed_at > 0
    assert len(open_transactions(client, stream)) <= KILLS * 2
