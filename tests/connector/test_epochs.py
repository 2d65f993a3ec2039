"""A streaming query's epochs: each is a version once, one driver at a time, and the log doesn't grow without bound."""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from connector_tools import (
    batch,
    begin,
    ledger_of,
    numbered,
    open_transactions,
    read_events,
    run_task,
    transaction_of,
)

from pyspark_pravega.client import Client
from pyspark_pravega.client.key_value.table import KeyValueTable
from pyspark_pravega.connector.log import JobCommit, Ledger, create_ledger, job_log, open_ledger, recovery
from pyspark_pravega.connector.log import ledger as ledgers
from pyspark_pravega.connector.log.entries import OTHERS, Intent, Progress
from pyspark_pravega.connector.log.entry_keys import ledger_name
from pyspark_pravega.connector.option_names import AT_LEAST_ONCE, BEST_EFFORT
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.table import TableProperties
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.connector.write.job import CommitReport, TaskMessage, WriteJob
from pyspark_pravega.connector.write.plan import Epoch, WritePlan
from pyspark_pravega.connector.write.writer import BatchWriter, take_over
from pyspark_pravega.errors import ConfigurationError, ConflictError, EventEncodeError, TransactionError

pytestmark = pytest.mark.server

QUERY = "query"


@pytest.fixture
def ledger(client: Client, table: TableDefinition) -> Ledger:
    return create_ledger(client, table.stream)


def plan_of(table: TableDefinition, **options: str) -> WritePlan:
    return WritePlan.of(table, WriteOptions.parse(options, lease_ms=60_000))


def write_epoch(plan: WritePlan, run: str | None, number: int, *events: bytes) -> CommitReport:
    job = WriteJob(plan)
    message = job.write_task(iter([batch(*events)]))
    return job.commit_job([message], Epoch(query=QUERY, number=number, run=run))


def test_an_epoch_is_written_once_whoever_repeats_it(client: Client, table: TableDefinition) -> None:
    plan = plan_of(table)
    for run in ("first", "second"):
        take_over(plan, QUERY, run)
        for number in range(3):
            report = write_epoch(plan, run, number, *numbered(f"epoch{number}", 10))
            assert report.repeated == (run == "second")
    assert len(read_events(client, table)) == 30
    log = ledger_of(client, table)
    assert [(commit.query, commit.epoch) for commit in log.commits(range(1, 9))] == [(QUERY, n) for n in range(3)]
    assert log.progress(QUERY).epoch == 2
    assert open_transactions(client, table.stream) == []


def test_only_the_last_driver_may_go_on(client: Client, table: TableDefinition) -> None:
    plan = plan_of(table)
    take_over(plan, QUERY, "first")
    write_epoch(plan, "first", 0, b"zero")
    take_over(plan, QUERY, "second")
    with pytest.raises(TransactionError, match="another driver has taken over streaming query query"):
        write_epoch(plan, "first", 1, b"of the first")
    with pytest.raises(TransactionError, match="another driver has taken over"):
        take_over(plan, QUERY, "first")
    write_epoch(plan, "second", 1, b"of the second")
    assert sorted(read_events(client, table)) == [b"of the second", b"zero"]
    assert open_transactions(client, table.stream) == []


def test_a_real_time_batch_is_not_taken_for_a_micro_batch_of_its_number(client: Client, table: TableDefinition) -> None:
    # The driver died when epoch 1 was committed and Spark hadn't noted it. A real-time query goes on from the
    # checkpoint: Spark forgets where the micro-batch ended, and the next one of its number has other rows. Seen without
    # the rewind: they were thrown away as a repetition.
    exactly, direct = plan_of(table), replace(plan_of(table, **{"writer-mode": AT_LEAST_ONCE}), at_once=True)
    take_over(direct, QUERY, "before there is a log", epoch=0)
    for number in range(2):
        take_over(exactly, QUERY, "first")
        write_epoch(exactly, "first", number, f"{number}".encode())
    take_over(direct, QUERY, "real-time", epoch=1)
    with pytest.raises(TransactionError, match="another driver has taken over"):
        write_epoch(exactly, "first", 2, b"of the first")
    take_over(exactly, QUERY, "second")
    assert not write_epoch(exactly, "second", 1, b"1", b"and more").repeated
    assert write_epoch(exactly, "second", 1, b"1", b"and more").repeated
    assert sorted(read_events(client, table)) == [b"0", b"1", b"1", b"and more"]


def test_of_two_drivers_that_write_one_epoch_at_once_one_does(client: Client, table: TableDefinition) -> None:
    plan = plan_of(table)

    def drive(run: str) -> int:
        written = 0
        for number in range(4):
            try:
                written += not write_epoch(plan, run, number, f"epoch {number}".encode()).repeated
            except TransactionError:
                break
        return written

    with ThreadPoolExecutor(4) as threads:
        written = sum(threads.map(drive, ["a", "b", "c", "d"]))
    events = read_events(client, table)
    assert sorted(events) == sorted(set(events))
    assert len(events) == written
    assert [commit.epoch for commit in ledger_of(client, table).commits(range(1, 9))] == list(range(written))


