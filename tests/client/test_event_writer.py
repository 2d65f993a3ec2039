"""Events written directly: all of them, once, in order per routing key, also while the stream scales.

And a transaction that outlives its lease, which takes as long as the tests of writers do together.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
import uuid
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pytest
from client_tools import Proxy, ThroughProxy, content, make_stream, scale
from waiting import eventually

from pyspark_pravega.client import Client, EventWriter, OwnTransaction, Stream, TransactionState
from pyspark_pravega.client.routing import key_fractions, segment_indexes
from pyspark_pravega.errors import (
    EventEncodeError,
    SegmentStoreUnavailableError,
    StreamNotFoundError,
    StreamSealedError,
)
from pyspark_pravega.frames import framing
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server


@dataclass(frozen=True)
class Lasting:
    """A transaction that lasts for longer than its lease, and one of the same lease that nobody keeps open."""

    stream: Stream
    kept: OwnTransaction
    abandoned: uuid.UUID


@pytest.fixture(scope="module", autouse=True)
def lasting(client: Client, module_scope: str) -> Lasting:
    """Begun before the other tests: so the last one has less long to wait."""
    stream = make_stream(client, module_scope, "lasting")
    kept = client.transaction(stream, lease_ms=10_000)
    kept.write_batch([b"before"])
    return Lasting(stream, kept, client.controller.begin_transaction(stream, lease_ms=10_000).id)


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "t", segments=4)


def events_of(client: Client, stream: Stream, segment_id: int) -> list[bytes]:
    payloads: list[bytes] = framing.split(content(client.pool, stream, segment_id)).payloads.to_pylist()
    return payloads


def all_events(client: Client, stream: Stream) -> list[list[bytes]]:
    """By segment, predecessors before successors."""
    head = client.controller.head(stream)
    return [events_of(client, stream, segment_id) for segment_id in client.controller.segments_from(stream, head)]


def test_events_go_where_their_keys_lead(client: Client, stream: Stream) -> None:
    keys = [f"key {i % 50}" for i in range(1000)]
    with client.writer(stream) as writer:
        writer.write_batch(pa.array([f"{key} {i}" for i, key in enumerate(keys)]), pa.array(keys))
        assert writer.events_written == 1000
    ranges = client.controller.current_segments(stream).ranges
    expected: dict[int, list[bytes]] = {owner.segment_id: [] for owner in ranges}
    for i, index in enumerate(segment_indexes(key_fractions(pa.array(keys)), ranges)):
        expected[ranges[index].segment_id].append(f"{keys[i]} {i}".encode())
    assert {segment_id: events_of(client, stream, segment_id) for segment_id in expected} == expected


def test_single_events_and_batches_of_one_key_stay_in_order(client: Client, stream: Stream) -> None:
    with client.writer(stream) as writer:
        for i in range(0, 300, 3):
            writer.write(f"{i}", key="k")
            writer.write_batch([b"%d" % (i + 1), b"%d" % (i + 2)], "k")
    (events_of_key,) = [events for events in all_events(client, stream) if events]
    assert events_of_key == [b"%d" % i for i in range(300)]


def test_batches_without_keys_are_spread_over_the_segments(client: Client, stream: Stream) -> None:
    with client.writer(stream) as writer:
        for _ in range(8):
            writer.write_batch([b"x"] * 10)
    assert [len(events) for events in all_events(client, stream)] == [20, 20, 20, 20]


def test_a_null_key_is_none(client: Client, stream: Stream) -> None:
    with client.writer(stream) as writer:
        writer.write_batch([b"a", b"b", b"c"], ["k", None, "k"])
    assert sorted(itertools.chain(*all_events(client, stream))) == [b"a", b"b", b"c"]


def test_an_event_that_nobody_flushes_is_sent_all_the_same(client: Client, stream: Stream) -> None:
    writer = EventWriter(client, stream, linger_s=0.05)
    writer.write(b"lonely", key="k")
    eventually(lambda: [b"lonely"] in all_events(client, stream))
    writer.write(b"second", key="k")
    eventually(lambda: [b"lonely", b"second"] in all_events(client, stream))
    writer.close()


def test_after_a_flush_everything_is_there(client: Client, stream: Stream) -> None:
    writer = EventWriter(client, stream, linger_s=3600)
    payload = bytes(100)
    for i in range(5):
        writer.write_batch([payload] * 30_000, f"{i}")
        writer.flush()
        assert sum(map(len, all_events(client, stream))) == 30_000 * (i + 1)
    writer.close()


def test_a_batch_of_many_parts_meets_a_scale(client: Client, stream: Stream) -> None:
    # The first part finds the writer's segments sealed; the others go where it has found the new ones.
    writer = client.writer(stream)
    scale(client, stream, [0], [(0.0, 0.1), (0.1, 0.25)])
    scale(client, stream, [1, 2, 3], [(0.25, 0.4), (0.4, 0.8), (0.8, 1.0)])
    keys = [f"{number % 100}" for number in range(30_000)]
    writer.write_batch(pa.array([b"%02d %06d" % (i % 100, i) + bytes(991) for i in range(30_000)]), pa.array(keys))
    writer.close()
    by_key: dict[bytes, list[bytes]] = {}
    for event in (event for events in all_events(client, stream) for event in events):
        by_key.setdefault(event[:2], []).append(event[3:9])
    assert {len(numbers) for numbers in by_key.values()} == {300}
    assert all(numbers == sorted(set(numbers)) for numbers in by_key.values())


@pytest.mark.parametrize(
    ("events", "keys", "reason"),
    [
        ([b"x" * ((8 << 20) + 1)], None, r"an event of 8,388,609 bytes is larger than Pravega takes"),
        ([b"x", None], None, "1 of 2 events are null"),
        ([b"x", b"y"], ["k"], "2 events came with 1 routing keys"),
    ],
)
def test_events_that_cannot_be_written_are_refused_before_anything_is_sent(
    client: Client, stream: Stream, events: list[bytes], keys: list[str] | None, reason: str
) -> None:
    with client.writer(stream) as writer:
        with pytest.raises(EventEncodeError, match=reason):
            writer.write_batch(events, keys)
        writer.write(b"good")
    assert sum(map(len, all_events(client, stream))) == 1


def test_the_largest_event_is_written(client: Client, stream: Stream) -> None:
    with client.writer(stream) as writer:
        writer.write_batch([b"a", b"x" * (8 << 20), b"b"], "k")
    (events_of_key,) = [events for events in all_events(client, stream) if events]
    assert list(map(len, events_of_key)) == [1, 8 << 20, 1]


def test_a_stream_that_is_missing_or_sealed_is_named(client: Client, stream: Stream) -> None:
    with pytest.raises(StreamNotFoundError, match=r"nowhere"):
        client.writer(Stream(stream.scope, "nowhere"))
    writer = client.writer(stream)
    writer.write(b"in time", key="k")
    writer.flush()
    client.controller.seal_stream(stream)
    with pytest.raises(StreamSealedError, match=rf'stream "{stream}" is sealed'):
        client.writer(stream)
    writer.write(b"too late", key="k")
    with pytest.raises(StreamSealedError, match=rf'stream "{stream}" is sealed'):
        writer.flush()
    with pytest.raises(StreamSealedError):
        writer.write(b"much too late", key="k")
    writer.close()
    assert [b"in time"] in all_events(client, stream)


def test_a_closed_writer_says_so(client: Client, stream: Stream) -> None:
    writer = client.writer(stream)
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="is closed"):
        writer.write(b"x")


def numbered(key: int, number: int) -> bytes:
    return b"%d %d" % (key, number)


def check_order(client: Client, stream: Stream, keys: int, count: int) -> None:
    """Every key's events are there once, and a successor's come after its predecessors'."""
    numbers: dict[int, list[int]] = {key: [] for key in range(keys)}
    for events in all_events(client, stream):
        for event in events:
            key, number = map(int, event.split())
            numbers[key].append(number)
    assert numbers == {key: list(range(count)) for key in range(keys)}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.in_turn
