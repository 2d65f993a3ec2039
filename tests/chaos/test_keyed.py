"""Two sessions that change a table with a key at once, one of which may be killed: some order explains the rows. And a
MERGE and a compaction that are killed at each of their steps.

`KEYED_ROUNDS=100` makes so many rounds (`make chaos`); six are the sample. `KEYED_KILLS=all` kills at all steps, before
and after each, on one segment and on three; each ninth of these runs is the sample.
"""

from __future__ import annotations

import itertools
import os
import random
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructType
from readers import rows_read
from write_processes import KILL, Child, Fault, Lost

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client
from pyspark_pravega.connector.log import ledger as ledgers
from pyspark_pravega.connector.log import recovery, take_snapshot
from pyspark_pravega.connector.options import ReadOptions, WriteOptions
from pyspark_pravega.connector.read import snapshot_reader
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.connector.write import (
    DeltaJob,
    OverwritingJob,
    ReadSet,
    WriteJob,
    WritePlan,
    compact,
    routing_hashes,
)
from pyspark_pravega.connector.write.changed_rows import DELETES, INSERTS, ROW_OPERATION
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

ROUNDS = int(os.environ.get("KEYED_ROUNDS", "6"))
FIRST_SEED = int(os.environ.get("CHAOS_FIRST_SEED", "0"))
STATEMENTS = 3
"""Of each session."""
KEYS = 6
COLUMNS = StructType().add("id", LongType(), nullable=False).add("v", StringType())
STEPS = (
    *("begin", "append", "flush", "task's end"),
    *("job opened", "job closed", "intent", "commit", "log entry", "truncation", "attempts forgotten"),
)
OF_ALL = ("begin", "append", "flush", "task's end", "job opened", "job closed", "intent", "commit")
STEPS_OF = {
    "merge": (*OF_ALL, "log entry", "attempts forgotten"),
    "compact": (*OF_ALL, "log entry", "attempts forgotten", "ranges noted", "truncation", "cleaning noted"),
}
KILLS = [
    (kind, step, after, segments)
    for kind, steps in STEPS_OF.items()
    for step in steps
    for after in (False, True)
    for segments in "13"
]
Rows = Mapping[int, str]


@dataclass(frozen=True)
class Outcome:
    """How a statement ended."""

    kind: str
    number: int
    done: bool | None
    """None when its session was lost, so that it may have done all or nothing."""
    error: str = ""

    def applied(self, rows: Rows) -> Rows:
        """The rows afterwards, in the model."""
        return _MODEL[self.kind](rows, self.number)


def _upserted(rows: Rows, number: int) -> Rows:
    return {**rows, number % KEYS: f"u{number}", (number + 1) % KEYS: f"u{number}"}


def _changed(rows: Rows, number: int) -> Rows:
    """A MERGE: one key is deleted, one is made if it isn't there, the others get another value."""
    after = {id: f"{v}.{number}" for id, v in rows.items() if id != number % KEYS}
    after.setdefault((number + 2) % KEYS, f"m{number}")
    return after


def _changed_one(rows: Rows, number: int) -> Rows:
    """An UPDATE of one key, which reads nothing else."""
    key = number % KEYS
    return {**rows, key: f"{rows[key]}@{number}"} if key in rows else dict(rows)


def _deleted(rows: Rows, number: int) -> Rows:
    return {id: v for id, v in rows.items() if id % 2 != number % 2}


def _overwritten(rows: Rows, number: int) -> Rows:
    return {id: f"{v}!{number}" for id, v in rows.items() if id % 3}


_MODEL: dict[str, Callable[[Rows, int], Rows]] = {
    "upsert": _upserted,
    "merge": _changed,
    "change one": _changed_one,
    "delete": _deleted,
    "overwrite": _overwritten,
    "compact": lambda rows, _: rows,
}


