"""Writes without Spark: tasks into one commit, lost attempts, lost transactions."""

from __future__ import annotations

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from client_tools import scale
from connector_tools import (
    are_over,
    batch,
    begin,
    check_places,
    ledger_of,
    numbered,
    open_transactions,
    raw_table,
    read_events,
    run_task,
    size_until,
    states,
    transaction_of,
    versions,
)
from waiting import eventually

from pyspark_pravega.client import Client, TransactionState
from pyspark_pravega.connector.log import create_ledger, delete_ledger, recovery
from pyspark_pravega.connector.log.entries import Intent
from pyspark_pravega.connector.log.snapshot import take_snapshot
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.connector.write.job import WriteJob
from pyspark_pravega.connector.write.plan import WritePlan
from pyspark_pravega.connector.write.writer import BatchWriter, EpochWriter, TaskMessage
from pyspark_pravega.errors import (
    EventEncodeError,
    LeaseExpiredError,
    PravegaError,
    TransactionError,
    UnsupportedOperationError,
)
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server


@pytest.fixture(scope="module", autouse=True)
def neglected(
    client: Client, settings: Settings, module_scope: str
) -> tuple[TableDefinition, BatchWriter, TaskMessage]:
    """A job that nobody keeps open: its lease runs out during the other tests, and the last test has not to wait."""
    table = raw_table(client, settings, module_scope)
    writer = begin(table, lease_ms=10_000)
    return table, writer, run_task(writer, b"one")


# Commits


def test_what_many_tasks_wrote_becomes_visible_at_once(client: Client, table: TableDefinition) -> None:
    writer = begin(table)
    parts = [numbered(f"task{task}", 50) for task in range(5)]
    messages = [run_task(writer, *part) for part in parts]
    assert read_events(client, table) == []
    writer.commit(messages)
    assert sorted(read_events(client, table)) == sorted(event for part in parts for event in part)
    (commit,) = ledger_of(client, table).commits([1])
    assert (commit.job, commit.rows) == (str(writer.job), 250)
    assert commit.bytes == sum(commit.cut.values()) == sum(len(event) + 8 for part in parts for event in part)
    assert len([offset for offset in commit.cut.values() if offset]) == 4
    assert open_transactions(client, table.stream) == []


def test_events_of_a_key_keep_their_order_within_a_task(client: Client, settings: Settings, scope: str) -> None:
    table = raw_table(client, settings, scope, segments=1)
    writer = begin(table)
    events = numbered("e", 1000)
    writer.commit([run_task(writer, *events)])
    assert read_events(client, table) == events


def test_a_job_without_rows_makes_no_version(client: Client, table: TableDefinition) -> None:
    writer = begin(table)
    messages = [run_task(writer) for _ in range(3)]
    assert [message.staged for message in messages] == [None] * 3
    writer.commit(messages)
    assert versions(client, table) == []


def test_tasks_without_rows_take_part_in_a_commit(client: Client, table: TableDefinition) -> None:
    writer = begin(table)
    writer.commit([run_task(writer), run_task(writer, b"one"), run_task(writer)])
    assert read_events(client, table) == [b"one"]


def test_committing_twice_is_harmless(client: Client, table: TableDefinition) -> None:
    writer = begin(table)
    messages = [run_task(writer, b"one"), run_task(writer, b"two")]
    writer.commit(messages)
    writer.commit(messages)
    pickle.loads(pickle.dumps(writer)).commit(pickle.loads(pickle.dumps(messages)))
    assert sorted(read_events(client, table)) == [b"one", b"two"]
    assert versions(client, table) == [(1, str(writer.job))]


def test_a_commit_is_harmless_to_repeat_after_others_have_committed(client: Client, table: TableDefinition) -> None:
    first = begin(table)
    messages = [run_task(first, b"one")]
    first.commit(messages)
    for number in range(5):
        other = begin(table)
        other.commit([run_task(other, f"other{number}".encode())])
    first.commit(messages)
    assert len(read_events(client, table)) == 6
    assert [version for version, _ in versions(client, table)] == [1, 2, 3, 4, 5, 6]


def test_an_abort_leaves_nothing_and_no_open_transaction(client: Client, table: TableDefinition) -> None:
    writer = begin(table)
    messages = [run_task(writer, *numbered("e", 20)) for _ in range(3)]
    writer.abort([*messages[:2], None])
    assert are_over(client, table, [transaction_of(message) for message in messages])
    assert read_events(client, table) == []
    assert versions(client, table) == []
    assert ledger_of(client, table).job(writer.job).attempts(3) == []
    assert open_transactions(client, table.stream) == []


