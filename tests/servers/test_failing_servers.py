"""Clients and a Spark session go on while the servers of a cluster are killed and frozen: `make chaos-servers`.

`SERVER_FAULTS=name,name` takes some faults, `SERVER_SEED=N` decides what is left to chance. `SERVER_HISTORIES=N` runs
N histories of all kinds of faults together instead, from that seed on. With `SERVER_TOKENS_S=20` the servers speak TLS
and want to know who asks, and tokens run out after 20 s, again and again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from java_pulse import JavaPulse, java_words
from mixed_faults import plan, run_history
from server_cluster import ServerCluster
from server_faults import FAULTS
from server_history import History, words
from spark_history import SparkHistory, session_on

SEED = os.environ.get("SERVER_SEED", "0")
TOKENS_S = os.environ.get("SERVER_TOKENS_S", "")
HISTORIES = int(os.environ.get("SERVER_HISTORIES", "0"))
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
def java(cluster: ServerCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaPulse]:
    """The official client, to compare with."""
    pulse = JavaPulse(cluster, "java", tmp_path_factory.mktemp("java"))
    yield pulse
    pulse.close()


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


def go_through(
    cluster: ServerCluster,
    java: JavaPulse,
    histories: tuple[SparkHistory, History],
    name: str,
    happen: Callable[[], None],
) -> None:
    print(f"\n{name}:", flush=True)
    for history in histories:
        history.begin()
    java.since_the_last()
    cluster.rest(QUIET_S)
    happen()
    cluster.rest(QUIET_S)
    try:
        # Each comes to its end, also where another one has failed: the next fault begins with none of them at work.
        with cluster.kept_up(), ExitStack() as ends:
            for history in histories:
                ends.callback(history.end)
    finally:
        told = java.since_the_last()
        for history in histories:
            print(words(history.workers))
        print(java_words(told), flush=True)
    assert [failure for history in histories for worker in history.workers for failure in worker.failures] == []


@pytest.mark.parametrize("name", [] if HISTORIES else CHOSEN)
def test_clients_and_spark_go_on(
    cluster: ServerCluster, java: JavaPulse, histories: tuple[SparkHistory, History], name: str
) -> None:
    go_through(cluster, java, histories, name, lambda: FAULTS[name](cluster, random.Random(f"{SEED} {name}")))


@pytest.mark.parametrize("number", range(HISTORIES))
def test_all_kinds_of_faults_together(
    cluster: ServerCluster, java: JavaPulse, histories: tuple[SparkHistory, History], number: int
) -> None:
    seed = int(SEED) + number
    acts = plan(list(cluster.servers), random.Random(f"history {seed}"))
    go_through(cluster, java, histories, f"SERVER_SEED={seed}", lambda: run_history(cluster, acts))