def run(settings: Settings, scope: str, kind: str, number: int) -> None:
    """Run a statement as a session does it, against what it reads of the table."""
    # Who comes after a dead driver waits for it no longer than this; the log is compacted all the time.
    recovery.GRACE_S, ledgers.KEPT_VERSIONS, ledgers._SWEEP_EVERY = 0.5, 2, 1
    catalog = Catalog(settings)
    definition = catalog.load_table([scope], "t")
    plan = WritePlan.of(definition, WriteOptions(transaction_timeout_ms=10_000))
    if kind == "compact":
        compact(definition.settings, definition.stream)
        return
    seen, before = read(catalog, definition)
    if kind == "change one":
        key = pa.record_batch({"id": pa.array([number % KEYS], pa.int64())})
        seen = replace(seen, keys=tuple(routing_hashes(definition, key).tolist()))
    after = _MODEL[kind](before, number)
    job: WriteJob
    if kind == "upsert":
        job, rows = WriteJob(plan), [(id, v) for id, v in after.items() if v == f"u{number}"]
        batch = _batch(rows)
    elif kind == "overwrite":
        job, batch = OverwritingJob(plan), _batch(list(after.items()))
    else:
        job, changed = DeltaJob(plan), [id for id in {*before, *after} if before.get(id) != after.get(id)]
        # As Spark gives them: what is updated is deleted first.
        steps = [(id, None, DELETES) for id in changed if id in before]
        more = [(id, after[id], INSERTS) for id in changed if id in after]
        ordered = sorted([*steps, *more], key=lambda row: (row[0], row[2]))
        batch = _batch([row[:2] for row in ordered])
        batch = batch.append_column(ROW_OPERATION, pa.array([row[2] for row in ordered], pa.int32()))
    try:
        messages = [job.write_partition(0, iter([batch]))]
        if isinstance(job, DeltaJob | OverwritingJob):
            job.commit_job(messages, seen=[seen])
        else:
            job.commit_job(messages)
    except PravegaError:
        job.abort_job([None])
        raise


def _batch(rows: Sequence[tuple[int, str | None]]) -> pa.RecordBatch:
    return pa.record_batch(
        {"id": pa.array([id for id, _ in rows], pa.int64()), "v": pa.array([v for _, v in rows], pa.string())}
    )


def read(catalog: Catalog, definition: TableDefinition) -> tuple[ReadSet, dict[int, str]]:
    """The rows, as SELECT sees them."""
    snapshot = take_snapshot(catalog.client, definition.stream)
    reader = snapshot_reader(definition, snapshot, ["id", "v"], ReadOptions())
    rows = rows_read(reader)
    found = {row["id"]: row["v"] for row in rows}
    assert len(found) == len(rows), rows
    return ReadSet.of(snapshot), found


def session(settings: Settings, scope: str, statements: Sequence[tuple[str, int]], child: Child) -> list[Outcome]:
    """Run statements one after another in a process."""
    outcomes: list[Outcome] = []
    for kind, number in statements:
        try:
            child.call(run, settings, scope, kind, number, stalled=lambda _: False)
            outcomes.append(Outcome(kind, number, done=True))
        except Lost:
            outcomes.append(Outcome(kind, number, done=None))
            break
        except PravegaError as error:
            outcomes.append(Outcome(kind, number, done=False, error=f"{type(error).__name__}: {error}"))
    return outcomes


def orders(one: Sequence[Outcome], other: Sequence[Outcome]) -> Iterator[list[Outcome]]:
    """All orders in which two sessions' statements may have been done."""
    places = range(len(one) + len(other))
    for chosen in itertools.combinations(places, len(one)):
        mine, theirs = iter(one), iter(other)
        yield [next(mine) if place in chosen else next(theirs) for place in places]


def explained(start: Rows, one: Sequence[Outcome], other: Sequence[Outcome]) -> list[Rows]:
    """What may be there: acknowledged statements are done in some order, lost ones perhaps, failed ones never."""
    done = [[outcome for outcome in own if outcome.done is not False] for own in (one, other)]
    possible: list[Rows] = []
    for order in orders(*done):
        tables = [start]
        for outcome in order:
            after = [outcome.applied(rows) for rows in tables]
            tables = after if outcome.done else [*tables, *after]
        possible += tables
    return possible


