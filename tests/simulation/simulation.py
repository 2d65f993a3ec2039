"""A history from a seed: drivers, readers and a streaming query on a cluster in memory, judged at its end.

The product's code runs as it is; only what it takes from outside is replaced: clock, random numbers, the client.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import tables
from cluster_model import KEYS, ROWS, STREAM, ClusterModel
from ending import check_log, come_to_rest, rows_of
from history import NEVER, Kind, Operation, UnexplainedError, content_of, explain
from model_patches import modelled, played_in
from repeating import repeated
from streaming import StreamingQuery
from world import Answer, Profile, World
from writing import MergingJob, write_partitions

from pyspark_pravega.connector.log import Commit, Ledger, Snapshot, State, opening, settle, snapshot
from pyspark_pravega.connector.option_names import EXACTLY_ONCE, SERIALIZABLE, SNAPSHOT
from pyspark_pravega.connector.write import writer
from pyspark_pravega.connector.write.job import TaskMessage, WriteJob
from pyspark_pravega.connector.write.overwrite import OverwritingJob, ReadingJob, replace_all
from pyspark_pravega.connector.write.plan import Epoch, WritePlan
from pyspark_pravega.connector.write.read_set import ReadSet
from pyspark_pravega.errors import (
    LeaseExpiredError,
    PravegaError,
    QueryTakenOverError,
    TableChangedError,
    TransactionError,
    WriteConflictError,
)
from pyspark_pravega.settings import Settings

FAILED = (TransactionError, LeaseExpiredError, QueryTakenOverError, TableChangedError, WriteConflictError)
"""Of these a client may rely on nothing having been written."""
MERGING = 1_000_000
"""Histories of seeds from this one on have MERGE, too; those before are what they were before there was any."""
REPEATING = 2_000_000
"""Of those from this one on a statement is committed by a process that may die, and is asked for again by another one,
behind up to 40 statements of others."""
_QUERY = "query"
_SETTINGS = Settings(controller_uri="tcp://model:1")


_STATEMENTS = (Kind.INSERT, Kind.INSERT, Kind.OVERWRITE, Kind.OVERWRITE_READ, Kind.OVERWRITE_READ, Kind.TRUNCATE)
_OF_KEYS = (Kind.MERGE, Kind.MERGE, Kind.MERGE)
_OF_TABLES = (Kind.REPLACE, Kind.REPLACE, Kind.REPLACE, Kind.ALTER, Kind.ALTER)


class History:
    """One seed's."""

    is_streamed = True
    """Whether streaming queries may read it."""

    def __init__(self, seed: int, profile: Profile | None = None) -> None:
        self.seed, self.world = seed, World(seed, profile)
        self.cluster = ClusterModel(self.world)
        self.operations: list[Operation] = []
        self.checkpoint = -1
        """The last epoch that the streaming query's drivers know to be committed."""
        self.by_version: dict[int, frozenset[int]] = {}
        self.replaces = False
        """Whether the table becomes another one."""
        self.query: StreamingQuery | None = None
        self._repeats = seed >= REPEATING
        """Whether the next commit is one of a process that may die."""
        self._is_late = bool(seed % 2)

    def run(self) -> None:
        """Let it happen, and judge it.

        Raises:
            AssertionError: something was seen that can't be.
        """
        with played_in(self.world, self.cluster):
            self._take_part()
            self.world.run()
            self._judge()

    def _take_part(self) -> None:
        rng = self.world.rng
        kinds: tuple[Kind, ...] = _STATEMENTS
        if rng.random() < 0.3:
            self.replaces, kinds = True, (*_STATEMENTS, *_OF_TABLES)
        if self.seed >= MERGING:
            kinds = (*kinds, *_OF_KEYS)
        for number in range(rng.choice((2, 2, 3))):
            statements = [rng.choice(kinds) for _ in range(rng.choice((1, 1, 2)))]
            self.world.add(f"driver {number}", partial(self._drive, f"driver {number}", statements))
        if rng.random() < 0.3:
            for number in range(2):
                self.world.add(f"query {number}", partial(self._stream, f"query {number}", f"run {number}"))
        if rng.random() < 0.3 and self.is_streamed:
            self.query = StreamingQuery(self.cluster)
            self.query.begin()
        looks = rng.choice((1, 2, 3))
        self.world.add("reader", lambda: self._read("reader", looks))

    # Actors

    def _drive(self, name: str, statements: list[Kind]) -> None:
        for kind in statements:
            with contextlib.suppress(PravegaError):
                self._statement(name, kind)

    def _stream(self, name: str, run: str) -> None:
        """A driver of a streaming query: takes it over, and goes on behind the last epoch of the checkpoint."""
        with contextlib.suppress(PravegaError):
            table, state = None, State()
            if self.replaces:
                table, _, state = tables.look_up(self.cluster)
            writer.take_over(self._plan(replaced_table=state.replaced_table), _QUERY, run)
            epoch = self.checkpoint + 1
            for number in range(epoch, epoch + 2):
                self._statement(name, Kind.EPOCH, Epoch(query=_QUERY, number=number, run=run), (table, state))
                self.checkpoint = max(self.checkpoint, number)

    def _read(self, name: str, looks: int) -> None:
        for _ in range(looks):
            if self.replaces:
                self._look(name)
            operation = self._begin(Kind.READ, name)
            with contextlib.suppress(PravegaError):
                state = self._plan_for(operation)
                taken = snapshot.take_snapshot(self.cluster.client, STREAM)
                if self.replaces and taken.replaced_table != state.replaced_table:
                    # It is planned again: another look.
                    continue
                operation.seen = self._content(taken)
                self._end(operation)

    def _look(self, name: str) -> None:
        operation = self._begin(Kind.LOOK, name)
        with contextlib.suppress(PravegaError):
            operation.table, operation.altered, _ = tables.look_up(self.cluster)
            self._end(operation)

    def _statement(
        self, name: str, kind: Kind, epoch: Epoch | None = None, planned: tuple[int | None, State] | None = None
    ) -> None:
        rng = self.world.rng
        operation = self._begin(kind, name)
        operation.epoch = None if epoch is None else epoch.number
        try:
            if kind is Kind.ALTER:
                tables.alter(self.cluster, operation)
            elif kind is Kind.REPLACE and rng.random() < 0.3:
                self._asked(name, partial(tables.replace_without_rows, self.cluster, operation))
            elif kind is Kind.TRUNCATE:
                replace_all(self.cluster.client, cast(Ledger, opening.open_ledger(self.cluster.client, STREAM)))
            else:
                operation.keeps = kind in (Kind.OVERWRITE_READ, Kind.MERGE) and rng.random() < 0.3
                self._write(operation, epoch, planned)
        except FAILED as error:
            operation.failed, operation.told = True, repr(error)[:90]
            self.world.note(f"is told {operation.told}")
            raise
        except PravegaError as error:
            operation.told = repr(error)[:90]
            raise
        self._end(operation)

    def _write(self, operation: Operation, epoch: Epoch | None, planned: tuple[int | None, State] | None) -> None:
        rng, client = self.world.rng, self.cluster.client
        reads: list[ReadSet] = []
        if planned is not None:
            operation.table, state = planned
        else:
            state = State() if operation.kind is Kind.REPLACE else self._plan_for(operation)
        if operation.kind in (Kind.OVERWRITE_READ, Kind.MERGE):
            taken = snapshot.take_snapshot(client, STREAM)
            operation.seen = self._content(taken)
            reads = [ReadSet.of(taken)]
        plan = self._plan(SNAPSHOT if operation.keeps else SERIALIZABLE, state.replaced_table)
        replaces = operation.kind in (Kind.OVERWRITE, Kind.OVERWRITE_READ, Kind.REPLACE)
        if operation.kind is Kind.REPLACE:
            plan = replace(plan, staged=tables.staged(operation))
        merges = operation.kind is Kind.MERGE
        # A streaming query's micro-batches have jobs that aren't noted, where it is without the catalog.
        opened = epoch is None or not self._is_late
        job = OverwritingJob(plan) if replaces else MergingJob(plan) if merges else WriteJob(plan, opened=opened)
        operation.job = str(job.job)
        if opened and rng.random() < 0.3:
            # As `begin_ahead`, whose thread comes to its turn when it will.
            job._ahead = True
            self.world.add(f"ahead {operation.number}", job._share)
        messages: list[TaskMessage | None] = [None, None]
        try:
            messages[:] = write_partitions(self.cluster, job, operation, empty=replaces and rng.random() < 0.15)
            more = (epoch, reads) if isinstance(job, ReadingJob) else (epoch,)
            # Each process has a copy of what the JVM holds.
            report = self._asked(
                operation.actor,
                lambda: copy.deepcopy(job).commit_job(messages, *more),
            )
            with contextlib.suppress(PravegaError):
                job.forget_commit()
        except PravegaError:
            # As Spark does it.
            with contextlib.suppress(PravegaError):
                job.abort_job(messages)
            raise
        operation.repeated = report.repeated
        if operation.kind is Kind.REPLACE:
            tables.finish(self.cluster)

    def _asked(self, name: str, ask: Callable[[], Answer]) -> Answer:
        """Ask the catalog process, or two of them one after another."""
        if not self._repeats or self.world.rng.random() < 0.3:
            return ask()
        self._repeats = False
        return repeated(self.world, name, ask, partial(self._others, name))

    def _others(self, name: str, count: int) -> None:
        for _ in range(count):
            with contextlib.suppress(PravegaError):
                self._statement(f"{name} +", Kind.INSERT)

    def _plan_for(self, operation: Operation) -> State:
        """Look the table up, where it may become another one: the statement is planned for what is there now."""
        if not self.replaces:
            return State()
        operation.table, _, state = tables.look_up(self.cluster)
        return state

    # What was seen

    def _plan(self, isolation: str = SERIALIZABLE, replaced_table: int = 0) -> WritePlan:
        nothing: Any = None
        return WritePlan(
            settings=_SETTINGS,
            stream=STREAM,
            codec=nothing,
            form=nothing,
            # It tells that events have keys.
            routing=cast(Any, KEYS),
            mode=EXACTLY_ONCE,
            lease_ms=60_000,
            event_time=None,
            cluster_by=(),
            query=None,
            epoch=None,
            isolation=isolation,
            segment_id=0,
            replaced_table=replaced_table,
        )

    def _begin(self, kind: Kind, actor: str) -> Operation:
        operation = Operation(number=len(self.operations), kind=kind, actor=actor, begun=self.world.steps)
        self.operations.append(operation)
        self.world.note(f"begins {operation.number}: {kind.value}")
        return operation

    def _end(self, operation: Operation) -> None:
        operation.ended = self.world.steps
        self.world.note(f"is through with {operation.number}: {sorted(operation.seen)}")

    def _whole(self, taken: Snapshot) -> tuple[Snapshot, Sequence[int]]:
        """What is read of a snapshot in the stream, and the events that are read elsewhere."""
        return taken, ()

    def _content(self, taken: Snapshot) -> frozenset[int]:
        taken, elsewhere = self._whole(taken)
        events = [*(divmod(event, ROWS) for event in elsewhere), *rows_of(self.cluster, taken)]
        content = content_of(events, self.operations)
        if self.by_version.setdefault(taken.version, content) != content:
            raise UnexplainedError(
                f"version {taken.version} was seen with {self.by_version[taken.version]}, and {content}"
            )
        return content

    def _judge(self) -> None:
        """Bring everything to rest as the next writer would, look at what is there, and explain the history."""
        world = self.world
        log = cast(Ledger, opening.open_ledger(self.cluster.client, STREAM))

        def look() -> tuple[list[Commit], State]:
            settle(self.cluster.client, log)
            world.sleep(20.0 if self.replaces else 1.0)
            # What somebody sent before he died may have come since.
            settle(self.cluster.client, log)
            if self.replaces:
                self._look("the end")
            self._read("the end", 1)
            looked = list(log.all_commits()), log.state()
            if self.query is not None:
                self.query.read_to_the_end()
            return looked

        commits, state = come_to_rest(world, look)
        if self.operations[-1].ended == NEVER:
            raise UnexplainedError("the table can't be read in the end")
        # Of an attempt that comes when its job is over, and isn't told, the lease ends.
        is_left = self._is_late and any(operation.kind is Kind.EPOCH for operation in self.operations)
        if world.profile.is_reliable and not world.deaths and not is_left and self.cluster.open_transactions:
            raise UnexplainedError("a transaction is left open, though nobody has died and each call was answered")
        if self.replaces and tables.configured(self.cluster) != self.operations[-1].table:
            raise UnexplainedError(
                f"the stream is configured for table {tables.configured(self.cluster)}, and the table is "
                f"{self.operations[-1].table}"
            )
        explain(self.operations, self.cluster.table.landed)
        check_log(commits, state)
        rows = sum(len(self.operations[number].rows) for number in self.operations[-1].seen)
        if state.rows is not None and state.rows != rows:
            raise UnexplainedError(f"the log counts {state.rows} rows, and there are {rows}")
        if self.query is not None:
            self.query.judge(self.operations, {commit.job: commit.version for commit in commits})


def failures(
    seeds: range,
    *,
    most: int = 1,
    switch: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
    make: Callable[[int], Any] = History,
) -> list[str]:
    """Run the histories of some seeds, and say which of them can't be explained.

    Args:
        seeds: which ones.
        most: after so many the rest isn't run.
        switch: brings a fault back.
        make: makes the history of a seed.
    """
    texts: list[str] = []
    with modelled(), switch():
        for seed in seeds:
            try:
                make(seed).run()
            except Exception as error:
                texts.append(f"seed {seed}: {type(error).__name__}: {error}")
                if len(texts) == most:
                    break
    return texts
