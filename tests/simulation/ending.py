"""How a history ends: all comes to rest, somebody looks at it once more, and the commit logs are in order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from cluster_model import KEYS, ROWS, ClusterModel
from history import UnexplainedError
from world import Answer, World

from pyspark_pravega.connector.log import Commit, Snapshot, State


def come_to_rest(world: World, look: Callable[[], Answer]) -> Answer:
    """Let nothing go wrong any more, and one more actor look at what is there.

    Args:
        world: where everybody else is through.
        look: brings everything to rest as the next writer would, and looks.

    Raises:
        UnexplainedError: it can't be looked at.
    """
    world.calm = True
    world.later.clear()
    looked: list[Answer] = []
    world.add("the end", lambda: looked.append(look()))
    world.run()
    if not looked:
        raise UnexplainedError("the tables can't be read in the end")
    return looked[0]


def check_log(commits: Sequence[Commit], state: State) -> None:
    """Versions ascend in time without a gap, each commit is there once, and none is left.

    Args:
        commits: those that the log knows, in their order.
        state: its state.

    Raises:
        UnexplainedError: it isn't so.
    """
    first = commits[0].version if commits else 1
    if [commit.version for commit in commits] != list(range(first, state.version + 1)):
        raise UnexplainedError(f"the log has versions {[commit.version for commit in commits]} of {state.version}")
    times = [commit.committed_at for commit in commits]
    if any(later <= earlier for earlier, later in itertools.pairwise(times)):
        raise UnexplainedError(f"versions' times go back: {times}")
    for what in ([commit.job for commit in commits], [t for commit in commits for t in commit.transactions]):
        if len(set(what)) != len(what):
            raise UnexplainedError("a commit is in the log twice")
    if state.pending is not None:
        raise UnexplainedError("a commit is left")


def rows_of(model: ClusterModel, taken: Snapshot) -> list[tuple[int, int]]:
    """The statement and the row that each event of a snapshot is.

    Args:
        model: the table.
        taken: the snapshot.

    Raises:
        UnexplainedError: one lies in a segment that has other routing keys.
    """
    events = []
    for part in taken.parts:
        owner = model.owner_of(part.segment_id)
        for event in model.read(part.segment_id, part.start, part.end):
            if not owner.min_key <= KEYS[event % len(KEYS)] < owner.max_key:
                raise UnexplainedError(f"event {event} lies in segment {part.segment_id}, which has other keys")
            events.append(divmod(event, ROWS))
    return events
