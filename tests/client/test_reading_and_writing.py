"""Ranged reads and appends against a real segment store, over connections that last and over ones that don't."""

from __future__ import annotations

import random
import struct
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from client_tools import Proxy, append, content, framed, make_stream, pool_to, scale, truncate
from waiting import eventually

from pyspark_pravega.client import Client, Stream, Transaction, TransactionState
from pyspark_pravega.client.segments.reading import SegmentState, read_range, segment_state
from pyspark_pravega.client.segments.writing import MAX_BLOCK_BYTES, SegmentWriter
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.errors import (
    SegmentNotFoundError,
    SegmentSealedError,
    SegmentTruncatedError,
    TransactionError,
    WireError,
)
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "t")


def large_event(size: int) -> bytes:
    return framed(random.Random(size).randbytes(size - 8))


def test_a_range_of_a_segment_may_begin_and_end_at_any_byte(client: Client, stream: Stream) -> None:
    data = [large_event((3 << 20) + 17), large_event((3 << 20) - 5)]
    append(client, stream, 0, *data)
    whole = b"".join(data)
    chance = random.Random(1)
    cuts = [(0, len(whole)), (1, len(whole)), (len(whole) - 1, len(whole)), (5, 5), (1 << 20, (1 << 20) + 1)]
    for start, end in cuts + [sorted(chance.sample(range(len(whole)), 2)) for _ in range(10)]:
        parts = list(read_range(client.pool, stream, 0, start, end))
        assert b"".join(parts) == whole[start:end]
        assert all(parts)


def test_the_buffers_of_a_read_stay_as_they_are_while_it_goes_on(client: Client, stream: Stream) -> None:
    whole = large_event(5 << 20)
    append(client, stream, 0, whole)
    parts = list(read_range(client.pool, stream, 0, 0, len(whole)))
    assert len(parts) > 1
    assert b"".join(parts) == whole


def test_a_read_that_is_given_up_leaves_the_pool_usable(client: Client, stream: Stream) -> None:
    whole = large_event(5 << 20)
    append(client, stream, 0, whole)
    for _ in range(3):
        reading = read_range(client.pool, stream, 0, 0, len(whole))
        next(reading)
        reading.close()
        assert segment_state(client.pool, stream, 0).write_offset == len(whole)


def test_a_segment_s_state_tells_its_length_its_start_and_its_end(
    client: Client, settings: Settings, stream: Stream
) -> None:
    assert segment_state(client.pool, stream, 0) == SegmentState(start_offset=0, write_offset=0, sealed=False)
    append(client, stream, 0, framed(b"one"), framed(b"two"))
    assert segment_state(client.pool, stream, 0) == SegmentState(start_offset=0, write_offset=22, sealed=False)
    truncate(settings, stream, {0: 11})
    assert segment_state(client.pool, stream, 0) == SegmentState(start_offset=11, write_offset=22, sealed=False)
    client.controller.seal_stream(stream)
    assert segment_state(client.pool, stream, 0) == SegmentState(start_offset=11, write_offset=22, sealed=True)


def test_bytes_that_were_truncated_are_gone_with_an_error_that_says_where_the_segment_begins(
    client: Client, settings: Settings, stream: Stream
) -> None:
    append(client, stream, 0, framed(b"one"), framed(b"two"))
    truncate(settings, stream, {0: 11})
    with pytest.raises(SegmentTruncatedError, match=rf'"{stream}/0.#epoch.0" begins at offset 11: offset 0 has been'):
        list(read_range(client.pool, stream, 0, 0, 22))
    assert b"".join(read_range(client.pool, stream, 0, 11, 22)) == framed(b"two")


def test_a_segment_that_is_not_there_is_named(client: Client, stream: Stream) -> None:
    missing = 7 << 32 | 99
    expected = rf'segment "{stream}/99.#epoch.7" does not exist'
    with pytest.raises(SegmentNotFoundError, match=expected):
        list(read_range(client.pool, stream, missing, 0, 10))
    with pytest.raises(SegmentNotFoundError, match=expected):
        segment_state(client.pool, stream, missing)
    with pytest.raises(SegmentNotFoundError, match=expected):
        append(client, stream, missing, framed(b"x"))


def test_a_deleted_stream_s_segment_is_gone(client: Client, stream: Stream) -> None:
    client.controller.seal_stream(stream)
    client.controller.delete_stream(stream)
    with pytest.raises(SegmentNotFoundError, match=rf'"{stream}/0.#epoch.0"'):
        segment_state(client.pool, stream, 0)


