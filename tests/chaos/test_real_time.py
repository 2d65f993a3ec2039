"""Real-time batches have their ends where tasks happened to be: of what they took, each event is there once, in order.

As `test_streams`, but tasks follow the stream while it is written and scaled, stop at any row, and the query is killed
before its offsets are noted. Now and then a batch is a micro-batch. `CHAOS_FIRST_SEED=N CHAOS_RUNS=1` repeats a run.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from client_tools import make_stream, scale_at_random
from test_streams import FIRST_SEED, RUN_LIMIT_S, RUNS, SAMPLE_S, KilledError, Oracle, write
from waiting import eventually

from pyspark_pravega.client import Client, Stream, deadline
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.stream import FollowedPartition, RealTimeReader, SeveralStreamsReader, StreamSource
from pyspark_pravega.connector.stream.offsets import SourceOffset
from pyspark_pravega.connector.table.definition import raw_definition

pytestmark = [pytest.mark.server, pytest.mark.timeout(14400)]

OPTIONS = ReadOptions()


class Task:
    """Follows segments in a thread, and keeps the rows as Spark would: up to a number, and where that was."""

    def __init__(self, reader: RealTimeReader, partition: FollowedPartition, most: int) -> None:
        self.offsets = dict(partition.start)
        self.events: list[str] = []
        self.error: Exception | None = None
        self._most = most
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(reader, partition), daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join(RUN_LIMIT_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def _until(self) -> Iterator[None]:
        self._over.wait()
        yield from ()

    def _run(self, reader: RealTimeReader, partition: FollowedPartition) -> None:
        try:
            for batch in reader.read(partition, self._until()):
                for event, *_, segment, offset, is_row in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                    if len(self.events) == self._most:
                        break
                    if offset < 0:
                        del self.offsets[segment]
                    else:
                        self.offsets[segment] = offset
                    if is_row:
                        self.events.append(event.decode())
        except Exception as error:
            self.error = error


class Query:
    """A query as Spark runs it in real time: offsets are noted when a batch is over."""

    def __init__(self, client: Client, stream: Stream, chance: random.Random) -> None:
        self._client, self._stream, self._chance = client, stream, chance
        definition = raw_definition(client.settings, stream, {})
        self._follower = RealTimeReader(definition, ["event"], OPTIONS)
        self._reader = SeveralStreamsReader([definition], ["event"], OPTIONS)
        self._source = StreamSource(client, [stream], OPTIONS)
        self.offset = self._source.initial_offset()
        self.batches: list[list[str]] = []
        self.kills = 0

    @property
    def count(self) -> int:
        return sum(map(len, self.batches))

    def real_time(self, meanwhile: Callable[[], None], *, wanted: int | None = None) -> None:
        """A batch; it may be killed, and counts for nothing then.

        Args:
            meanwhile: what happens to the stream while it runs.
            wanted: how many events it waits for, and takes; any number when None.
        """
        start = SourceOffset.from_json(self.offset.to_json())
        partitions = self._source.follow(start, 2 * self._chance.randint(1, 3))
        some = [self._chance.choice([0, 1, 17, 10_000]) if wanted is None else -1 for _ in partitions]
        tasks = [Task(self._follower, one, most) for one, most in zip(partitions, some, strict=True)]
        try:
            meanwhile()
            if wanted is None:
                time.sleep(self._chance.uniform(0, 0.3))
            else:
                # Successors of segments that tasks have shared come with the next batch.
                with contextlib.suppress(AssertionError):
                    eventually(lambda: sum(len(task.events) for task in tasks) >= wanted, within_s=3)
        finally:
            for task in tasks:
                task.end()
        if wanted is None and self._chance.random() < 0.2:
            self.kills += 1
            raise KilledError
        offsets = {segment: offset for task in tasks for segment, offset in task.offsets.items()}
        assert len(offsets) == sum(len(task.offsets) for task in tasks)
        self.offset = self._source.merge(start, {self._stream: offsets})
        self.batches.append([event for task in tasks for event in task.events])

    def micro_batch(self) -> None:
        start = SourceOffset.from_json(self.offset.to_json())
        end = self._source.latest_offset(start)
        if end != start:
            batches = [b for one in self._source.partitions(start, end) for b in self._reader.read(one)]
            self.batches.append([event.decode() for batch in batches for event in batch.column("event").to_pylist()])
            self.offset = end


def run_seed(client: Client, scope: str, seed: int) -> int:
    chance = random.Random(f"{seed}/real-time")
    stream = make_stream(client, scope, f"real-time-{seed}", segments=chance.randint(1, 4))
    oracle = Oracle(seed=seed, chance=chance, keys=chance.randint(1, 12))
    query = Query(client, stream, random.Random(f"{seed}/batches"))

    def meanwhile() -> None:
        for _ in range(chance.randint(1, 4)):
            if chance.random() < 0.6:
                write(client, stream, oracle.events(chance.randint(1, 100)), chance)
            else:
                scale_at_random(client, stream, chance)

    with deadline(RUN_LIMIT_S):
        for _ in range(chance.randint(2, 6)):
            if chance.random() < 0.25:
                meanwhile()
                query.micro_batch()
            else:
                with contextlib.suppress(KilledError):
                    query.real_time(meanwhile)
            oracle.check(query.batches, "while it runs", complete=False)
        while (missing := sum(oracle.written.values()) - query.count) > 0:
            query.real_time(lambda: None, wanted=missing)
        oracle.check(query.batches, "at the end")
    client.controller.delete_stream(stream, seal=True)
    return query.kills


def test_seeded_real_time_runs(client: Client, scope: str) -> None:
    done, kills, begun = 0, 0, time.monotonic()
    while (done < RUNS) if RUNS else (done == 0 or time.monotonic() - begun < SAMPLE_S / 4):
        seed = FIRST_SEED + done
        try:
            kills += run_seed(client, scope, seed)
        except Exception as error:
            error.add_note(f"CHAOS_FIRST_SEED={seed} CHAOS_RUNS=1 repeats it")
            raise
        done += 1
    print(f"{done} real-time runs, {kills} kills, {time.monotonic() - begun:.0f} s")
