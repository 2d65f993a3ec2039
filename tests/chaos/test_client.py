"""What is written over connections that break, stall and trickle is there once and in order, and nobody waits for ever.

`make chaos` makes 500 runs; `make chaos-sample` as many as fit into a minute. A run's seed decides what is written,
how, and what happens to each connection; `CHAOS_FIRST_SEED=N CHAOS_RUNS=1` repeats one.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pytest
from chaos_tools import ChaosProxy
from client_tools import make_stream

from pyspark_pravega.client import Client, EventBatch, EventTail, EventWriter, Staged, Stream, deadline
from pyspark_pravega.errors import PravegaError, UnavailableError
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.timeout(7200)]

RUNS = int(os.environ.get("CHAOS_RUNS") or os.environ.get("CHAOS_CLIENT_RUNS", "0"))
FIRST_SEED = int(os.environ.get("CHAOS_FIRST_SEED", "0"))
SAMPLE_S = float(os.environ.get("CHAOS_SAMPLE_S", "180"))
RUN_LIMIT_S = 120.0
LEASE_MS = 120_000

Result = TypeVar("Result")


class BadlyConnected(Client):
    """A client that reaches controller and segment store through proxies."""

    def __init__(self, settings: Settings, controller: ChaosProxy, segment_store: ChaosProxy) -> None:
        uri = f"tcp://{controller.address[0]}:{controller.address[1]}"
        super().__init__(Settings.resolve({**settings.to_options(), "controller-uri": uri, "timeout": "5"}, environ={}))
        self.controller.endpoint = lambda *_: segment_store.address  # type: ignore[method-assign]


@dataclass
class Run:
    """What one seed decides."""

    seed: int
    stream: Stream
    chance: random.Random
    keys: int
    written: dict[int, int] = field(default_factory=dict)
    """Key to how many of its events were written: they are numbered."""

    def batch(self, size: int, keys: Sequence[int] | None = None) -> tuple[list[bytes], list[str]]:
        """The next events, each with its key, its number and some more bytes, and their routing keys."""
        events, names = [], []
        for _ in range(size):
            key = self.chance.choice(keys or range(self.keys))
            number = self.written.get(key, 0)
            self.written[key] = number + 1
            filler = bytes(self.chance.choice([0, 0, 30, 400]))
            events.append(b"%d %d %s" % (key, number, filler))
            names.append(f"key {key}")
        return events, names

    def check(self, events: list[bytes], what: str) -> None:
        """All events are there, once, each key's in order."""
        found: dict[int, list[int]] = {}
        for event in events:
            key, number, _ = event.split(b" ", 2)
            found.setdefault(int(key), []).append(int(number))
        expected = {key: list(range(count)) for key, count in self.written.items()}
        assert found == expected, f"seed {self.seed}: {what}"

    def check_batches(self, batches: Iterable[EventBatch], what: str) -> None:
        """As `check`."""
        self.check([event for batch in batches for event in batch.payloads.to_pylist()], what)


def persistently(call: Callable[[], Result]) -> Result:
    """Do again what the client mustn't do again by itself, because it may have been done: here that does no harm."""
    while True:
        try:
            return call()
        except UnavailableError:
            time.sleep(0.05)


def write_directly(run: Run, badly: Client) -> None:
    """In batches, some of them flushed, while the stream scales now and then."""
    with EventWriter(badly, run.stream, linger_s=run.chance.choice([0.005, 1.0]), block_bytes=3000) as writer:
        for _ in range(run.chance.randint(1, 40)):
            writer.write_batch(*run.batch(run.chance.randint(1, 60)))
            if run.chance.random() < 0.2:
                writer.flush()
            if run.chance.random() < 0.03:
                scale_somehow(run, badly)


def scale_somehow(run: Run, badly: Client) -> None:
    owner = run.chance.choice(badly.controller.current_segments(run.stream).ranges)
    # A scale that was begun before its answer got lost is refused the second time.
    with contextlib.suppress(PravegaError):
        badly.controller.split_segment(run.stream, owner.segment_id, 2)


