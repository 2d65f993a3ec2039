"""Histories of transactions over three tables, beside statements of one table and readers of several.

Each table is a model of its own (`ClusterModel`), all have one world and one client. The records that decide lie in one
more key-value table.
"""

from __future__ import annotations

import contextlib
import copy
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from cluster_model import KEYS, ROWS, ClusterModel
from history import NEVER, Kind, Operation, UnexplainedError, content_of
from model_patches import played_in
from repeating import repeated
from simulation import FAILED
from table_model import TableModel
from world import Profile, World
from writing import MergingJob, write_partitions

from pyspark_pravega.client import Stream
from pyspark_pravega.client.positions import truncate_stream
from pyspark_pravega.connector.log import Ledger, Snapshot, opening, settle, snapshot
from pyspark_pravega.connector.log.decided.decisions import DECISIONS_TABLE
from pyspark_pravega.connector.log.entry_keys import ledger_name
from pyspark_pravega.connector.option_names import EXACTLY_ONCE, SERIALIZABLE
from pyspark_pravega.connector.write import Epoch, WriteJob, WritePlan
from pyspark_pravega.connector.write.commit import Stage
from pyspark_pravega.connector.write.job import TaskMessage
from pyspark_pravega.connector.write.overwrite import OverwritingJob, replace_all
from pyspark_pravega.connector.write.read_set import ReadSet
from pyspark_pravega.connector.write.together import transaction as product
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.settings import Settings

TRANSACTIONS = 5_000_000
"""The first seed of these histories."""
STREAMS = tuple(Stream("shop", name) for name in ("orders", "payments", "stock"))
_SETTINGS = Settings(controller_uri="tcp://model:1")
_Content = tuple[int, ...]
"""Of each table the statements whose rows it has, as bits; and the last epoch that is there."""


class Clusters:
    """Tables of one cluster."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.models = {stream: ClusterModel(world, stream) for stream in STREAMS}
        self.tables = {ledger_name(stream): model.table for stream, model in self.models.items()}
        self.tables[DECISIONS_TABLE] = TableModel(world)
        for table in self.tables.values():
            # Of each third table that a transaction only reads its user may not change the log.
            table.forbidden = 1 / 3
        world.server, world.accident, world.growth = self.work, self.end_a_lease, self.begin_scale
        controller = Dispatching(self)
        self.client: Any = SimpleNamespace(
            controller=controller,
            truncate=lambda cut: truncate_stream(self.client.pool, cut),
            settings=SimpleNamespace(controller_uri="tcp://model:1", timeout=10.0),
            pool=SimpleNamespace(
                controller=controller, timeout=10.0, table_segments={}, known_endpoints=lambda *_: None
            ),
        )
        for model in self.models.values():
            model.client = self.client

    def of(self, stream: Stream) -> ClusterModel:
        """The model that has a stream."""
        return self.models[stream]

    def table_of(self, name: str) -> TableModel:
        """The key-value table of a name."""
        return self.tables[name]

    def work(self) -> bool:
        """Do one thing of what the servers do by themselves; False when there is none to do."""
        models = list(self.models.values())
        self.world.rng.shuffle(models)
        tables = [table for table in self.tables.values() if table.under_way]
        if tables:
            return tables[0].index()
        return any(model.work() for model in models)

    def end_a_lease(self) -> None:
        self.world.rng.choice([*self.models.values()]).end_a_lease()

    def begin_scale(self) -> None:
        self.world.rng.choice([*self.models.values()]).begin_scale()


class Dispatching:
    """Calls of the controller, each to the model that has the stream."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(stream: Stream, *given: Any, **named: Any) -> Any:
            return getattr(self._clusters.of(stream).controller, name)(stream, *given, **named)

        return call


@dataclass(kw_only=True)
class Change:
    """What one client did."""

    number: int
    kind: str
    actor: str
    begun: int
    ended: int = NEVER
    failed: bool = False
    told: str = ""
    read: dict[Stream, frozenset[int]] = field(default_factory=dict)
    """Of each table that it has read the statements whose rows it saw."""
    written: set[Stream] = field(default_factory=set)
    """The tables to which it adds rows."""
    epoch: int | None = None
    """Of a micro-batch its number: it is there once, and none behind a later one."""
    repeated: bool = False
    """Whether it was told that the micro-batch, or a later one, had been there already, or that this one was."""
    emptied: Stream | None = None
    """The table of which it has removed all rows that were there before."""