def test_a_range_beyond_a_sealed_segment_s_end_is_an_error(client: Client, stream: Stream) -> None:
    append(client, stream, 0, framed(b"one"))
    client.controller.seal_stream(stream)
    with pytest.raises(WireError, match="ends at 11, before the end of the range, 20"):
        list(read_range(client.pool, stream, 0, 0, 20))


def test_a_sealed_segment_takes_no_more_events(client: Client, stream: Stream) -> None:
    writer = SegmentWriter(client.pool, stream, 0)
    writer.append(framed(b"one"), 1)
    writer.flush()
    scale(client, stream, [0], [(0.0, 1.0)])
    writer.append(framed(b"two"), 1)
    with pytest.raises(SegmentSealedError, match=rf'"{stream}/0.#epoch.0" is sealed'):
        writer.flush()
    assert content(client.pool, stream, 0) == framed(b"one")


@pytest.mark.parametrize(("size", "events"), [(0, 1), (MAX_BLOCK_BYTES + 1, 1), (9, 0)])
def test_a_block_that_no_server_takes_is_refused(client: Client, stream: Stream, size: int, events: int) -> None:
    with pytest.raises(WireError, match=f"a block of {size} bytes and {events} events"):
        SegmentWriter(client.pool, stream, 0).append(bytes(size), events)


def test_the_largest_block_and_the_largest_event_are_stored(client: Client, stream: Stream) -> None:
    block = large_event(8 << 20) + large_event(7 << 20)
    assert len(block) == MAX_BLOCK_BYTES
    writer = SegmentWriter(client.pool, stream, 0)
    writer.append(block, 2)
    writer.flush()
    writer.close()
    assert (writer.bytes_written, writer.events_written) == (MAX_BLOCK_BYTES, 2)
    assert content(client.pool, stream, 0) == block


def test_two_writers_on_one_segment_mix_whole_blocks(client: Client, stream: Stream) -> None:
    writers = [SegmentWriter(client.pool, stream, 0) for _ in range(2)]
    for i in range(50):
        for number, writer in enumerate(writers):
            writer.append(framed(struct.pack(">ii", number, i)), 1)
    for writer in writers:
        writer.flush()
        writer.close()
    stored = [struct.unpack(">ii", event[8:]) for event in chunks(content(client.pool, stream, 0), 16)]
    for number in range(2):
        assert [i for writer, i in stored if writer == number] == list(range(50))


def chunks(data: bytes, size: int) -> list[bytes]:
    assert len(data) % size == 0
    return [data[i : i + size] for i in range(0, len(data), size)]


def numbered_blocks(chance: random.Random) -> list[tuple[bytes, int]]:
    """Blocks of events, each event with the next number, and how many each block holds."""
    blocks, number = [], 0
    for _ in range(chance.randint(3, 12)):
        events = chance.randint(1, 20)
        filler = bytes(chance.choice([0, 100, 20_000]))
        blocks.append((b"".join(framed(struct.pack(">q", number + i) + filler) for i in range(events)), events))
        number += events
    return blocks


RUNS = 32


def test_appends_over_connections_that_break_lose_nothing_repeat_nothing_and_keep_their_order(
    client: Client, settings: Settings, scope: str
) -> None:
    stream = make_stream(client, scope, "broken", segments=RUNS)
    transaction = client.controller.begin_transaction(stream, lease_ms=120_000)
    target = client.controller.endpoint(stream, 0)

    def write(seed: int, segment_id: int) -> tuple[bytes, int]:
        """What was written, and how many connections broke."""
        chance = random.Random(seed)
        blocks = numbered_blocks(chance)
        size = sum(len(data) for data, _ in blocks)
        # Greeting and set-up alone are some hundred bytes, so some connections break before the first block.
        allowances = [chance.randint(1, chance.choice([400, size + 500])) for _ in range(3)]
        with Proxy(target, *allowances) as proxy, pool_to(settings, proxy.address) as pool:
            name = transaction.segment_name(segment_id) if seed % 2 else None
            writer = SegmentWriter(pool, stream, segment_id, segment=name)
            for data, events in blocks:
                writer.append(data, events)
                if chance.random() < 0.3:
                    writer.flush()
            writer.flush()
            writer.close()
            return b"".join(data for data, _ in blocks), proxy.connections - 1

    # Each one mostly waits before it connects again.
    with ThreadPoolExecutor(8) as threads:
        written = list(threads.map(write, range(RUNS), transaction.segments.ids))
    client.controller.commit_transaction(stream, transaction.id)
    eventually(lambda: client.controller.transaction_state(stream, transaction.id) is TransactionState.COMMITTED)
    for seed, segment_id in enumerate(transaction.segments.ids):
        assert content(client.pool, stream, segment_id) == written[seed][0], f"seed {seed}"
    assert sum(cuts for _, cuts in written) > RUNS, "too few connections broke to prove anything"


