"""Numbered events: each is stored once, and keys stay in order, however many write the same ones while streams scale.

`NUMBERED_SEEDS` says how many histories there are; `NUMBERED_FIRST_SEED=N` begins with another one.
"""

from __future__ import annotations

import os
import random
import threading
import uuid
from collections import Counter

import numpy as np
import pytest
from client_tools import make_stream, scale_at_random
from waiting import eventually

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.events import NumberedWriter, settled_since
from pyspark_pravega.client.positions import tail_cut
from pyspark_pravega.errors import PravegaError, SegmentNotFoundError

pytestmark = pytest.mark.server

SEEDS = int(os.environ.get("NUMBERED_SEEDS", "6"))
FIRST_SEED = int(os.environ.get("NUMBERED_FIRST_SEED", "0"))


class Origin:
    """What is to be written: events of one origin with ascending numbers, and a key for each."""

    def __init__(self, name: str, chance: random.Random, count: int) -> None:
        self.id = uuid.uuid4()
        steps = [chance.choice([1, 1, 3, 40]) for _ in range(count)]
        self.numbers = np.cumsum(steps) - 1
        self.keys: list[str | None] = [chance.choice([None, *(f"{name}{i}" for i in range(9))]) for _ in range(count)]
        self.texts = [f"{name}/{key}/{number}".encode() for key, number in zip(self.keys, self.numbers, strict=True)]
        self.written = 0
        """So many are safe, and whoever begins anew begins behind them."""
        self.since: tuple[int, ...] = ()
        """From which segments on whoever begins anew looks for what is stored."""

    def write(self, writer: NumberedWriter, start: int, end: int) -> None:
        writer.write_batch(self.texts[start:end], self.keys[start:end], self.numbers[start:end])


def run_seed(client: Client, stream: Stream, seed: int) -> Counter[str]:
    chance, done = random.Random(f"{seed}/numbered"), Counter[str]()
    origins = [Origin(name, chance, chance.randint(1, 400)) for name in "ab"]
    first = client.controller.current_segments(stream).ids
    others: list[threading.Thread] = []
    failures: list[BaseException] = []

    def left_behind(origin: Origin, writer: NumberedWriter, start: int, sizes: list[int]) -> None:
        """A driver that doesn't know that another one has taken its place."""
        try:
            for size in sizes:
                origin.write(writer, start, start + size)
                start += size
            writer.close()
        except PravegaError as error:
            failures.append(error)

    for origin in origins:
        origin.since = first
    while waiting := [origin for origin in origins if origin.written < len(origin.texts)]:
        for origin in waiting:
            at = origin.written
            writer = NumberedWriter(client, stream, origin.id, origin.since)
            while at < len(origin.texts):
                size = chance.choice([1, 2, 30, 200])
                origin.write(writer, at, at + size)
                at += size
                if chance.random() < 0.4:
                    scale_at_random(client, stream, chance)
                    done["scales"] += 1
                if chance.random() < 0.4:
                    break
            end = chance.choice(["kept", "kept", "killed", "left"])
            done[end] += 1
            if end == "kept":
                writer.close()
                origin.written = at
                last = int(origin.numbers[min(at, len(origin.numbers)) - 1])
                before, origin.since = origin.since, settled_since(client, stream, origin.since, {origin.id: last})
                done["settled"] += before != origin.since
            elif end == "killed":
                writer.__exit__(PravegaError)
            else:
                sizes = [chance.choice([1, 5, 50]) for _ in range(chance.randint(1, 20))]
                others.append(threading.Thread(target=left_behind, args=(origin, writer, at, sizes)))
                others[-1].start()
    for one in others:
        one.join()
    assert not failures, failures

    found = [event for batch in client.read(stream) for event in batch.payloads.to_pylist()]
    expected = [text for origin in origins for text in origin.texts]
    assert Counter(found) == Counter(expected), f"seed {seed}"
    for origin in origins:
        for key in set(origin.keys):
            own = [text for text, other in zip(origin.texts, origin.keys, strict=True) if other == key]
            chosen = set(own)
            assert [text for text in found if text in chosen] == own, f"seed {seed}, key {key}"
    return done


@pytest.mark.in_turn
def test_each_event_once_whoever_writes_it_while_the_stream_scales(client: Client, scope: str) -> None:
    total = Counter[str]()
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        total += run_seed(client, make_stream(client, scope, f"n{seed}", segments=1 + seed % 3), seed)
    print(f"{SEEDS} histories: {dict(total)}")
    assert all(total[what] for what in ("scales", "kept", "killed", "left", "settled"))


def test_a_writer_that_cannot_know_what_is_stored_writes_nothing(client: Client, scope: str) -> None:
    """A segment that has its events is gone by a truncation."""
    stream, id = make_stream(client, scope, "t"), uuid.uuid4()
    since = client.controller.current_segments(stream).ids
    with NumberedWriter(client, stream, id, since) as writer:
        writer.write_batch([b"a", b"b"], "k", np.array([3, 4]))
        with pytest.raises(ValueError, match="ascend"):
            writer.write_batch([b"b"], "k", np.array([4]))
    client.controller.scale_to(stream, 2)
    client.truncate(tail_cut(client.pool, stream))

    def refused() -> bool:
        try:
            NumberedWriter(client, stream, id, since).close()
        except SegmentNotFoundError:
            return True
        return False

    # The controller deletes it a moment later.
    eventually(refused)