def test_an_abort_after_a_commit_takes_nothing_back(client: Client, table: TableDefinition) -> None:
    writer = begin(table)
    messages = [run_task(writer, b"one"), run_task(writer, b"two")]
    writer.commit(messages)
    writer.abort(messages)
    assert sorted(read_events(client, table)) == [b"one", b"two"]


def test_a_row_that_is_no_event_fails_its_task_and_leaves_no_open_transaction(
    client: Client, settings: Settings, scope: str
) -> None:
    table = raw_table(client, settings, scope, segments=1)
    writer = begin(table)
    with pytest.raises(EventEncodeError, match=r"8,388,608|8388608"):
        run_task(writer, b"fine", b"x" * ((8 << 20) + 1))
    # The transaction would be other tasks', too: the job aborts it.
    writer.abort([None])
    assert open_transactions(client, table.stream) == []
    assert read_events(client, table) == []


# Attempts


def test_a_lost_attempt_leaves_no_duplicates_and_no_open_transaction(client: Client, table: TableDefinition) -> None:
    writer = begin(table)
    lost, won = run_task(writer, b"one", b"two"), run_task(writer, b"one", b"two")
    writer.commit([won])
    assert sorted(read_events(client, table)) == [b"one", b"two"]
    assert are_over(client, table, [transaction_of(lost)])
    assert states(client, table, [transaction_of(won)]) == [TransactionState.COMMITTED]
    assert ledger_of(client, table).job(writer.job).attempts(1) == []


def test_an_attempt_that_comes_after_the_commit_is_refused_and_throws_its_rows_away(
    client: Client, table: TableDefinition
) -> None:
    writer = begin(table)
    writer.commit([run_task(writer, b"one")])
    with pytest.raises(TransactionError, match="is over: this attempt at partition 0 came too late"):
        run_task(writer, b"one")
    assert open_transactions(client, table.stream) == []
    assert read_events(client, table) == [b"one"]


def test_a_late_attempt_is_refused_after_an_abort_too(client: Client, table: TableDefinition) -> None:
    writer = begin(table)
    writer.abort([None])
    with pytest.raises(TransactionError, match="came too late"):
        run_task(writer, b"one")
    assert open_transactions(client, table.stream) == []


# The transaction that tasks share


def test_the_first_attempts_share_a_transaction_and_nothing_is_copied(client: Client, table: TableDefinition) -> None:
    writer = begin(table)
    parts = [numbered(f"task{task}", 300) for task in range(8)]
    with ThreadPoolExecutor(8) as threads:
        run = [threads.submit(run_task, writer, *part, partition=number) for number, part in enumerate(parts)]
        messages = [one.result() for one in run]
    assert len({transaction_of(message) for message in messages}) == 1
    assert writer.commit_job(messages).transactions == 1
    (commit,) = ledger_of(client, table).commits([1])
    assert commit.transactions == (str(transaction_of(messages[0])),)
    assert sorted(read_events(client, table)) == sorted(event for part in parts for event in part)
    assert open_transactions(client, table.stream) == []


@pytest.mark.parametrize("again", [False, True], ids=["committed once", "committed again"])
def test_what_a_lost_attempt_left_in_the_shared_transaction_stays_out(
    client: Client, settings: Settings, scope: str, again: bool
) -> None:
    table = raw_table(client, settings, scope, segments=2)
    writer = begin(table)
    parts = [numbered(f"task{task}", 200, size=1000 * (task + 1)) for task in range(4)]

    def write_in_turns(number: int) -> TaskMessage:
        batches = (batch(*parts[number][start : start + 10]) for start in range(0, 200, 10))
        return writer.write_partition(number, batches)

    with ThreadPoolExecutor(4) as threads:
        messages = list(threads.map(write_in_turns, range(4)))
    assert len({transaction_of(message) for message in messages}) == 1
    # The first attempt at partition 2 has written everything, but Spark has never heard of its end.
    messages[2] = run_task(writer, *parts[2], partition=2)
    assert transaction_of(messages[2]) != transaction_of(messages[0])
    writer.commit(messages)
    if again:
        writer.commit(messages)
    visible = read_events(client, table)
    assert sorted(visible) == sorted(event for part in parts for event in part)
    for part in parts:
        places = [visible.index(event) for event in part]
        assert len(set(places)) == 200
    assert are_over(client, table, [transaction_of(messages[0])])
    assert open_transactions(client, table.stream) == []


def test_only_lost_attempts_and_empty_ones_beside_the_shared_transaction(
    client: Client, table: TableDefinition
) -> None:
    # The attempt at partition 1 that counts has no rows: there's no transaction to copy the others' into.
    writer = begin(table)
    messages = [run_task(writer, b"one", partition=0), run_task(writer, b"lost", partition=1)]
    messages[1] = run_task(writer, partition=1)
    writer.commit(messages)
    assert read_events(client, table) == [b"one"]
    assert open_transactions(client, table.stream) == []


