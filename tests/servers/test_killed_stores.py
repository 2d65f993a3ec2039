"""Real-time queries that write exactly once, on segment stores that keep their data on disk: these are killed, too.

All else is as tests/chaos/test_killed_once.py does it. With every other seed nothing but stores is killed: then the
query must go on by itself. `STORE_KILLS` says how many seeds there are, from `CHAOS_FIRST_SEED` on.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_cluster import ServerCluster
from test_killed_once import KILLS, run_all, run_seed
from test_killed_real_time import Program
from test_streams import FIRST_SEED

from pyspark_pravega.client import Client

SEEDS = int(os.environ.get("STORE_KILLS", "2"))
_KILLS = ["store", "store", "store", *(what for what in dict.fromkeys(KILLS) if what != "connection")]
_SCOPE = "killed-stores"

pytestmark = [pytest.mark.server, pytest.mark.timeout(28800)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServerCluster]:
    with ServerCluster(tmp_path / "cluster", controllers=1, bookies=1) as running:
        running.start()
        yield running
    running.wipe()


def strike(cluster: ServerCluster, chance: random.Random) -> None:
    """Kill one of the stores or both, and start them: at once, or when others have had time to take over."""
    victims = chance.choice([*([store] for store in cluster.stores), cluster.stores])
    # Also one that hasn't answered since it was killed last.
    cluster.kill(*victims)
    cluster.rest(chance.choice([0, chance.uniform(0, 10), chance.uniform(20, 45)]), but=victims)
    cluster.start(wait=chance.random() < 0.5)


def test_each_row_is_there_once_and_no_query_ends(cluster: ServerCluster, tmp_path: Path) -> None:
    registry = cluster.settings.schema_registry_uri
    assert registry
    program = Program(tmp_path / "log", cluster.controller_uri, registry)
    with Client(cluster.settings) as client:
        client.controller.create_scope(_SCOPE)

        def run(seed: int) -> Counter[str]:
            chance, alone, before = random.Random(f"{seed}/stores"), seed % 2 == 0, program.starts
            servers = {"store": lambda: strike(cluster, chance)}
            done = run_seed(
                client, program, _SCOPE, seed, tmp_path / str(seed), ["store"] if alone else _KILLS, servers
            )
            if alone:
                assert program.starts == before + 1, f"the query was started again: {program.said}"
            return done

        assert run_all(program, range(FIRST_SEED, FIRST_SEED + SEEDS), run)["store"]
