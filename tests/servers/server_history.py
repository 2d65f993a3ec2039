"""What clients do while servers fail, and whether all of it is there afterwards: once, whole, and in order."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from server_cluster import ServerCluster

from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.key_value import NOT_EXISTS
from pyspark_pravega.errors import UnavailableError
from pyspark_pravega.live.sampling import Sampler
from pyspark_pravega.registry import SchemaRegistry

KEYS = 16
BATCH = 32
PAUSE_S = 0.05
SEGMENTS = 8
"""So many that each segment store has some of them; as many as the Java client has."""
COUNTERS = 16
LEASE_MS = 270_000
"""That of writes by default (docs/production.md): longer than any outage here."""
UNCERTAIN = "may or may not have been made"
"""What is said of a change of a key-value table whose answer was lost: nobody can know."""


@dataclass
class Worker:
    """One client, and how it fares."""

    name: str
    step: Callable[[], bool | None]
    """False when there was nothing to do."""
    done: int = 0
    longest_s: float = 0.0
    """The longest time between two steps that were done."""
    failures: list[str] = field(default_factory=list)
    """Errors that reached the caller."""

    def run(self, ends: threading.Event) -> None:
        """Make one step after another."""
        since = time.monotonic()
        while not ends.is_set():
            try:
                if self.step() is False:
                    continue
            except Exception as error:
                self.failures.append(f"{datetime.now():%H:%M:%S} {type(error).__name__}: {error}")
                print(f"{self.name}: {self.failures[-1]}", flush=True)
                time.sleep(1)
                continue
            now = time.monotonic()
            self.done, self.longest_s, since = self.done + 1, max(self.longest_s, now - since), now
            time.sleep(PAUSE_S)


class Judged(ABC):
    """Workers that go on, each in a thread. At the end what is there is compared with what they have done."""

    workers: list[Worker]

    def __init__(self) -> None:
        """Nobody works yet."""
        self._ends, self._threads = threading.Event(), list[threading.Thread]()

    def begin(self) -> None:
        """Let all of them go on until `end`, as if they had done nothing before."""
        self._ends.clear()
        self._threads = []
        for one in self.workers:
            one.done, one.longest_s, one.failures = 0, 0.0, []
            self._threads.append(threading.Thread(target=one.run, args=(self._ends,), name=one.name, daemon=True))
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Let each come to a rest, and compare what is there with what was done since the first `begin`."""
        self._ends.set()
        for thread in self._threads:
            thread.join()
        self._judge()

    def close(self) -> None:
        """Go on no more."""
        self._ends.set()
        self._let_go()

    @abstractmethod
    def _judge(self) -> None:
        """Compare."""

    @abstractmethod
    def _let_go(self) -> None:
        """Let go of what it holds."""


