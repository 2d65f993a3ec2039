"""Clients and a Spark session go on while the servers of a cluster are killed and frozen: `make chaos-servers`.

`SERVER_FAULTS=name,name` takes some faults, `SERVER_SEED=N` decides what is left to chance. With `SERVER_TOKENS_S=20`
the servers speak TLS and want to know who asks, and tokens run out after 20 s, again and again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_cluster import ServerCluster
from server_faults import FAULTS
from server_history import History, words
from spark_history import SparkHistory, session_on

SEED = os.environ.get("SERVER_SEED", "0")
TOKENS_S = os.environ.get("SERVER_TOKENS_S", "")
CHOSEN = [name for name in os.environ.get("SERVER_FAULTS", "").split(",") if name] or list(FAULTS)
QUIET_S = 5.0
"""How long all goes on before the fault, and behind it."""

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    with ServerCluster(folder, token_ttl_s=int(TOKENS_S) if TOKENS_S else None) as running:
        running.start()
        yield running
    running.wipe()


@pytest.fixture(scope="module")
def histories(
    cluster: ServerCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SparkHistory, History]]:
    """One of Spark and one of plain clients, which begin nothing anew from fault to fault."""
    session = session_on(cluster)
    chance = random.Random(f"{SEED} in Spark")
    spark, plain = (
        SparkHistory(session, "spark", tmp_path_factory.mktemp("checkpoints"), chance),
        History(cluster, "plain"),
    )
    yield spark, plain
    for history in (spark, plain):
        history.close()
    session.stop()


@pytest.mark.parametrize("name", CHOSEN)
def test_clients_and_spark_go_on(cluster: ServerCluster, histories: tuple[SparkHistory, History], name: str) -> None:
    for history in histories:
        history.begin()
    cluster.rest(QUIET_S)
    FAULTS[name](cluster, random.Random(f"{SEED} {name}"))
    cluster.rest(QUIET_S)
    try:
        for history in histories:
            history.end()
    finally:
        print(f"\n{name}:")
        for history in histories:
            print(words(history.workers))
    assert [failure for history in histories for worker in history.workers for failure in worker.failures] == []
