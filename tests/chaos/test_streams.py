"""Whatever happens to a stream and to a query, each event comes once, and a routing key's never go back.

Writers number the events of each key. The stream is split and merged, the query is killed and goes on from its
checkpoint, its connections break. `make chaos` makes 200 runs, one of ten with Spark in a process that is killed,
and 50 from stream to stream; `make chaos-sample` one with Spark, as many of the others as fit into a minute, and one
from stream to stream. `CHAOS_FIRST_SEED=N CHAOS_RUNS=1` repeats one.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from chaos_tools import ChaosProxy
from client_tools import make_stream, scale_at_random

from pyspark_pravega.client import Client, Stream, deadline
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.stream.offsets import SourceOffset
from pyspark_pravega.connector.stream.reader import SeveralStreamsReader
from pyspark_pravega.connector.stream.source import StreamSource
from pyspark_pravega.connector.table.definition import raw_definition
from pyspark_pravega.errors import DeadlineExceededError, UnavailableError
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.timeout(14400)]

RUNS = int(os.environ.get("CHAOS_RUNS") or os.environ.get("CHAOS_STREAM_RUNS", "0"))
THROUGH_RUNS = int(os.environ.get("CHAOS_RUNS") or os.environ.get("CHAOS_THROUGH_RUNS", "2"))
FIRST_SEED = int(os.environ.get("CHAOS_FIRST_SEED", "0"))
SAMPLE_S = float(os.environ.get("CHAOS_STREAMS_SAMPLE_S", "180"))
RUN_LIMIT_S = 300.0
SPARK_LIMIT_S = 400.0
SPARK_EVERY = 10
_PROGRAM = Path(__file__).parent / "stream_program.py"


class KilledError(Exception):
    """The query is gone, with all that wasn't in its checkpoint."""


@dataclass
class Oracle:
    """What was written, and what must have come."""

    seed: int
    chance: random.Random
    keys: int
    written: dict[int, int] = field(default_factory=dict)

    def events(self, count: int) -> list[str]:
        found = []
        for _ in range(count):
            key = self.chance.randrange(self.keys)
            number = self.written.get(key, 0)
            self.written[key] = number + 1
            found.append(f"{key}:{number}:{'x' * self.chance.choice([0, 0, 30, 400])}")
        return found

    def check(self, batches: list[list[str]], what: str, *, complete: bool = True) -> None:
        """Each event is there once, each key's in the order in which they were written."""
        found: dict[int, list[int]] = {}
        for batch in batches:
            for event in batch:
                key, number, _ = event.split(":")
                found.setdefault(int(key), []).append(int(number))
        for name, numbers in found.items():
            assert numbers == list(range(len(numbers))), f"seed {self.seed}, {what}: key {name} is {numbers}"
        if complete:
            assert {name: len(numbers) for name, numbers in found.items()} == self.written, f"seed {self.seed}, {what}"


def write(client: Client, stream: Stream, events: list[str], chance: random.Random) -> None:
    payloads, keys = [event.encode() for event in events], [event.split(":")[0] for event in events]
    if chance.random() < 0.3:
        with client.transaction(stream, lease_ms=60_000) as transaction:
            transaction.write_batch(payloads, keys)
    else:
        with client.writer(stream) as writer:
            writer.write_batch(payloads, keys)


class Query:
    """A query as Spark runs it: offsets are logged before a batch is run, and commits after it."""

    def __init__(self, client: Client, stream: Stream, options: ReadOptions, chance: random.Random) -> None:
        self._client, self._stream, self._options, self._chance = client, stream, options, chance
        self.offsets: list[str] = []
        self.committed = 0
        self.sink: dict[int, list[str]] = {}
        self._read_before: dict[int, list[str]] = {}
        self.kills = self.restarts = 0
        self.target: SourceOffset | None = None
        self.restart()

    def restart(self, *, available_now: bool = False) -> None:
        """All that isn't in the checkpoint is forgotten."""
        self.restarts += 1
        self._source = StreamSource(self._client, [self._stream], self._options)
        definition = raw_definition(self._client.settings, self._stream, {})
        self._reader = SeveralStreamsReader([definition], ["event"], self._options)
        if not self.offsets:
            self.offsets.append(self._source.initial_offset().to_json())
        self.target = self._source.target() if available_now else None
        if len(self.offsets) - 1 > self.committed:
            self._run()

    def step(self) -> bool:
        """Run the next micro-batch; returns whether there was one."""
        start = SourceOffset.from_json(self.offsets[-1])
        end = self._source.latest_offset(start, target=self.target)
        self._maybe_killed()
        if end == start:
            return False
        self.offsets.append(end.to_json())
        self._maybe_killed()
        self._run()
        return True

    def _run(self) -> None:
        number = len(self.offsets) - 1
        start, end = (SourceOffset.from_json(text) for text in self.offsets[-2:])
        found: list[str] = []
        for partition in self._source.partitions(start, end):
            for batch in self._reader.read(partition):
                found += [event.decode() for event in batch.column("event").to_pylist()]
            self._maybe_killed()
        # A batch that is run again holds what it held.
        assert self._read_before.setdefault(number, found) == found
        self.sink[number] = found
        self._maybe_killed()
        self.committed = number
        self._source.commit(end)

    def _maybe_killed(self) -> None:
        if self._chance.random() < 0.04:
            self.kills += 1
            raise KilledError

    @property
    def batches(self) -> list[list[str]]:
        return [self.sink[number] for number in sorted(self.sink)]


