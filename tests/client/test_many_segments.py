"""Little of many segments is written and read together, and whole whatever happens to connections."""

from __future__ import annotations

import random
import struct
from collections import defaultdict

import pytest
from client_tools import Proxy, content, framed, make_stream, pool_to, truncate
from waiting import eventually

from pyspark_pravega.client import Client, TransactionState
from pyspark_pravega.client.segments import SegmentWriter, read_range, read_together, segment_states, store_together
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

SEGMENTS = 70
"""More than are asked for at once."""
RUNS = 16


def test_little_in_many_segments_is_stored_once_and_read_whole(client: Client, settings: Settings, scope: str) -> None:
    stream = make_stream(client, scope, "many", segments=SEGMENTS)
    transaction = client.controller.begin_transaction(stream, lease_ms=120_000)
    ids = transaction.segments.ids
    target = client.controller.endpoint(stream, 0)
    written: dict[int, bytes] = defaultdict(bytes)
    cuts = 0
    for seed in range(RUNS):
        chance = random.Random(seed)
        # The first run meets no trouble. Greeting and set-ups are some kilobytes, the blocks some more.
        allowances = [chance.randint(1, 24_000) for _ in range(2)] if seed else []
        tracked = seed % 2 == 1
        with Proxy(target, *allowances) as proxy, pool_to(settings, proxy.address) as pool:
            writers = {
                segment_id: SegmentWriter(
                    pool, stream, segment_id, segment=transaction.segment_name(segment_id), tracked=tracked
                )
                for segment_id in ids
            }
            places: dict[int, bytes] = {}
            for segment_id, writer in writers.items():
                for number in range(chance.choice([0, 1, 1, 1, 2])):
                    block = framed(struct.pack(">qq", seed, number) + bytes(chance.randint(0, 200)))
                    if not writer.hold_back(block, 1):
                        writer.append(block, 1)
                    places[segment_id] = places.get(segment_id, b"") + block
            store_together(pool, stream, list(writers.values()))
            for segment_id, writer in writers.items():
                writer.flush()
                if tracked and proxy.connections == 1 and segment_id in places:
                    begin = len(written[segment_id])
                    assert writer.ranges == [(begin, begin + len(places[segment_id]))]
                writer.close()
                written[segment_id] += places.get(segment_id, b"")
            cuts += sum(1 for _ in allowances if proxy.connections > 1)
    client.controller.commit_transaction(stream, transaction.id)
    eventually(lambda: client.controller.transaction_state(stream, transaction.id) is TransactionState.COMMITTED)
    for segment_id in ids:
        assert content(client.pool, stream, segment_id) == written[segment_id], segment_id
    assert cuts > RUNS, "too few connections broke to prove anything"

    ranges = [(segment_id, 0, len(data)) for segment_id, data in written.items()]
    ranges += [(segment_id, len(data) // 2, len(data)) for segment_id, data in written.items()]
    wanted = {(segment_id, begin, end): written[segment_id][begin:end] for segment_id, begin, end in ranges}
    states = segment_states(client.pool, stream, [*ids, SEGMENTS + 1])
    assert states.pop(SEGMENTS + 1) is None
    assert {segment_id: state and state.write_offset for segment_id, state in states.items()} == {
        segment_id: len(data) for segment_id, data in written.items()
    }
    for seed in range(RUNS):
        chance = random.Random(seed)
        allowances = [chance.randint(1, sum(map(len, wanted.values())))] if seed else []
        with Proxy(target, *allowances) as proxy, pool_to(settings, proxy.address) as pool:
            received = read_together(pool, stream, [*ranges, (SEGMENTS + 1, 0, 10)])
            assert {one: bytes(data) for one, data in received.items()} == {one: wanted[one] for one in received}
            assert seed or received.keys() == wanted.keys()
            missing = wanted.keys() - received.keys()
            assert bool(missing) == bool(allowances and proxy.connections)
            for segment_id, begin, end in list(missing)[:3]:
                read = b"".join(read_range(pool, stream, segment_id, begin, end))
                assert read == wanted[segment_id, begin, end]
    truncate(settings, stream, {segment_id: 0 if segment_id else len(written[0]) for segment_id in ids})
    eventually(lambda: segment_states(client.pool, stream, [0])[0].start_offset > 0)  # type: ignore[union-attr]
    assert not [one for one in read_together(client.pool, stream, ranges) if one[0] == 0 and one[1] == 0]