@pytest.mark.parametrize("way", ["a split", "a merge", "a split, and no keys"])
def test_a_lost_attempt_and_a_scale_at_once_are_told_where_blocks_would_have_to_be_divided(
    client: Client, table: TableDefinition, way: str
) -> None:
    plan, rows = WritePlan.of(table, WriteOptions()), numbered("one", 40)
    if way == "a merge":
        # The stream keeps at least as many segments as it was made with.
        scale(client, table.stream, [3], [(0.75, 0.875), (0.875, 1.0)])
    writer = WriteJob(replace(plan, routing=None) if way == "a split, and no keys" else plan)
    messages = [run_task(writer, *rows, partition=0), run_task(writer, b"lost", partition=1)]
    if way != "a merge":
        scale(client, table.stream, [0], [(0.0, 0.125), (0.125, 0.25)])
    else:
        scale(client, table.stream, [0, 1], [(0.0, 0.5)])
    messages[1] = run_task(writer, b"two", partition=1)
    if way == "a split":
        with pytest.raises(TransactionError, match=r"was scaled while the job wrote to it.*nothing was written"):
            writer.commit_job(messages)
        writer.abort_job([None, None])
        rows = []
    else:
        writer.commit_job(messages)
        rows.append(b"two")
    assert sorted(read_events(client, table)) == sorted(rows)
    assert open_transactions(client, table.stream) == []


def test_an_attempt_too_many_does_not_touch_the_shared_transaction(client: Client, table: TableDefinition) -> None:
    # As with speculative execution: the slower attempt fails when the faster one has won.
    writer = begin(table)
    first, other = run_task(writer, b"one", partition=0), run_task(writer, b"one", partition=0)
    with pytest.raises(EventEncodeError):
        writer.write_partition(0, iter([batch(b"one"), batch(b"x" * ((8 << 20) + 1))]))
    assert states(client, table, [transaction_of(first)]) == [TransactionState.OPEN]
    writer.commit([first])
    assert read_events(client, table) == [b"one"]
    assert are_over(client, table, [transaction_of(other)])


# Lost transactions


@pytest.mark.parametrize("lost", [0, 1], ids=["the target's", "a source's"])
def test_a_task_s_transaction_that_was_aborted_fails_the_commit_and_nothing_is_visible(
    client: Client, table: TableDefinition, lost: int
) -> None:
    writer = begin(table)
    messages = [run_task(writer, *numbered(f"task{task}", 20)) for task in range(2)]
    gone = transaction_of(messages[lost])
    client.controller.abort_transaction(table.stream, gone)
    eventually(lambda: states(client, table, [gone]) == [TransactionState.ABORTED])
    with pytest.raises(TransactionError):
        writer.commit(messages)
    assert read_events(client, table) == []
    assert versions(client, table) == []
    assert open_transactions(client, table.stream) == []


def test_a_kept_lease_does_not_run_out(client: Client, table: TableDefinition) -> None:
    writer = begin(table)
    message = run_task(writer, b"one")
    writer.keep_alive(1)
    writer.keep_alive(1)
    assert states(client, table, [transaction_of(message)]) == [TransactionState.OPEN]
    client.controller.abort_transaction(table.stream, transaction_of(message))
    # One that is lost doesn't keep the others from being kept.
    writer.keep_alive(1)


@pytest.mark.parametrize("opened", [True, False], ids=["noted", "not noted"])
def test_a_stream_scaled_while_a_job_wrote_is_one_version_of_one_transaction(
    client: Client, table: TableDefinition, opened: bool
) -> None:
    if opened:
        writer: WriteJob = begin(table)
    else:
        # As of a streaming query without the catalog.
        create_ledger(client, table.stream, to_write=True)
        writer = WriteJob(WritePlan.of(table, WriteOptions()), opened=False)
    before = run_task(writer, *numbered("before", 20))
    scale(client, table.stream, [0], [(0.0, 0.125), (0.125, 0.25)])
    between = [run_task(writer, *numbered(f"between{task}", 20)) for task in range(2)]
    scale(client, table.stream, [1, 2], [(0.25, 0.75)])
    after = run_task(writer, *numbered("after", 20))
    report = writer.commit_job([before, *between, after])
    assert (report.rows, report.transactions) == (80, 4)
    (commit,) = ledger_of(client, table).commits([1])
    assert (commit.rows, len(commit.transactions)) == (80, 1)
    check_places(client, table)
    assert size_until(client, table.stream, commit) == commit.bytes
    assert len(set(read_events(client, table))) == 80
    assert open_transactions(client, table.stream) == []
    writer.commit_job([before, *between, after])
    assert len(read_events(client, table)) == 80


