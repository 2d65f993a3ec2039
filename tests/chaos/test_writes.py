"""Whatever dies while Spark writes: every row is there once, in order per key, and nobody ever sees a part of a commit.

`make chaos` makes 300 runs, and 50 with scaling; `make chaos-sample` as many as fit into two minutes. A run plays
Spark's part with processes of its own, one for each task attempt and for the catalog process, which are killed, cut off
or stalled beyond the lease at a step that the seed decides; a reader watches all the time.
`CHAOS_FIRST_SEED=N CHAOS_RUNS=1` repeats one.
"""

from __future__ import annotations

import os
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from client_tools import make_stream
from connector_tools import ledger_of, size_until
from write_processes import (
    CUT,
    DRIVER_STEPS,
    KILL,
    KINDS,
    STALL,
    TASK_STEPS,
    Child,
    Fault,
    KeyOfEvent,
    Lost,
    abort_job,
    begin_job,
    begin_run,
    commit_job,
    nursery,
    run_task,
)

from pyspark_pravega.client import Client, Stream, TransactionState
from pyspark_pravega.connector.log.snapshot import take_snapshot
from pyspark_pravega.connector.options import MIN_LEASE_MS, WriteOptions
from pyspark_pravega.connector.read.reader import BatchReader
from pyspark_pravega.connector.table.definition import raw_definition
from pyspark_pravega.connector.write.job import TaskMessage
from pyspark_pravega.connector.write.plan import Epoch, WritePlan
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.timeout(14_400)]

RUNS = int(os.environ.get("CHAOS_RUNS") or os.environ.get("CHAOS_WRITE_RUNS", "0"))
SCALING_RUNS = int(os.environ.get("CHAOS_RUNS") or os.environ.get("CHAOS_SCALING_RUNS", "0"))
FIRST_SEED = int(os.environ.get("CHAOS_FIRST_SEED", "0"))
SAMPLE_S = float(os.environ.get("CHAOS_WRITE_SAMPLE_S", "240"))
AT_ONCE = 4
LEASE_MS = MIN_LEASE_MS
STALL_S = LEASE_MS / 1000 + 2.0
ATTEMPTS = 8
SPARKS_LOG = "Spark's commit"

Row = tuple[str, int, int, int]
"""Whose it is, the epoch, key and number."""


@dataclass
class Plan:
    """What a writer has to write: for each epoch its partitions, each with its batches of events."""

    name: str
    epochs: list[list[list[list[bytes]]]]
    expected: dict[int, int]
    """Key to how many of its rows there are."""

    def rows(self, epoch: int) -> int:
        return sum(len(batch) for partition in self.epochs[epoch] for batch in partition)


def make_plan(chance: random.Random, name: str, keys: range, epochs: int) -> Plan:
    made, expected = [], dict.fromkeys(keys, 0)
    for epoch in range(epochs):
        partitions = chance.randint(1, 3)
        batches: list[list[list[bytes]]] = [[] for _ in range(partitions)]
        for _ in range(chance.randint(1, 4)):
            for partition in range(partitions):
                # All rows of a key are one task's, as with cluster-by-key.
                own = [key for key in keys if key % partitions == partition]
                events = []
                for _ in range(chance.randint(1, 30) if own else 0):
                    key = chance.choice(own)
                    events.append(f"{name} {epoch} {key} {expected[key]}".encode())
                    expected[key] += 1
                if events:
                    batches[partition].append(events)
        made.append(batches)
    return Plan(name=name, epochs=made, expected=expected)


