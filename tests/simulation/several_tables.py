"""Histories of transactions over three tables, beside statements of one table and readers of several.

Each table is a model of its own (`ClusterModel`), all have one world and one client. The records that decide lie in one
more key-value table.
"""

from __future__ import annotations

import contextlib
import pickle
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from cluster_model import KEYS, ClusterModel
from ending import check_log, come_to_rest, rows_of
from history import NEVER, Kind, Operation, UnexplainedError, content_of
from model_patches import played_in
from repeating import repeated
from several_order import STREAMS, Change, explain_several
from simulation import FAILED
from table_model import TableModel
from world import Profile, World
from writing import MergingJob, write_partitions

from pyspark_pravega.client import Stream
from pyspark_pravega.client.positions import truncate_stream
from pyspark_pravega.connector.log import Commit, Ledger, Snapshot, State, opening, settle, snapshot
from pyspark_pravega.connector.log.decided.decisions import DECISIONS_TABLE
from pyspark_pravega.connector.log.entry_keys import ledger_name
from pyspark_pravega.connector.option_names import EXACTLY_ONCE, SERIALIZABLE
from pyspark_pravega.connector.write import Epoch, WriteJob, WritePlan
from pyspark_pravega.connector.write.commit import Stage
from pyspark_pravega.connector.write.job import TaskMessage
from pyspark_pravega.connector.write.overwrite import OverwritingJob, replace_all
from pyspark_pravega.connector.write.read_set import ReadSet
from pyspark_pravega.connector.write.together import transaction as product
from pyspark_pravega.errors import PravegaError, StreamNotFoundError
from pyspark_pravega.settings import Settings

TRANSACTIONS = 5_000_000
"""The first seed of these histories."""
_SETTINGS = Settings(controller_uri="tcp://model:1")


_NAMES: dict[str, Stream | None] = {ledger_name(stream): stream for stream in STREAMS}
_NAMES[DECISIONS_TABLE] = None


class Clusters:
    """Tables of one cluster."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.models = self.make_models()
        self.records = TableModel(world)
        """Of transactions."""
        for table in (*(model.table for model in self.models.values()), self.records):
            # Of each third table that a transaction only reads its user may not change the log.
            table.forbidden = 1 / 3
        world.server, world.accident, world.growth = self.work, self.end_a_lease, self.begin_scale
        controller = self.controller()
        self.client: Any = SimpleNamespace(
            controller=controller,
            truncate=lambda cut: truncate_stream(self.client.pool, cut),
            settings=SimpleNamespace(controller_uri="tcp://model:1", timeout=10.0),
            pool=SimpleNamespace(
                controller=controller,
                timeout=10.0,
                table_segments={},
                segment_lists={},
                known_endpoints=lambda *_: None,
            ),
        )
        for model in self.models.values():
            model.client = self.client

    def make_models(self) -> dict[Stream, ClusterModel]:
        """The tables, anew."""
        return {stream: ClusterModel(self.world, stream) for stream in STREAMS}

    def controller(self) -> Dispatching:
        """What answers calls of the controller."""
        return Dispatching(self)

    def of(self, stream: Stream) -> ClusterModel:
        """The model that has a stream."""
        return self.models[stream]

    def table_of(self, name: str) -> TableModel:
        """The key-value table of a name."""
        stream = _NAMES[name]
        return self.records if stream is None else self.log_of(stream)

    def log_of(self, stream: Stream) -> TableModel:
        """The key-value table with a table's commit log."""
        return self.models[stream].table

    def work(self) -> bool:
        """Do one thing of what the servers do by themselves; False when there is none to do."""
        models = list(self.models.values())
        self.world.rng.shuffle(models)
        for table in (*(model.table for model in models), self.records):
            if table.under_way:
                return table.index()
        return any(model.work() for model in models)

    def end_a_lease(self) -> None:
        self.world.rng.choice([*self.models.values()]).end_a_lease()

    def begin_scale(self) -> None:
        self.world.rng.choice([*self.models.values()]).begin_scale()


class Dispatching:
    """Calls of the controller, each to the model that has the stream."""

    def __init__(self, clusters: Clusters) -> None:
        self.clusters = clusters

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(stream: Stream, *given: Any, **named: Any) -> Any:
            return getattr(self.clusters.of(stream).controller, name)(stream, *given, **named)

        return call


