"""Transactions over several tables on real servers, without Spark: who dies in the midst, and who comes next."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from connector_tools import LEASE_MS, ledger_of, raw_table, read_events, run_task

from pyspark_pravega.client import Client
from pyspark_pravega.connector.log import recovery, settle, snapshot, take_snapshots
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
from pyspark_pravega.connector.write.commit import Stage
from pyspark_pravega.errors import TransactionError, WriteConflictError
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

LOG, COMMIT = "pyspark_pravega.connector.log", "pyspark_pravega.connector.write.commit.several"
STEPS = {
    "one promise": (f"{LOG}.ledger.Ledger.begin", 1, False),
    "all promises": (f"{COMMIT}.Several._hold", 0, False),
    "held": (f"{LOG}.decided.decisions.Decisions.commit", 0, False),
    "decided": (f"{COMMIT}.roll_forward", 0, True),
    "the leader is committed": (f"{LOG}.recovery.commit_all", 1, True),
    "all are committed": (f"{LOG}.recovery._complete_member", 0, True),
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
def test_others_finish_or_withdraw_what_a_dead_driver_has_left(
    client: Client, tables: list[TableDefinition], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(recovery, "GRACE_S", 0.1)
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
    assert client.controller.transaction_state(tables[1].stream, other) in recovery.COMMITTING_OR_DONE
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
