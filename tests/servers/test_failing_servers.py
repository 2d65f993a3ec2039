"""Clients go on while the servers of a cluster are killed and frozen: `make chaos-servers`.

`SERVER_FAULTS=name,name` takes some faults, `SERVER_SEED=N` decides what is left to chance.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_cluster import ServerCluster
from server_faults import FAULTS
from server_history import History

SEED = int(os.environ.get("SERVER_SEED", "0"))
CHOSEN = [name for name in os.environ.get("SERVER_FAULTS", "").split(",") if name] or list(FAULTS)
QUIET_S = 5.0
"""How long all goes on before the fault, and behind it."""

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    with ServerCluster(folder) as running:
        running.start()
        yield running
    running.wipe()


@pytest.mark.parametrize("name", CHOSEN)
def test_clients_go_on(cluster: ServerCluster, name: str) -> None:
    history = History(cluster, name.replace("_", "-"))
    history.begin()
    cluster.rest(QUIET_S)
    FAULTS[name](cluster, random.Random(f"{SEED} {name}"))
    cluster.rest(QUIET_S)
    try:
        history.end()
    finally:
        print(f"\n{name}:\n{history.words()}")
    assert [failure for worker in history.workers for failure in worker.failures] == []
