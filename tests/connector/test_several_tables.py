"""Transactions over several tables on real servers, without Spark: who dies in the midst, and who comes next."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from connector_tools import LEASE_MS, ledger_of, raw_table, read_events, run_task

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import Closing, Ledger, Together, close, recovery, settle, snapshot, take_snapshots
from pyspark_pravega.connector.log.decided import COMMITTING_OR_DONE, decisions, roll_forward, turns
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.connector.write import (
    Epoch,
    Prepared,
    ReadSet,
    TableRead,
    WriteJob,
    WritePlan,
    commit_together,
    forget_together,
    prepare,
    withdraw_together,
)
from pyspark_pravega.connector.write.commit import Stage, several
from pyspark_pravega.errors import TableBeingDroppedError, TransactionError, UnclearAnswerError, WriteConflictError
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

LOG, COMMIT = "pyspark_pravega.connector.log", "pyspark_pravega.connector.write.commit.several"
STEPS = {
    "one promise": (f"{LOG}.ledger.Ledger.begin", 1, False),
    "all promises": (f"{COMMIT}.Several._hold", 0, False),
    "held": (f"{LOG}.decided.decisions.Decisions.commit", 0, False),
    "decided": (f"{COMMIT}.bring_forward", 0, True),
    "the leader is committed": (f"{LOG}.decided.forward.commit_all", 1, True),
    "all are committed": (f"{LOG}.decided.forward._complete_member", 0, True),
    "one version": (f"{LOG}.ledger.Ledger.complete", 1, True),
    "all versions": (f"{LOG}.decided.decisions.Decisions.forget", 0, True),
}
"""What a driver can't do any more, how often it could before, and whether its rows are there then."""


class Died(BaseException):
    """What ends a driver in the tests; nothing catches it."""


def written(tables: Sequence[TableDefinition], *rows: bytes, epoch: Epoch | None = None) -> list[Prepared]:
    """Statements of one transaction, one for each table."""
    id = uuid.uuid4()
    prepared: list[Prepared] = []
    for table in tables:
        job = WriteJob(WritePlan.of(table, WriteOptions(transaction_timeout_ms=LEASE_MS)))
        scope = prepared[0].together.scope if prepared else None
        one = prepare(job, [run_task(job, *rows)], id, scope, epoch)
        assert one is not None
        prepared.append(one)
    return prepared


def contents(client: Client, tables: Sequence[TableDefinition]) -> list[list[bytes]]:
    return [sorted(read_events(client, table)) for table in tables]


