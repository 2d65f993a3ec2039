"""What readers see while commits are under way, and after a stream has scaled or was truncated."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate

import pytest
from client_tools import append, framed, make_stream, scale, truncate
from connector_tools import begin, ledger_of, numbered, raw_table, read_events, run_task, states, transaction_of
from waiting import eventually

from pyspark_pravega.client import Client, SegmentPart, TransactionState
from pyspark_pravega.connector.log import create_ledger
from pyspark_pravega.connector.log.entries import Intent
from pyspark_pravega.connector.log.snapshot import take_snapshot
from pyspark_pravega.connector.log.tail import take_tail
from pyspark_pravega.errors import StreamNotFoundError
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

COMMITS, COMMITS_AT_MOST = 25, 400


@contextmanager
def polling(threads: ThreadPoolExecutor, look: Callable[[], int], seen: list[int]) -> Iterator[Future[None]]:
    """Look again and again while the body runs, and once more after it."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            seen.append(look())
        seen.append(look())

    watching = threads.submit(run)
    try:
        yield watching
    finally:
        over.set()


@pytest.mark.in_turn
def test_a_snapshot_holds_each_commit_whole_though_the_plain_tail_does_not(
    client: Client, settings: Settings, scope: str
) -> None:
    table = raw_table(client, settings, scope, segments=8)
    ledger = create_ledger(client, table.stream)
    snapshots: list[int] = []
    tails: list[int] = []

    def tail_size() -> int:
        tail = take_tail(client, table.stream)
        return 0 if tail is None else tail.size

    def whole_sizes() -> set[int]:
        commits = ledger.commits(range(1, ledger.state().version + 1))
        return {0, *accumulate(commit.bytes for commit in commits)}

    with (
        ThreadPoolExecutor(2) as threads,
        polling(threads, lambda: take_snapshot(client, table.stream).size, snapshots) as first,
        polling(threads, tail_size, tails) as second,
    ):
        for number in range(COMMITS_AT_MOST):
            writer = begin(table)
            writer.commit([run_task(writer, *numbered(f"{number}-{task}", 200, size=1000)) for task in range(2)])
            if number >= COMMITS and set(tails[:-1]) - whole_sizes():
                break
    first.result()
    second.result()

    assert set(snapshots) <= whole_sizes()
    assert snapshots == sorted(snapshots)
    assert snapshots[-1] == max(whole_sizes())
    assert len(set(snapshots)) > COMMITS // 4, "the snapshots were too few to prove anything"
    # Without the commit log parts of commits are seen: this is what makes the assertions above worth something.
    assert set(tails) - whole_sizes()


def test_a_stream_that_nobody_wrote_to_is_empty(client: Client, scope: str) -> None:
    stream = make_stream(client, scope, "t", segments=3)
    taken = take_snapshot(client, stream)
    assert taken.size == 0
    assert taken.cut == {0: 0, 1: 0, 2: 0}
    assert taken.stream == stream


def test_events_of_other_writers_are_seen_too(client: Client, settings: Settings, scope: str) -> None:
    table = raw_table(client, settings, scope, segments=1)
    append(client, table.stream, 0, framed(b"theirs"))
    assert read_events(client, table) == [b"theirs"]
    writer = begin(table)
    writer.commit([run_task(writer, b"ours")])
    append(client, table.stream, 0, framed(b"theirs again"))
    assert read_events(client, table) == [b"theirs", b"ours", b"theirs again"]
    (commit,) = ledger_of(client, table).commits([1])
    assert commit.cut == {0: 14 + 12}


def test_a_snapshot_begins_behind_what_was_truncated(client: Client, settings: Settings, scope: str) -> None:
    table = raw_table(client, settings, scope, segments=2)
    append(client, table.stream, 0, framed(b"gone"), framed(b"there"))
    append(client, table.stream, 1, framed(b"other"))
    truncate(settings, table.stream, {0: 12, 1: 0})
    taken = take_snapshot(client, table.stream)
    assert taken.parts == (
        SegmentPart(stream=table.stream, segment_id=0, start=12, end=25),
        SegmentPart(stream=table.stream, segment_id=1, start=0, end=13),
    )
    assert read_events(client, table) == [b"there", b"other"]


