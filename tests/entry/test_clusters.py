"""Spark's own cluster, as docs/clusters.md starts it, with executors whose Python has nothing but the archive.

The lines that start it, pack and submit are the page's.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np
import pyspark
import pytest
from cluster_program import ROWS, ROWS_TWICE, TABLES, TWICE
from entry_tools import clean_environment, descendants, wait_until_gone
from page_tools import snippets
from transactions import open_transactions

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.sandbox.ports import free_ports

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn(8, whole=True)]

PAGE = "docs/clusters.md"
PROGRAM = Path(__file__).parent / "cluster_program.py"
MASTER_HOST, WORKER_HOSTS = "127.0.0.1", ("127.0.0.2", "127.0.0.3")
"""Hosts of their own: on one host Spark runs no task twice at a time."""
FOR_THE_TEST = {
    "spark.ui.enabled": "false",
    "spark.driver.host": MASTER_HOST,
    # As programs that tests start have it (tests/conftest.py).
    "spark.executor.extraJavaOptions": "-XX:MetaspaceSize=256m",
    "spark.dynamicAllocation.maxExecutors": "2",
    # While the program makes its tables, not a second after its first task wants to run.
    "spark.dynamicAllocation.initialExecutors": "2",
    "spark.speculation.interval": "200ms",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "300ms",
    "spark.task.maxFailures": "8",
}


def page_lines(*words: str) -> str:
    """The block of the page that holds all of the words."""
    (block,) = [one.text for one in snippets(PAGE) if one.language == "sh" and all(word in one.text for word in words)]
    return block


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python of this version without any package."""
    folder = tmp_path_factory.mktemp("bare") / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    for name in ("pyspark_pravega", "pyarrow", "grpc"):
        tried = subprocess.run([python, "-c", f"import {name}"], env={}, cwd=folder, capture_output=True, check=False)
        assert tried.returncode != 0, f"{python} has {name}: the test would prove nothing"
    return python


@contextmanager
def cluster(folder: Path, python: Path) -> Iterator[str]:
    """A master and two workers, started by the lines of the page; all their processes end with the block.

    Args:
        folder: for the workers' files.
        python: what the workers find as `python3`.

    Yields:
        The master's address, without `spark://`.
    """
    master_line, worker_line = page_lines("Master", "Worker").splitlines()
    port = free_ports(1)[0]
    address = f"{MASTER_HOST}:{port}"
    lines = [f"exec {master_line.replace('spark.example', MASTER_HOST).replace('7077', str(port))} --webui-port 0"]
    for host in WORKER_HOSTS:
        line = worker_line.partition(" #")[0].replace("spark.example:7077", address)
        # A worker that asks a master that isn't ready asks again after 5 to 15 s.
        ready = f"until grep -q 'New state: ALIVE' {folder / '0.log'}; do sleep 0.1; done"
        lines.append(f"{ready}; exec {line} --host {host} --webui-port 0 --work-dir {folder / host}")
    home = Path(pyspark.__file__).parent
    environment = {
        "PATH": os.pathsep.join([str(python.parent), str(home / "bin"), "/usr/bin", "/bin"]),
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "256m",
        "HOME": str(folder),
        **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},
    }
    with ExitStack() as stack:
        processes: list[subprocess.Popen[bytes]] = []
        stack.callback(end, processes)
        for number, line in enumerate(lines):
            log = stack.enter_context((folder / f"{number}.log").open("w"))
            processes.append(subprocess.Popen(["bash", "-c", line], env=environment, stderr=log, stdout=log))
        yield address


def end(processes: list[subprocess.Popen[bytes]]) -> None:
    """End processes and all that came from them."""
    family: dict[int, str] = {}
    for process in processes:
        family |= descendants(process.pid)
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait(60)
    try:
        wait_until_gone(family)
    except AssertionError:
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise


def expected() -> list[int]:
    """What the program's last question about a table must give."""
    ids = np.arange(ROWS, dtype=np.int64)
    amounts = ids * 7 % 1009
    sums = [int(ids.sum()), int(amounts.sum()), int((ids * amounts).sum())]
    return [ROWS, len(np.unique(ids)), *sums, len(np.unique(ids % 1000))]


def test_executors_are_killed_and_tasks_run_twice_and_no_row_is_lost_or_doubled(
    sandbox: Sandbox, client: Client, bare_python: Path, tmp_path: Path
) -> None:
    assert sandbox.schema_registry_uri
    scripts = Path(sys.executable).parent
    environment = clean_environment({"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"})
    for_the_test = " ".join(f"--conf {key}={value}" for key, value in FOR_THE_TEST.items())
    with cluster(tmp_path, bare_python) as address:
        lines = page_lines("pravega-spark pack", "spark-submit", "spark://")
        for theirs, ours in {
            "tcp://localhost:9090": sandbox.controller_uri,
            "http://localhost:9092": sandbox.schema_registry_uri,
            "spark.example:7077": address,
            "program.py": f"{for_the_test} {PROGRAM} {tmp_path}",
            "pravega-spark": f"{sys.executable} -m pyspark_pravega.cli",
        }.items():
            assert theirs in lines
            lines = lines.replace(theirs, ours)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", lines],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-10_000:]
    result = json.loads(done.stdout.splitlines()[-1])
    unpacked = tuple(str(tmp_path / host) for host in WORKER_HOSTS)
    assert len(result["files"]) >= 3
    assert any(file.endswith(".pyc") for file in result["files"]), "executors compile all that they load"
    assert [file for file in result["files"] if not file.startswith(unpacked) or "/pravega/lib/" not in file] == []
    in_insert, in_query = result["tasks that ended with an executor"]
    assert in_insert >= 1, result
    assert in_query >= 1, result
    assert result["workers that share memory"] >= 1, result
    assert result["micro-batches"] >= 4
    assert {table: result[table] for table in TABLES} == dict.fromkeys(TABLES, expected())
    assert result["speculative attempts"] >= 1, "Spark has not speculated: the test proves nothing"
    assert result[TWICE] == [ROWS_TWICE, ROWS_TWICE]
    for table in (*TABLES, TWICE):
        assert open_transactions(client, Stream("cluster", table)) == []
