"""Each statement beside each other one, from two sessions, one of which may be killed: some order explains the outcome.

`PAIR_ROUNDS=20` makes 20 rounds of each pair (`make chaos`); one round of each is the sample.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from statements import Statement, Table, contents, run
from write_processes import KILL, Child, Fault, Lost

from pyspark_pravega.client import Client
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

SESSIONS = {
    "insert": ("insert",),
    "overwrite": ("overwrite",),
    "overwrite itself": ("overwrite itself",),
    "replace": ("replace",),
    "truncate": ("truncate",),
    "alter": ("alter",),
    "drop and create": ("drop", "create"),
}
PAIRS = list(itertools.combinations_with_replacement(SESSIONS, 2))
ROUNDS = int(os.environ.get("PAIR_ROUNDS", "1"))
FIRST_SEED = int(os.environ.get("CHAOS_FIRST_SEED", "0"))
STEPS = ("job opened", "job closed", "intent", "commit", "log entry", "truncation", "attempts forgotten")


@dataclass(frozen=True)
class Outcome:
    """How a statement ended."""

    statement: Statement
    acknowledged: bool | None
    """None when its session was lost, so that it may have done all or nothing."""
    read: frozenset[int] | None = None
    error: str = ""


def session(settings: Settings, scope: str, statements: Sequence[Statement], child: Child) -> list[Outcome]:
    """Run statements one after another in a process."""
    outcomes: list[Outcome] = []
    for statement in statements:
        try:
            read = child.call(run, settings, scope, statement, stalled=lambda _: False)
            outcomes.append(Outcome(statement, acknowledged=True, read=read))
        except Lost:
            outcomes.append(Outcome(statement, acknowledged=None))
            break
        except PravegaError as error:
            outcomes.append(Outcome(statement, acknowledged=False, error=f"{type(error).__name__}: {error}"))
    return outcomes


def orders(one: Sequence[Outcome], other: Sequence[Outcome]) -> Iterator[list[Outcome]]:
    """All orders in which two sessions' statements may have been done."""
    if not one or not other:
        yield [*one, *other]
        return
    for rest in orders(one[1:], other):
        yield [one[0], *rest]
    for rest in orders(one, other[1:]):
        yield [other[0], *rest]


def explained(start: Table, one: Sequence[Outcome], other: Sequence[Outcome]) -> set[Table | None]:
    """What may be there: acknowledged statements are done in some order, lost ones perhaps, failed ones never."""
    done = [[outcome for outcome in own if outcome.acknowledged is not False] for own in (one, other)]
    possible: set[Table | None] = set()
    for order in orders(*done):
        tables: set[Table | None] = {start}
        for outcome in order:
            after = {changed for table in tables for changed in outcome.statement.applied(table, outcome.read)}
            tables = after if outcome.acknowledged else tables | after
        possible |= tables
    return possible


def test_the_model_tells_what_no_order_explains() -> None:
    """The checker sees the faults that it is for."""
    start = Table(("id",), frozenset({1}))
    insert = Outcome(Statement("insert", 2), acknowledged=True)
    itself = Outcome(Statement("overwrite itself", 3), acknowledged=True, read=frozenset({1}))
    blind = [Outcome(Statement("overwrite", number), acknowledged=True) for number in (4, 5)]
    after = frozenset({1, 30, 31, 20, 21})
    assert explained(start, [insert], [itself]) == {Table(("id",), after)}, "read before the insert, so first in order"
    assert Table(("id",), frozenset({40, 41, 50, 51})) not in explained(start, blind[:1], blind[1:])
    lost = Outcome(Statement("truncate", 6), acknowledged=None)
    assert explained(start, [lost], []) == {start, Table(("id",), frozenset())}


@pytest.mark.parametrize("pair", PAIRS, ids=" + ".join)
def test_some_order_explains_what_is_there(
    settings: Settings, client: Client, scope: str, pair: tuple[str, str]
) -> None:
    for number in range(ROUNDS):
        seed = f"{' + '.join(pair)} {FIRST_SEED + number}"
        chance = random.Random(seed)
        fault = chance.choice([None, Fault(chance.choice(STEPS), chance.random() < 0.5, KILL)])
        kill_after_s = chance.uniform(0.05, 1.0) if fault is None and chance.random() < 0.5 else None
        namespace = f"{scope}-{uuid.uuid4().hex[:8]}"
        client.controller.create_scope(namespace)
        children = [Child(), Child(fault)]
        try:
            first = [Statement("create", 0), Statement("insert", 1)]
            prepared = session(settings, namespace, first, children[0])
            assert all(outcome.acknowledged for outcome in prepared), prepared
            start = contents(settings, namespace)
            assert start is not None
            number_of = itertools.count(2)
            statements = [[Statement(kind, next(number_of)) for kind in SESSIONS[name]] for name in pair]
            with ThreadPoolExecutor(2) as threads:
                running = [
                    threads.submit(session, settings, namespace, own, child)
                    for own, child in zip(statements, children, strict=True)
                ]
                if kill_after_s is not None:
                    time.sleep(kill_after_s)
                    children[1].process.kill()
                one, other = [session.result() for session in running]
        finally:
            for child in children:
                child.end()
        print(f"{seed}, {fault or kill_after_s}:", *(told(outcome) for outcome in [*one, *other]), sep="\n  ")
        possible = explained(start, one, other)
        table = contents(settings, namespace)
        assert table in possible, f"{seed}, {fault}: {table}\n{one}\n{other}\n{possible}"
        # Nothing stays in the way of whoever comes next.
        half_dropped = any(outcome.statement.kind == "drop" and outcome.acknowledged is None for outcome in other)
        after = session_of_another(settings, namespace, table, half_dropped=half_dropped)
        assert after is not None
        assert 90 in after.ids, seed
        assert after.ids - {90, 91} in (set(), table.ids if table else set()), (seed, after)


def told(outcome: Outcome) -> str:
    """One line about it."""
    word = {True: "done", False: "failed", None: "lost"}[outcome.acknowledged]
    return f"{outcome.statement.kind} {word} {outcome.error[:150]}"


def session_of_another(settings: Settings, scope: str, table: Table | None, *, half_dropped: bool) -> Table | None:
    """Go on with the table, or make it anew; returns what is there then."""
    insert, make = Statement("insert", 9), [Statement("create", 8), Statement("insert", 9)]
    child = Child()
    try:
        outcomes = session(settings, scope, [insert] if table else make, child)
        if half_dropped and re.search("is sealed|exists already", outcomes[0].error):
            outcomes = session(settings, scope, [Statement("drop", 7), *make], child)
    finally:
        child.end()
    assert all(outcome.acknowledged for outcome in outcomes), outcomes
    return contents(settings, scope)
