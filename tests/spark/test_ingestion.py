"""The ingestion of files (examples/ingest_files.py), killed at random moments: every record is there once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from transactions import open_transactions

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.ledger import open_ledger
from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.timeout(1800)]

PROGRAM = Path(__file__).parents[2] / "examples" / "ingest_files.py"
SPARK = "--master local[2] --driver-memory 512m --conf spark.ui.enabled=false pyspark-shell"
FILES, RECORDS = 30, 40
KILLS = int(os.environ.get("INGESTION_KILLS", "2"))
SEED = int(os.environ.get("INGESTION_SEED", str(random.randrange(1000))))


def start(sandbox: Sandbox, folder: Path, table: str, log: Path, *more: str) -> subprocess.Popen[bytes]:
    places = ["--files", str(folder / "files"), "--checkpoint", str(folder / "checkpoint"), "--table", table]
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, str(PROGRAM), *places, *more],
            env={
                **os.environ,
                **sandbox.environment(),
                "PYSPARK_SUBMIT_ARGS": SPARK,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def members(session: int) -> list[tuple[int, bytes]]:
    """The processes of a program that was started as a session of its own, and their commands."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                found.append((int(process.name), (process / "cmdline").read_bytes()))
        except (OSError, ValueError, IndexError):
            continue
    return found


def kill_something(chance: random.Random, program: subprocess.Popen[bytes]) -> None:
    """The whole program, or its Spark driver, its catalog process or a worker."""
    own = members(program.pid)
    kinds = {"java": b"java", "catalog": b"pyspark_pravega.catalog", "worker": b"pyspark.daemon"}
    victim = chance.choice(["all", *kinds])
    for pid, command in own:
        if victim == "all" or kinds[victim] in command:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def add_file(files: Path, file: int) -> None:
    staged = files.parent / "staged.json"
    staged.write_text("\n".join(json.dumps({"file": file, "number": number}) for number in range(RECORDS)))
    staged.rename(files / f"{file:03d}.json")


def end(program: subprocess.Popen[bytes]) -> None:
    for pid, _ in members(program.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    program.wait()


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


def test_of_two_drivers_on_one_checkpoint_one_fails_and_says_why(
    spark: SparkSession, sandbox: Sandbox, client: Client, namespace: str, tmp_path: Path
) -> None:
    table, files = f"{namespace}.contested", tmp_path / "files"
    spark.sql(f"CREATE TABLE {table} (file INT, number INT) CLUSTERED BY (file) INTO 4 BUCKETS")
    files.mkdir()
    stream = Stream(namespace.removeprefix("pravega.").replace("_", "-"), "contested")
    programs = []
    made = 0
    try:
        for name in ("first", "second"):
            programs.append(start(sandbox, tmp_path, table, tmp_path / name))
            ledger = open_ledger(client, stream)
            assert ledger is not None
            reached = ledger.state().version
            while ledger.state().version <= reached:
                # New files all the time, so that both have something to write.
                add_file(files, made)
                made += 1
                time.sleep(0.5)
                assert made < 600
        while all(program.poll() is None for program in programs):
            add_file(files, made)
            made += 1
            time.sleep(0.5)
            assert made < 600
    finally:
        said = [(tmp_path / name).read_text(errors="replace") for name in ("first", "second")[: len(programs)]]
        for program in programs:
            end(program)
    # Ours, or Spark's own, which comes with its class or without.
    sentences = (
        "another driver has taken over streaming query",
        "CONCURRENT_STREAM_LOG_UPDATE",
        "Multiple streaming jobs detected",
    )
    assert any(sentence in text for text in said for sentence in sentences), said[0][-2000:] + said[1][-2000:]

    last = start(sandbox, tmp_path, table, tmp_path / "last", "--once")
    assert last.wait(600) == 0
    counted = spark.sql(f"SELECT count(*), count(DISTINCT file * 1000 + number) FROM {table}").first()
    assert counted == (made * RECORDS, made * RECORDS)