class TransactionHistory:
    """One seed's."""

    def __init__(self, seed: int, profile: Profile | None = None) -> None:
        self.seed, self.world = seed, World(seed, profile)
        self.clusters = Clusters(self.world)
        self.changes: list[Change] = []
        self.rows: dict[Stream, dict[int, Operation]] = {stream: {} for stream in STREAMS}
        """What each statement has written to each table."""
        self._repeats = bool(seed % 2)

    def run(self) -> None:
        """Let it happen, and judge it.

        Raises:
            AssertionError: something was seen that can't be.
        """
        with played_in(self.world, cast(Any, self.clusters)):
            rng = self.world.rng
            for number in range(rng.choice((2, 2, 3))):
                name = f"driver {number}"
                kinds = [
                    rng.choice(("several",) * 4 + ("insert", "overwrite", "truncate"))
                    for _ in range(rng.choice((1, 2)))
                ]
                self.world.add(name, partial(self._drive, name, kinds))
            for number in range(rng.choice((1, 2))):
                looks = rng.choice((1, 2, 3))
                self.world.add(f"reader {number}", partial(self._read_often, f"reader {number}", looks))
            self.world.run()
            self._judge()

    # Actors

    def _drive(self, name: str, kinds: Sequence[str]) -> None:
        for kind in kinds:
            with contextlib.suppress(PravegaError):
                self._statement(name, kind)

    def _statement(self, name: str, kind: str) -> None:
        change = self._begin(kind, name)
        try:
            if kind == "several":
                self._several(change)
            elif kind == "truncate":
                change.emptied = self.world.rng.choice(STREAMS)
                replace_all(self.clusters.client, _log(self.clusters, change.emptied))
            else:
                self._alone(change)
        except FAILED as error:
            change.failed, change.told = True, repr(error)[:90]
            self.world.note(f"is told {change.told}")
            raise
        except PravegaError as error:
            change.told = repr(error)[:90]
            self.world.note(f"is told {change.told}")
            raise
        self._end(change)

    def _alone(self, change: Change) -> None:
        stream = self.world.rng.choice(STREAMS)
        job = (OverwritingJob if change.kind == "overwrite" else WriteJob)(_plan(stream))
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
            change.read = {stream: self._content(stream, taken) for stream, taken in seen.items()}
        reads = {stream: product.TableRead(stream=stream, seen=[ReadSet.of(taken)]) for stream, taken in seen.items()}
        id, running = uuid.UUID(int=rng.getrandbits(128)), []
        prepared: list[product.Prepared] = []
        epoch = None
        if rng.random() < 0.15:
            # A micro-batch, which others may bring, too.
            change.epoch = rng.choice((0, 1))
            epoch, written = Epoch(query="query", number=change.epoch), list(STREAMS[: 2 + change.epoch])
        try:
            for stream in written:
                job = MergingJob(_plan(stream)) if stream in read and rng.random() < 0.5 else WriteJob(_plan(stream))
                messages: list[TaskMessage | None] = [None, None]
                running = [(job, messages)]
                messages[:] = self._written(change, job, stream)
                scope = None if not prepared else prepared[0].together.scope
                one = product.prepare(job, messages, id, scope, epoch)
                assert one is not None
                prepared.append(one)
                running = []
            if rng.random() < 0.1:
                raise PravegaError("it is rolled back")
            stage = self._asked(change.actor, lambda: product.commit_together(client, copy.deepcopy(prepared), reads))
            change.repeated = stage is Stage.REPEATED and epoch is not None
        except BaseException:
            with contextlib.suppress(PravegaError):
                for job, messages in running:
                    job.abort_job(messages)
                product.withdraw_together(client, prepared)
            raise
        with contextlib.suppress(PravegaError):
            product.forget_together(client, prepared)

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
        taken = snapshot.take_snapshots(self.clusters.client, streams)
        change.read = {stream: self._content(stream, one) for stream, one in taken.items()}
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
        model = self.clusters.of(stream)
        events = []
        for part in taken.parts:
            owner = model.ranges[part.segment_id]
            for event in model.read(part.segment_id, part.start, part.end):
                if not owner.min_key <= KEYS[event % len(KEYS)] < owner.max_key:
                    raise UnexplainedError(f"event {event} lies in segment {part.segment_id}, which has other keys")
                events.append(divmod(event, ROWS))
        return content_of(events, cast(Any, self.rows[stream]))

    def _judge(self) -> None:
        world = self.world
        world.calm = True
        world.later.clear()

        def look() -> None:
            for _ in range(2):
                # The last change of somebody who has died may be read only now.
                for stream in STREAMS:
                    settle(self.clusters.client, _log(self.clusters, stream))
                world.sleep(1.0)
            self._read("the end", STREAMS)

        world.add("the end", look)
        world.run()
        if self.changes[-1].ended == NEVER:
            raise UnexplainedError("the tables can't be read in the end")
        explain_several(self.changes)
        for stream in STREAMS:
            self._check_log(stream)

    def _check_log(self, stream: Stream) -> None:
        log = _log(self.clusters, stream)
        found: list[Any] = []
        self.world.add("the log", lambda: found.extend((list(log.all_commits()), log.state())))
        self.world.run()
        commits, state = found
        if [commit.version for commit in commits] != list(range(1, state.version + 1)):
            raise UnexplainedError(f"the log has versions {[commit.version for commit in commits]}")
        ids = [id for commit in commits for id in commit.transactions]
        if len(set(ids)) != len(ids) or state.pending is not None:
            raise UnexplainedError("a commit is in the log twice, or is left")


