"""Histories of drivers and readers on a cluster in memory, with all that can go wrong; docs/internals/test-suite.md."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from faults import FAULTS, Fault
from history import Kind, Operation, UnexplainedError, content_of, explain
from keyed import FAULTS as KEYED_FAULTS
from keyed import KEYED, KeyedHistory
from model_patches import modelled
from several_tables import TRANSACTIONS, TransactionHistory
from several_tables_faults import FAULTS as TRANSACTION_FAULTS
from several_tables_faults import LATE_DROP_FAULTS, WIDE_FAULTS
from simulation import MERGING, REPEATING, History, failures
from tiered import FAULTS as TIERED_FAULTS
from tiered import TIERED, TieredHistory
from turns import TURNS
from wide_tables import LATE_DROPS, WIDE, LateDropHistory, WideHistory

SAMPLE, FEWER = 500, 150
ENOUGH = 6000
RARE = {
    "failed_aborts_believed": 4000,
    "properties_overwritten": 700,
    "replacements_finished_at_once": 160,
    "merges_not_compared": MERGING,
    "repeats_known_for_a_while": REPEATING,
}
"""Where to begin with faults that few histories tell of, or those from some seed on."""


def part(number: int, first: int, count: int = SAMPLE) -> range:
    """The seeds of a sample that are run in one turn."""
    return range(first + number * count // TURNS, first + (number + 1) * count // TURNS)


def test_all_turns_together_have_each_seed() -> None:
    assert [seed for number in range(TURNS) for seed in part(number, 7, FEWER)] == list(range(7, 7 + FEWER))


@pytest.mark.parametrize("number", range(TURNS))
@pytest.mark.parametrize(("first", "count"), [(0, SAMPLE), (MERGING, SAMPLE), (REPEATING, FEWER)])
@pytest.mark.in_turn
def test_each_history_of_a_sample_is_explained(first: int, count: int, number: int) -> None:
    assert failures(part(number, first, count), most=3) == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.in_turn
def test_a_fault_is_seen(fault: Fault) -> None:
    first = RARE.get(fault.__name__, 0)
    assert failures(range(first, first + ENOUGH), switch=fault)


@pytest.mark.parametrize("number", range(TURNS))
@pytest.mark.in_turn
def test_each_history_of_a_table_with_a_key_is_explained(number: int) -> None:
    assert failures(part(number, KEYED), most=3, make=KeyedHistory) == []


@pytest.mark.parametrize("fault", KEYED_FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.in_turn
def test_a_fault_of_tables_with_keys_is_seen(fault: Fault) -> None:
    assert failures(range(KEYED, KEYED + ENOUGH), switch=fault, make=KeyedHistory)


@pytest.mark.parametrize("number", range(TURNS))
@pytest.mark.in_turn
def test_each_history_of_transactions_over_tables_is_explained(number: int) -> None:
    assert failures(part(number, TRANSACTIONS), most=3, make=TransactionHistory) == []


@pytest.mark.parametrize("fault", TRANSACTION_FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.in_turn
def test_a_fault_of_transactions_is_seen(fault: Fault) -> None:
    first = RARE.get(fault.__name__, TRANSACTIONS)
    assert failures(range(first, first + ENOUGH), switch=fault, make=TransactionHistory)


@pytest.mark.parametrize("number", range(TURNS))
@pytest.mark.in_turn
def test_each_history_of_transactions_beside_all_else_is_explained(number: int) -> None:
    assert failures(part(number, WIDE), most=3, make=WideHistory) == []


@pytest.mark.parametrize("fault", WIDE_FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.in_turn
def test_a_fault_of_transactions_beside_all_else_is_seen(fault: Fault) -> None:
    first = RARE.get(fault.__name__, WIDE)
    assert failures(range(first, first + ENOUGH), switch=fault, make=WideHistory)


@pytest.mark.parametrize("number", range(TURNS))
@pytest.mark.in_turn
def test_each_history_in_which_tables_are_dropped_beside_decisions_is_explained(number: int) -> None:
    assert failures(part(number, LATE_DROPS), most=3, make=LateDropHistory) == []


@pytest.mark.parametrize("fault", LATE_DROP_FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.in_turn
def test_a_fault_of_transactions_beside_drops_is_seen(fault: Fault) -> None:
    assert failures(range(LATE_DROPS, LATE_DROPS + ENOUGH), switch=fault, make=LateDropHistory)


@pytest.mark.parametrize("seed", [6000073, 6000419])
def test_a_committed_transaction_is_not_said_to_have_failed_when_a_table_of_it_is_dropped(seed: int) -> None:
    """Who committed it, or was asked for that again, found the dropped table's log gone, and said that nothing was
    written."""
    assert failures(range(seed, seed + 1), make=WideHistory) == []


@pytest.mark.parametrize("number", range(TURNS))
@pytest.mark.in_turn
def test_each_history_of_a_table_with_a_lake_is_explained(number: int) -> None:
    assert failures(part(number, TIERED), most=3, make=TieredHistory) == []


@pytest.mark.parametrize("fault", TIERED_FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.in_turn
def test_a_fault_of_tiering_is_seen(fault: Fault) -> None:
    assert failures(range(TIERED, TIERED + ENOUGH), switch=fault, make=TieredHistory)


@pytest.mark.parametrize("seed", [2000259, 2000432, 2000726])
def test_a_cut_between_a_compaction_and_what_it_has_read_stays(seed: int) -> None:
    """When the log had forgotten the compaction, a cut behind its base was read without the rows before that."""
    assert failures(range(seed, seed + 1), make=KeyedHistory) == []


@pytest.mark.parametrize("seed", [3011914, 3012376, 3014854, 3016243, 3017438])
def test_a_cut_stays_when_the_log_forgets_versions_while_events_are_removed(seed: int) -> None:
    """The eras were looked up twice: a cut of an era that the log had forgotten between was taken for one of a table
    that this one had replaced."""
    assert failures(range(seed, seed + 1), make=KeyedHistory) == []


@pytest.mark.parametrize("seed", [145, 154, 167])
def test_a_commit_that_begins_while_another_driver_cleans_up_stays(seed: int) -> None:
    """What cleaning found in the log was taken for settled, and the next commit overwrote the one in progress."""
    assert failures(range(seed, seed + 1)) == []


@pytest.mark.parametrize("seed", [607, 838, 862])
def test_a_stream_is_configured_as_its_last_replacement_says(seed: int) -> None:
    """Who finished a replacement and was held up undid what the next replacement had set."""
    assert failures(range(seed, seed + 1)) == []


@pytest.mark.parametrize("seed", [22005, 78193])
def test_who_has_joined_knows_it_though_another_attempt_came(seed: int) -> None:
    """The answer to a join was lost, a second attempt at the partition was noted, and with it went who had joined: the
    first one took the shared transaction for its own, and what another one had written into it counted, too."""
    assert failures(range(seed, seed + 1)) == []


@pytest.mark.parametrize("seed", [80779])
def test_a_commit_that_arrives_late_is_known(seed: int) -> None:
    """An overwrite's entry arrived after its answer was lost, and others came behind it: it took itself for refused."""
    assert failures(range(seed, seed + 1)) == []


