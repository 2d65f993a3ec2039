"""Transactions as a library user sees them: all or nothing, kept open, joined by others, made one."""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from client_tools import make_stream, scale
from waiting import eventually

from pyspark_pravega.client import Client, OwnTransaction, Staged, Stream, TransactionState, TransactionWriter
from pyspark_pravega.client.segments import target_of
from pyspark_pravega.errors import EventEncodeError, StreamSealedError, TransactionError
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

KEYS = [f"key {key}" for key in range(30)]


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "t", segments=3)


def stored_events(client: Client, stream: Stream) -> list[bytes]:
    return [event for batch in client.read(stream) for event in batch.payloads.to_pylist()]


def stored(client: Client, stream: Stream) -> list[int]:
    return sorted(int(event) for event in stored_events(client, stream))


def keyed(numbers: range) -> tuple[list[bytes], list[str]]:
    return [b"%d" % number for number in numbers], [f"key {number}" for number in numbers]


def test_nothing_is_visible_before_the_commit_and_everything_after_it(client: Client, stream: Stream) -> None:
    with client.transaction(stream) as transaction:
        transaction.write_batch(*keyed(range(100)))
        transaction.write("100", key="k")
        transaction.flush()
        assert stored(client, stream) == []
        states = [transaction.state]
        assert transaction.events_written == 101
    states.append(transaction.state)
    assert states == [TransactionState.OPEN, TransactionState.COMMITTED]
    assert stored(client, stream) == list(range(101))


def test_small_batches_of_any_kind_wait_for_each_other_and_stay_in_order(client: Client, stream: Stream) -> None:
    with client.transaction(stream) as transaction:
        for i in range(0, 300, 3):
            transaction.write_batch([str(i).encode()], "k")
            transaction.write_batch(pa.array([str(i + 1)], pa.large_string()), "k")
            transaction.write(str(i + 2), "k")
        assert transaction.events_written == 300
        assert transaction.written == {}
        transaction.flush()
        ((events, size),) = transaction.written.values()
        assert (events, size) == (300, sum(8 + len(str(i)) for i in range(300)))
        with pytest.raises(EventEncodeError):
            transaction.write_batch([b"never", None], "k")  # type: ignore[list-item]
    assert stored_events(client, stream) == [str(i).encode() for i in range(300)]


def test_a_block_that_fails_leaves_nothing(client: Client, stream: Stream) -> None:
    transaction = client.transaction(stream)
    transaction.write_batch(*keyed(range(100)))
    with pytest.raises(EventEncodeError), transaction:
        transaction.write_batch([b"x" * ((8 << 20) + 1)])
    eventually(lambda: transaction.state is TransactionState.ABORTED)
    assert stored(client, stream) == []


def test_an_aborted_transaction_can_not_be_committed(client: Client, stream: Stream) -> None:
    transaction = client.transaction(stream)
    transaction.write_batch(*keyed(range(10)))
    transaction.abort()
    transaction.abort()
    with pytest.raises(TransactionError, match=f'on stream "{stream}"'):
        transaction.commit()
    assert stored(client, stream) == []


def test_a_committed_transaction_can_not_be_aborted(client: Client, stream: Stream) -> None:
    transaction = client.transaction(stream)
    transaction.write_batch(*keyed(range(10)))
    transaction.commit()
    with pytest.raises(TransactionError, match="is committed already"):
        transaction.abort()
    assert stored(client, stream) == list(range(10))


def test_a_transaction_that_others_aborted_tells_its_writer(client: Client, stream: Stream) -> None:
    transaction = client.transaction(stream, lease_ms=10_000)
    transaction.write_batch(*keyed(range(10)))
    assert client.controller.abort_transaction(stream, transaction.transaction.id)
    with pytest.raises(TransactionError):
        transaction.commit()
    assert stored(client, stream) == []


@pytest.mark.parametrize("lease_ms", [0, 1, 9_999, 600_001])
def test_a_lease_that_the_server_does_not_give_is_refused_at_the_beginning(
    client: Client, stream: Stream, lease_ms: int
) -> None:
    with pytest.raises(TransactionError, match=f"lease of {lease_ms} ms"):
        client.transaction(stream, lease_ms=lease_ms)


def test_a_sealed_stream_takes_no_transaction(client: Client, stream: Stream) -> None:
    client.controller.seal_stream(stream)
    with pytest.raises(StreamSealedError, match=f'stream "{stream}" is sealed'):
        client.transaction(stream)


def write_elsewhere(options: dict[str, str], ticket: bytes, first: int) -> None:
    with Client(Settings.resolve(options, environ={})) as client, client.join(pickle.loads(ticket)) as part:
        part.write_batch(*keyed(range(first, first + 100)))