def test_a_scaled_stream_is_read_whole_through_all_its_epochs(client: Client, settings: Settings, scope: str) -> None:
    table = raw_table(client, settings, scope, segments=2)
    written: list[bytes] = []

    def write(name: str) -> None:
        writer = begin(table)
        events = numbered(name, 60)
        writer.commit([run_task(writer, *events[:30]), run_task(writer, *events[30:])])
        written.extend(events)

    write("first")
    scale(client, table.stream, [0], [(0.0, 0.2), (0.2, 0.5)])
    write("split")
    current = client.controller.current_segments(table.stream).ids
    scale(client, table.stream, list(current), [(0.0, 0.6), (0.6, 1.0)])
    write("merged")

    assert sorted(read_events(client, table)) == sorted(written)
    taken = take_snapshot(client, table.stream)
    assert {part.segment_id >> 32 for part in taken.parts} == {0, 1, 2}
    assert {segment_id >> 32 for segment_id in taken.cut} == {2}
    assert taken.cut == ledger_of(client, table).commits([3])[0].cut


def test_a_sealed_stream_is_read_whole(client: Client, settings: Settings, scope: str) -> None:
    table = raw_table(client, settings, scope, segments=2)
    writer = begin(table)
    writer.commit([run_task(writer, *numbered("e", 20))])
    client.controller.seal_stream(table.stream)
    assert sorted(read_events(client, table)) == sorted(numbered("e", 20))


@pytest.mark.in_turn
def test_a_look_believes_nothing_of_servers_that_are_gone() -> None:
    """Others may answer at their address, with a stream of the same name and more segments, of which it knows one."""
    with Sandbox() as sandbox:
        uri, port = sandbox.controller_uri, int(sandbox.controller_uri.rpartition(":")[2])
        with Client(Settings(controller_uri=uri)) as other:
            other.controller.create_scope("shop")
            stream = make_stream(other, "shop", "orders")
        client = Client(Settings(controller_uri=uri))
        assert [take_snapshot(client, stream).current for _ in range(2)] == [frozenset({0})] * 2
    with Sandbox(controller_port=port), client, Client(Settings(controller_uri=uri)) as other:
        other.controller.create_scope(stream.scope)
        make_stream(other, stream.scope, stream.name, segments=4)
        with other.writer(stream) as writer:
            for number in range(40):
                writer.write(b"%d" % number, str(number))
        snapshot = take_snapshot(client, stream)
        assert (snapshot.current, snapshot.size) == (frozenset(range(4)), take_snapshot(other, stream).size)
        assert {part.segment_id for part in snapshot.parts if part.size} == set(range(4))


def test_a_stream_that_is_not_there_is_named(client: Client, scope: str) -> None:
    stream = make_stream(client, scope, "t")
    client.controller.seal_stream(stream)
    client.controller.delete_stream(stream)
    with pytest.raises(StreamNotFoundError, match=f'stream "{stream}" does not exist'):
        take_snapshot(client, stream)


def test_half_a_commit_is_never_seen_because_a_reader_helps_it_to_its_end(
    client: Client, settings: Settings, scope: str
) -> None:
    table = raw_table(client, settings, scope, segments=1)
    writer = begin(table)
    messages = [run_task(writer, b"one"), run_task(writer, b"two")]
    ids = [transaction_of(message) for message in messages]
    ledger = ledger_of(client, table)
    promised = Intent(
        job=str(writer.job), transactions=tuple(map(str, ids)), rows=2, bytes=22, started_at=time.time_ns() // 1_000_000
    )
    ledger.begin(ledger.state(), promised)
    client.controller.commit_transaction(table.stream, ids[0])
    eventually(lambda: states(client, table, ids) == [TransactionState.COMMITTED, TransactionState.OPEN])

    assert read_events(client, table) == [b"one", b"two"]
    assert states(client, table, ids) == [TransactionState.COMMITTED] * 2
    heir = begin(table)
    heir.commit([run_task(heir, b"three")])
    assert read_events(client, table) == [b"one", b"two", b"three"]
    assert [commit.rows for commit in ledger.commits([1, 2])] == [2, 1]
