"""One of the faults of `make chaos-servers` in each run of `make chaos-sample`, with clients and without Spark.

Which one, and what it does, is up to the commit that is tested; `SERVER_SEED=N` chooses.
"""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest
from server_cluster import ServerCluster
from server_faults import FAULTS
from server_history import History, words

QUICK = ("a_store_is_killed_and_started", "a_controller_is_killed", "a_controller_freezes", "the_registry_is_killed")
"""The faults that are over within a minute, and need no more than one bookie."""
_HERE = Path(__file__).parent

pytestmark = [pytest.mark.server, pytest.mark.timeout(900), pytest.mark.in_turn(1)]


def _seed() -> str:
    if given := os.environ.get("SERVER_SEED"):
        return given
    command = ["git", "rev-parse", "HEAD"]
    return subprocess.run(command, cwd=_HERE, capture_output=True, text=True, check=False).stdout.strip() or "0"


def test_clients_go_on(tmp_path: Path) -> None:
    seed = _seed()
    chance = random.Random(seed)
    name = chance.choice(QUICK)
    with ServerCluster(tmp_path, bookies=1) as cluster:
        cluster.start()
        history = History(cluster, "sample")
        history.begin()
        try:
            FAULTS[name](cluster, chance)
        finally:
            with cluster.kept_up():
                history.end()
            print(f"{name}, SERVER_SEED={seed}:\n{words(history.workers)}")
        history.close()
    assert [failure for worker in history.workers for failure in worker.failures] == []
