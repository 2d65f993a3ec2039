"""Transactions over three tables and readers of two and three, on real servers, while those who commit them are killed.

A round has three sessions with three transactions each, and a reader. The processes that play the catalog process and
Spark's tasks are killed, cut off or halted at steps that the seed decides; some sessions die with theirs, others ask
the next process for the same commit. Tables are scaled. One order of all that was acknowledged must explain what each
has seen, as in the simulation (`several_order`).
`TRANSACTION_ROUNDS=100` makes so many rounds, `CHAOS_FIRST_SEED=N TRANSACTION_ROUNDS=1` repeats one, as far as time can
be repeated.
"""

from __future__ import annotations

import os
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
import transaction_steps as steps
from client_tools import scale_at_random
from connector_tools import ledger_of, raw_table
from history import NEVER, UnexplainedError
from several_order import Change, explain_several
from write_processes import CUT, KILL, STALL, TASK_STEPS, TOGETHER_STEPS, Child, Fault, Lost, nursery, run_task

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.connector.write import Epoch, Prepared, ReadSet
from pyspark_pravega.errors import PravegaError, UnavailableError
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.timeout(14_400)]

ROUNDS = int(os.environ.get("CHAOS_RUNS") or os.environ.get("TRANSACTION_ROUNDS", "0"))
FIRST_SEED = int(os.environ.get("CHAOS_FIRST_SEED", "0"))
SAMPLE_S = float(os.environ.get("CHAOS_TRANSACTION_SAMPLE_S", "20"))
AT_ONCE = 3
STALL_S = steps.GRACE_S + 1.0


class Round:
    """What one seed decides, and what it comes to."""

    def __init__(self, client: Client, settings: Settings, scope: str, seed: int) -> None:
        self.seed, self.chance = seed, random.Random(f"{seed}/transactions")
        self.client = client
        self.tables = [
            raw_table(client, settings, scope, f"round-{seed}-{name}", segments=self.chance.randint(1, 3))
            for name in "abc"
        ]
        self.streams = [table.stream for table in self.tables]
        self.changes: list[Change] = []
        self.rows: dict[tuple[int, Stream], int] = {}
        """How many rows a change writes to a table."""
        self.struck = Counter[str]()
        self._lock, self._over = threading.Lock(), threading.Event()

    def run(self) -> None:
        """Let it happen, and judge it.

        Raises:
            UnexplainedError: something was seen that can't be.
        """
        threads = [threading.Thread(target=self._read_on)]
        if self.chance.random() < 0.5:
            threads.append(threading.Thread(target=self._scale))
        sessions = [Session(self, number, self.chance.random()) for number in range(3)]
        failures: list[BaseException] = []
        for thread in threads:
            thread.start()
        try:
            with ThreadPoolExecutor(len(sessions)) as pool:
                for done in [pool.submit(session.run) for session in sessions]:
                    try:
                        done.result()
                    except BaseException as error:
                        failures.append(error)
        finally:
            self._over.set()
            for thread in threads:
                thread.join()
            for session in sessions:
                session.end()
        if failures:
            raise failures[0]
        for _ in range(2):
            # The last one of the dead may come back to life behind the first look.
            steps.come_to_rest(self.tables)
        self.look("the end", self.tables)
        assert self.changes[-1].ended != NEVER
        explain_several(self.changes, self.streams)
        for table in self.tables:
            self._check_log(table)

    def begin(self, kind: str, actor: str) -> Change:
        with self._lock:
            change = Change(number=len(self.changes), kind=kind, actor=actor, begun=time.monotonic_ns())
            self.changes.append(change)
        return change

    def look(self, actor: str, tables: Sequence[TableDefinition]) -> None:
        """Read tables at one moment."""
        change = self.begin("read", actor)
        self.note(change, steps.look(tables, {}))
        change.ended = time.monotonic_ns()

    def note(self, change: Change, looked: steps.Looked) -> None:
        """Note what a change has seen.

        Raises:
            UnexplainedError: a part of a statement.
        """
        for stream, (_, events) in looked.items():
            counted = Counter(int(event.split()[0]) for event in events)
            if len(set(events)) != len(events):
                raise UnexplainedError(f"rows of {stream} are there twice: {counted}")
            for number, count in counted.items():
                if self.rows.get((number, stream)) != count:
                    raise UnexplainedError(f"{count} rows of {self.rows.get((number, stream))} of {number} in {stream}")
            change.read[stream] = frozenset(counted)

    def _read_on(self) -> None:
        chance = random.Random(f"{self.seed}/reader")
        while not self._over.wait(chance.uniform(0, 0.2)):
            with suppress(PravegaError):
                self.look("reader", chance.sample(self.tables, chance.choice((2, 2, 3))))

    def _scale(self) -> None:
        chance = random.Random(f"{self.seed}/scales")
        while not self._over.wait(chance.uniform(0.1, 2.0)):
            with suppress(PravegaError):
                scale_at_random(self.client, chance.choice(self.streams), chance)
                self.struck["scales"] += 1

    def _check_log(self, table: TableDefinition) -> None:
        log = ledger_of(self.client, table)
        commits, state = list(log.all_commits()), log.state()
        assert [commit.version for commit in commits] == list(range(1, state.version + 1))
        assert state.pending is None
        ids = [id for commit in commits for id in commit.transactions]
        assert len(set(ids)) == len(ids)