def test_the_model_tells_what_no_order_explains() -> None:
    """The checker sees a lost update, a row that came back, and half of a statement."""
    start = {0: "a", 1: "b", 3: "c"}
    merges = [Outcome("merge", number, done=True) for number in (8, 14)]
    right = _changed(_changed(start, 8), 14)
    assert right in explained(start, merges[:1], merges[1:])
    assert _changed(start, 8) not in explained(start, merges[:1], merges[1:])
    ones = [Outcome("change one", number, done=True) for number in (12, 18)]
    assert {**start, 0: "a@12"} not in explained(start, ones[:1], ones[1:])
    delete = Outcome("delete", 1, done=True)
    assert start not in explained(start, [delete], [Outcome("compact", 2, done=True)])
    lost = Outcome("upsert", 3, done=None)
    assert {**start, 3: "u3"} not in explained(start, [lost], [])
    assert {**start, 3: "u3", 4: "u3"} in explained(start, [lost], [])


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + ROUNDS))
def test_some_order_explains_the_rows(settings: Settings, client: Client, scope: str, seed: int) -> None:
    chance = random.Random(f"keyed {seed}")
    fault = chance.choice([None, *(Fault(chance.choice(STEPS), chance.random() < 0.5, KILL) for _ in range(3))])
    namespace = f"{scope}-{uuid.uuid4().hex[:8]}"
    client.controller.create_scope(namespace)
    catalog = Catalog(settings)
    properties = {"primary-key": "id", "segments": chance.choice("123")}
    definition = catalog.tables.create([namespace], "t", COLUMNS, [], properties)
    children = [Child(), Child(fault)]
    kinds = [*_MODEL, "merge", "change one", "change one", "upsert", "compact"]
    try:
        session(settings, namespace, [("upsert", 0), ("upsert", 2), ("upsert", 4)], children[0])
        start = read(catalog, definition)[1]
        assert len(start) == KEYS
        statements = [
            [(chance.choice(kinds), 10 * (1 + number) + which) for number in range(STATEMENTS)] for which in (0, 1)
        ]
        with ThreadPoolExecutor(2) as threads:
            running = [
                threads.submit(session, settings, namespace, own, child)
                for own, child in zip(statements, children, strict=True)
            ]
            one, other = [session.result() for session in running]
        rows = read(catalog, definition)[1]
        story = "\n".join(map(str, [seed, fault, *one, *other]))
        print(story)
        assert rows in explained(start, one, other), f"{story}\n{start}\n{rows}"
        # Nothing stays in the way of whoever comes next, and nothing comes back.
        after = session(settings, namespace, [("compact", 98), ("merge", 99)], children[0])
        assert all(outcome.done for outcome in after), (story, after)
        assert read(catalog, definition)[1] == _changed(rows, 99), story
    finally:
        for child in children:
            child.end()


@pytest.mark.parametrize(
    ("kind", "step", "after", "segments"), KILLS if os.environ.get("KEYED_KILLS") == "all" else KILLS[::9]
)
def test_a_kill_at_each_step(
    settings: Settings, client: Client, scope: str, kind: str, step: str, after: bool, segments: str
) -> None:
    """All of the statement was done or nothing; others go on, and the next compaction removes what it has left."""
    namespace = f"{scope}-{uuid.uuid4().hex[:8]}"
    client.controller.create_scope(namespace)
    catalog = Catalog(settings)
    definition = catalog.tables.create([namespace], "t", COLUMNS, [], {"primary-key": "id", "segments": segments})
    children = [Child(), Child(Fault(step, after, KILL))]
    try:
        before = [("upsert", 0), ("upsert", 2), ("upsert", 4), ("compact", 0), ("upsert", 1), ("delete", 3)]
        assert all(outcome.done for outcome in session(settings, namespace, before, children[0]))
        start = read(catalog, definition)[1]
        (killed,) = session(settings, namespace, [(kind, 18)], children[1])
        assert killed.done is None, "the step is none of the statement's"
        # Somebody who only reads sees all or nothing, and it stays so.
        rows = read(catalog, definition)[1]
        assert rows in (start, killed.applied(start))
        (upsert,) = session(settings, namespace, [("upsert", 25)], children[0])
        assert upsert.done, upsert
        found = read(catalog, definition)[1]
        assert found in [upsert.applied(own) for own in (start, killed.applied(start))]
        assert found == upsert.applied(rows) or rows == start
        (compaction,) = session(settings, namespace, [("compact", 26)], children[0])
        assert compaction.done, compaction
        assert read(catalog, definition)[1] == found
        log = snapshot_reader(definition.as_log(), take_snapshot(client, definition.stream), [], ReadOptions())
        assert sum(batch.num_rows for one in log.partitions() for batch in log.read(one)) == len(found)
    finally:
        for child in children:
            child.end()
