"""Events between two cuts, and events as they come, across scales and over connections that break."""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Iterable

import pyarrow as pa
import pytest
from client_tools import Proxy, ThroughProxy, append, framed, make_stream, scale
from waiting import eventually

from pyspark_pravega import deadlines
from pyspark_pravega.client import Client, EventBatch, EventWriter, Stream
from pyspark_pravega.client.events import tail as event_tail
from pyspark_pravega.client.events.reader import event_boundary, split_part
from pyspark_pravega.client.positions.cuts import tail_cut, truncate_stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import EventDecodeError, SegmentTruncatedError, StreamNotFoundError, WireError
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "t", segments=2)


def write(client: Client, stream: Stream, numbers: Iterable[int], *, keys: int = 10) -> None:
    chosen = list(numbers)
    with client.writer(stream) as writer:
        writer.write_batch([b"%d" % number for number in chosen], [f"key {number % keys}" for number in chosen])


def numbers(batches: Iterable[EventBatch]) -> list[int]:
    return [int(event) for batch in batches for event in batch.payloads.to_pylist()]


def test_a_stream_is_read_between_any_two_cuts(client: Client, stream: Stream) -> None:
    cuts = [tail_cut(client.pool, stream)]
    for part in range(4):
        write(client, stream, range(100 * part, 100 * part + 100))
        cuts.append(tail_cut(client.pool, stream))
    for first in range(5):
        for last in range(first, 5):
            events = numbers(client.read(stream, start=cuts[first], end=cuts[last]))
            assert sorted(events) == list(range(100 * first, 100 * last))
    assert sorted(numbers(client.read(stream))) == list(range(400))
    assert sorted(numbers(client.read(str(stream), start=cuts[2]))) == list(range(200, 400))


def test_a_batch_tells_where_its_events_are(client: Client, stream: Stream) -> None:
    append(client, stream, 1, framed(b"one"), framed(b""), framed(b"three"))
    (batch,) = client.read(stream)
    assert (len(batch), batch.segment_id, batch.start, batch.end) == (3, 1, 0, 32)
    assert batch.to_arrow().to_pylist() == [
        {"event": event, "scope": stream.scope, "stream": "t", "segment_id": 1, "offset": offset}
        for event, offset in [(b"one", 0), (b"", 11), (b"three", 19)]
    ]


def test_events_of_all_sizes_come_whole(client: Client, stream: Stream) -> None:
    chance = random.Random(1)
    events = [chance.randbytes(chance.choice([0, 1, 100, 5000, 3 << 20])) for _ in range(60)] + [bytes(8 << 20)]
    with client.writer(stream) as writer:
        writer.write_batch(events, "k")
    assert [event for batch in client.read(stream) for event in batch.payloads.to_pylist()] == events


def test_a_key_s_events_come_in_order_across_scales(client: Client, stream: Stream) -> None:
    for epoch in range(4):
        write(client, stream, range(100 * epoch, 100 * epoch + 100), keys=7)
        ranges = client.controller.current_segments(stream).ranges
        if epoch % 2:
            scale(client, stream, [r.segment_id for r in ranges], [(0.0, 0.3), (0.3, 1.0)])
        else:
            middle = (ranges[0].min_key + ranges[0].max_key) / 2
            borders = [(ranges[0].min_key, middle), (middle, ranges[0].max_key)]
            scale(client, stream, [ranges[0].segment_id], borders)
    events = numbers(client.read(stream))
    assert sorted(events) == list(range(400))
    for key in range(7):
        of_key = [number for number in events if number % 7 == key]
        # Within a batch of the writer the number tells the key: 100 isn't a multiple of 7.
        assert of_key == sorted(of_key)


def test_workers_read_parts_of_their_own(client: Client, stream: Stream) -> None:
    write(client, stream, range(20_000))
    parts = client.plan(stream)
    assert len(parts) == 2
    pieces = [piece for part in parts for piece in split_part(client, part, 5)]
    assert len(pieces) == 10
    events_by_piece = [numbers(client.read_part(pickle.loads(pickle.dumps(piece)))) for piece in pieces]
    assert all(events_by_piece)
    assert [number for piece in events_by_piece for number in piece] == numbers(client.read(stream))