def dies_at(step: str, client: Client, prepared: list[Prepared], monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit as a driver does that dies at a step."""
    place, times, _ = STEPS[step]
    module, _, name = place.rpartition(".")
    with monkeypatch.context() as broken:
        owner, left = _owner(module), [times]
        real = getattr(owner, name)

        def dies(*given: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Died
            return real(*given, **named)

        broken.setattr(owner, name, dies)
        with pytest.raises(Died):
            commit_together(client, prepared, {})


@pytest.fixture
def tables(client: Client, settings: Settings, scope: str) -> list[TableDefinition]:
    return [raw_table(client, settings, scope, name, segments=2) for name in ("a", "b", "c")]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.in_turn
def test_others_finish_or_withdraw_what_a_dead_driver_has_left(
    client: Client, tables: list[TableDefinition], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(recovery, "GRACE_S", 0.1)
    monkeypatch.setattr(turns, "FREE_AFTER_S", 0.1)
    commit_together(client, written(tables, b"1"), {})
    prepared = written(tables[:2], b"2")
    is_there = STEPS[step][2]
    dies_at(step, client, prepared, monkeypatch)
    expected = [[b"1", b"2"], [b"1", b"2"], [b"1"]] if is_there else [[b"1"]] * 3
    # Readers see it in all tables or in none, whoever has come next.
    assert contents(client, tables) == expected
    settle(client, ledger_of(client, tables[1]))
    assert contents(client, tables) == expected
    settle(client, ledger_of(client, tables[0]))
    assert ledger_of(client, tables[0]).state().version == 1 + is_there
    # The same commit, asked of the next process.
    if is_there:
        assert commit_together(client, prepared, {}) in (Stage.COMMITTED, Stage.REPEATED)
    else:
        with pytest.raises(TransactionError):
            commit_together(client, prepared, {})
    forget_together(client, prepared)
    commit_together(client, written(tables, b"3"), {})
    assert contents(client, tables) == [[*rows, b"3"] for rows in expected]


def test_who_reads_the_leaders_table_keeps_the_others_from_being_lost(
    client: Client, tables: list[TableDefinition], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = written(tables[:2], b"1")
    dies_at("the leader is committed", client, prepared, monkeypatch)
    monkeypatch.setattr(snapshot, "HELP_AFTER_MS", -1)
    assert read_events(client, tables[0]) == [b"1"]
    (other,) = prepared[1].intent.transaction_ids()
    assert client.controller.transaction_state(tables[1].stream, other) in COMMITTING_OR_DONE
    assert read_events(client, tables[1]) == [b"1"]


def test_what_was_read_and_overtaken_is_a_conflict_and_nothing_stays(
    client: Client, tables: list[TableDefinition]
) -> None:
    a, b, c = tables
    commit_together(client, written([a, b], b"1"), {})
    seen = take_snapshots(client, [a.stream, b.stream])
    reads = {stream: TableRead(stream=stream, seen=[ReadSet.of(one)]) for stream, one in seen.items()}
    prepared = written([b, c], b"2")
    commit_together(client, written([a], b"3"), {})
    with pytest.raises(WriteConflictError):
        commit_together(client, prepared, reads)
    with pytest.raises(WriteConflictError):
        take_snapshots(client, [c.stream], {a.stream: seen[a.stream].version})
    withdraw_together(client, written([a, b], b"4"))
    assert contents(client, tables) == [[b"1", b"3"], [b"1"], []]
    # A table that is only read has no version of it, and others go on.
    reads = {c.stream: TableRead(stream=c.stream, seen=[ReadSet.of(take_snapshots(client, [c.stream])[c.stream])])}
    commit_together(client, written([a], b"5"), reads)
    commit_together(client, written([c], b"6"), {})
    assert contents(client, tables) == [[b"1", b"3", b"5"], [b"1"], [b"6"]]
    assert [ledger_of(client, table).state().pending for table in tables] == [None] * 3


def test_a_transaction_that_others_have_found_lost_comes_to_its_end(
    client: Client, tables: list[TableDefinition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first table's transaction is lost behind the decision, and another process withdraws the record."""
    prepared = written(tables[:2], b"1")
    (leader,) = prepared[0].intent.transaction_ids()

    def late(client: Client, together: Together, _: Any) -> None:
        client.controller.abort_transaction(tables[0].stream, leader)
        with suppress(TransactionError):
            roll_forward(client, together)
        roll_forward(client, together)

    monkeypatch.setattr(several, "bring_forward", lambda *_: False)
    monkeypatch.setattr(several, "roll_forward", late)
    with ThreadPoolExecutor(1) as threads:
        end = threads.submit(commit_together, client, prepared, {})
        with pytest.raises(TransactionError, match="withdrawn"):
            end.result(120)
    assert contents(client, tables) == [[], [], []]
    assert [ledger_of(client, table).state().pending for table in tables[:2]] == [None, None]


@pytest.mark.parametrize("only_read", [False, True])
def test_a_table_that_is_dropped_before_the_decision_withdraws_it(
    catalog: Catalog,
    client: Client,
    tables: list[TableDefinition],
    monkeypatch: pytest.MonkeyPatch,
    only_read: bool,
) -> None:
    """Who reads the other table behind the DROP must not see it later."""
    a, b, _ = tables
    commit_together(client, written([a, b], b"1"), {})
    seen = take_snapshots(client, [b.stream])[b.stream]
    reads = {b.stream: TableRead(stream=b.stream, seen=[ReadSet.of(seen)])} if only_read else {}
    prepared, real = written([a] if only_read else [a, b], b"2"), decisions.Decisions.commit

    def decide(*given: Any) -> Any:
        assert catalog.tables.drop_stream(b.stream)
        assert contents(client, [a]) == [[b"1"]]
        return real(*given)

    monkeypatch.setattr(decisions.Decisions, "commit", decide)
    with pytest.raises(TransactionError, match="withdrawn"):
        commit_together(client, prepared, reads)
    assert contents(client, [a]) == [[b"1"]]


def test_of_a_transaction_whose_tables_are_all_gone_nobody_says_that_it_was_withdrawn(
    catalog: Catalog, client: Client, settings: Settings, tables: list[TableDefinition]
) -> None:
    """Its commit is asked for again: nothing tells any more whether it was there before they were dropped."""
    a, b, c = tables
    prepared, withdrawn = written([a, b], b"1"), written([a, c], b"2")
    withdraw_together(client, withdrawn)
    commit_together(client, prepared, {})
    catalog.tables.drop_stream(a.stream)
    assert commit_together(client, prepared, {}) in (Stage.COMMITTED, Stage.REPEATED)
    with pytest.raises(TransactionError):
        commit_together(client, withdrawn, {})
    catalog.tables.drop_stream(b.stream)
    with pytest.raises(UnclearAnswerError, match="isn't known any more"):
        commit_together(client, prepared, {})
    raw_table(client, settings, a.stream.scope, "b", segments=2)
    with pytest.raises(UnclearAnswerError, match="isn't known any more"):
        commit_together(client, prepared, {})


@pytest.mark.parametrize("closing", Closing)
def test_a_table_that_is_being_sealed_or_dropped_takes_no_part(
    client: Client, tables: list[TableDefinition], closing: Closing
) -> None:
    """Also where who began that has died: the others of the transaction get nothing, and go on."""
    a, b, c = tables
    commit_together(client, written([a, b], b"1"), {})
    close(client, ledger_of(client, b), closing)
    with pytest.raises(TableBeingDroppedError):
        commit_together(client, written([a, b], b"2"), {})
    seen = take_snapshots(client, [b.stream])[b.stream]
    reads = {b.stream: TableRead(stream=b.stream, seen=[ReadSet.of(seen)])}
    with nullcontext() if closing is Closing.SEAL else pytest.raises(TableBeingDroppedError):
        commit_together(client, written([a], b"3"), reads)
    commit_together(client, written([a, c], b"4"), {})
    own = WriteJob(WritePlan.of(b, WriteOptions(transaction_timeout_ms=LEASE_MS)))
    own.commit_job([run_task(own, b"5")])
    first = [b"1", b"3", b"4"] if closing is Closing.SEAL else [b"1", b"4"]
    assert contents(client, tables) == [first, [b"1", b"5"], [b"4"]]


def test_readers_wait_for_who_can_not_keep_others_from_what_it_has_read(
    client: Client, tables: list[TableDefinition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who may only read a table: others commit to it between the last look and the decision."""
    a, b, c = tables
    commit_together(client, written(tables, b"1"), {})
    monkeypatch.setattr(Ledger, "may_change", lambda log: log.stream != c.stream)
    monkeypatch.setattr(recovery, "GRACE_S", 0.1)
    monkeypatch.setattr(snapshot, "HELP_AFTER_MS", -1)

    def read_c() -> dict[Stream, TableRead]:
        seen = take_snapshots(client, [c.stream])[c.stream]
        return {c.stream: TableRead(stream=c.stream, seen=[ReadSet.of(seen)])}

    real = decisions.Decisions.commit
    for dies in (False, True):
        reads, begun, read = read_c(), threading.Event(), threading.Event()

        def decide(*given: Any, dies: bool = dies, begun: Any = begun, read: Any = read) -> Any:
            monkeypatch.setattr(decisions.Decisions, "commit", real)
            assert ledger_of(client, c).state().pending is None
            commit_together(client, written([c], b"3"), {})
            begun.set()
            assert not read.wait(0.5)
            if dies:
                raise Died
            return real(*given)

        def look(read: Any = read) -> list[list[bytes]]:
            # What others have committed to the one is seen with what the transaction does to the other.
            seen = contents(client, [c, a, b])
            read.set()
            return seen

        with ThreadPoolExecutor(2) as threads:
            monkeypatch.setattr(decisions.Decisions, "commit", decide)
            prepared = written([a, b], b"2")
            end = threads.submit(commit_together, client, prepared, reads)
            assert begun.wait(60)
            seen = threads.submit(look).result(60)
            if dies:
                with pytest.raises(Died):
                    end.result(60)
            else:
                assert end.result(60) is Stage.COMMITTED
        assert seen == [[b"1", *[b"3"] * (1 + dies)], [b"1", b"2"], [b"1", b"2"]]
        assert contents(client, [a, b]) == seen[1:]
    # What others have changed before the last look is a conflict, and so is what they are about to change.
    reads, prepared = read_c(), written([a], b"4")
    commit_together(client, written([c], b"5"), {})
    with pytest.raises(WriteConflictError):
        commit_together(client, prepared, reads)
    monkeypatch.setattr(recovery, "GRACE_S", 60.0)
    dies_at("all promises", client, written([b, c], b"6"), monkeypatch)
    with pytest.raises(WriteConflictError, match="just being committed"):
        commit_together(client, written([a], b"4"), read_c())


def test_an_epoch_counts_once(client: Client, tables: list[TableDefinition]) -> None:
    for number, stage in ((0, Stage.COMMITTED), (0, Stage.REPEATED), (1, Stage.COMMITTED), (0, Stage.REPEATED)):
        prepared = written(tables, f"{number}".encode(), epoch=Epoch(query="q", number=number))
        assert commit_together(client, prepared, {}) is stage
        forget_together(client, prepared)
    assert contents(client, tables) == [[b"0", b"1"]] * 3


def _owner(path: str) -> Any:
    from importlib import import_module

    with suppress(ModuleNotFoundError):
        return import_module(path)
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)