def write_a_transaction(run: Run, badly: Client) -> None:
    """Committed; another one beside it is aborted."""
    thrown_away = persistently(lambda: badly.transaction(run.stream, lease_ms=LEASE_MS))
    thrown_away.write_batch([b"0 0 never to be seen"] * 10, "key 0")
    with persistently(lambda: badly.transaction(run.stream, lease_ms=LEASE_MS)) as transaction:
        for _ in range(run.chance.randint(1, 10)):
            transaction.write_batch(*run.batch(run.chance.randint(1, 100)))
    thrown_away.abort()


def write_together(run: Run, badly: Client) -> None:
    """Several transactions made one, each with keys of its own: which comes first isn't promised."""
    owners = [persistently(lambda: badly.transaction(run.stream, lease_ms=LEASE_MS)) for _ in range(3)]
    staged = []
    for number, owner in enumerate(owners):
        if keys := range(number, run.keys, len(owners)):
            owner.write_batch(*run.batch(run.chance.randint(1, 200), keys))
        owner.flush()
        staged.append(Staged(transaction=owner.transaction, written=owner.written))
    target = badly.gather(staged)
    for owner in owners:
        if owner.transaction == target:
            owner.commit()
        else:
            owner.abort()


WRITERS = [write_directly, write_directly, write_a_transaction, write_together]


def follow(tail: EventTail, found: list[bytes], failures: list[PravegaError]) -> None:
    try:
        for batch in tail:
            found += batch.payloads.to_pylist()
    except PravegaError as error:
        failures.append(error)


def run_seed(client: Client, settings: Settings, scope: str, seed: int) -> int:
    """Write over bad connections, follow and read over others; returns how many were cut."""
    chance = random.Random(seed)
    stream = make_stream(client, scope, f"seed-{seed}", segments=chance.randint(1, 4))
    run = Run(seed=seed, stream=stream, chance=chance, keys=chance.randint(1, 12))
    controller = client.settings.controllers[0]
    bad = chance.randint(1, 12)
    with (
        ChaosProxy(controller, f"{seed}/controller", bad_connections=chance.choice([0, 0, 3])) as to_controller,
        ChaosProxy(client.controller.endpoint(stream, 0), f"{seed}/store", bad_connections=bad) as to_store,
        BadlyConnected(settings, to_controller, to_store) as badly,
        deadline(RUN_LIMIT_S),
    ):
        followed: list[bytes] = []
        failures: list[PravegaError] = []
        tail = badly.follow(stream, start=client.controller.head(stream))
        following = threading.Thread(target=follow, args=(tail, followed, failures), daemon=True)
        following.start()
        for _ in range(chance.randint(1, 2)):
            chance.choice(WRITERS)(run, badly)
        run.check_batches(client.read(stream), "what is stored")
        run.check_batches(badly.read(stream), "what is read over bad connections")
        client.controller.seal_stream(stream)
        following.join(RUN_LIMIT_S)
        assert not following.is_alive(), f"seed {seed}: the tail hangs"
        for failure in failures:
            raise failure
        run.check(followed, "what a tail has seen")
        cuts = to_controller.cuts + to_store.cuts
    client.controller.delete_stream(stream)
    return cuts


def test_seeded_runs(client: Client, settings: Settings, scope: str) -> None:
    begun, done, cuts = time.monotonic(), 0, 0
    while (done < RUNS) if RUNS else (time.monotonic() - begun < SAMPLE_S):
        try:
            cuts += run_seed(client, settings, scope, FIRST_SEED + done)
        except Exception as error:
            error.add_note(f"CHAOS_FIRST_SEED={FIRST_SEED + done} CHAOS_RUNS=1 repeats it")
            raise
        done += 1
    print(f"{done} runs, {cuts} connections cut, {time.monotonic() - begun:.0f} s")
    assert cuts > done / 2, "too few connections broke to prove anything"