def test_a_boundary_near_an_offset_is_the_last_one_before_it(client: Client, stream: Stream) -> None:
    events = [framed(bytes(size)) for size in (10, 0, 3 << 20, 7)]
    append(client, stream, 0, *events)
    borders = [0, 18, 26, 26 + (3 << 20) + 8]
    for near in (0, 5, 17, 18, 25, 26, 27, 1 << 20, borders[3] - 1, borders[3], borders[3] + 14):
        expected = max(border for border in borders if border <= near)
        assert event_boundary(client, stream, 0, near, boundary=0) == expected
        if near >= 26:
            assert event_boundary(client, stream, 0, near, boundary=26) == expected


def test_a_read_that_begins_or_ends_within_an_event_is_refused(client: Client, stream: Stream) -> None:
    append(client, stream, 0, framed(b"\x01" * 30), framed(b"two"))
    with pytest.raises(EventDecodeError, match=rf'no event begins near offset 9 of segment 0 of stream "{stream}"'):
        numbers(client.read(stream, start={0: 9, 1: 0}))
    with pytest.raises(WireError, match=rf'segment 0 of stream "{stream}" holds 2 bytes before offset 40 that are no'):
        list(client.read(stream, end={0: 40, 1: 0}))


def test_what_was_truncated_is_an_error_and_a_missing_stream_is_named(client: Client, stream: Stream) -> None:
    append(client, stream, 0, framed(b"one"), framed(b"two"))
    truncate_stream(client.pool, StreamCut(stream, {0: 11, 1: 0}))
    with pytest.raises(SegmentTruncatedError, match="begins at offset 11: offset 0 has been truncated"):
        list(client.read(stream, start={0: 0, 1: 0}))
    assert [len(batch) for batch in client.read(stream)] == [1]
    missing = Stream(stream.scope, "missing")
    for use in (client.read, client.follow):
        with pytest.raises(StreamNotFoundError, match="missing"):
            list(use(missing))


def take(tail: Iterable[EventBatch], count: int) -> list[int]:
    events: list[int] = []
    for batch in tail:
        events += numbers([batch])
        if len(events) >= count:
            break
    return events


def test_events_arrive_as_they_are_appended(client: Client, stream: Stream) -> None:
    write(client, stream, range(10))
    with client.follow(stream) as tail:
        assert tail.poll(0.3) is None
        for part in range(1, 6):
            write(client, stream, range(10 * part, 10 * part + 10))
            assert sorted(take(tail, 10)) == list(range(10 * part, 10 * part + 10))


