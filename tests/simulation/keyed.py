"""Histories of a table with a key: rows are written and changed, a column is added, compactions and cuts come and go.

A row is the statement that has written it, and whether it has a value in the column that was added. Whatever a
compaction does, each version's rows are those of its statements, in their order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from cluster_model import KEYS, ROWS, STREAM, ClusterModel
from ending import come_to_rest
from history import UnexplainedError
from model_patches import Turns, played_in, simulation_client
from simulation import FAILED, History
from world import Profile, World
from writing import stage

from pyspark_pravega import clock
from pyspark_pravega.client import SegmentPart
from pyspark_pravega.connector.log import Intent, Ledger, Snapshot, ledger, opening, settle, snapshot, tail
from pyspark_pravega.connector.log.entries import OTHERS, state_content
from pyspark_pravega.connector.log.entry_keys import STATE
from pyspark_pravega.connector.log.history import HolderLog
from pyspark_pravega.connector.option_names import SERIALIZABLE
from pyspark_pravega.connector.read import moment_of, rows_at, versions
from pyspark_pravega.connector.table import ChangeCodec, TableProperties
from pyspark_pravega.connector.write import WritePlan, compaction, overwrite, read_set, retention
from pyspark_pravega.connector.write.deltas import DeltaJob
from pyspark_pravega.connector.write.job import TaskMessage, WriteJob
from pyspark_pravega.connector.write.overwrite import ReadingJob
from pyspark_pravega.connector.write.read_set import ReadSet
from pyspark_pravega.connector.write.task import TransactionTask
from pyspark_pravega.errors import PravegaError, SegmentTruncatedError, VersionNotFoundError

KEYED = 3_000_000
"""Histories of seeds from this one on are of a table with a key."""
COMPACTED, _WIDE = 1 << 40, 1 << 41
_MANY, _KEPT = 26, 20
Rows = dict[int, tuple[int, bool]]
"""Of each key the statement that has written its row, and whether that has a value in the added column."""


class CodecModel(ChangeCodec):
    """Rows need no codec here."""

    def __init__(self) -> None: ...

    def compacting(self) -> ChangeCodec:
        return self


class UpdateJob(DeltaJob):
    """An UPDATE, whose rows need no codec here."""

    def __init__(self, plan: WritePlan) -> None:
        ReadingJob.__init__(self, plan)


@dataclass(kw_only=True)
class Statement:
    """What has written rows."""

    number: int
    keys: tuple[int, ...]
    wide: bool
    """Whether it knows the added column, and so has a value in it."""
    updates: bool = False
    """Whether it has only changed rows: then the value stays what it was."""
    job: str = ""
    acknowledged: bool = False
    failed: bool = False


@dataclass(kw_only=True)
class Cut:
    """A name that somebody was told to have been given."""

    first: int
    """The version, or the first one that it may be."""
    last: int
    dropped: bool = False


@dataclass
class Definition:
    """A table as somebody has looked it up."""

    wide: bool
    key: bool = True
    replaced_table: int = 0
    properties: TableProperties = field(default_factory=TableProperties)

    @property
    def schema(self) -> Any:
        return SimpleNamespace(fieldNames=list)

    @property
    def schema_name(self) -> str:
        return f"shop.orders {int(self.wide)}"


class KeyedHistory:
    """One seed's."""

    looks_early = False
    """Whether compactions look the table up when they begin."""

    def __init__(self, seed: int, profile: Profile | None = None) -> None:
        self.world = World(seed, profile)
        self.cluster = ClusterModel(self.world)
        self.cluster.controller.subscribers = lambda stream: []  # type: ignore[attr-defined]
        self.wide = False
        self.statements: list[Statement] = []
        self.cuts: dict[str, Cut] = {}
        self._looked: list[tuple[int, int, Rows]] = []
        self._early: Definition | None = None

    def run(self) -> None:
        """Let it happen, and judge it.

        Raises:
            AssertionError: something was seen that can't be.
        """
        with played_in(self.world, self.cluster), played_with_a_key(self):
            self._take_part()
            self.world.run()
            self._judge()

    def _take_part(self) -> None:
        rng, add = self.world.rng, self.world.add
        for number in range(rng.choice((2, 3))):
            add(f"writer {number}", partial(self._write, rng.choice((1, 2, 3)), rng.random() < 0.4))
        for number in range(rng.choice((1, 1, 2))):
            add(f"compactor {number}", partial(self._compact, rng.choice((1, 2)), rng.random() < 0.3))
        if rng.random() < 0.6:
            add("alterer", self._alter)
        for number in range(rng.choice((0, 1, 2))):
            add(f"cutter {number}", partial(self._cut, number, rng.choice((1, 2, 3))))
        if rng.random() < 0.3:
            add("others", self._many_versions)
        add("reader", partial(self._read, rng.choice((1, 2, 3))))

    # Actors

    def _write(self, statements: int, updates: bool) -> None:
        rng = self.world.rng
        known = self._definition()
        for _ in range(statements):
            self.world.sleep(rng.choice((0.0, 0.01, 0.3)))
            if rng.random() < 0.6:
                # Else it knows the table as it was up to a second ago.
                known = self._definition()
            with contextlib.suppress(PravegaError):
                self._statement(known, updates=updates)

    def _statement(self, known: Definition, *, updates: bool) -> None:
        rng, client = self.world.rng, self.cluster.client
        keys = tuple(key for key in range(len(KEYS)) if rng.random() < 0.5) or (0,)
        statement = Statement(number=len(self.statements), keys=keys, wide=known.wide, updates=updates)
        self.statements.append(statement)
        reads: list[ReadSet] = []
        before: Rows = {}
        try:
            if updates:
                taken = snapshot.take_snapshot(client, STREAM)
                before = self._rows(taken)
                reads = [replace(ReadSet.of(taken), schema=known.schema_name)]
            plan = keyed_plan()
            job = UpdateJob(plan) if updates else WriteJob(plan)
            statement.job = str(job.job)
            events = [
                event_of(statement.number, key, wide=known.wide and (not updates or before.get(key, (0, False))[1]))
                for key in keys
            ]
            messages: list[TaskMessage | None] = [None]
            try:
                messages[:] = [written(job, events)]
                if isinstance(job, ReadingJob):
                    job.commit_job(messages, seen=reads)
                else:
                    job.commit_job(messages)
            except PravegaError:
                with contextlib.suppress(PravegaError):
                    job.abort_job(messages)
                raise
        except FAILED as error:
            statement.failed = True
            self.world.note(f"is told {error!r}"[:120])
            raise
        statement.acknowledged = True
        self.world.note(f"has written {statement}")

    def _alter(self) -> None:
        self.world.sleep(self.world.rng.choice((0.0, 0.02, 0.2)))
        self.world.step("addSchema")
        self.wide = True
        with contextlib.suppress(PravegaError):
            self._statement(self._definition(), updates=False)

    def _compact(self, times: int, one_more: bool) -> None:
        for _ in range(times):
            self.world.sleep(self.world.rng.choice((0.0, 0.05, 0.5)))
            with contextlib.suppress(PravegaError):
                self._early = self._definition() if self.looks_early else None
                compaction.compact(cast(Any, None), STREAM, one_more=one_more, threads=1)

    def _cut(self, number: int, times: int) -> None:
        """Gives versions names, and forgets some of them."""
        rng, client = self.world.rng, self.cluster.client
        log = cast(Ledger, opening.open_ledger(client, STREAM))
        for time in range(times):
            self.world.sleep(rng.choice((0.0, 0.05, 0.5)))
            first = self.cluster.table.last_version
            version = rng.randint(1, first) if first and rng.random() < 0.7 else None
            name = f"cut_{number}_{time}"
            with contextlib.suppress(PravegaError):
                retention.create_cut(client, log, name, None if version is None else str(version), keyed=True)
                self.cuts[name] = (
                    Cut(first=first, last=self.cluster.table.last_version + 1)
                    if version is None
                    else Cut(first=version, last=version)
                )
                self.world.note(f"has named version {version} {name}")
            if self.cuts and rng.random() < 0.5:
                dropped = rng.choice(sorted(self.cuts))
                self.cuts[dropped].dropped = True
                with contextlib.suppress(PravegaError):
                    log.holders().drop_cut(dropped)
                    retention.release(client, log)

    def _many_versions(self) -> None:
        """Others note so many versions that the log forgets the first ones."""
        client = self.cluster.client
        log = cast(Ledger, opening.open_ledger(client, STREAM))
        self.world.sleep(self.world.rng.choice((0.05, 0.3)))
        for _ in range(_MANY):
            with contextlib.suppress(PravegaError):
                state = settle(client, log)
                now = tail.take_tail(client, STREAM)
                if now is not None:
                    intent = Intent(job=OTHERS, transactions=(), rows=0, bytes=0, started_at=clock.now_ms())
                    log.complete(state, committed_at=clock.now_ms(), cut=now.cut, without_rows=intent)

    def _read(self, looks: int) -> None:
        for _ in range(looks):
            self.world.sleep(self.world.rng.choice((0.0, 0.05, 0.5)))
            with contextlib.suppress(PravegaError):
                taken = snapshot.take_snapshot(self.cluster.client, STREAM)
                self._looked.append((taken.version, taken.version, self._rows(taken)))
            if self.cuts:
                self._read_cut(self.world.rng.choice(sorted(self.cuts)))

    def _read_cut(self, name: str) -> None:
        cut, client = self.cuts[name], self.cluster.client
        try:
            taken = rows_at(client, STREAM, moment_of(client, STREAM, name))
        except (SegmentTruncatedError, VersionNotFoundError) as error:
            if not cut.dropped:
                raise UnexplainedError(f"cut {name} of version {cut.first} is gone: {error}") from None
        except PravegaError:
            if self.world.calm:
                raise
        else:
            self._looked.append((cut.first, cut.last, self._rows(taken)))

    # The table

    def _definition(self) -> Definition:
        self.world.step("registry")
        return Definition(wide=self.wide)

    def definition(self) -> Definition:
        """The table, as a compaction or a commit looks it up."""
        return self._early or self._definition()

    def _rows(self, taken: Snapshot) -> Rows:
        """The rows of a snapshot: of each key the last event that no compaction has written, else the last one."""
        last: dict[int, tuple[bool, int]] = {}
        for part in taken.parts:
            for event in self.cluster.read(part.segment_id, part.start, part.end):
                key = event % ROWS
                newest = (not event & COMPACTED, event)
                if key not in last or newest[0] >= last[key][0]:
                    last[key] = newest
        return {key: ((event & COMPACTED - 1) // ROWS, bool(event & _WIDE)) for key, (_, event) in last.items()}

    def events_of(self, taken: Snapshot, definition: Definition) -> list[int]:
        """What a compaction writes: the rows, with the columns that it knows."""
        rows = self._rows(taken).items()
        return [COMPACTED | event_of(number, key, wide=wide and definition.wide) for key, (number, wide) in rows]

    # What may be seen

    def _judge(self) -> None:
        log = cast(Ledger, opening.open_ledger(self.cluster.client, STREAM))

        def look() -> None:
            settle(self.cluster.client, log)
            self._read(1)
            for name in self.cuts:
                self._read_cut(name)

        come_to_rest(self.world, look)
        jobs, by_job = self.cluster.table.jobs, {one.job: one for one in self.statements if one.job}
        contents: list[Rows] = [{}]
        done: list[Statement] = []
        for version in range(1, max(jobs, default=0) + 1):
            rows = dict(contents[-1])
            statement = by_job.get(jobs[version])
            if statement is not None:
                done.append(statement)
                for key in statement.keys:
                    kept = rows.get(key, (0, False))[1] if statement.updates else statement.wide
                    rows[key] = (statement.number, kept)
            contents.append(rows)
        if len({one.number for one in done}) != len(done) or any(one.failed for one in done):
            raise UnexplainedError(f"a statement is there twice, or has failed: {done}")
        missing = [one for one in self.statements if one.acknowledged and one not in done]
        if missing:
            raise UnexplainedError(f"acknowledged, and not there: {missing}")
        for first, last, rows in self._looked:
            if rows not in contents[first : last + 1]:
                raise UnexplainedError(
                    f"versions {first} to {last} were seen with {rows} instead of {contents[first : last + 1]}"
                )


def history_of(seed: int) -> History | KeyedHistory:
    """The history of a seed, of whichever kind."""
    return KeyedHistory(seed) if seed >= KEYED else History(seed)


def event_of(number: int, key: int, *, wide: bool) -> int:
    return number * ROWS + key | (_WIDE if wide else 0)


def keyed_plan() -> WritePlan:
    return replace(History._plan(cast(Any, None), SERIALIZABLE), codec=CodecModel())


def written(job: WriteJob, events: Sequence[int]) -> TaskMessage:
    """A task writes events."""
    cluster: ClusterModel = simulation_client().pool.cluster
    log = job.ledger().job(job.job)
    task = TransactionTask(cluster.client, log, job.plan, partition=0)
    try:
        return TaskMessage(stage(cluster, task, {event: KEYS[event % ROWS] for event in events}, 0), job=job.job)
    except BaseException:
        task.abort()
        raise


@dataclass
class _ReaderModel:
    history: KeyedHistory
    taken: Snapshot
    known: Definition

    def partitions(self) -> list[Snapshot]:
        return [self.taken] if self.taken.size else []

    def read(self, part: Snapshot) -> list[int]:
        return self.history.events_of(part, self.known)


@contextlib.contextmanager
def played_with_a_key(history: KeyedHistory) -> Iterator[None]:
    """What compactions take from outside is the history's meanwhile."""

    def looked_up(*_: Any) -> Definition:
        return history.definition()

    def reader(known: Definition, taken: Snapshot, *_: Any) -> _ReaderModel:
        return _ReaderModel(history, taken, known)

    def write_partition(self: WriteJob, partition: int, events: list[int]) -> TaskMessage:
        return written(self, events)

    def written_keys(parts: Sequence[SegmentPart]) -> Iterator[Any]:
        for part in parts:
            events = history.cluster.read(part.segment_id, part.start, part.end)
            yield SimpleNamespace(num_rows=sum(not event & COMPACTED for event in events))

    plans = SimpleNamespace(of=lambda *_, **__: keyed_plan())
    patches: list[tuple[Any, str, Any]] = [
        (compaction, "load_definition", looked_up),
        (overwrite, "load_definition", lambda *_: history._definition()),
        (compaction, "snapshot_reader", reader),
        (read_set, "KeyedReader", lambda *_: SimpleNamespace(written_keys=written_keys)),
        (compaction, "WritePlan", plans),
        (compaction, "shared_client", lambda _: simulation_client()),
        (compaction, "ThreadPoolExecutor", Turns),
        (compaction.CompactingJob, "write_partition", write_partition),
        (retention, "_log", SimpleNamespace(warning=lambda *_: None)),
        (versions, "segment_states", lambda pool, stream, ids: history.cluster.segment_states(ids)),
        (ledger, "KEPT_VERSIONS", _KEPT),
        (ledger, "_SWEEP_EVERY", 5),
    ]
    with contextlib.ExitStack() as stack:
        for place, name, new in patches:
            stack.enter_context(patch.object(place, name, new))
        yield


# Faults


@contextlib.contextmanager
def tables_looked_up_early() -> Iterator[None]:
    """A compaction takes the columns that the table has when it begins."""
    with patch.object(KeyedHistory, "looks_early", True):
        yield


@contextlib.contextmanager
def holders_not_compared() -> Iterator[None]:
    """Who removes events doesn't ask whether a cut has come meanwhile."""

    def release(self: Any, holders: Any, old: Any, new: Any) -> Any:
        (stored_as,) = self._table.put((STATE, old.stored_as, state_content(new)))
        return replace(new, stored_as=stored_as)

    with patch.object(HolderLog, "release", release):
        yield


@contextlib.contextmanager
def cuts_not_verified() -> Iterator[None]:
    """Whoever names a version doesn't ask whether its events are there."""
    with patch.object(retention, "_check_retained", lambda *_, **__: None):
        yield


@contextlib.contextmanager
def columns_not_compared() -> Iterator[None]:
    """A statement changes rows that it has read without a column, and so loses what is in it."""
    with patch.object(ReadingJob, "_check_columns", lambda self: None):
        yield


FAULTS: tuple[Callable[[], contextlib.AbstractContextManager[Any]], ...] = (
    tables_looked_up_early,
    holders_not_compared,
    cuts_not_verified,
    columns_not_compared,
)