@dataclass
class Run:
    """What one seed decides, and what it comes to."""

    client: Client
    plan: WritePlan
    chance: random.Random
    plans: list[Plan]
    fault: Fault | None
    faulty_epoch: int
    scaling: bool
    struck: bool = False
    scaled: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take_fault(self, steps: tuple[str, ...], epoch: int) -> Fault | None:
        """The run's fault, for the process that it is to strike: it strikes once."""
        with self.lock:
            if self.struck or self.fault is None or epoch < self.faulty_epoch or self.fault.step not in steps:
                return None
            self.struck = True
            return self.fault

    def read(self) -> list[Row]:
        definition = raw_definition(self.plan.settings, self.plan.stream, {})
        reader = BatchReader(definition, take_snapshot(self.client, self.plan.stream), ["event"])
        rows = []
        for partition in reader.partitions():
            for batch in reader.read(partition):
                for event in batch.column("event").to_pylist():
                    name, epoch, key, number = event.split()
                    rows.append((name.decode(), int(epoch), int(key), int(number)))
        return rows

    def check_whole(self, rows: list[Row]) -> None:
        """Of each commit all rows are there, or none."""
        for (name, epoch), count in Counter((name, epoch) for name, epoch, _, _ in rows).items():
            (plan,) = [plan for plan in self.plans if plan.name == name]
            assert count == plan.rows(epoch), f"{count} of {plan.rows(epoch)} rows of {name}'s epoch {epoch}"

    def check_all(self, rows: list[Row]) -> None:
        """Every row is there, once, and those of a key in order."""
        self.check_whole(rows)
        found: dict[int, list[int]] = {}
        for _, _, key, number in rows:
            found.setdefault(key, []).append(number)
        expected = {key: list(range(count)) for plan in self.plans for key, count in plan.expected.items() if count}
        assert found == expected

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at the stream again and again meanwhile."""
        over, failed = threading.Event(), []
        looks = [0]

        def look() -> None:
            try:
                while not over.is_set():
                    self.check_whole(self.read())
                    looks[0] += 1
                    over.wait(0.1)
            except BaseException as error:
                failed.append(error)

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join(90)
        if failed:
            raise failed[0]
        assert looks[0] > 0


class Driver:
    """Spark's driver and its catalog process, as far as a write knows them."""

    def __init__(self, run: Run, plan: Plan, *, streaming: bool) -> None:
        self._run, self._plan, self._streaming = run, plan, streaming
        self._children: list[Child] = []
        self._catalog: Child | None = None
        self._id = ""
        self._done = -1

    def write_all(self) -> None:
        """Every epoch, with as many drivers as it takes."""
        failures: list[Exception] = []
        try:
            while len(failures) < ATTEMPTS:
                try:
                    self._live()
                    return
                except (Lost, PravegaError) as error:
                    # The driver, or its query, has failed: it is started again from its checkpoint.
                    failures.append(error)
                    self._lose_catalog()
            raise ExceptionGroup(f"{self._plan.name} has failed {ATTEMPTS} times", failures)
        finally:
            for child in self._children:
                child.end()

    def _live(self) -> None:
        self._id = str(uuid.uuid4())
        epoch = self._done + 1
        if self._streaming and epoch < len(self._plan.epochs):
            self._ask(epoch, begin_run, self._run.plan, self._plan.name, self._id)
        while (epoch := self._done + 1) < len(self._plan.epochs):
            self._write(epoch)
            if self._run.take_fault((SPARKS_LOG,), epoch):
                raise Lost
            self._done = epoch

    def _write(self, epoch: int) -> None:
        partitions = self._plan.epochs[epoch]
        job: bytes = self._ask(epoch, begin_job, self._run.plan, self._streaming)
        named = Epoch(query=self._plan.name, number=epoch, run=self._id if self._streaming else None)
        with ThreadPoolExecutor(len(partitions)) as threads:
            tasks = [
                threads.submit(self._write_partition, job, number, batches, epoch)
                for number, batches in enumerate(partitions)
            ]
            if self._run.scaling:
                self._scale()
            try:
                messages = [task.result() for task in tasks]
            except (Lost, PravegaError):
                self._ask(epoch, abort_job, job, len(partitions), again=True)
                raise
        # As the JVM does it: the commit is repeated when the catalog process dies.
        self._ask(epoch, commit_job, job, messages, named, again=True)

    def _write_partition(self, job: bytes, number: int, batches: list[list[bytes]], epoch: int) -> TaskMessage:
        """As Spark does it: another attempt for one that is lost or has failed, three times."""
        for attempt in range(4):
            if self._run.scaling and attempt == 0:
                time.sleep(self._run.chance.random() * 0.3)
            worker = Child(self._run.take_fault(TASK_STEPS, epoch))
            self._children.append(worker)
            try:
                message: TaskMessage = worker.call(run_task, job, number, batches, stalled=self._stalled)
            except Lost:
                continue
            except PravegaError:
                if attempt == 3:
                    raise
                continue
            worker.end()
            return message
        raise Lost

    def _ask(self, epoch: int, what: Callable[..., Any], *arguments: object, again: bool = False) -> Any:
        for repeated in (False, True):
            if self._catalog is None:
                self._catalog = Child(self._run.take_fault(DRIVER_STEPS, epoch))
                self._children.append(self._catalog)
            try:
                return self._catalog.call(what, *arguments, stalled=self._stalled)
            except Lost:
                self._catalog = None
                if repeated or not again:
                    raise
        raise Lost

    def _lose_catalog(self) -> None:
        if self._catalog is not None:
            self._catalog.end()
            self._catalog = None

    def _stalled(self, child: Child) -> bool:
        """A process has stalled: it goes on when its lease is over; Spark may have given it up by then."""
        if self._run.chance.random() < 0.5:
            time.sleep(STALL_S)
            child.wake()
            return True
        threading.Timer(STALL_S, child.wake).start()
        return False

    def _scale(self) -> None:
        controller, chance = self._run.client.controller, self._run.chance
        ranges = controller.current_segments(self._run.plan.stream).ranges
        with suppress(PravegaError):
            if len(ranges) > 1 and chance.random() < 0.5:
                index = chance.randrange(len(ranges) - 1)
                controller.scale_stream(
                    self._run.plan.stream,
                    [ranges[index].segment_id, ranges[index + 1].segment_id],
                    [(ranges[index].min_key, ranges[index + 1].max_key)],
                )
            else:
                controller.split_segment(self._run.plan.stream, chance.choice(ranges).segment_id, 2)
            self._run.scaled += 1