class History(Judged):
    """A writer, a reader, transactions, key-value changes, the registry and the live page's samples, each in a thread
    with a client of its own.

    Events are numbered for each key. Of the transactions' events each has the transaction's number.
    """

    def __init__(self, cluster: ServerCluster, name: str) -> None:
        """Make what is written to.

        Args:
            cluster: the servers.
            name: a scope of the history's own.
        """
        super().__init__()
        self._clients = [Client(cluster.settings) for _ in range(5)]
        self._direct, self._whole = Stream(name, "direct"), Stream(name, "whole")
        configuration = StreamConfiguration(scaling=ScalingPolicy(min_segments=SEGMENTS))
        main = self._clients[0]
        main.controller.create_scope(name)
        for client in self._clients:
            # One that nobody has ever answered isn't patient.
            assert client.controller.scope_exists(name)
        for stream in (self._direct, self._whole):
            main.controller.create_stream(stream, configuration)
        main.create_key_value_table(name, "counts", partitions=SEGMENTS, key_bytes=1)
        self._counts = self._clients[3].key_value_table(name, "counts")
        self._writer = self._clients[0].writer(self._direct)
        self._tail = self._clients[1].follow(self._direct, start=main.controller.head(self._direct))
        self._registry = SchemaRegistry(
            cluster.settings.schema_registry_uri or "",
            credentials=cluster.settings.credentials(),
            tls=cluster.settings.tls,
        )
        self._registry.create_group(name, "group")
        self._sampler = Sampler(self._clients[4], scope=name)
        self._scope = name
        self._written: Counter[int] = Counter()
        self._read: list[tuple[int, int]] = []
        self._committed: set[int] = set()
        self._begun = 0
        self._certain, self._perhaps, self._asked = Counter[bytes](), Counter[bytes](), 0
        self.workers = [
            Worker("writer", self._write),
            Worker("reader", self._follow),
            Worker("transactions", self._commit),
            Worker("counter", self._count),
            Worker("registry", self._ask),
            Worker("live page", self._sample),
        ]

    def _let_go(self) -> None:
        self._tail.close()
        for client in self._clients:
            client.close()
        self._registry.close()

    # What they do

    def _write(self) -> None:
        events, keys = [], []
        for number in range(BATCH):
            key = number % KEYS
            events.append(b"%d %d" % (key, self._written[key]))
            keys.append(f"key {key}")
            self._written[key] += 1
        self._writer.write_batch(events, keys=keys)
        self._writer.flush()

    def _follow(self) -> bool:
        if self._tail.ended:
            # It has told why; from its position another one goes on.
            self._tail = self._clients[1].follow(self._direct, start=self._tail.position)
        if (batch := self._tail.poll(timeout=1.0)) is None:
            return False
        self._read += [_numbers(event) for event in batch.payloads.to_pylist()]
        return True

    def _commit(self) -> None:
        self._begun += 1
        number = self._begun
        with self._clients[2].transaction(self._whole, lease_ms=LEASE_MS) as transaction:
            for key in range(KEYS):
                transaction.write_batch([b"%d %d" % (key, number)], keys=f"key {key}")
        self._committed.add(number)

    def _count(self) -> None:
        key = b"%c" % (ord("a") + self._asked % COUNTERS)
        (entry,) = self._counts.get([key])
        version, value = (NOT_EXISTS, 0) if entry is None else (entry.version, int(entry.value))
        try:
            self._counts.put([(key, version, b"%d" % (value + 1))])
        except UnavailableError as error:
            self._perhaps[key] += 1
            if UNCERTAIN not in str(error):
                raise
        else:
            self._certain[key] += 1
        self._asked += 1

    def _ask(self) -> None:
        self._registry.group(self._scope, "group")

    def _sample(self) -> bool:
        time.sleep(1)
        # The page shows what it meets, and looks again some seconds later.
        with suppress(UnavailableError):
            self._sampler.sample(self._sampler.streams())
            (line,) = self._sampler.lines([self._direct])
            return line.error is None
        return False

    # What must be there

    def _judge(self) -> None:
        self._writer.flush()
        self._judge_events()
        self._judge_transactions()
        self._judge_count()

    def _events(self, stream: Stream) -> list[tuple[int, int]]:
        return [_numbers(event) for batch in self._clients[0].read(stream) for event in batch.payloads.to_pylist()]

    def _judge_events(self) -> None:
        wanted = {key: list(range(count)) for key, count in self._written.items()}
        assert _by_key(self._events(self._direct)) == wanted, "direct events are lost, doubled or out of order"
        limit = time.monotonic() + 60
        while len(self._read) < self._written.total() and time.monotonic() < limit:
            with suppress(UnavailableError):
                self._follow()
        assert _by_key(self._read) == wanted, "the reader has lost, doubled or confused events"

    def _judge_transactions(self) -> None:
        by_number: dict[int, list[int]] = {}
        for key, number in self._events(self._whole):
            by_number.setdefault(number, []).append(key)
        assert all(sorted(keys) == list(range(KEYS)) for keys in by_number.values()), "a transaction is half there"
        assert by_number.keys() >= self._committed, "a transaction that was committed isn't there"

    def _judge_count(self) -> None:
        for key in self._certain.keys() | self._perhaps.keys():
            (entry,) = self._counts.get([key])
            count = 0 if entry is None else int(entry.value)
            at_least = self._certain[key]
            assert at_least <= count <= at_least + self._perhaps[key], "changes are lost, or made twice"


def words(workers: Iterable[Worker]) -> str:
    """How each worker fared, for people."""
    return "\n".join(
        f"  {one.name}: {one.done} steps, the longest {one.longest_s:.1f} s, {len(one.failures)} failures"
        + "".join(f"\n    {failure}" for failure in one.failures[:3])
        for one in workers
    )


def _numbers(event: bytes) -> tuple[int, int]:
    key, number = event.split()
    return int(key), int(number)


def _by_key(events: list[tuple[int, int]]) -> dict[int, list[int]]:
    by_key: dict[int, list[int]] = {}
    for key, number in events:
        by_key.setdefault(key, []).append(number)
    return by_key