class Session:
    """A session's transactions, one after another, with as many catalog processes as it takes."""

    def __init__(self, round: Round, number: int, seed: float) -> None:
        self._round, self._name = round, f"session {number}"
        self._chance = random.Random(f"{seed}/{number}")
        self._children: list[Child] = []
        self._catalog: Child | None = None
        self._query = number == 0 and self._chance.random() < 0.4
        """Whether it is a streaming query, whose driver is started again from its checkpoint."""
        self._epoch = 0

    def run(self) -> None:
        for _ in range(3):
            with suppress(PravegaError, Lost):
                self._transaction()

    def end(self) -> None:
        for child in self._children:
            child.wake()
            child.end()

    def _transaction(self) -> None:
        chance, round = self._chance, self._round
        change = round.begin("several", self._name)
        fault = None
        if chance.random() < 0.7:
            step = chance.choice([*TOGETHER_STEPS, *TASK_STEPS[-2:]])
            kind = chance.choices([KILL, CUT, STALL], [6, 2, 2])[0]
            fault = Fault(step, chance.random() < 0.5, kind, times=chance.choice((0, 0, 1, 2)))
        if fault is not None and fault.step in TOGETHER_STEPS:
            self._replace_catalog(fault)
        prepared: list[Prepared] = []
        is_asked = False
        try:
            read: list[TableDefinition] = chance.sample(round.tables, chance.choice((0, 0, 1, 2, 3)))
            written = chance.sample(round.tables, chance.choice((1, 2, 2, 3)))
            epoch = None
            if self._query:
                epoch, written = Epoch(query="q", number=self._epoch), list(round.tables)
                change.epoch, self._epoch = self._epoch, self._epoch + (chance.random() < 0.7)
            looked: steps.Looked = {}
            if read:
                looked = self._ask(steps.look, read[:2], {})
                if read[2:]:
                    before = {stream: one.version for stream, (one, _) in looked.items()}
                    looked |= self._ask(steps.look, read[2:], before)
            round.note(change, looked)
            id = uuid.UUID(int=chance.getrandbits(128))
            for table in written:
                prepared.append(self._statement(change, table, id, prepared, epoch, fault))
            if chance.random() < 0.1:
                self._ask(steps.roll_back, prepared)
                change.failed = True
                return
            is_asked = True
            reads: dict[Stream, ReadSet] = {stream: one for stream, (one, _) in looked.items()}
            stage = self._ask(steps.commit, prepared, reads, again=chance.random() < 0.6)
            change.repeated = stage == "REPEATED" and epoch is not None
            change.ended = time.monotonic_ns()
            with suppress(PravegaError, Lost):
                self._ask(steps.forget, prepared)
        except PravegaError as error:
            # Only who isn't told how its commit ended doesn't know it.
            change.failed, change.told = not (is_asked and isinstance(error, UnavailableError)), repr(error)[:90]
            raise
        except Lost:
            # What dies before it commits leaves nothing.
            change.failed = not is_asked
            raise
        finally:
            if not is_asked and prepared:
                with suppress(PravegaError, Lost):
                    self._ask(steps.roll_back, prepared)

    def _statement(
        self,
        change: Change,
        table: TableDefinition,
        id: uuid.UUID,
        before: Sequence[Prepared],
        epoch: Epoch | None,
        fault: Fault | None,
    ) -> Prepared:
        replaces = change.emptied is None and self._chance.random() < 0.1
        if replaces:
            change.emptied = table.stream
        count = self._chance.randint(1, 5)
        self._round.rows[change.number, table.stream] = count
        change.written.add(table.stream)
        job: bytes = self._ask(steps.begin_statement, table, replaces)
        events = [f"{change.number} {row}".encode() for row in range(count)]
        worker = Child(fault if fault is not None and fault.step in TASK_STEPS and not before else None)
        self._children.append(worker)
        try:
            message = worker.call(run_task, job, 0, [events], stalled=self._stalled)
        except (Lost, PravegaError):
            # Spark makes another attempt.
            worker = Child()
            self._children.append(worker)
            message = worker.call(run_task, job, 0, [events], stalled=self._stalled)
        worker.end()
        scope = before[0].together.scope if before else None
        prepared: Prepared = self._ask(steps.prepare_statement, job, [message], id, scope, epoch)
        return prepared

    def _ask(self, what: Callable[..., Any], *arguments: object, again: bool = False) -> Any:
        for repeated in (False, True):
            if self._catalog is None:
                self._replace_catalog(None)
            assert self._catalog is not None
            try:
                return self._catalog.call(what, *arguments, stalled=self._stalled)
            except Lost:
                self._catalog = None
                self._round.struck[f"lost in {what.__name__}"] += 1
                if repeated or not again:
                    raise
        raise Lost

    def _replace_catalog(self, fault: Fault | None) -> None:
        # The one before may be halted, and goes on later.
        self._catalog = Child(fault)
        self._children.append(self._catalog)

    def _stalled(self, child: Child) -> bool:
        """A process has stalled: it goes on when others may have withdrawn what it was doing, or done it."""
        self._round.struck["stalled"] += 1
        if self._chance.random() < 0.5:
            time.sleep(STALL_S)
            child.wake()
            return True
        threading.Timer(self._chance.uniform(0, 2 * STALL_S), child.wake).start()
        return False


