"""Transactions of sessions, as the JVM begins and ends them: in several catalog processes, and while streams scale."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from catalog_tools import insert, make
from session_tools import Session

from pyspark_pravega.catalog.plans import transactions
from pyspark_pravega.catalog.process.pickles import text_of, value_of
from pyspark_pravega.client import EventWriter, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.controller import even_ranges
from pyspark_pravega.errors import PravegaError, ScopeNotEmptyError, TransactionError, WriteConflictError
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server


class Sessions:
    """Makes sessions, each in a process of its own, and ends them."""

    def __init__(self, settings: Settings, scope: str) -> None:
        self._settings, self._scope = settings, scope
        self._begun: list[Session] = []

    def new(self) -> Session:
        self._begun.append(Session(self._settings, self._scope))
        return self._begun[-1]

    def end(self) -> None:
        for session in self._begun:
            session.end()


@pytest.fixture
def sessions(settings: Settings, scope: str) -> Iterator[Sessions]:
    running = Sessions(settings, scope)
    yield running
    running.end()


@pytest.fixture
def session(sessions: Sessions, scope: str) -> Session:
    begun = sessions.new()
    for table in ("a", "b"):
        stream = make(begun.methods.catalog, scope, table, segments=2)
        insert(begun.methods.catalog, stream, 1, 2)
    return begun


def test_a_commit_goes_on_in_another_process(session: Session, sessions: Sessions) -> None:
    other = sessions.new()
    id = session.begin()
    session.insert("a", 3)
    session.insert("b", 3)
    session.insert("a", 4)
    assert session.read("a") == [1, 2, 3, 4]
    prepared = session.prepare()
    # The answer of the first one is lost.
    assert not session.commit(prepared)
    assert other.commit(prepared, id)
    assert (other.read("a"), other.read("b")) == ([1, 2, 3, 4], [1, 2, 3])
    # Its statements can't be gone on with elsewhere.
    other.id = session.begin()
    session.insert("a", 5)
    with pytest.raises(TransactionError, match="is gone, as the catalog process"):
        other.insert("a", 6)
    other.id = None
    assert other.read("a") == [1, 2, 3, 4]
    assert not other.commit(session.prepare(), session.id)
    assert other.read("a") == [1, 2, 3, 4, 5]


def test_a_statement_that_comes_with_the_end(session: Session) -> None:
    """It is in the transaction as a whole, or is told that it isn't."""
    session.begin()
    session.insert("a", 3)
    prepared = session.prepare()
    for table in ("a", "b"):
        with pytest.raises(TransactionError, match="being committed"):
            session.insert(table, 4)
    session.commit(prepared)
    assert (session.read("a"), session.read("b")) == ([1, 2, 3], [1, 2])


def test_a_stream_that_scales_between_two_statements(session: Session) -> None:
    """Rows are there once, or the transaction fails as a whole."""
    client = session.methods.catalog.client
    stream = Stream(session.scope, "a")
    session.begin()
    session.insert("a", *range(10, 20))
    # Each segment is divided: what the next statement writes fits into those of the first one.
    client.controller.scale_stream(stream, client.controller.current_segments(stream).ids, even_ranges(4))
    session.insert("a", *range(20, 30))
    assert session.read("a") == [1, 2, *range(10, 30)]
    session.commit()
    assert session.read("a") == [1, 2, *range(10, 30)]
    # Segments become fewer: it doesn't.
    session.begin()
    session.insert("a", *range(30, 40))
    client.controller.scale_stream(stream, client.controller.current_segments(stream).ids, even_ranges(2))
    with pytest.raises(TransactionError, match="was scaled"):
        session.insert("a", *range(40, 50))
    with pytest.raises(TransactionError, match="rollback"):
        session.read("b")
    session.roll_back()
    assert session.read("a") == [1, 2, *range(10, 30)]


def test_a_query_sees_its_tables_at_one_moment(session: Session, sessions: Sessions) -> None:
    other = sessions.new()
    a, b = (f"{session.scope}/{table}" for table in ("a", "b"))
    assert session.read("a", beside=[b]) == [1, 2]
    told = session.told
    other.begin()
    other.insert("a", 3)
    other.insert("b", 3)
    other.commit()
    assert set(told["beside"]) == {b}
    assert session.read("b", moments=[told["beside"][b]]) == [1, 2]
    assert session.read("a", moments=[told["moment"]]) == [1, 2]
    assert session.read("b", beside=[a, f"{session.scope}/nowhere"]) == [1, 2, 3]
    assert session.told["beside"] == {}