def explain_several(changes: Sequence[Change]) -> None:
    """Find an order that explains a history, as `history.explain` does for one table.

    Raises:
        UnexplainedError: there is none.
    """
    asked = [one for one in changes if not one.failed and (one.kind != "read" or one.ended != NEVER)]
    asked.sort(key=lambda one: (one.ended, one.begun))
    needed = sum(1 << one.number for one in asked if one.ended != NEVER)
    places = {stream: place for place, stream in enumerate(STREAMS)}
    dead_ends: set[tuple[int, _Content]] = set()

    def after(one: Change, content: _Content) -> _Content | None:
        now = list(content)
        if one.repeated and one.epoch is not None and now[-1] >= one.epoch:
            # Another one's, whatever this one has read.
            return content
        for stream, seen in one.read.items():
            if content[places[stream]] != sum(1 << number for number in seen):
                return None
        if one.epoch is not None:
            if now[-1] >= one.epoch:
                return None
            now[-1] = one.epoch
        if one.emptied is not None:
            now[places[one.emptied]] = 0
        for stream in one.written:
            now[places[stream]] |= 1 << one.number
        return tuple(now)

    def search(done: int, content: _Content) -> bool:
        if done & needed == needed:
            return True
        if (done, content) in dead_ends:
            return False
        left = [one for one in asked if not done >> one.number & 1]
        first_end = min(one.ended for one in left)
        for one in left:
            follows = after(one, content) if one.begun <= first_end else None
            if follows is not None and search(done | 1 << one.number, follows):
                return True
        dead_ends.add((done, content))
        return False

    if not search(0, (*(0 for _ in STREAMS), -1)):
        lines = "\n".join(
            f"  {one.number:2} {one.actor:10} {one.begun:5} to {'?' if one.ended == NEVER else one.ended:5} {one.kind} "
            f"{'failed' if one.failed else ''} saw { {s.name: sorted(n) for s, n in one.read.items()} }, wrote "
            f"{sorted(s.name for s in one.written)}, emptied {one.emptied}; {one.told}"
            for one in changes
        )
        raise UnexplainedError(f"no order explains this history:\n{lines}")


def _log(clusters: Clusters, stream: Stream) -> Ledger:
    return cast(Ledger, opening.open_ledger(clusters.client, stream))


def _plan(stream: Stream) -> WritePlan:
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