class Chaos:
    """Runs, several at a time; what they leave open is looked at when its lease must be over."""

    def __init__(self, client: Client, settings: Settings, scope: str, *, scaling: bool) -> None:
        nursery()
        self._client, self._settings, self._scope, self._scaling = client, settings, scope, scaling
        self._left: list[tuple[Stream, uuid.UUID, float, int]] = []
        self.struck: Counter[str] = Counter()
        self.scaled = 0

    def run(self, seed: int) -> None:
        """One run.

        Args:
            seed: decides everything.
        """
        chance = random.Random(f"{seed}/{self._scaling}")
        stream = make_stream(self._client, self._scope, f"seed-{seed}", segments=chance.randint(1, 4))
        definition = raw_definition(self._settings, stream, {})
        options = WriteOptions(transaction_timeout_ms=LEASE_MS)
        run = Run(
            client=self._client,
            plan=replace(WritePlan.of(definition, options), routing=KeyOfEvent()),  # type: ignore[arg-type]
            chance=chance,
            plans=[
                make_plan(chance, f"w{number}", range(number * 10, number * 10 + chance.randint(1, 8)), epochs=3)
                for number in range(chance.choice([1, 1, 2]))
            ],
            fault=self._fault(chance),
            faulty_epoch=chance.randint(0, 1),
            scaling=self._scaling,
        )
        drivers = [Driver(run, plan, streaming=chance.random() < 0.6) for plan in run.plans]
        with run.watched(), ThreadPoolExecutor(len(drivers)) as threads:
            for done in [threads.submit(driver.write_all) for driver in drivers]:
                done.result()
        run.check_all(run.read())
        self._check_log(run, definition)
        if run.fault is not None and run.struck:
            self.struck[f"{run.fault.kind} {'after' if run.fault.after else 'before'} {run.fault.step}"] += 1
        self.scaled += run.scaled
        self._note_open(run, seed)

    def check_leases(self) -> None:
        """No transaction outlives its lease."""
        for stream, transaction, until, seed in self._left:
            time.sleep(max(0.0, until - time.monotonic()))
            state = self._client.controller.transaction_state(stream, transaction)
            assert state is not TransactionState.OPEN, f"seed {seed}: transaction {transaction} is still open"

    def _fault(self, chance: random.Random) -> Fault | None:
        step = chance.choice([*TASK_STEPS, *DRIVER_STEPS, SPARKS_LOG])
        kind = chance.choices([KILL, CUT, STALL], [5, 3, 2])[0]
        assert kind in KINDS
        return None if self._scaling and chance.random() < 0.5 else Fault(step, chance.random() < 0.5, kind)

    def _check_log(self, run: Run, definition: Any) -> None:
        """One version for each commit, whole and in one order."""
        ledger = ledger_of(self._client, definition)
        # The last commit's entry may be somebody else's to complete.
        version = ledger.state().version
        commits = ledger.commits(range(1, version + 1))
        assert len(commits) == version
        written = Counter((commit.query, commit.epoch) for commit in commits)
        assert set(written.values()) == {1}
        sizes = [size_until(self._client, definition.stream, commit) for commit in commits]
        assert sizes == sorted(sizes)

    def _note_open(self, run: Run, seed: int) -> None:
        until = time.monotonic() + LEASE_MS / 1000 + 15
        controller = self._client.controller
        try:
            latest = controller.begin_transaction(run.plan.stream, lease_ms=LEASE_MS).id
        except PravegaError:
            return
        controller.abort_transaction(run.plan.stream, latest)
        counter = latest.int & (2**64 - 1)
        for back in range(1, min(30, counter) + 1):
            id_ = uuid.UUID(int=latest.int - back)
            if controller.transaction_state(run.plan.stream, id_) is TransactionState.OPEN:
                self._left.append((run.plan.stream, id_, until, seed))


