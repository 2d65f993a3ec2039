"""Drivers that die in the midst of a commit: who comes next completes it, or withdraws it."""

from __future__ import annotations

import pickle
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain

import pyarrow as pa
import pytest
from client_tools import scale
from connector_tools import (
    are_over,
    batch,
    begin,
    check_places,
    ledger_of,
    numbered,
    promise,
    raw_table,
    read_events,
    run_task,
    states,
    transaction_of,
    versions,
)
from waiting import eventually
from write_processes import KILL, Child, Fault, KeyOfEvent, Lost, commit_job

from pyspark_pravega.client import Client, TransactionState
from pyspark_pravega.connector.log import recovery, seal
from pyspark_pravega.connector.log.entries import Intent
from pyspark_pravega.connector.log.entry_keys import ledger_name
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.connector.write.job import TaskMessage, WriteJob
from pyspark_pravega.connector.write.plan import WritePlan
from pyspark_pravega.errors import TransactionError
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server


def test_a_promise_that_was_never_kept_is_withdrawn_by_the_next_writer_and_can_not_be_kept_later(
    client: Client, table: TableDefinition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "GRACE_S", 0.2)
    dead, heir = begin(table), begin(table)
    message = run_task(dead, b"of the dead")
    promise(client, table, dead, message)
    heir.commit([run_task(heir, b"of the heir")])
    assert are_over(client, table, [transaction_of(message)])
    with pytest.raises(TransactionError):
        dead.commit([message])
    assert read_events(client, table) == [b"of the heir"]
    assert versions(client, table) == [(1, str(heir.job))]


def test_the_owner_of_a_promise_has_time_to_keep_it(
    client: Client, table: TableDefinition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "GRACE_S", 3600.0)
    slow = begin(table)
    message = run_task(slow, b"slow")
    promise(client, table, slow, message)
    slow.commit([message])
    quick = begin(table)
    quick.commit([run_task(quick, b"quick")])
    assert versions(client, table) == [(1, str(slow.job)), (2, str(quick.job))]
    assert sorted(read_events(client, table)) == [b"quick", b"slow"]


def test_a_commit_that_was_made_but_not_completed_is_completed_by_the_next_writer(
    client: Client, table: TableDefinition
) -> None:
    dead, heir = begin(table), begin(table)
    message = run_task(dead, *numbered("dead", 30))
    promise(client, table, dead, message)
    client.controller.commit_transaction(table.stream, transaction_of(message))
    heir.commit([run_task(heir, *numbered("heir", 10))])
    assert versions(client, table) == [(1, str(dead.job)), (2, str(heir.job))]
    assert [commit.rows for commit in ledger_of(client, table).commits([1, 2])] == [30, 10]
    assert len(read_events(client, table)) == 40
    dead.commit([message])
    assert [version for version, _ in versions(client, table)] == [1, 2]
    assert len(read_events(client, table)) == 40