@contextlib.contextmanager
def connected(client: Client, settings: Settings, stream: Stream, seed: int, badly: bool) -> Iterator[Client]:
    """A client whose connections to the segment store may break."""
    if not badly:
        yield client
        return
    with ChaosProxy(client.controller.endpoint(stream, 0), f"{seed}/store", bad_connections=6) as proxy:
        options = {**settings.to_options(), "timeout": "5"}
        with Client(Settings.resolve(options, environ={})) as found:
            found.controller.endpoint = lambda *_: proxy.address  # type: ignore[method-assign]
            yield found


def persistently(query: Query, do_something: str) -> bool:
    """Restart a query whenever it is killed, or has lost its connection for good."""
    while True:
        try:
            if do_something == "step":
                return query.step()
            query.restart(available_now=do_something == "restart for what is there")
            return True
        except DeadlineExceededError:
            raise
        except (KilledError, UnavailableError):
            do_something = "restart" if query.target is None else "restart for what is there"


def run_seed(client: Client, settings: Settings, scope: str, seed: int) -> int:
    """Write, scale, read and kill in an order that the seed decides; returns how often the query was killed."""
    chance = random.Random(seed)
    stream = make_stream(client, scope, f"streams-{seed}", segments=chance.randint(1, 4))
    oracle = Oracle(seed=seed, chance=chance, keys=chance.randint(1, 12))
    options = ReadOptions(
        max_events=chance.choice([None, 20, 60, 500]),
        max_bytes=chance.choice([None, None, 1_000, 5_000]),
        min_partitions=chance.choice([None, None, 4]),
        subscriber=chance.choice([None, f"subscriber-{seed}"]),
    )
    with (
        connected(client, settings, stream, seed, badly=chance.random() < 0.3) as reading,
        deadline(RUN_LIMIT_S),
    ):
        query = None
        while query is None:
            with contextlib.suppress(KilledError):
                query = Query(reading, stream, options, random.Random(f"{seed}/kills"))
        for _ in range(chance.randint(3, 12)):
            what = chance.random()
            if what < 0.35:
                write(client, stream, oracle.events(chance.randint(1, 100)), chance)
            elif what < 0.6:
                scale_at_random(client, stream, chance)
            else:
                for _ in range(chance.randint(1, 6)):
                    if not persistently(query, "step"):
                        break
            oracle.check(query.batches, "while it runs", complete=False)
        if chance.random() < 0.5:
            write(client, stream, oracle.events(20), chance)
            persistently(query, "restart for what is there")
            target = query.target
            late = oracle.events(30)
            write(client, stream, late, chance)
            scale_at_random(client, stream, chance)
            restarts = query.restarts
            while persistently(query, "step"):
                pass
            # One that is restarted takes what is there then.
            if query.restarts == restarts:
                assert target is not None
                assert query.offsets[-1] == target.to_json(), f"seed {seed}: not at its target"
                assert not {event for batch in query.batches for event in batch} & set(late), f"seed {seed}"
            query.target = None
        while persistently(query, "step"):
            pass
        oracle.check(query.batches, "at the end")
    client.controller.delete_stream(stream, seal=True)
    return query.kills


