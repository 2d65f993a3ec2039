"""The commit log: versions, conditions, and who wins when several want the same."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Barrier

import pytest
from client_tools import Proxy, ThroughProxy, make_stream
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.client import Client, Stream, Transaction
from pyspark_pravega.client.key_value.table import ANY_VERSION, KeyValueTable
from pyspark_pravega.client.names import MAX_NAME_LENGTH, MAX_TABLE_NAME_LENGTH, check_name
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.connector.log import (
    Ledger,
    create_ledger,
    delete_ledger,
    open_ledger,
)
from pyspark_pravega.connector.log.entries import Commit, Intent, State
from pyspark_pravega.connector.log.entry_keys import KEY_BYTES, ledger_name
from pyspark_pravega.connector.log.job_log import JobLog, Joined
from pyspark_pravega.errors import ConflictError, PravegaError
from pyspark_pravega.settings import Settings

server = pytest.mark.server


@pytest.fixture
def ledger(client: Client, stream: Stream) -> Ledger:
    return create_ledger(client, stream)


def intent(rows: int = 1) -> Intent:
    transaction = uuid.uuid4()
    return Intent(job=str(uuid.uuid4()), transactions=(str(transaction),), rows=rows, bytes=10 * rows, started_at=1)


@server
def test_a_new_log_has_no_version_and_nothing_in_progress(ledger: Ledger) -> None:
    assert ledger.state() == State()
    assert ledger.commits(range(1, 5)) == []
    assert ledger.properties() == {}


@server
def test_a_commit_is_in_progress_and_then_a_version(ledger: Ledger) -> None:
    promised = intent(7)
    begun = ledger.begin(ledger.state(), promised)
    assert ledger.state() == begun
    assert (begun.version, begun.pending) == (0, promised)
    assert promised.transaction_ids() == (uuid.UUID(promised.transactions[0]),)
    done = ledger.complete(begun, committed_at=1234, cut={0: 70, 1 << 32 | 5: 2**40})
    assert ledger.state() == done
    assert (done.version, done.pending) == (1, None)
    assert ledger.commits([1]) == [
        Commit(
            version=1,
            job=promised.job,
            transactions=promised.transactions,
            rows=7,
            bytes=70,
            committed_at=1234,
            cut={0: 70, 1 << 32 | 5: 2**40},
            started_at=promised.started_at,
        )
    ]


@server
def test_versions_are_numbered_without_gaps_though_commits_are_withdrawn(ledger: Ledger) -> None:
    state = ledger.state()
    for number in range(6):
        state = ledger.begin(state, intent(number))
        state = ledger.complete(state, committed_at=number, cut={}) if number % 2 else ledger.withdraw(state)
        assert state.pending is None
    commits = ledger.commits(range(1, 10))
    assert [(commit.version, commit.rows) for commit in commits] == [(1, 1), (2, 3), (3, 5)]
    assert [commit.version for commit in ledger.commits([3, 99, 1])] == [3, 1]


@server
def test_times_of_versions_ascend_though_clocks_differ(ledger: Ledger) -> None:
    state = ledger.state()
    for given_ms, kept in ((2_000, 2_000), (1_000, 2_001), (2_001, 2_002), (5_000, 5_000)):
        if kept == 2_002:
            # As a log from before the state held the time.
            state = replace(state, committed_at=None)
        state = ledger.complete(ledger.begin(state, intent()), committed_at=given_ms, cut={})
        assert state.committed_at == ledger.state().committed_at == kept
    assert [commit.committed_at for commit in ledger.all_commits()] == [2_000, 2_001, 2_002, 5_000]


def test_a_change_based_on_an_old_state_is_refused_and_changes_nothing(ledger: Ledger) -> None:
    empty = ledger.state()
    begun = ledger.begin(empty, intent())
    with pytest.raises(ConflictError):
        ledger.begin(empty, intent())
    done = ledger.complete(begun, committed_at=1, cut={0: 5})
    stales: list[Callable[[], object]] = [
        lambda: ledger.complete(begun, committed_at=2, cut={0: 6}),
        lambda: ledger.withdraw(begun),
        lambda: ledger.begin(begun, intent()),
    ]
    for stale in stales:
        with pytest.raises(ConflictError):
            stale()
    assert ledger.state() == done
    assert [commit.cut for commit in ledger.commits([1, 2])] == [{0: 5}]


@server
def test_the_state_and_the_version_change_together_or_not_at_all(
    client: Client, ledger: Ledger, stream: Stream
) -> None:
    begun = ledger.begin(ledger.state(), intent())
    # Somebody has written the entry of version 1 already: completing must leave the state as it is.
    table = KeyValueTable(client.pool, stream.scope, ledger_name(stream))
    table.put([((1).to_bytes(8, "big") + (1).to_bytes(8, "big"), ANY_VERSION, b'{"format":1}')])
    with pytest.raises(ConflictError):
        ledger.complete(begun, committed_at=1, cut={})
    assert ledger.state() == begun


@server
def test_of_two_who_begin_at_once_one_wins(ledger: Ledger) -> None:
    for _ in range(10):
        state, start = ledger.state(), Barrier(2)

        def race(promised: Intent, state: State = state, start: Barrier = start) -> State | None:
            start.wait()
            try:
                return ledger.begin(state, promised)
            except ConflictError:
                return None

        with ThreadPoolExecutor(2) as threads:
            winners = [begun for begun in threads.map(race, [intent(), intent()]) if begun is not None]
        assert len(winners) == 1
        assert ledger.state() == winners[0]
        ledger.complete(winners[0], committed_at=1, cut={})
    assert ledger.state().version == 10


@server
def test_the_table_s_properties_are_kept_beside_the_versions(ledger: Ledger) -> None:
    ledger.set_properties({"routing-key": "k", "team.owner": "ü"})
    ledger.complete(ledger.begin(ledger.state(), intent()), committed_at=1, cut={})
    assert ledger.properties() == {"routing-key": "k", "team.owner": "ü"}
    ledger.set_properties({})
    assert ledger.properties() == {}
    assert ledger.state().version == 1


# Jobs and their attempts


@server
def test_a_job_knows_all_attempts_at_its_partitions(ledger: Ledger) -> None:
    job, ids = ledger.job(uuid.uuid4()), [uuid.uuid4() for _ in range(4)]
    job.open()
    for partition, transaction in zip([0, 2, 2, 5], ids, strict=True):
        assert job.add_attempt(partition, transaction)
    assert job.attempts(6) == ids
    assert job.attempts(3) == ids[:3]
    job.forget_attempts(6)
    assert job.attempts(6) == []


@server
def test_attempts_that_come_at_once_are_all_noted(ledger: Ledger) -> None:
    job, ids = ledger.job(uuid.uuid4()), [uuid.uuid4() for _ in range(32)]
    job.open()
    with ThreadPoolExecutor(32) as threads:
        noted = list(threads.map(lambda transaction: job.add_attempt(0, transaction), ids))
    assert all(noted)
    assert sorted(job.attempts(1)) == sorted(ids)


@server
def test_jobs_do_not_see_each_other_s_attempts(ledger: Ledger) -> None:
    ids = [uuid.uuid4(), uuid.uuid4()]
    one, two = (ledger.job(id_) for id_ in ids)
    for job, transaction in zip((one, two), ids, strict=True):
        job.open()
        job.add_attempt(0, transaction)
    one.close()
    assert not one.add_attempt(1, uuid.uuid4())
    assert two.add_attempt(1, ids[1])
    assert (one.attempts(2), two.attempts(2)) == (ids[:1], ids[1:])


@server
def test_a_closed_job_takes_no_attempts_and_keeps_those_it_knows(ledger: Ledger) -> None:
    job, early, late = ledger.job(uuid.uuid4()), uuid.uuid4(), uuid.uuid4()
    job.open()
    assert job.add_attempt(0, early)
    job.close()
    assert not job.add_attempt(0, late)
    assert job.attempts(1) == [early]


@server
def test_attempts_that_come_too_late_leave_nothing_in_the_log(ledger: Ledger) -> None:
    job = ledger.job(uuid.uuid4())
    job.open()
    job.close()
    with ThreadPoolExecutor(16) as threads:
        assert not any(threads.map(lambda _: job.add_attempt(0, uuid.uuid4()), range(16)))
    assert job.attempts(1) == []


@server
def test_an_attempt_is_either_refused_or_seen_by_the_job_that_closes(ledger: Ledger) -> None:
    for _ in range(15):
        job, ids, start = ledger.job(uuid.uuid4()), [uuid.uuid4() for _ in range(6)], Barrier(7)
        job.open()

        def add(transaction: uuid.UUID, job: JobLog = job, start: Barrier = start) -> bool:
            start.wait()
            return job.add_attempt(0, transaction)

        with ThreadPoolExecutor(6) as threads:
            added = [threads.submit(add, transaction) for transaction in ids]
            start.wait()
            job.close()
            seen = job.attempts(1)
            accepted = [transaction for transaction, done in zip(ids, added, strict=True) if done.result()]
        assert set(accepted) <= set(seen)


# The log's name and place


def test_the_log_is_named_after_its_stream() -> None:
    assert ledger_name(Stream("s", "orders")) == "orders.ledger"
    assert ledger_name(Stream("s", "x" * 243)) == "x" * 243 + ".ledger"


names = st.text("ab.-", min_size=1, max_size=MAX_NAME_LENGTH)


@given(names)
def test_every_stream_s_log_has_a_name_that_pravega_takes(name: str) -> None:
    assert check_name("key-value table", ledger_name(Stream("s", name)), longest=MAX_TABLE_NAME_LENGTH)


@given(st.integers(244, 255), st.text("ab", min_size=1, max_size=6), st.text("ab", min_size=1, max_size=6))
def test_logs_of_long_names_are_told_apart(length: int, one: str, two: str) -> None:
    long = [Stream("s", "x" * (length - len(end)) + end) for end in (one, two)]
    assert (ledger_name(long[0]) == ledger_name(long[1])) == (long[0] == long[1])


@server
def test_the_longest_name_of_a_stream_has_a_log(client: Client, scope: str) -> None:
    stream = make_stream(client, scope, "x" * 255)
    ledger = create_ledger(client, stream)
    ledger.complete(ledger.begin(ledger.state(), intent()), committed_at=1, cut={})
    opened = open_ledger(client, stream)
    assert opened is not None
    assert opened.state().version == 1


@server
def test_a_log_is_made_once_and_deleted_once(client: Client, stream: Stream) -> None:
    assert open_ledger(client, stream) is None
    create_ledger(client, stream).set_properties({"a.b": "c"})
    assert create_ledger(client, stream).properties() == {"a.b": "c"}
    assert delete_ledger(client, stream) is True
    assert delete_ledger(client, stream) is False
    assert open_ledger(client, stream) is None
    assert create_ledger(client, stream).properties() == {}


@server
def test_writers_who_make_a_log_at_once_share_it(client: Client, scope: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        for number in range(10):
            stream = make_stream(client, scope, f"t{number}")
            logs = list(threads.map(lambda _, stream=stream: create_ledger(client, stream), range(8)))
            logs[0].set_properties({"number": str(number)})
            assert [log.properties() for log in logs] == [{"number": str(number)}] * 8


@server
def test_who_came_too_late_sees_what_was_faster(client: Client, ledger: Ledger, stream: Stream) -> None:
    segments = client.controller.current_segments(stream)
    together = Barrier(8)

    def share(job: JobLog, partition: int) -> tuple[bool, uuid.UUID]:
        mine = Transaction(id=uuid.uuid4(), segments=segments)
        together.wait(30)
        won = job.join(partition, mine, begun=True)
        shared = job.shared()
        assert shared is not None
        return won is Joined.SHARES, shared.id

    with ThreadPoolExecutor(8) as threads:
        for _ in range(40):
            job = ledger.job(uuid.uuid4())
            job.open()
            answers = list(threads.map(partial(share, job), range(8)))
            assert sum(won for won, _ in answers) == 1
            assert len({shared for _, shared in answers}) == 1


_LOST = {
    "an answer": (wire.TableEntriesUpdated.TYPE, wire.TableKeysRemoved.TYPE),
    "a request": (wire.UpdateTableEntries.TYPE, wire.RemoveTableKeys.TYPE),
}


class LosingProxy(Proxy):
    """Cuts a connection once, when told so: where a change is asked for, or where the server says that it is made."""

    _loses: str | None = None
    _meanwhile: Callable[[], object] = bool

    def lose(self, what: str, *, meanwhile: Callable[[], object] = bool) -> None:
        """Lose the next one; `meanwhile` happens before its sender can notice."""
        self._loses, self._meanwhile = what, meanwhile

    @property
    def has_lost(self) -> bool:
        """Whether it has done so."""
        return self._loses is None

    def loses(self, data: bytes) -> bool:
        """The first piece that begins with such a command."""
        if self._loses is None or int.from_bytes(data[:4]) not in _LOST[self._loses]:
            return False
        self._loses = None
        self._meanwhile()
        return True


@server
@pytest.mark.parametrize("lost", ["an answer", "a request"])
@pytest.mark.parametrize("begun", [True, False], ids=["a new transaction", "the shared one"])
def test_an_attempt_whose_answer_was_lost_has_joined(
    client: Client, settings: Settings, ledger: Ledger, stream: Stream, lost: str, begun: bool
) -> None:
    transaction = Transaction(id=uuid.uuid4(), segments=client.controller.current_segments(stream))
    job = ledger.job(uuid.uuid4())
    job.open()
    with losing(client, settings, stream) as (proxy, beside):
        proxy.lose(lost)
        assert beside.job(job._job).join(0, transaction, begun=begun) is Joined.SHARES
        assert proxy.has_lost
        # It is the first attempt, and no other one is.
        assert job.attempts_by_partition(2) == ([[transaction.id], []], [transaction.id] if begun else [])
        assert job.join(0, transaction, begun=False) is Joined.ALONE
        shared = job.shared()
        assert (None if shared is None else shared.id) == (transaction.id if begun else None)
        # Who is told that the job is over has left nothing.
        job.close()
        proxy.lose(lost)
        assert beside.job(job._job).join(1, transaction, begun=False) is Joined.OVER
        assert proxy.has_lost
    assert job.attempts_by_partition(2) == ([[transaction.id], []], [transaction.id] if begun else [])


@server
@pytest.mark.parametrize("lost", ["an answer", "a request"])
def test_what_was_begun_for_the_tasks_is_theirs_or_the_callers_to_abort(
    client: Client, settings: Settings, ledger: Ledger, stream: Stream, lost: str
) -> None:
    segments = client.controller.current_segments(stream)
    first, later = (Transaction(id=uuid.uuid4(), segments=segments) for _ in range(2))
    job = ledger.job(uuid.uuid4())
    job.open()
    with losing(client, settings, stream) as (proxy, beside):
        log = beside.job(job._job)
        proxy.lose(lost)
        assert log.share(first)
        assert proxy.has_lost
        assert not log.share(later)
        # It is the job's to throw away, and to keep open, whether a task has come or not.
        assert job.attempts(2) == [first.id]
        assert ledger.noted_transactions() == {first.id}
        assert job.join(1, first, begun=False) is Joined.SHARES
        assert job.attempts(2) == [first.id]
        job.close()
        job.forget_attempts(2)
        proxy.lose(lost)
        assert not log.share(later)
        assert proxy.has_lost
    assert job.attempts(2) == []


@server
def test_an_attempt_has_joined_though_another_one_came_before_it_knew(
    client: Client, settings: Settings, ledger: Ledger, stream: Stream
) -> None:
    """Otherwise it takes the shared transaction for its own, and what others have written into it counts as well."""
    transaction = Transaction(id=uuid.uuid4(), segments=client.controller.current_segments(stream))
    job, other, third = ledger.job(uuid.uuid4()), uuid.uuid4(), uuid.uuid4()
    job.open()

    def others_come() -> None:
        assert job.add_attempt(0, other)
        assert job.add_attempt(0, third)

    with losing(client, settings, stream) as (proxy, beside):
        proxy.lose("an answer", meanwhile=others_come)
        assert beside.job(job._job).join(0, transaction, begun=True) is Joined.SHARES
        assert proxy.has_lost
    assert job.attempts_by_partition(1) == ([[transaction.id, other, third]], [transaction.id])


@server
@pytest.mark.parametrize("lost", ["an answer", "a request"])
def test_what_a_job_notes_is_there_once_whatever_is_lost(
    client: Client, settings: Settings, ledger: Ledger, stream: Stream, lost: str
) -> None:
    one, other = uuid.uuid4(), uuid.uuid4()
    job = ledger.job(uuid.uuid4())
    with losing(client, settings, stream) as (proxy, beside):
        log = beside.job(job._job)
        for change in (
            log.open,
            partial(log.add_attempt, 0, one),
            partial(log.add_attempt, 0, other),
            log.close,
        ):
            proxy.lose(lost)
            assert change() in (None, True)
            assert proxy.has_lost
        assert job.attempts_by_partition(1) == ([[one, other]], [])
        assert not job.is_open()
        proxy.lose(lost)
        log.forget_attempts(1)
        assert proxy.has_lost
        proxy.lose(lost)
        taken = beside.take_over("query", "run")
        assert proxy.has_lost
        assert taken == ledger.progress("query")
        assert (taken.run, taken.retired) == ("run", ())
        proxy.lose(lost)
        with beside.schemas_locked():
            assert proxy.has_lost
            proxy.lose(lost)
        assert proxy.has_lost
    assert ledger.noted_transactions() == set()
    with ledger.schemas_locked():
        pass


@contextmanager
def losing(client: Client, settings: Settings, stream: Stream) -> Iterator[tuple[LosingProxy, Ledger]]:
    """A proxy, and a stream's commit log through it."""
    with (
        LosingProxy(client.controller.endpoint(stream, 0)) as proxy,
        ThroughProxy(settings, proxy) as through,
    ):
        ledger = open_ledger(through, stream)
        assert ledger is not None
        yield proxy, ledger


@server
@pytest.mark.parametrize("number", [0, 1], ids=["the state", "the properties"])
def test_a_log_of_a_later_format_is_refused(client: Client, ledger: Ledger, stream: Stream, number: int) -> None:
    table = KeyValueTable(client.pool, stream.scope, ledger_name(stream))
    key = bytes(8) + number.to_bytes(8, "big")
    assert len(key) == KEY_BYTES
    table.put([(key, ANY_VERSION, json.dumps({"format": 2, "version": 0, "pending": None}).encode())])
    with pytest.raises(PravegaError, match=r"another version of pyspark-pravega \(format 2, known is 1\): upgrade"):
        (ledger.state, ledger.properties)[number]()