class TransactionHistory:
    """One seed's."""

    kinds: tuple[str, ...] = ("several",) * 4 + ("insert", "overwrite", "truncate")
    """What drivers do, the more often the more often it is here."""

    def __init__(self, seed: int, profile: Profile | None = None) -> None:
        self.seed, self.world = seed, World(seed, profile)
        self.clusters = self.make_clusters()
        self.changes: list[Change] = []
        self.rows: dict[Stream, dict[int, Operation]] = {stream: {} for stream in STREAMS}
        """What each statement has written to each table."""
        self._repeats = bool(seed % 2)

    def make_clusters(self) -> Clusters:
        """The tables, anew."""
        return Clusters(self.world)

    def run(self) -> None:
        """Let it happen, and judge it.

        Raises:
            AssertionError: something was seen that can't be.
        """
        with played_in(self.world, cast(Any, self.clusters)):
            self._take_part()
            self.world.run()
            self._judge()

    # Actors

    def _take_part(self) -> None:
        rng = self.world.rng
        for number in range(rng.choice((2, 2, 3))):
            name = f"driver {number}"
            kinds = [rng.choice(self.kinds) for _ in range(rng.choice((1, 2)))]
            self.world.add(name, partial(self._drive, name, kinds))
        for number in range(rng.choice((1, 2))):
            looks = rng.choice((1, 2, 3))
            self.world.add(f"reader {number}", partial(self._read_often, f"reader {number}", looks))

    def _drive(self, name: str, kinds: Sequence[str]) -> None:
        for kind in kinds:
            with contextlib.suppress(PravegaError):
                self._statement(name, kind)

    def _statement(self, name: str, kind: str, epoch: int | None = None) -> None:
        change = self._begin(kind, name)
        change.epoch = epoch
        try:
            if kind == "several":
                self._several(change)
            elif kind == "truncate":
                change.emptied = self.world.rng.choice(STREAMS)
                replace_all(self.clusters.client, log_of(self.clusters, change.emptied))
            elif kind in ("insert", "overwrite"):
                self._alone(change)
            else:
                self._other(change)
        except PravegaError as error:
            change.failed, change.told = self._has_failed(change, error), repr(error)[:90]
            self.world.note(f"is told {change.told}")
            raise
        if change.ended == NEVER:
            self._end(change)

    def _has_failed(self, change: Change, error: PravegaError) -> bool:
        """Whether a client that is told this may rely on nothing having been written."""
        return isinstance(error, FAILED)

    def _alone(self, change: Change) -> None:
        stream = self.world.rng.choice(STREAMS)
        job = OverwritingJob(plan_of(stream)) if change.kind == "overwrite" else self._job(stream, merges=False)
        if change.kind == "overwrite":
            change.emptied = stream
        messages: list[TaskMessage | None] = [None, None]
        try:
            messages[:] = self._written(change, job, stream)
            job.commit_job(messages)
            with contextlib.suppress(PravegaError):
                job.forget_commit()
        except PravegaError:
            with contextlib.suppress(PravegaError):
                job.abort_job(messages)
            raise

    def _other(self, change: Change) -> None:
        """What only other histories have."""
        raise AssertionError(change.kind)

    def _several(self, change: Change) -> None:
        rng, client = self.world.rng, self.clusters.client
        written = rng.sample(STREAMS, rng.choice((1, 2, 2, 3)))
        read = rng.sample(STREAMS, rng.choice((0, 0, 1, 2, 3)))
        seen: dict[Stream, Snapshot] = {}
        if read:
            seen = snapshot.take_snapshots(client, read[:2])
            if len(read) > 2:
                # A later statement reads one more table, at the same moment.
                before = {stream: taken.version for stream, taken in seen.items()}
                seen |= snapshot.take_snapshots(client, read[2:], before)
        reads = {stream: self._noted(change, stream, taken) for stream, taken in seen.items()}
        id, running = uuid.UUID(int=rng.getrandbits(128)), []
        prepared: list[product.Prepared] = []
        if self._is_epoch(change):
            written = list(STREAMS[: 2 + min(change.epoch or 0, 1)])
        epoch = None if change.epoch is None else Epoch(query="query", number=change.epoch)
        try:
            for stream in written:
                job = self._job(stream, merges=stream in read and rng.random() < 0.5)
                messages: list[TaskMessage | None] = [None, None]
                running = [(job, messages)]
                messages[:] = self._written(change, job, stream)
                scope = None if not prepared else prepared[0].together.scope
                one = product.prepare(job, messages, id, scope, epoch)
                assert one is not None
                prepared.append(one)
                running = []
                self._goes_on(change, prepared)
            if rng.random() < 0.1:
                raise PravegaError("it is rolled back")
            # Each process has a copy of what the JVM holds.
            kept = pickle.dumps(prepared)
            stage = self._asked(change.actor, lambda: product.commit_together(client, pickle.loads(kept), reads))
            change.repeated = stage is Stage.REPEATED and epoch is not None
        except BaseException:
            with contextlib.suppress(PravegaError):
                for job, messages in running:
                    job.abort_job(messages)
                product.withdraw_together(client, prepared)
            raise
        with contextlib.suppress(PravegaError):
            product.forget_together(client, prepared)

    def _is_epoch(self, change: Change) -> bool:
        """Whether it is a micro-batch, which others may bring, too."""
        if self.world.rng.random() < 0.15:
            change.epoch = self.world.rng.choice((0, 1))
        return change.epoch is not None

    def _noted(self, change: Change, stream: Stream, taken: Snapshot) -> product.TableRead:
        """What a transaction has read of a table."""
        change.read[stream] = self._content(stream, taken)
        return product.TableRead(stream=stream, seen=[ReadSet.of(taken)])

    def _job(self, stream: Stream, *, merges: bool) -> WriteJob:
        return MergingJob(plan_of(stream)) if merges else WriteJob(plan_of(stream))

    def _goes_on(self, change: Change, prepared: list[product.Prepared]) -> None:
        """A transaction may have another statement on the table that it has just written to."""

    def _asked(self, name: str, ask: Callable[[], Stage]) -> Stage:
        if not self._repeats or self.world.rng.random() < 0.3:
            return ask()
        return repeated(self.world, name, ask, partial(self._others, name))

    def _others(self, name: str, count: int) -> None:
        for _ in range(min(count, 3)):
            with contextlib.suppress(PravegaError):
                self._statement(f"{name} +", self.world.rng.choice(("insert", "several")))

    def _written(self, change: Change, job: WriteJob, stream: Stream) -> list[TaskMessage]:
        model = self.clusters.of(stream)
        own = Operation(number=change.number, kind=Kind.INSERT, actor=change.actor, begun=change.begun)
        self.rows[stream][change.number] = own
        change.written.add(stream)
        return write_partitions(model, job, own, empty=False)

    def _read_often(self, name: str, looks: int) -> None:
        for _ in range(looks):
            with contextlib.suppress(PravegaError):
                self._read(name, self.world.rng.sample(STREAMS, self.world.rng.choice((1, 2, 2, 3))))

    def _read(self, name: str, streams: Sequence[Stream]) -> None:
        change = self._begin("read", name)
        for stream, taken in snapshot.take_snapshots(self.clusters.client, streams).items():
            self._noted(change, stream, taken)
        self._end(change)

    # What was seen

    def _begin(self, kind: str, actor: str) -> Change:
        change = Change(number=len(self.changes), kind=kind, actor=actor, begun=self.world.steps)
        self.changes.append(change)
        self.world.note(f"begins {change.number}: {kind}")
        return change

    def _end(self, change: Change) -> None:
        change.ended = self.world.steps
        self.world.note(f"is through with {change.number}")

    def _content(self, stream: Stream, taken: Snapshot) -> frozenset[int]:
        return content_of(rows_of(self.clusters.of(stream), taken), cast(Any, self.rows[stream]))

    def _judge(self) -> None:
        def look() -> list[tuple[list[Commit], State]]:
            for _ in range(2):
                # The last change of somebody who has died may be read only now.
                for stream in self._there():
                    settle(self.clusters.client, log_of(self.clusters, stream))
                self.world.sleep(1.0)
            there = self._there()
            self._read("the end", there)
            logs = [log_of(self.clusters, stream) for stream in there]
            return [(list(log.all_commits()), log.state()) for log in logs]

        looked = come_to_rest(self.world, look)
        if self.changes[-1].ended == NEVER:
            raise UnexplainedError("the tables can't be read in the end")
        explain_several(self.changes)
        if any(model.asked_at_once for model in self.clusters.models.values()):
            raise UnexplainedError("two have asked for one transaction's commit at once")
        for commits, state in looked:
            check_log(commits, state)

    def _there(self) -> Sequence[Stream]:
        """The tables that haven't been dropped."""
        return STREAMS


def log_of(clusters: Clusters, stream: Stream) -> Ledger:
    """A table's commit log.

    Raises:
        StreamNotFoundError: there is no such table.
    """
    log: Ledger | None = opening.open_ledger(clusters.client, stream)
    if log is None:
        raise StreamNotFoundError(f'there is no stream "{stream}"')
    return log


def plan_of(stream: Stream) -> WritePlan:
    """How a statement writes to a table."""
    nothing: Any = None
    return WritePlan(
        settings=_SETTINGS,
        stream=stream,
        codec=nothing,
        form=nothing,
        routing=cast(Any, KEYS),
        mode=EXACTLY_ONCE,
        lease_ms=60_000,
        event_time=None,
        cluster_by=(),
        query=None,
        epoch=None,
        isolation=SERIALIZABLE,
        segment_id=0,
        replaced_table=0,
    )
