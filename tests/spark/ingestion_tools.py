"""The ingestion of files (examples/ingest_files.py) as a program of its own, and what it reads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from pyspark_pravega.sandbox import Sandbox

PROGRAM = Path(__file__).parents[2] / "examples" / "ingest_files.py"
SPARK = "--master local[2] --driver-memory 512m --conf spark.ui.enabled=false pyspark-shell"
FILES, RECORDS = 30, 40


def command(folder: Path, table: str, *more: str) -> list[str]:
    """The program and its arguments."""
    places = ["--files", str(folder / "files"), "--checkpoint", str(folder / "checkpoint"), "--table", table]
    return [str(PROGRAM), *places, *more]


def start(sandbox: Sandbox, folder: Path, table: str, log: Path, *more: str) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, *command(folder, table, *more)],
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


def forget_an_offset_that_goes_back(checkpoint: Path) -> None:
    """Do what docs/writing.md says of two drivers that read files.

    Spark refuses a checkpoint whose last offset is older than the one before. A driver that starts while the other one
    goes on may note such a one.
    """
    offsets = {
        int(path.name): json.loads(path.read_text().splitlines()[-1])["logOffset"]
        for path in (checkpoint / "offsets").iterdir()
        if path.name.isdigit()
    }
    last = max(offsets)
    if offsets[last] < offsets.get(last - 1, offsets[last]):
        assert not (checkpoint / "commits" / str(last)).exists()
        (checkpoint / "offsets" / str(last)).unlink()
        (checkpoint / "offsets" / f".{last}.crc").unlink(missing_ok=True)