def test_a_seed_makes_the_same_history_again() -> None:
    traces = []
    for _ in range(2):
        history = History(72)
        history.world.trace = []
        with modelled():
            history.run()
        traces.append(history.world.trace)
    assert traces[0] == traces[1]


# What judges has to be right itself


def _operation(number: int, kind: Kind, begun: int, ended: int, **others: Any) -> Operation:
    rows = frozenset() if kind in (Kind.READ, Kind.TRUNCATE) else frozenset({0, 1})
    return Operation(number=number, kind=kind, actor="a", begun=begun, ended=ended, rows=rows, **others)


@pytest.mark.parametrize(
    ("operations", "explained"),
    [
        ([(Kind.INSERT, 0, 1), (Kind.READ, 2, 3, {0})], True),
        ([(Kind.INSERT, 0, 1), (Kind.READ, 2, 3, set())], False),
        ([(Kind.INSERT, 0, 5), (Kind.READ, 2, 3, set())], True),
        ([(Kind.INSERT, 0, 9), (Kind.READ, 1, 2, {0}), (Kind.READ, 3, 4, set())], False),
        ([(Kind.INSERT, 0, 1), (Kind.OVERWRITE, 2, 3), (Kind.READ, 4, 5, {0, 1})], False),
        ([(Kind.INSERT, 0, 1), (Kind.OVERWRITE, 0, 3), (Kind.READ, 4, 5, {0, 1})], True),
        ([(Kind.INSERT, 0, 1), (Kind.TRUNCATE, 2, 3), (Kind.READ, 4, 5, set())], True),
        ([(Kind.INSERT, 0, 4), (Kind.OVERWRITE_READ, 0, 5, set()), (Kind.READ, 6, 7, {1})], False),
        ([(Kind.OVERWRITE_READ, 0, 5, set()), (Kind.OVERWRITE_READ, 0, 5, set())], False),
    ],
)
def test_what_an_order_explains(operations: list[tuple[Any, ...]], explained: bool) -> None:
    history = [
        _operation(number, kind, begun, ended, seen=frozenset(*seen))
        for number, (kind, begun, ended, *seen) in enumerate(operations)
    ]
    with contextlib.nullcontext() if explained else pytest.raises(UnexplainedError):
        explain(history)


def test_what_failed_is_not_there() -> None:
    failed = Operation(number=0, kind=Kind.INSERT, actor="a", begun=0, failed=True, rows=frozenset({0}))
    read = _operation(1, Kind.READ, 2, 3, seen=frozenset({0}))
    with pytest.raises(UnexplainedError):
        explain([failed, read])
    failed.failed = False
    assert explain([failed, read]) == [0, 1]


def test_an_epoch_is_there_once() -> None:
    first, second = (_operation(n, Kind.EPOCH, 2 * n, 2 * n + 1, epoch=0) for n in range(2))
    with pytest.raises(UnexplainedError):
        explain([first, second])
    second.repeated = True
    assert explain([first, second]) == [0, 1]


def test_a_statement_is_seen_whole() -> None:
    insert = _operation(0, Kind.INSERT, 0, 1)
    assert content_of([(0, 0), (0, 1)], [insert]) == {0}
    for events in ([(0, 0)], [(0, 0), (0, 1), (0, 1)]):
        with pytest.raises(UnexplainedError):
            content_of(events, [insert])