@pytest.mark.parametrize("committed", [0, 1], ids=["none committed", "one committed"])
def test_an_earlier_release_s_commit_of_several_transactions_whose_driver_died_is_rolled_forward_or_back(
    client: Client, table: TableDefinition, monkeypatch: pytest.MonkeyPatch, committed: int
) -> None:
    monkeypatch.setattr(recovery, "GRACE_S", 0.2)
    dead = begin(table)
    messages = [run_task(dead, *numbered("before", 20))]
    scale(client, table.stream, [0], [(0.0, 0.125), (0.125, 0.25)])
    messages.append(run_task(dead, *numbered("after", 20)))
    ids = [transaction_of(message) for message in messages]
    ledger = ledger_of(client, table)
    intent = Intent(
        job=str(dead.job), transactions=tuple(map(str, ids)), rows=40, bytes=1, started_at=time.time_ns() // 1_000_000
    )
    ledger.begin(ledger.state(), intent)
    for transaction in ids[:committed]:
        client.controller.commit_transaction(table.stream, transaction)
    if committed:
        # A reader helps, and sees none of it or all.
        assert len(read_events(client, table)) in (0, 40)
        eventually(lambda: len(read_events(client, table)) == 40)
    else:
        assert read_events(client, table) == []
    heir = begin(table)
    heir.commit([run_task(heir, b"heir")])
    assert [version for version, _ in versions(client, table)] == list(range(1, 2 + committed))
    assert len(read_events(client, table)) == 1 + 40 * committed
    assert open_transactions(client, table.stream) == []


def test_a_job_whose_tasks_all_began_before_a_scale_is_committed_whole(client: Client, table: TableDefinition) -> None:
    writer = begin(table)
    messages = [run_task(writer, *numbered(f"task{task}", 20)) for task in range(2)]
    scale(client, table.stream, [0], [(0.0, 0.125), (0.125, 0.25)])
    writer.commit(messages)
    assert sorted(read_events(client, table)) == sorted(numbered("task0", 20) + numbered("task1", 20))
    (commit,) = ledger_of(client, table).commits([1])
    assert size_until(client, table.stream, commit) == commit.bytes


def test_a_stream_that_was_dropped_fails_the_commit_and_is_not_made_anew(
    client: Client, table: TableDefinition
) -> None:
    writer = begin(table)
    message = run_task(writer, b"one")
    client.controller.seal_stream(table.stream)
    client.controller.delete_stream(table.stream)
    delete_ledger(client, table.stream)
    with pytest.raises(TransactionError, match=f'stream "{table.stream}" was dropped'):
        writer.commit([message])
    writer.abort([message])
    assert list(client.controller.list_key_value_tables(table.stream.scope)) == []


def test_writers_at_once_are_put_in_an_order(client: Client, table: TableDefinition) -> None:
    def write(number: int) -> None:
        writer = begin(table)
        writer.commit([run_task(writer, *numbered(f"job{number}", 25)) for _ in range(2)])

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(write, range(12)))
    assert [version for version, _ in versions(client, table)] == list(range(1, 13))
    sizes = [sum(commit.cut.values()) for commit in ledger_of(client, table).commits(range(1, 13))]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == take_snapshot(client, table.stream).size
    assert len(read_events(client, table)) == 12 * 50


def test_an_epoch_without_messages_of_its_tasks_is_no_empty_one(table: TableDefinition) -> None:
    # So it is with the continuous trigger: Spark's Python writers are given no rows there, and were taken for done.
    with pytest.raises(UnsupportedOperationError, match="continuous trigger"):
        EpochWriter(table, WriteOptions()).commit([None, None], 0)


# Options


@pytest.mark.parametrize("lease", ["9999", "600001", "1e4", "-1", "", "ten", "²"])
def test_a_lease_beyond_the_server_s_limits_is_refused_at_the_door(lease: str) -> None:
    with pytest.raises(PravegaError, match="must be a number of milliseconds from 10000 to 600000"):
        WriteOptions.parse({"transactionTimeoutMs": lease})


# The last one: its lease has been running since the first test.


def test_a_job_whose_lease_ran_out_fails_and_nothing_is_visible(
    client: Client, neglected: tuple[TableDefinition, BatchWriter, TaskMessage]
) -> None:
    table, writer, message = neglected
    eventually(lambda: are_over(client, table, [transaction_of(message)]), within_s=60)
    with pytest.raises(LeaseExpiredError, match=r"longer than its transaction's lease of 10 s"):
        writer.commit([message])
    assert read_events(client, table) == []
    assert versions(client, table) == []