def test_reads_of_a_transaction_are_of_one_moment(session: Session, sessions: Sessions) -> None:
    other = sessions.new()
    session.begin()
    assert session.read("a") == [1, 2]
    other.insert("a", 3)
    other.insert("b", 3)
    with pytest.raises(WriteConflictError):
        session.read("b")
    session.roll_back()
    session.begin()
    assert session.read("b") == [1, 2, 3]
    session.insert("a", 9)
    other.insert("b", 4)
    with pytest.raises(WriteConflictError):
        session.commit()
    session.id = None
    assert session.read("a") == [1, 2, 3]
    # Events of others count, too, also where nobody has made a log yet.
    stream = Stream(session.scope, "theirs")
    client = session.methods.catalog.client
    client.controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy.fixed(1)))
    for is_told_early in (True, False):
        session.begin()
        session.read("theirs", column="event")
        session.insert("a", 9)
        with EventWriter(client, stream) as writer:
            writer.write(b"x")
        with pytest.raises(WriteConflictError):
            session.read("b") if is_told_early else session.commit()
        session.roll_back()
    assert session.read("a") == [1, 2, 3]
    # What it replaces wasn't read.
    session.begin()
    session.insert("a", 7, overwrite=True)
    session.insert("a", 8)
    other.insert("a", 4)
    session.insert("a", overwrite=True)
    session.insert("a", 6)
    assert session.read("a") == [6]
    session.commit()
    assert session.read("a") == other.read("a") == [6]


def test_a_batch_counts_once_and_an_idle_transaction_goes(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for repeated in (False, True):
        session.begin(query="q", epoch=0)
        session.insert("a", 3)
        session.insert("b", 3)
        assert session.commit() is repeated
    assert (session.read("a"), session.read("b")) == ([1, 2, 3], [1, 2, 3])
    monkeypatch.setattr(transactions, "IDLE_S", 0.0)
    monkeypatch.setattr(transactions, "_LOOK_EVERY_S", 0.05)
    open_ones = transactions.Transactions(lambda id: None)
    id = open_ones.begin(session.methods.catalog.settings)
    for _ in range(100):
        import time

        time.sleep(0.1)
        try:
            open_ones.of(id)
        except TransactionError:
            return
    pytest.fail("it is still there")


def test_a_statement_that_is_cancelled_while_it_is_taken_in(session: Session) -> None:
    """Nothing of it is committed, whichever of the two calls comes first."""
    writes = session.methods.writes
    batch = pa.record_batch({"id": pa.array([7], pa.int64()), "name": pa.array(["n7"])})

    def cancelled(table: str, *, first: bool) -> None:
        planned = writes.plan_write([session.scope], table, {}, checks=[], transaction=session.id)
        writer = writes.begin_write(planned["plan"], 1)["writer"]
        message = text_of(value_of(writer).write_partition(0, iter([batch])))
        if not first:
            writes.commit_write(writer, [message], transaction=session.id)
        writes.abort_write(writer, [message], transaction=session.id)
        if first:
            with pytest.raises(TransactionError, match="cancelled"):
                writes.commit_write(writer, [message], transaction=session.id)

    session.begin()
    session.insert("a", 3)
    for table in ("a", "b"):
        cancelled(table, first=True)
    assert (session.read("a"), session.read("b")) == ([1, 2, 3], [1, 2])
    session.commit()
    assert (session.read("a"), session.read("b")) == ([1, 2, 3], [1, 2])
    # It was taken in already, so all goes.
    for table in ("a", "b"):
        session.begin()
        session.insert("a", 4)
        cancelled(table, first=False)
        with pytest.raises(TransactionError, match="was cancelled"):
            session.prepare()
        session.roll_back()
    assert (session.read("a"), session.read("b")) == ([1, 2, 3], [1, 2])


def test_a_namespace_is_dropped_with_what_decides_its_transactions(sessions: Sessions, scope: str) -> None:
    """Without CASCADE, as soon as its tables are gone; and a transaction that is open then finds that out."""
    one, other = sessions.new(), sessions.new()
    catalog = one.methods.catalog
    for is_open in (False, True):
        for name in ("bank-of", "bank"):
            catalog.namespaces.create([name])
            insert(catalog, make(catalog, name, "t"), 1)
        one.scope = "bank"
        one.begin()
        one.insert("t", 2)
        one.commit()
        if is_open:
            one.begin()
            one.insert("t", 3)
        assert catalog.relations.names(["bank"]) == ["t"]
        with pytest.raises(ScopeNotEmptyError, match="1 streams"):
            catalog.namespaces.drop(["bank"], cascade=False)
        assert catalog.relations.drop(["bank"], "t")
        assert catalog.namespaces.drop(["bank"], cascade=False)
        if is_open:
            id = one.id
            assert id is not None
            with pytest.raises(PravegaError):
                one.commit()
            one.methods.writes.roll_back_transaction(id)
        other.scope = "bank-of"
        other.begin()
        other.insert("t", 2)
        other.commit()
        assert catalog.namespaces.drop(["bank-of"], cascade=True)