@pytest.mark.in_turn
def test_several_processes_write_into_one_transaction(client: Client, settings: Settings, stream: Stream) -> None:
    transaction = client.transaction(stream)
    ticket = pickle.dumps(transaction.transaction)
    # New processes: a fork of this one would take gRPC's threads along.
    spawning = multiprocessing.get_context("spawn")
    others = [
        spawning.Process(target=write_elsewhere, args=(settings.to_options(), ticket, 100 * number))
        for number in range(1, 4)
    ]
    for other in others:
        other.start()
    transaction.write_batch(*keyed(range(100)))
    for other in others:
        other.join(60)
        assert other.exitcode == 0
    assert stored(client, stream) == []
    transaction.commit()
    assert stored(client, stream) == list(range(400))


def test_many_transactions_become_one(client: Client, stream: Stream) -> None:
    owners = [client.transaction(stream) for _ in range(5)]
    staged = []
    for number, owner in enumerate(owners):
        owner.write_batch(*keyed(range(1000 * number, 1000 * number + 10 ** (number % 4))))
        owner.flush()
        staged.append(pickle.loads(pickle.dumps(Staged(transaction=owner.transaction, written=owner.written))))
    expected = [i for number in range(5) for i in range(1000 * number, 1000 * number + 10 ** (number % 4))]
    target = client.gather(staged)
    assert target == owners[3].transaction
    assert client.gather(staged) == target
    assert stored(client, stream) == []
    owners[3].commit()
    for owner in owners[:3] + owners[4:]:
        owner.abort()
    assert stored(client, stream) == expected


def test_transactions_of_different_epochs_become_one_where_no_block_has_to_be_divided(
    client: Client, stream: Stream
) -> None:
    first, second, third = client.controller.current_segments(stream).ranges
    middle = (first.min_key + first.max_key) / 2

    def write(borders: Iterable[float] = ()) -> tuple[OwnTransaction, Staged]:
        """Events of 30 keys, each 20 times, in several blocks."""
        owner = client.transaction(stream)
        with TransactionWriter(client, owner.transaction, borders=borders) as writer:
            for turn in range(20):
                writer.write_batch([b"%d %d %d" % (len(owners), key, turn) for key in range(30)], KEYS)
                writer.flush()
        owners.append(owner)
        staged = Staged(transaction=owner.transaction, written=writer.written, pieces=writer.pieces)
        assert sum(piece.bytes for piece in staged.pieces.values()) == (staged.bytes if staged.pieces else 0)
        return owner, pickle.loads(pickle.dumps(staged))

    owners: list[OwnTransaction] = []
    before, staged_before = write()
    scale(client, stream, [first.segment_id], [(first.min_key, middle), (middle, first.max_key)])
    between, staged_between = write()
    scale(client, stream, [second.segment_id, third.segment_id], [(second.min_key, third.max_key)])
    _, staged_after = write()
    _, staged_cut = write([owner.max_key for owner in between.transaction.segments.ranges])
    with pytest.raises(TransactionError, match=f'stream "{stream}" was scaled'):
        client.gather([staged_before, staged_after])
    assert target_of([staged_between, staged_before, staged_after]) is None
    # A segment's halves fit into it, and so does the half of one that was merged with another.
    staged = [staged_between, staged_before, staged_cut]
    assert client.gather(staged) == client.gather(staged) == before.transaction
    before.commit()
    for owner in owners[1:]:
        owner.abort()
    found = [tuple(map(int, event.split())) for event in stored_events(client, stream)]
    assert sorted(found) == sorted((by, key, turn) for by in (0, 1, 3) for key in range(30) for turn in range(20))
    for by, key in itertools.product((0, 1, 3), range(30)):
        assert [turn for *who, turn in found if who == [by, key]] == list(range(20))


def test_a_commit_may_bring_the_writer_s_time(client: Client, stream: Stream) -> None:
    transaction = client.transaction(stream)
    transaction.write_batch(*keyed(range(10)))
    transaction.commit(timestamp=1_700_000_000_000, writer="w1")
    assert transaction.state is TransactionState.COMMITTED
    assert stored(client, stream) == list(range(10))


def test_a_commit_comes_to_its_end_though_its_stream_is_sealed_at_that_moment(client: Client, scope: str) -> None:
    """Of a stream that has taken the place of another one the controller forgets such a commit now and then."""

    def committed(transaction: OwnTransaction) -> bool:
        try:
            transaction.commit()
        except TransactionError:
            return False
        return True

    def races(number: int) -> None:
        for pause_s in (0.01, 0.02, 0.01, 0.02):
            stream = make_stream(client, scope, f"t{number}")
            transaction = client.transaction(stream)
            transaction.write("event")
            transaction.flush()
            with ThreadPoolExecutor(1) as owner:
                asked = owner.submit(committed, transaction)
                time.sleep(pause_s)
                client.controller.seal_stream(stream)
            assert stored_events(client, stream) == ([b"event"] if asked.result() else [])
            client.controller.delete_stream(stream)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(races, range(4)))
