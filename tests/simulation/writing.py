"""What Spark's tasks do in a simulated history: partitions, and attempts at them that are repeated."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import partial

from cluster_model import EVENT_BYTES, KEYS, ROWS, ClusterModel
from history import Operation
from world import World

from pyspark_pravega import clock
from pyspark_pravega.client import SegmentRange, Staged
from pyspark_pravega.client.routing import cells
from pyspark_pravega.client.segments import Piece
from pyspark_pravega.connector.write import WritePlan
from pyspark_pravega.connector.write.deltas import DeltaJob
from pyspark_pravega.connector.write.job import TaskMessage, WriteJob
from pyspark_pravega.connector.write.overwrite import ReadingJob
from pyspark_pravega.connector.write.task import TransactionTask, Written
from pyspark_pravega.errors import EventEncodeError, PravegaError

_SOME_KEYS = ((0, 1, 2, 3), (0, 2), (1, 2), (1, 3), (0, 1), (2, 3), (0,), (3,))


class MergingJob(DeltaJob):
    """A MERGE, whose rows need no codec here: the model's events are numbers."""

    def __init__(self, plan: WritePlan) -> None:
        ReadingJob.__init__(self, plan)


def write_partitions(cluster: ClusterModel, job: WriteJob, operation: Operation, *, empty: bool) -> list[TaskMessage]:
    """Let a job's tasks write.

    Args:
        cluster: where to.
        job: the job.
        operation: the statement; its rows are chosen here.
        empty: whether there are none.

    Returns:
        What the attempts that count have told.
    """
    if empty:
        return [TaskMessage(Written(), job=job.job)]
    keys = [some_keys(cluster.world) for _ in range(1 + (cluster.world.rng.random() < 0.3))]
    operation.rows = frozenset(len(KEYS) * part + key for part, some in enumerate(keys) for key in some)
    return [write_partition(cluster, job, operation, part, some) for part, some in enumerate(keys)]


def some_keys(world: World) -> tuple[int, ...]:
    """Keys of rows."""
    return _SOME_KEYS[int(world.rng.random() * len(_SOME_KEYS))]


def write_partition(
    cluster: ClusterModel, job: WriteJob, operation: Operation, part: int, keys: tuple[int, ...]
) -> TaskMessage:
    """One partition: sometimes an attempt fails before, or two are through, or one is late.

    Args:
        cluster: where to.
        job: the job.
        operation: the statement.
        part: the partition's number.
        keys: those of its rows.
    """
    world = cluster.world
    attempt = partial(_attempt, cluster, job, operation, part, keys)
    if world.calm or world.rng.random() >= world.profile.repeats:
        return attempt()
    if world.profile.scale and world.rng.random() < 0.5:
        # Attempts on both sides of a scale have transactions of two epochs.
        attempt = partial(_after_a_scale, cluster, attempt)
    fate = world.rng.randrange(4)
    if fate == 0:
        with contextlib.suppress(PravegaError):
            _attempt(cluster, job, operation, part, keys, fails=True)
        return attempt()
    if fate == 1:
        both = [attempt(), attempt()]
        return both[world.rng.randrange(2)]
    if fate == 2:
        world.add(f"late {operation.number}", partial(_alone, attempt))
        return attempt()
    with contextlib.suppress(PravegaError):
        attempt()
    return attempt()


def _after_a_scale(cluster: ClusterModel, attempt: partial[TaskMessage]) -> TaskMessage:
    cluster.begin_scale()
    cluster.world.sleep(0.02)
    return attempt()


def _alone(attempt: partial[TaskMessage]) -> None:
    with contextlib.suppress(PravegaError):
        attempt()


def _attempt(
    cluster: ClusterModel,
    job: WriteJob,
    operation: Operation,
    part: int,
    keys: tuple[int, ...],
    *,
    fails: bool = False,
) -> TaskMessage:
    log = job.ledger().job(job.job)
    task = TransactionTask(cluster.client, log, job.plan, partition=part, late=not job._opened, ahead=job._ahead)
    try:
        return TaskMessage(_written(cluster, task, operation, part, keys, fails=fails), job=job.job)
    except BaseException:
        # As `WriteJob.write_partition` does it.
        task.abort()
        raise


def _written(
    cluster: ClusterModel,
    task: TransactionTask,
    operation: Operation,
    part: int,
    keys: tuple[int, ...],
    *,
    fails: bool,
) -> Written:
    first = operation.number * ROWS + len(KEYS) * part
    if fails:
        cluster.write(task.begin().transaction, {first + keys[0]: KEYS[keys[0]]})
        raise EventEncodeError("a row can't be an event")
    return stage(cluster, task, {first + key: KEYS[key] for key in keys}, part)


def stage(cluster: ClusterModel, task: TransactionTask, rows: Mapping[int, float], part: int) -> Written:
    """What a task has written: rows, in the transaction that the job's tasks share or in its own.

    Args:
        cluster: where to.
        task: the task.
        rows: the events, and where their routing keys lie.
        part: which of the job's partitions it is.
    """
    attempt = task.begin()
    places = cluster.write(attempt.transaction, rows)
    pieces: dict[SegmentRange, list[tuple[int, int]]] = {}
    if attempt.borders:
        next_places = {segment_id: iter(some) for segment_id, some in places.items()}
        all_cells = cells(attempt.transaction.segments.ranges, attempt.borders)
        for key in rows.values():
            cell = next(one for one in all_cells if one.min_key <= key < one.max_key)
            pieces.setdefault(cell, []).append(next(next_places[cell.segment_id]))
    written = {segment_id: (len(some), len(some) * EVENT_BYTES) for segment_id, some in places.items()}
    parts = {segment_id: tuple(some) for segment_id, some in places.items()}
    staged = Staged(
        transaction=attempt.transaction,
        written=written,
        parts=parts if attempt.shares else None,
        pieces={cell: Piece(events=len(some), ranges=tuple(some)) for cell, some in pieces.items()},
    )
    return Written(
        staged=staged, partition=part, rows=len(rows), bytes=len(rows) * EVENT_BYTES, ended_at=clock.now_ms()
    )