@pytest.mark.parametrize("committed", [False, True], ids=["open", "committed"])
def test_a_driver_that_died_in_its_commit_is_settled_without_waiting(
    client: Client, table: TableDefinition, ledger: Ledger, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An heir that waits for the dead is not done before the test's time is over.
    monkeypatch.setattr(recovery, "GRACE_S", 3600.0)
    plan, job = plan_of(table), WriteJob(plan_of(table))
    take_over(plan, QUERY, "dead")
    message = job.write_task(iter([batch(b"once")]))
    transaction = transaction_of(message)
    ledger.begin(
        ledger.state(),
        Intent(
            job=str(job.job), transactions=(str(transaction),), rows=1, bytes=12, started_at=1, query=QUERY, epoch=0
        ),
        ledger.progress(QUERY),
    )
    if committed:
        client.controller.commit_transaction(table.stream, transaction)
    take_over(plan, QUERY, "heir")
    assert ledger.state().pending is None
    assert ledger.progress(QUERY).epoch == (0 if committed else -1)
    assert write_epoch(plan, "heir", 0, b"once").repeated == committed
    assert read_events(client, table) == [b"once"]
    if committed:
        # What it asks for is there.
        job.commit_job([message], Epoch(query=QUERY, number=0, run="dead"))
    else:
        with pytest.raises(TransactionError):
            job.commit_job([message], Epoch(query=QUERY, number=0, run="dead"))
    assert read_events(client, table) == [b"once"]


def test_others_commit_between_the_epochs_of_a_query(client: Client, table: TableDefinition) -> None:
    plan = plan_of(table)
    for number in range(3):
        write_epoch(plan, "run", number, f"epoch {number}".encode())
        other = begin(table)
        other.commit([run_task(other, f"other {number}".encode())])
    epochs = [(commit.query, commit.epoch) for commit in ledger_of(client, table).commits(range(1, 9))]
    assert epochs == [(QUERY, 0), (None, None), (QUERY, 1), (None, None), (QUERY, 2), (None, None)]


def test_a_numbered_write_is_done_once(client: Client, table: TableDefinition) -> None:
    for epoch in ("5", "5", "4", "6"):
        writer = BatchWriter(table, WriteOptions.parse({"query": "load", "epoch": epoch}))
        writer.commit([run_task(writer, f"day {epoch}".encode())])
    assert sorted(read_events(client, table)) == [b"day 5", b"day 6"]
    assert open_transactions(client, table.stream) == []


# The log's entries


def test_a_query_s_progress_moves_with_its_commits_only(ledger: Ledger) -> None:
    assert ledger.progress(QUERY) == Progress(query=QUERY)
    taken = ledger.take_over(QUERY, "run")
    assert taken is not None
    assert ledger.take_over(QUERY, "run") == taken
    state, progress = ledger.state(), ledger.progress(QUERY)
    assert progress == taken
    promised = Intent(job=str(uuid.uuid4()), transactions=(), rows=1, bytes=1, started_at=1, query=QUERY, epoch=7)
    begun = ledger.begin(state, promised, progress)
    assert ledger.progress(QUERY).epoch == -1
    assert ledger.take_over(QUERY, "next run") is not None
    ledger.complete(begun, committed_at=1, cut={})
    done = ledger.progress(QUERY)
    assert (done.epoch, done.run, done.retired) == (7, "next run", ("run",))
    with pytest.raises(ConflictError):
        ledger.begin(ledger.state(), promised, progress)
    assert ledger.progress("another").epoch == -1


def test_a_hundred_retired_drivers_are_remembered(ledger: Ledger) -> None:
    for number in range(102):
        assert ledger.take_over(QUERY, f"run {number}") is not None
    # The entry has come to its full length: of 101 retired drivers it names the last hundred.
    assert ledger.progress(QUERY).retired == tuple(f"run {number}" for number in range(1, 101))
    for number in (1, 50, 100):
        assert ledger.take_over(QUERY, f"run {number}") is None
    assert ledger.progress(QUERY).run == "run 101"


def test_the_log_keeps_the_last_versions_and_forgets_the_dead(
    client: Client, table: TableDefinition, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "KEPT_VERSIONS", 20)
    monkeypatch.setattr(ledgers, "_SWEEP_EVERY", 10)
    dead, alive = uuid.uuid4(), uuid.uuid4()
    monkeypatch.setattr(job_log, "now_ms", lambda: time.time_ns() // 1_000_000 - job_log.ABANDONED_MS - 1000)
    ledger.job(dead).open()
    assert ledger.job(dead).add_attempt(3, uuid.uuid4())
    monkeypatch.undo()
    monkeypatch.setattr(ledgers, "KEPT_VERSIONS", 20)
    monkeypatch.setattr(ledgers, "_SWEEP_EVERY", 10)
    ledger.job(alive).open()
    assert ledger.job(alive).add_attempt(0, alive)
    ledger.take_over(QUERY, "run")
    for number in range(60):
        job, epoch = uuid.uuid4(), number
        intent = Intent(job=str(job), transactions=(), rows=1, bytes=1, started_at=1, query=QUERY, epoch=epoch)
        ledger.complete(ledger.begin(ledger.state(), intent), committed_at=1, cut={0: number})
        assert ledger.job(job).commit() == JobCommit(version=1 + number)
        if number < 59:
            # Of the last one nobody says that the answer has come.
            ledger.job(job).forget_commit()
    kept = [commit.version for commit in ledger.commits(range(1, 61))]
    assert kept == list(range(41, 61))
    assert ledger.job(dead).attempts(4) == []
    assert ledger.job(alive).attempts(1) == [alive]
    assert ledger.progress(QUERY).epoch == 59
    entries = list(KeyValueTable(client.pool, table.stream.scope, ledger_name(table.stream)).iterate_keys())
    assert len(entries) == 1 + 1 + 20 + 2 + 1
    assert [open_job.job for open_job in ledger.open_jobs()] == [str(alive)], "a job that is committed isn't open"
    # What tells that it was committed goes as all that the dead have left.
    monkeypatch.setattr(job_log, "ABANDONED_MS", -1000)
    job_log.forget_abandoned(ledger._table)
    assert ledger.job(job).commit() is None


def commit_versions(ledger: Ledger, times: Sequence[int]) -> list[int]:
    """Commit empty versions at some times; returns those that the log then has."""
    for committed_at in times:
        ledger.complete(
            ledger.state(),
            committed_at=committed_at,
            cut={0: 0},
            without_rows=Intent(job=OTHERS, transactions=(), rows=0, bytes=0, started_at=1),
        )
    known = [commit.version for commit in ledger.all_commits()]
    first = ledger.first_commit()
    assert first is not None
    assert first.version == known[0]
    return known


def test_the_log_keeps_as_many_versions_as_the_table_says(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer, shorter, by number and by time; the last hundred stay in any case, and none is left behind."""
    monkeypatch.setattr(ledgers, "KEPT_VERSIONS", 120)
    now = time.time_ns() // 1_000_000
    ledger.set_properties({"history": "450"})
    assert commit_versions(ledger, range(now - 500_000, now - 500_000 + 600)) == list(range(151, 601))
    # Made shorter, the versions that are too many go, however many there are.
    ledger.set_properties({"history": "150"})
    assert commit_versions(ledger, range(now - 400_000, now - 400_000 + 100)) == list(range(551, 701))
    # Without the property.
    ledger.set_properties({})
    assert commit_versions(ledger, range(now - 300_000, now - 300_000 + 100)) == list(range(681, 801))
    # By time: of 300 s ago until now.
    now = time.time_ns() // 1_000_000
    ledger.set_properties({"history": "5 minutes"})
    assert commit_versions(ledger, range(now - 200_000, now - 200_000 + 300)) == list(range(801, 1101))
    ledger.set_properties({"history": "1s"})
    assert commit_versions(ledger, range(now - 2000, now - 1900)) == list(range(1101, 1201))


# The direct modes


@pytest.mark.parametrize("mode", [AT_LEAST_ONCE, BEST_EFFORT])
def test_direct_writes_are_stored_when_a_task_ends(client: Client, table: TableDefinition, mode: str) -> None:
    writer = BatchWriter(table, WriteOptions(writer_mode=mode))
    message = run_task(writer, *numbered("e", 30))
    assert len(read_events(client, table)) == 30
    message = pickle.loads(pickle.dumps(message))
    assert isinstance(message, TaskMessage)
    report = writer.commit_job([message])
    assert (report.rows, report.bytes, report.transactions) == (30, sum(len(e) + 8 for e in numbered("e", 30)), 0)
    writer.abort([message])
    assert len(read_events(client, table)) == 30
    assert open_ledger(client, table.stream) is None


@pytest.mark.parametrize("mode", [AT_LEAST_ONCE, BEST_EFFORT])
def test_what_cannot_be_stored_is_an_error_or_lost(client: Client, table: TableDefinition, mode: str) -> None:
    writer = BatchWriter(table, WriteOptions(writer_mode=mode))
    client.controller.seal_stream(table.stream)
    if mode == AT_LEAST_ONCE:
        with pytest.raises(Exception, match="sealed"):
            run_task(writer, b"one")
    else:
        assert writer.commit_job([run_task(writer, b"one")]).rows == 0


def test_a_row_that_is_no_event_is_an_error_in_every_mode(table: TableDefinition) -> None:
    writer = BatchWriter(table, WriteOptions(writer_mode=BEST_EFFORT))
    with pytest.raises(EventEncodeError):
        run_task(writer, b"x" * ((8 << 20) + 1))


def test_a_table_s_properties_are_weaker_than_options(table: TableDefinition) -> None:
    of_table = replace(table, properties=TableProperties({"writer-mode": AT_LEAST_ONCE, "routing-key": "'fixed'"}))
    assert plan_of(of_table).mode == AT_LEAST_ONCE
    assert plan_of(of_table, **{"writer-mode": "exactly_once"}).mode == "exactly-once"
    with pytest.raises(ConfigurationError, match="not for at-least-once"):
        plan_of(of_table, query="q", epoch="1")
