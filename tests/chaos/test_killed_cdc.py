"""AUTO CDC flows of SCD types 1 and 2 whose server is killed in the midst of a run, again and again.

`CDC_KILLS=6` kills it after one to six commits of a run (`make chaos`); one is the sample.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from entry_tools import FEW_TASKS, SparkServer, clean_environment, descendants, spark_server, wait_until_gone

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("CDC_KILLS", "1"))
SCOPE = "cdc"
STEPS = str(Path(__file__).parents[1] / "entry" / "cdc_steps.py")


class Server:
    """A Connect server, and a client for each step."""

    def __init__(self, running: SparkServer, folder: Path) -> None:
        self._url, self._process, self._folder = running.url, running.process, folder

    def begin(self, step: str, count: int = 0) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, STEPS, self._url, str(self._folder), step, str(count)],
            env=clean_environment({}),
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def do(self, step: str, count: int = 0) -> str:
        process = self.begin(step, count)
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output[-5000:]
        return output

    def kill(self, run: subprocess.Popen[str]) -> None:
        """The server, and the client of the run, which would wait for another one."""
        processes = descendants(self._process.pid) | descendants(run.pid)
        for pid in processes:
            os.kill(pid, signal.SIGKILL)
        self._process.wait()
        run.communicate()
        wait_until_gone(processes)


@contextmanager
def connect(sandbox: Sandbox, folder: Path, number: int) -> Iterator[Server]:
    home = folder / f"server{number}"
    home.mkdir()
    with spark_server("connect", sandbox.environment(), home, *FEW_TASKS) as running:
        yield Server(running, folder)


def commits(client: Client) -> int:
    """Of all tables of the pipeline."""
    names = [name for name in client.controller.list_streams(SCOPE) if name != "changes"]
    ledgers = [open_ledger(client, Stream(SCOPE, name)) for name in names]
    return sum(ledger.state().version for ledger in ledgers if ledger is not None)


def test_rows_and_history_are_those_of_a_dict_whenever_the_server_is_killed(
    sandbox: Sandbox, client: Client, tmp_path: Path
) -> None:
    """Each time after one more commit of the run, which then is run once more by another server."""
    changes = 0
    for round in range(KILLS + 1):
        with connect(sandbox, tmp_path, round) as server:
            if round == 0:
                server.do("begin")
            else:
                server.do("run")
                found, wanted = json.loads(server.do("look", changes).splitlines()[-1])
                assert found == wanted, f"round {round}"
            if round == KILLS:
                break
            changes += 20
            server.do("insert", changes)
            before, run = commits(client), server.begin("run")
            while run.poll() is None and commits(client) - before < round + 1:
                time.sleep(0.02)
            print(f"round {round}: killed after {commits(client) - before} commits, run {run.poll()}")
            server.kill(run)