def test_one_order_explains_transactions_whose_processes_come_to_harm(
    client: Client, settings: Settings, scope: str
) -> None:
    nursery()
    begun, seed, total, changes = time.monotonic(), FIRST_SEED, Counter[str](), Counter[str]()

    def is_left() -> bool:
        return seed - FIRST_SEED < ROUNDS if ROUNDS else time.monotonic() - begun < SAMPLE_S

    def run(seed: int) -> Round:
        round = Round(client, settings, scope, seed)
        try:
            round.run()
        except BaseException as error:
            error.add_note(f"CHAOS_FIRST_SEED={seed} TRANSACTION_ROUNDS=1 repeats it")
            raise
        return round

    with ThreadPoolExecutor(AT_ONCE) as threads:
        while is_left():
            at_once = range(seed, seed + AT_ONCE)
            for done in [threads.submit(run, one) for one in at_once]:
                round = done.result()
                total += round.struck
                changes.update(
                    "failed" if one.failed else one.kind if one.ended != NEVER else "unknown" for one in round.changes
                )
            seed = at_once.stop
            print(f"seeds {at_once}, {dict(total)}, {time.monotonic() - begun:.0f} s so far", flush=True)
    print(f"{seed - FIRST_SEED} rounds, {dict(changes)}, {dict(total)}, {time.monotonic() - begun:.0f} s")
    assert sum(count for what, count in total.items() if what.startswith("lost")) >= (seed - FIRST_SEED) / 4