def test_events_keep_their_order_while_the_stream_scales(client: Client, scope: str, seed: int) -> None:
    stream = make_stream(client, scope, f"scaled-{seed}", segments=2)
    chance = random.Random(seed)
    keys, count = 20, 400
    over = threading.Event()

    def scale_now_and_then() -> None:
        while not over.is_set():
            ranges = client.controller.current_segments(stream).ranges
            at = chance.randrange(len(ranges))
            if len(ranges) > 3 and at + 1 < len(ranges):
                pair = ranges[at : at + 2]
                scale(client, stream, [r.segment_id for r in pair], [(pair[0].min_key, pair[1].max_key)])
            else:
                low, high = ranges[at].min_key, ranges[at].max_key
                middle = (low + high) / 2
                scale(client, stream, [ranges[at].segment_id], [(low, middle), (middle, high)])

    scaler = threading.Thread(target=scale_now_and_then)
    scaler.start()
    try:
        with EventWriter(client, stream, linger_s=0.005, block_bytes=2000) as writer:
            for number in range(count):
                names = [f"key {key}" for key in range(keys)]
                writer.write_batch([numbered(key, number) for key in range(keys)], names)
                if chance.random() < 0.1:
                    time.sleep(0.02)
                if chance.random() < 0.05:
                    writer.flush()
    finally:
        over.set()
        scaler.join()
    assert len(client.controller.segments_from(stream, client.controller.head(stream))) > 4, "it never scaled"
    check_order(client, stream, keys, count)


