"""Histories of all kinds of faults together, made from a seed: several servers at a time, and again before all is well.

`SERVER_HISTORIES=N make chaos-servers` runs N of them, from `SERVER_SEED` on.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from server_cluster import ServerCluster

WINDOW_S = 45.0
"""In which the faults of a history begin and end."""
LONGEST_S = 25.0
"""Of one fault: longer than some sessions, shorter than any patience, also where several follow each other."""
FAULTS = (3, 6)
"""How many a history has, at least and at most."""
KINDS = {"kill": "all", "freeze": "all", "fill the disk": "bookie"}
"""What may happen, and to which servers."""


@dataclass(frozen=True, order=True)
class Act:
    """A server fails, or is mended, some seconds after the history's begin."""

    at_s: float
    server: str
    kind: str


def plan(servers: list[str], chance: random.Random) -> list[Act]:
    """What happens in one history, in its order; no server fails twice at once, and each is mended.

    Args:
        servers: their names.
        chance: decides.
    """
    acts: list[Act] = []
    for server in chance.sample(servers, chance.randint(*FAULTS)):
        kind = chance.choice([kind for kind, whom in KINDS.items() if whom == "all" or server.startswith(whom)])
        begin = chance.uniform(0, WINDOW_S - LONGEST_S)
        acts += [Act(begin, server, kind), Act(begin + chance.uniform(1, LONGEST_S), server, f"mend: {kind}")]
    return sorted(acts)


def run_history(cluster: ServerCluster, acts: list[Act]) -> None:
    """Let all of it happen; at the end each server answers.

    Args:
        cluster: the servers; all of them run.
        acts: as `plan` gives them.
    """
    what: dict[str, Callable[[str], None]] = {
        "kill": cluster.kill,
        "mend: kill": lambda name: cluster.start(name, wait=False),
        "freeze": cluster.freeze,
        "mend: freeze": cluster.thaw,
        "fill the disk": cluster.fill_disk,
        "mend: fill the disk": cluster.make_room,
    }
    begin, down = time.monotonic(), set[str]()
    for act in acts:
        cluster.rest(begin + act.at_s - time.monotonic(), but=down)
        print(f"  {act.at_s:5.1f} s {act.kind}: {act.server}", flush=True)
        what[act.kind](act.server)
        down = down - {act.server} if act.kind.startswith("mend") else down | {act.server}
    # What found its session over ends itself, and comes back.
    cluster.rest(5)
    cluster.start()