def run_many(chaos: Chaos, runs: int, seconds: float) -> int:
    """As many runs as asked for, or as fit into a time; returns their number."""
    begun, seed, done = time.monotonic(), FIRST_SEED, 0
    waiting: dict[Future[None], int] = {}
    with ThreadPoolExecutor(AT_ONCE) as threads:
        while waiting or (seed - FIRST_SEED < runs if runs else time.monotonic() - begun < seconds):
            while len(waiting) < AT_ONCE and (seed - FIRST_SEED < runs if runs else time.monotonic() - begun < seconds):
                waiting[threads.submit(chaos.run, seed)] = seed
                seed += 1
            for over in wait(waiting, return_when=FIRST_COMPLETED).done:
                number = waiting.pop(over)
                if error := over.exception():
                    error.add_note(f"CHAOS_FIRST_SEED={number} CHAOS_RUNS=1 repeats it")
                    raise error
                done += 1
    chaos.check_leases()
    print(f"{done} runs, {time.monotonic() - begun:.0f} s, {chaos.scaled} scales; {dict(sorted(chaos.struck.items()))}")
    return done


def test_seeded_runs_of_writers_that_come_to_harm(client: Client, settings: Settings, scope: str) -> None:
    chaos = Chaos(client, settings, scope, scaling=False)
    done = run_many(chaos, RUNS, SAMPLE_S * 0.75)
    assert chaos.struck.total() > done / 4, "too few faults have struck to prove anything"


def test_seeded_runs_of_writers_while_the_stream_scales(client: Client, settings: Settings, scope: str) -> None:
    chaos = Chaos(client, settings, scope, scaling=True)
    done = run_many(chaos, SCALING_RUNS, SAMPLE_S * 0.25)
    assert chaos.scaled >= done / 2, "the stream has scaled too seldom to prove anything"
