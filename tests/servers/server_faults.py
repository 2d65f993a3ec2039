"""What happens to servers: a fault is a function with a name, in ten lines; `test_failing_servers.py` runs each."""

from __future__ import annotations

import random
from collections.abc import Callable

from server_cluster import ServerCluster

Fault = Callable[[ServerCluster, random.Random], None]

FAULTS: dict[str, Fault] = {}
"""By the functions' names."""


def fault(act: Fault) -> Fault:
    """Make a function one of the faults. All servers must be there again at its end.

    Args:
        act: gets the cluster, and a generator for what is left to chance.
    """
    FAULTS[act.__name__] = act
    return act


@fault
def a_store_is_killed_and_started(cluster: ServerCluster, chance: random.Random) -> None:
    """Long enough for the other one to take its segments over."""
    store = chance.choice(cluster.stores)
    cluster.kill(store)
    cluster.rest(45)
    cluster.start(store)


@fault
def a_store_freezes_for_a_minute(cluster: ServerCluster, chance: random.Random) -> None:
    """No connection ends, and nothing comes: as with a machine whose power is gone."""
    store = chance.choice(cluster.stores)
    cluster.freeze(store)
    cluster.rest(60)
    cluster.thaw(store)
    cluster.rest(10)
    # It ends itself when it finds that its session with ZooKeeper is over.
    cluster.start(store)


@fault
def a_controller_is_killed(cluster: ServerCluster, chance: random.Random) -> None:
    """The other one is asked meanwhile."""
    controller = chance.choice(cluster.controllers)
    cluster.kill(controller)
    cluster.rest(30)
    cluster.start(controller)


@fault
def a_controller_freezes(cluster: ServerCluster, chance: random.Random) -> None:
    """It holds each call that it gets."""
    controller = chance.choice(cluster.controllers)
    cluster.freeze(controller)
    cluster.rest(30)
    cluster.thaw(controller)
    cluster.rest(5)
    cluster.start(controller)


@fault
def all_controllers_are_killed(cluster: ServerCluster, chance: random.Random) -> None:
    """For half a minute nobody knows where anything is."""
    del chance
    cluster.kill(*cluster.controllers)
    cluster.rest(30)
    cluster.start(*cluster.controllers)


@fault
def the_registry_is_killed(cluster: ServerCluster, chance: random.Random) -> None:
    """For half a minute there are no schemas."""
    del chance
    cluster.kill("registry")
    cluster.rest(30)
    cluster.start("registry")


@fault
def a_store_is_killed_for_good(cluster: ServerCluster, chance: random.Random) -> None:
    """The other one has to do, longer than any time-out is."""
    store = chance.choice(cluster.stores)
    cluster.kill(store)
    cluster.rest(200)
    cluster.start(store)


@fault
def all_stores_are_killed(cluster: ServerCluster, chance: random.Random) -> None:
    """While the controllers count: longer than the shortest leases."""
    del chance
    cluster.kill(*cluster.stores)
    cluster.rest(90)
    cluster.start(*cluster.stores)


@fault
def zookeeper_is_killed(cluster: ServerCluster, chance: random.Random) -> None:
    """Too long for some sessions, which begin anew."""
    del chance
    cluster.kill("zookeeper")
    cluster.rest(15)
    cluster.start("zookeeper")
    cluster.rest(40)
    # A server whose session has ended may end itself.
    cluster.start()


@fault
def a_bookie_is_killed(cluster: ServerCluster, chance: random.Random) -> None:
    """Two copies of three are left."""
    bookie = chance.choice(cluster.bookies)
    cluster.kill(bookie)
    cluster.rest(45)
    cluster.start(bookie)


@fault
def the_disk_of_a_bookie_is_full(cluster: ServerCluster, chance: random.Random) -> None:
    """It can't write any more; an operator makes room after a minute, and starts what has ended."""
    bookie = chance.choice(cluster.bookies)
    cluster.fill_disk(bookie)
    cluster.rest(45)
    cluster.make_room(bookie)
    cluster.start(bookie)
    cluster.rest(5)
    cluster.start()


@fault
def all_is_killed(cluster: ServerCluster, chance: random.Random) -> None:
    """Every server, as when the power is gone; they come back within two minutes, in any order."""
    names = list(cluster.servers)
    cluster.kill(*names)
    cluster.rest(chance.uniform(20, 60))
    cluster.start()