def test_an_append_wakes_the_tail_at_once(client: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    # What must not be is a wait for somebody's next look: that would come when the test's time is over.
    monkeypatch.setattr(event_tail, "_PAUSE_S", 3600.0)
    with client.follow(stream) as tail, client.writer(stream) as writer:
        assert tail.poll(0.5) is None
        for _ in range(20):
            writer.write(b"1", key="k")
            writer.flush()
            assert tail.poll(60.0) is not None


def test_a_tail_goes_on_at_its_position(client: Client, stream: Stream) -> None:
    write(client, stream, range(100))
    events: list[int] = []
    position = client.controller.head(stream)
    for part in range(5):
        with client.follow(stream, start=position) as tail:
            events += take(tail, 1)
            position = pickle.loads(pickle.dumps(tail.position))
        write(client, stream, range(100 + part, 101 + part))
    with client.follow(stream, start=position) as tail:
        events += take(tail, 105 - len(events)) if len(events) < 105 else []
    assert sorted(events) == list(range(105))


def test_a_tail_ends_with_a_sealed_stream(client: Client, stream: Stream) -> None:
    write(client, stream, range(50))
    tail = client.follow(stream, start=client.controller.head(stream))
    client.controller.seal_stream(stream)
    assert sorted(numbers(tail)) == list(range(50))
    assert tail.poll(0.1) is None
    assert tail.position == tail_cut(client.pool, stream)


def test_a_tail_that_is_closed_leaves_no_thread(client: Client, stream: Stream) -> None:
    tail = client.follow(stream)
    name = f"tail-{stream}-"
    assert any(thread.name.startswith(name) for thread in threading.enumerate())
    tail.close()
    assert list(tail) == []
    eventually(lambda: not any(thread.name.startswith(name) for thread in threading.enumerate()))


def test_a_tail_whose_events_are_truncated_says_so(client: Client, stream: Stream) -> None:
    append(client, stream, 0, framed(b"one"), framed(b"two"))
    truncate_stream(client.pool, StreamCut(stream, {0: 11, 1: 0}))
    with (
        client.follow(stream, start={0: 0, 1: 0}) as tail,
        pytest.raises(SegmentTruncatedError, match="begins at offset 11"),
    ):
        tail.poll(10)


@pytest.mark.parametrize("seed", range(3))
def test_a_tail_follows_scales_and_keeps_each_key_s_order(client: Client, scope: str, seed: int) -> None:
    stream = make_stream(client, scope, f"scaled-{seed}", segments=2)
    chance = random.Random(seed)
    keys, count, events = 12, 150, []
    tail = client.follow(stream)

    def write_and_scale() -> None:
        with EventWriter(client, stream, linger_s=0.005) as writer:
            for number in range(count):
                names = [f"key {key}" for key in range(keys)]
                writer.write_batch([b"%d" % (number * keys + key) for key in range(keys)], names)
                if number % 25 == 10:
                    ranges = client.controller.current_segments(stream).ranges
                    at = chance.randrange(len(ranges))
                    low, high = ranges[at].min_key, ranges[at].max_key
                    if len(ranges) > 2 and at + 1 < len(ranges):
                        pair = [ranges[at].segment_id, ranges[at + 1].segment_id]
                        scale(client, stream, pair, [(low, ranges[at + 1].max_key)])
                    else:
                        scale(
                            client, stream, [ranges[at].segment_id], [(low, (low + high) / 2), ((low + high) / 2, high)]
                        )
        client.controller.seal_stream(stream)

    writing = threading.Thread(target=write_and_scale)
    writing.start()
    try:
        while (batch := next(tail, None)) is not None:
            events += numbers([batch])
            # Broken off and taken up again now and then.
            if chance.random() < 0.2:
                position = tail.position
                tail.close()
                tail = client.follow(stream, start=StreamCut.from_json(stream, position.to_json()))
    finally:
        writing.join()
        tail.close()
    for key in range(keys):
        assert [number // keys for number in events if number % keys == key] == list(range(count))


def test_a_tail_survives_connections_that_break(
    client: Client, settings: Settings, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Connections that break before anything has come are waited for longer and longer, for 2 s in the end.
    monkeypatch.setattr(deadlines, "LONGEST_PAUSE_S", 0.1)
    chance = random.Random(2)
    allowances = [chance.randint(1, 4000) for _ in range(20)]
    with (
        Proxy(client.controller.endpoint(stream, 0), *allowances) as proxy,
        ThroughProxy(settings, proxy) as broken,
        broken.follow(stream, start=client.controller.head(stream)) as tail,
    ):
        for part in range(40):
            write(client, stream, range(100 * part, 100 * part + 100))
        assert sorted(take(tail, 4000)) == list(range(4000))
        assert proxy.connections > 10


def test_a_batch_in_arrow_is_of_the_schema(client: Client, stream: Stream) -> None:
    write(client, stream, range(1000))
    table = pa.Table.from_batches([batch.to_arrow() for batch in client.read(stream)])
    assert table.num_rows == 1000
    assert table.column_names == ["event", "scope", "stream", "segment_id", "offset"]