def test_events_survive_connections_that_break(client: Client, settings: Settings, stream: Stream) -> None:
    chance = random.Random(1)
    allowances = [chance.randint(1, 3_000) for _ in range(60)]
    with Proxy(client.controller.endpoint(stream, 0), *allowances) as proxy, ThroughProxy(settings, proxy) as broken:
        with EventWriter(broken, stream, linger_s=0.005, block_bytes=1000) as writer:
            for number in range(500):
                writer.write_batch([numbered(key, number) for key in range(10)], [f"key {key}" for key in range(10)])
        assert proxy.connections > 30
    check_order(client, stream, 10, 500)


def test_a_segment_store_that_stays_away_is_told_of_at_the_next_call(
    client: Client, settings: Settings, stream: Stream
) -> None:
    short = Settings.resolve({**settings.to_options(), "timeout": "1"}, environ={})
    with Proxy(client.controller.endpoint(stream, 0)) as proxy, ThroughProxy(short, proxy) as lost:
        writer = EventWriter(lost, stream, linger_s=0.01)
        writer.write(b"one", key="k")
        writer.flush()
        proxy.close()
        writer.write(b"two", key="k")
        eventually(lambda: writer._failed is not None)
        with pytest.raises(SegmentStoreUnavailableError):
            writer.write(b"three", key="k")
        writer.close()


def test_what_a_lost_connection_took_along_is_sent_again_though_nothing_follows(
    client: Client, settings: Settings, stream: Stream
) -> None:
    stored = bytes(framing.join(pa.array([b"one", b"two"], pa.binary())))
    with Proxy(client.controller.endpoint(stream, 0)) as proxy, ThroughProxy(settings, proxy) as lossy:
        writer = EventWriter(lossy, stream, linger_s=0.01)
        writer.write(b"one", key="k")
        writer.flush()
        proxy.cut_all()
        writer.write(b"two", key="k")
        eventually(lambda: content(client.pool, stream, 0) == stored)
        writer.close()


# The last one: its leases have been running since the first test.


def test_a_transaction_outlives_its_lease_while_its_block_lasts(client: Client, lasting: Lasting) -> None:
    with lasting.kept as transaction:
        # The abandoned one tells when the lease is over.
        state = partial(client.controller.transaction_state, lasting.stream, lasting.abandoned)
        eventually(lambda: state() is TransactionState.ABORTED, within_s=120)
        transaction.write_batch([b"behind"])
    assert all_events(client, lasting.stream) == [[b"before", b"behind"]]