@pytest.mark.parametrize("asked", [False, True], ids=["before it asked", "when it had asked"])
def test_a_driver_that_is_killed_at_the_commit_of_a_write_over_several_epochs(
    client: Client, table: TableDefinition, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    """Tasks are repeated while the stream is scaled, and nobody comes before the leases are over that are left."""
    monkeypatch.setattr(recovery, "GRACE_S", 0.2)
    routing, controller = KeyOfEvent(), client.controller
    plan = replace(WritePlan.of(table, WriteOptions()), routing=routing)  # type: ignore[arg-type]
    job, heir = WriteJob(plan), WriteJob(plan)
    rows = [[f"w 0 {key} {n}".encode() for n in range(100) for key in range(part, 30, 3)] for part in range(3)]

    def attempt(part: int) -> TaskMessage:
        return job.write_partition(part, (batch(*rows[part][start : start + 250]) for start in range(0, 1000, 250)))

    lost = [attempt(part) for part in range(3)]
    told = [attempt(0)]
    scale(client, table.stream, [0], [(0.0, 0.125), (0.125, 0.25)])
    told.append(attempt(1))
    scale(client, table.stream, [1, 2], [(0.25, 0.75)])
    told.append(attempt(2))
    epochs = [one.staged.transaction.epoch for one in (*lost, *told) if one.staged is not None]
    assert epochs == [0, 0, 0, 0, 1, 2]

    driver = Child(Fault("commit", after=asked, kind=KILL))
    with pytest.raises(Lost):
        driver.call(commit_job, pickle.dumps(job), told, None, stalled=lambda _: False)
    driver.end()
    for one in {transaction_of(message) for message in (*lost, *told)}:
        controller.abort_transaction(table.stream, one)
    heir.commit_job([heir.write_partition(0, iter([batch(b"w 1 99 0")]))])
    visible = read_events(client, table)
    assert sorted(visible) == sorted([*(chain.from_iterable(rows) if asked else ()), b"w 1 99 0"])
    assert [one for _, one in versions(client, table)] == [*([str(job.job)] if asked else []), str(heir.job)]
    for key in range(30):
        numbers = [int(event.split()[3]) for event in visible if int(event.split()[2]) == key]
        assert numbers == sorted(numbers)
    check_places(client, table, lambda events: routing.keys(pa.record_batch([events], names=["event"])))
    if asked:
        # As the JVM does it, with another catalog process.
        job.commit_job(told)
        assert len(read_events(client, table)) == len(visible)


def test_a_driver_that_comes_back_keeps_its_own_promise(client: Client, table: TableDefinition) -> None:
    writer = begin(table)
    message = run_task(writer, b"one")
    promise(client, table, writer, message)
    pickle.loads(pickle.dumps(writer)).commit([message])
    assert versions(client, table) == [(1, str(writer.job))]
    assert read_events(client, table) == [b"one"]


def test_a_promise_whose_transaction_is_unknown_is_withdrawn(
    client: Client, table: TableDefinition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "GRACE_S", 0.2)
    writer = begin(table)
    ledger = ledger_of(client, table)
    strange = Intent(job=str(uuid.uuid4()), transactions=(str(uuid.UUID(int=99)),), rows=1, bytes=1, started_at=1)
    ledger.begin(ledger.state(), strange)
    writer.commit([run_task(writer, b"one")])
    assert versions(client, table) == [(1, str(writer.job))]


def test_readers_are_never_held_up_by_a_promise(
    client: Client, table: TableDefinition, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever waits for the dead is not done before the test's time is over.
    monkeypatch.setattr(recovery, "GRACE_S", 3600.0)
    first, dead = begin(table), begin(table)
    first.commit([run_task(first, b"visible")])
    message = run_task(dead, b"promised")
    promise(client, table, dead, message)
    assert read_events(client, table) == [b"visible"]
    client.controller.commit_transaction(table.stream, transaction_of(message))
    # Nobody completes the entry, and yet the commit is seen whole.
    eventually(lambda: states(client, table, [transaction_of(message)]) == [TransactionState.COMMITTED])
    assert sorted(read_events(client, table)) == [b"promised", b"visible"]


@pytest.mark.in_turn
def test_a_stream_is_sealed_whatever_is_committed_at_that_moment(
    client: Client, settings: Settings, scope: str
) -> None:
    """Of a stream that has taken the place of another one the controller forgets a commit that is asked for as a seal
    begins, now and then, and the seal waits for it."""

    def race(number: int, seal_first_s: float) -> TransactionState:
        table = raw_table(client, settings, scope, f"t{number}", segments=1)
        dead = begin(table)
        message = run_task(dead, b"of the dead")
        promise(client, table, dead, message)
        transaction, ledger = transaction_of(message), ledger_of(client, table)

        def commit() -> None:
            time.sleep(max(0.0, seal_first_s))
            client.controller.commit_transaction(table.stream, transaction)

        with ThreadPoolExecutor(1) as owner:
            asked = owner.submit(commit)
            time.sleep(max(0.0, -seal_first_s))
            seal(client, table.stream, ledger)
            # A stream that is sealed already takes no commit.
            assert isinstance(asked.exception(), TransactionError | None)
        state = client.controller.transaction_state(table.stream, transaction)
        client.controller.delete_key_value_table(scope, ledger_name(table.stream))
        client.controller.delete_stream(table.stream)
        return state

    def races(number: int) -> list[TransactionState]:
        return [race(number, seal_first_s) for seal_first_s in (-0.01, 0.02, -0.02, 0.01)]

    with ThreadPoolExecutor(4) as threads:
        states_of_all = [state for states_of_one in threads.map(races, range(4)) for state in states_of_one]
    assert set(states_of_all) <= {TransactionState.COMMITTED, TransactionState.ABORTED}