def test_reads_over_connections_that_break_lose_nothing_and_repeat_nothing(
    client: Client, settings: Settings, stream: Stream
) -> None:
    whole = large_event(4 << 20)
    append(client, stream, 0, whole)
    target = client.controller.endpoint(stream, 0)
    for seed in range(10):
        chance = random.Random(seed)
        start = chance.randint(0, 1 << 20)
        # Each connection but the first brings at least one whole answer, so that the read makes headway.
        allowances = [chance.randint(1, 3 << 20), chance.randint(5 << 19, 3 << 20)]
        with Proxy(target, *allowances) as proxy, pool_to(settings, proxy.address) as pool:
            assert b"".join(read_range(pool, stream, 0, start, len(whole))) == whole[start:], f"seed {seed}"
            assert proxy.connections > 1


def append_behind(client: Client, stream: Stream, writer: SegmentWriter, data: bytes, last_event_number: int) -> None:
    """Store a block under a writer's id on a connection that the writer knows nothing of."""
    with client.pool.open(stream, 0) as connection:
        setup = wire.SetupAppend(
            request_id=connection.next_id(), writer_id=writer.writer_id, segment=stream.segment_name(0)
        )
        connection.call(setup, wire.AppendSetup)
        block = wire.AppendBlockEnd(
            writer_id=writer.writer_id,
            data=data,
            event_count=1,
            last_event_number=last_event_number,
            request_id=setup.request_id,
        )
        assert connection.call(block, wire.DataAppended).event_number == last_event_number


def test_blocks_that_come_through_on_a_lost_connection_after_all_are_not_stored_twice(
    client: Client, stream: Stream
) -> None:
    writer = SegmentWriter(client.pool, stream, 0)
    writer.append(framed(b"one"), 1)
    writer.flush()
    append_behind(client, stream, writer, framed(b"two"), 2)
    for event in (b"two", b"three"):
        writer.append(framed(event), 1)
    writer.flush()
    writer.append(framed(b"four"), 1)
    writer.flush()
    assert content(client.pool, stream, 0) == b"".join(map(framed, [b"one", b"two", b"three", b"four"]))


def test_a_writer_whose_id_another_one_uses_for_other_blocks_fails(client: Client, stream: Stream) -> None:
    writer = SegmentWriter(client.pool, stream, 0)
    writer.append(framed(b"one"), 1)
    writer.flush()
    append_behind(client, stream, writer, framed(b"of the other"), 2)
    writer.append(framed(b"two") + framed(b"three"), 2)
    with pytest.raises(TransactionError, match="another writer has taken its id"):
        writer.flush()
    assert content(client.pool, stream, 0) == framed(b"one") + framed(b"of the other")


def open_transaction(client: Client, stream: Stream, payload: bytes) -> Transaction:
    """A transaction with one event in segment 0."""
    transaction = client.controller.begin_transaction(stream, lease_ms=60_000)
    writer = SegmentWriter(client.pool, stream, 0, segment=transaction.segment_name(0))
    writer.append(framed(payload), 1)
    writer.flush()
    writer.close()
    return transaction


def commit(client: Client, stream: Stream, transaction: Transaction) -> None:
    client.controller.commit_transaction(stream, transaction.id)
    eventually(lambda: client.controller.transaction_state(stream, transaction.id) is TransactionState.COMMITTED)


def test_what_an_open_transaction_holds_can_be_read_by_its_name(client: Client, stream: Stream) -> None:
    transaction = open_transaction(client, stream, b"staged")
    name = transaction.segment_name(0)
    read = b"".join(read_range(client.pool, stream, 0, 0, 14, segment=name))
    assert read == framed(b"staged")
    assert content(client.pool, stream, 0) == b""


def test_a_writer_of_the_same_id_goes_on_where_the_first_one_ended(client: Client, stream: Stream) -> None:
    writer_id = uuid.uuid4()
    blocks = [framed(b"block %d" % number) for number in range(10)]
    for reached in (3, 7, 7, 10):
        writer = SegmentWriter(client.pool, stream, 0, writer_id=writer_id)
        for block in blocks[:reached]:
            writer.append(block, 1)
        writer.flush()
        writer.close()
        assert content(client.pool, stream, 0) == b"".join(blocks[:reached])