class Program:
    """Spark with a query, in a process that may be killed."""

    def __init__(self, client: Client, folder: Path, stream: Stream, sink: str, options: dict[str, int]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "log"
        table = f"pravega.`{stream.scope}`.`{stream.name}`"
        uri, checkpoint = client.settings.controller_uri, str(folder / "checkpoint")
        self._arguments = [sys.executable, str(_PROGRAM), uri, table, checkpoint, sink, json.dumps(options)]

    @contextlib.contextmanager
    def running(self, trigger: str) -> Iterator[subprocess.Popen[str]]:
        """Run it; at the end of the block it is killed."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with (
            self._log.open("a") as log,
            subprocess.Popen(
                [*self._arguments, trigger],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            ) as process,
        ):
            try:
                assert process.stdout is not None
                assert process.stdout.readline().strip() == "started", self._said()
                yield process
            finally:
                # The session: with the driver go the JVM, Spark's workers and the catalog process.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def run_to_its_end(self) -> None:
        """Read all that is there."""
        with self.running("available-now") as process:
            assert process.wait(SPARK_LIMIT_S) == 0, self._said()

    def _said(self) -> str:
        return self._log.read_text()[-3000:]


def run_in_spark(client: Client, scope: str, seed: int, folder: Path) -> int:
    """The same with Spark, in a process that is killed at random; returns how often."""
    chance = random.Random(f"{seed}/spark")
    stream = make_stream(client, scope, f"spark-{seed}", segments=chance.randint(1, 3))
    oracle = Oracle(seed=seed, chance=chance, keys=8)
    batches = folder / "batches"
    batches.mkdir(parents=True)
    program = Program(client, folder, stream, str(batches), {"maxEventsPerTrigger": chance.choice([50, 200])})

    def results() -> list[list[str]]:
        numbers = sorted(int(file.name) for file in batches.iterdir() if file.name.isdecimal())
        return [(batches / str(number)).read_text().splitlines() for number in numbers]

    kills = chance.randint(1, 2)
    for _ in range(kills):
        with program.running("go-on"):
            seen = len(results())
            for _ in range(chance.randint(2, 5)):
                write(client, stream, oracle.events(chance.randint(50, 300)), chance)
                scale_at_random(client, stream, chance)
            wanted, since = seen + chance.randint(1, 4), time.monotonic()
            while len(results()) < wanted and time.monotonic() - since < RUN_LIMIT_S:
                time.sleep(chance.uniform(0, 0.3))
        oracle.check(results(), "killed", complete=False)
    program.run_to_its_end()
    oracle.check(results(), "at the end, in Spark")
    return kills


def run_from_stream_to_stream(client: Client, scope: str, seed: int, folder: Path) -> int:
    """A stateful query from one stream to another one, killed at random; returns how often.

    Some events are written twice. The query knows those that it has seen, so the second stream must have each once: one
    that a restarted query writes again, or forgets, shows.
    """
    chance = random.Random(f"{seed}/through")
    stream = make_stream(client, scope, f"from-{seed}", segments=chance.randint(1, 3))
    sink = make_stream(client, scope, f"to-{seed}", segments=chance.randint(1, 3))
    oracle = Oracle(seed=seed, chance=chance, keys=8)
    program = Program(
        client,
        folder,
        stream,
        f"table:pravega.`{scope}`.`{sink.name}`",
        {"maxEventsPerTrigger": chance.choice([100, 400])},
    )
    expected: list[str] = []

    def found() -> list[str]:
        return [event.decode() for batch in client.read(sink) for event in batch.payloads.to_pylist()]

    kills = chance.randint(1, 3)
    for _ in range(kills):
        with program.running("go-on"):
            seen = len(found())
            for _ in range(chance.randint(2, 4)):
                events = oracle.events(chance.randint(50, 300))
                expected += events
                write(client, stream, [*events, *chance.sample(events, len(events) // 3)], chance)
                if chance.random() < 0.5:
                    scale_at_random(client, stream, chance)
            since = time.monotonic()
            while len(found()) <= seen and time.monotonic() - since < RUN_LIMIT_S:
                time.sleep(chance.uniform(0, 0.3))
            time.sleep(chance.uniform(0, 2))
        assert not {event for event, times in Counter(found()).items() if times > 1}, f"seed {seed}: twice, killed"
    program.run_to_its_end()
    assert sorted(found()) == sorted(expected), f"seed {seed}: from stream to stream"
    return kills


def test_from_stream_to_stream_exactly_once(client: Client, scope: str, tmp_path: Path) -> None:
    begun, kills = time.monotonic(), 0
    seeds = range(FIRST_SEED, FIRST_SEED + THROUGH_RUNS)
    for seed in seeds:
        try:
            kills += run_from_stream_to_stream(client, scope, seed, tmp_path / str(seed))
        except Exception as error:
            error.add_note(f"CHAOS_FIRST_SEED={seed} CHAOS_RUNS=1 repeats it")
            raise
    print(f"{len(seeds)} runs from stream to stream, {kills} kills, {time.monotonic() - begun:.0f} s")


def test_seeded_runs(client: Client, settings: Settings, scope: str, tmp_path: Path) -> None:
    done, kills, with_spark = 0, 0, 0
    begun = since = time.monotonic()
    while (done < RUNS) if RUNS else (done == 0 or time.monotonic() - since < SAMPLE_S):
        seed = FIRST_SEED + done
        try:
            if seed % SPARK_EVERY == 0 and (RUNS or not with_spark):
                kills += run_in_spark(client, scope, seed, tmp_path / str(seed))
                with_spark += 1
                since = time.monotonic()
            kills += run_seed(client, settings, scope, seed)
        except Exception as error:
            error.add_note(f"CHAOS_FIRST_SEED={seed} CHAOS_RUNS=1 repeats it")
            raise
        done += 1
    print(f"{done} runs, {with_spark} with Spark, {kills} kills, {time.monotonic() - begun:.0f} s")
    assert kills > done / 4, "too few queries were killed to prove anything"
