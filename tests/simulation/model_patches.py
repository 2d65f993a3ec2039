"""The model in place of what the product takes from outside: clock, random numbers, the client, threads."""

from __future__ import annotations

import contextlib
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import tables
from cluster_model import EVENT_BYTES, ClusterModel
from table_model import OpenedTable
from world import World

from pyspark_pravega import clock, deadlines, together
from pyspark_pravega.catalog.statements import replacing
from pyspark_pravega.client.positions import cuts
from pyspark_pravega.client.segments import gathering, listed
from pyspark_pravega.connector.log import cleaning, job_log, json_table, opening, recovery, snapshot
from pyspark_pravega.connector.log.decided import completing, decisions, forward, turns
from pyspark_pravega.connector.stream import admission, frontier, source
from pyspark_pravega.connector.write import deltas, overwrite, read_set, task, writer
from pyspark_pravega.connector.write import job as write_job
from pyspark_pravega.connector.write.commit import committer, several
from pyspark_pravega.connector.write.job import WriteJob
from pyspark_pravega.connector.write.together import transaction

_TIMED: tuple[ModuleType, ...] = (
    *(
        recovery,
        completing,
        forward,
        turns,
        snapshot,
        deadlines,
        clock,
        write_job,
        task,
        admission,
        frontier,
        source,
        several,
    ),
)


@contextlib.contextmanager
def played_in(world: World, cluster: ClusterModel) -> Iterator[None]:
    """What the product takes from outside is the world's meanwhile, in this thread."""
    _NOW.world, _NOW.cluster = world, cluster
    try:
        yield
    finally:
        _NOW.world = _NOW.cluster = None


@contextlib.contextmanager
def modelled() -> Iterator[None]:
    """Put the model in place of clock, random numbers and client, for as many histories as are run meanwhile."""
    time_model = SimpleNamespace(
        monotonic=_here(time.monotonic, lambda: _NOW.world.now),
        sleep=_here(time.sleep, lambda s: _NOW.world.sleep(s)),
        time_ns=_here(time.time_ns, lambda: _NOW.world.time_ns()),
    )
    uuid_model = SimpleNamespace(
        UUID=uuid.UUID,
        uuid4=_here(uuid.uuid4, lambda: uuid.UUID(int=_NOW.world.rng.getrandbits(128))),
        uuid5=uuid.uuid5,
    )
    random_model = SimpleNamespace(uniform=_here(random.uniform, lambda a, b: a + (b - a) * _NOW.world.rng.random()))
    patches: list[tuple[Any, str, Any]] = [(module, "time", time_model) for module in _TIMED]
    patches += [
        (module, "uuid", uuid_model) for module in (write_job, overwrite, job_log, json_table, decisions, several)
    ]
    writing = (write_job, overwrite, deltas, writer, transaction)
    patches += [(module, "shared_client", lambda _: simulation_client()) for module in writing]
    patches += [(module, "segment_states", _states) for module in (cleaning, listed, read_set, cuts, frontier)]
    patches += [
        (deadlines, "_GENERATOR", random_model),
        (opening, "KeyValueTable", _TABLES),
        (decisions, "KeyValueTable", _TABLES),
        (together, "Begun", AtOnce),
        *((module, "wait", _no_wait) for module in (together, cuts)),
        (WriteJob, "kept_alive", lambda self, partitions: contextlib.nullcontext()),
        (json_table, "time", time_model),
        (replacing, "shown", tables.shown),
        (replacing, "stream_configuration", tables.stream_configuration),
        (gathering, "ThreadPoolExecutor", Turns),
        (gathering, "_copy", _copy),
        (admission._Walk, "_look_ahead", _borders),
    ]
    patches += [(module, "Begun", AtOnce) for module in (completing, committer, cuts, several, write_job)]
    patches += [(module, "_log", _QUIET) for module in (recovery, forward, cleaning, frontier)]
    with contextlib.ExitStack() as stack:
        for place, name, new in patches:
            stack.enter_context(patch.object(place, name, new))
        yield


def _here(real: Callable[..., Any], modelled: Callable[..., Any]) -> Callable[..., Any]:
    """The model in a thread that has a world, and what is real in all others."""
    return lambda *given: real(*given) if _NOW.world is None else modelled(*given)


def simulation_client() -> Any:
    """The client of the cluster in memory that is used now."""
    return _NOW.cluster.client


def _states(pool: Any, stream: Any, segment_ids: Any, **_: Any) -> Any:
    return _NOW.cluster.of(stream).segment_states(segment_ids)


def _no_wait(begun: Any, *_: float) -> Any:
    return SimpleNamespace(done=begun)


class AtOnce:
    """A call that is over as soon as it is begun."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._error: Exception | None = None
        try:
            self._result = call()
        except Exception as error:
            self._error = error

    def result(self) -> Any:
        """What it has returned, or raised."""
        if self._error is not None:
            raise self._error
        return self._result


class Turns:
    """Threads that run one after another."""

    def __init__(self, most: int) -> None: ...

    def __enter__(self) -> Turns:
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, run: Callable[..., Any], given: Iterable[Any]) -> Iterator[Any]:
        return map(run, given)

    def submit(self, run: Callable[..., Any], *given: Any) -> Any:
        found = run(*given)
        return SimpleNamespace(result=lambda: found)


def _copy(client: Any, target: Any, segment_id: int, sources: Any) -> None:
    for one, cell in sources:
        _NOW.cluster.of(target.segments.stream).copy(
            (target.id, segment_id), (one.transaction.id, cell.segment_id), one.piece(cell).ranges
        )


def _borders(self: Any, end: int) -> bool:
    """All events have one size, so their borders are known without reading."""
    start, end = int(self._ends[-1]) if len(self._ends) else self.position, -(-end // EVENT_BYTES) * EVENT_BYTES
    self._ends = np.append(self._ends, np.arange(start + EVENT_BYTES, end + 1, EVENT_BYTES))
    return start < end


class _Now(threading.local):
    """The world of this thread. Threads that other tests have left go by the real clock."""

    world: Any = None
    cluster: Any = None


_NOW = _Now()
_TABLES = SimpleNamespace(
    reopened=lambda pool, scope, name, key: OpenedTable(_NOW.cluster.table_of(name), key),
)
_QUIET: Any = SimpleNamespace(warning=lambda *_: None)
