"""Transactions of sessions, as the JVM begins and ends them: in several catalog processes, and while streams scale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from catalog_tools import insert, make

from pyspark_pravega.catalog.plans import transactions
from pyspark_pravega.catalog.process.methods import CatalogMethods
from pyspark_pravega.catalog.process.pickles import text_of, value_of
from pyspark_pravega.client import EventWriter, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.controller import even_ranges
from pyspark_pravega.errors import TransactionError, WriteConflictError
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server


_SESSIONS = list["Session"]()


class Session:
    """What the JVM does for the statements of a session."""

    def __init__(self, settings: Settings, scope: str) -> None:
        self.methods, self.scope = CatalogMethods(settings), scope
        self.id: str | None = None
        _SESSIONS.append(self)

    def end(self) -> None:
        """As the process's end: no lease is renewed any more."""
        jobs = self.methods.writes._jobs
        for job in list(jobs._running):
            jobs.stop(job)

    def begin(self, **epoch: Any) -> str:
        self.id = self.methods.writes.begin_transaction(**epoch)["transaction"]
        return self.id

    def insert(self, table: str, *ids: int, overwrite: bool = False) -> None:
        writes = self.methods.writes
        planned = writes.plan_write([self.scope], table, {}, checks=[], transaction=self.id)
        begun = writes.begin_write(planned["plan"], 1, overwrite=overwrite)
        batch = {"id": pa.array(ids, pa.int64()), "name": pa.array([f"n{id}" for id in ids], pa.string())}
        message = value_of(begun["writer"]).write_partition(0, iter([pa.record_batch(batch)]))
        writes.commit_write(begun["writer"], [text_of(message)], transaction=self.id)

    def read(self, table: str, column: str = "id", **more: Any) -> list[int]:
        scan = self.methods.plan_scan([self.scope], table, [column], {}, transaction=self.id, **more)
        self.told = scan
        read, _ = value_of(scan["function"])
        found: list[int] = []
        for partition in scan["partitions"]:
            argument = pa.record_batch({"partition": pa.array([_bytes(partition)], pa.binary())})
            found += [id for batch in read(iter([argument])) for id in batch.column(0).to_pylist()]
        return sorted(found)

    def prepare(self) -> str:
        assert self.id is not None
        return self.methods.writes.prepare_transaction(self.id)["prepared"]

    def roll_back(self) -> None:
        if self.id is not None:
            self.methods.writes.roll_back_transaction(self.id)
        self.id = None

    def commit(self, prepared: str | None = None, id: str | None = None) -> bool:
        prepared = prepared or self.prepare()
        id, self.id = id or self.id, None
        assert id is not None
        return self.methods.writes.commit_transaction(id, prepared)["repeated"]


def _bytes(text: str) -> bytes:
    from base64 import b64decode

    return b64decode(text)


@pytest.fixture
def session(settings: Settings, scope: str) -> Iterator[Session]:
    begun = Session(settings, scope)
    for table in ("a", "b"):
        stream = make(begun.methods.catalog, scope, table, segments=2)
        insert(begun.methods.catalog, stream, 1, 2)
    yield begun
    while _SESSIONS:
        _SESSIONS.pop().end()


def test_a_commit_goes_on_in_another_process(session: Session, settings: Settings) -> None:
    other = Session(settings, session.scope)
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


def test_a_stream_that_scales_between_two_statements(session: Session, settings: Settings) -> None:
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


def test_a_query_sees_its_tables_at_one_moment(session: Session, settings: Settings) -> None:
    other = Session(settings, session.scope)
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


def test_reads_of_a_transaction_are_of_one_moment(session: Session, settings: Settings) -> None:
    other = Session(settings, session.scope)
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
