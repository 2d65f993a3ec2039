"""Real-time queries that write exactly once, killed at random: each row once, each key's in order, as a dict says.

Their rows are some of one table or of two, or words of these rows, and go through functions of Spark or of Python.
While rows are written, their tables and the one that they go to are scaled at any moment; and Python workers, the
catalog process and the driver with all its processes are killed, or all connections to the segment store are cut; or a
driver is frozen, and goes on beside the one that has taken its place.
`REAL_TIME_ONCE_KILLS` says how many seeds there are; `make chaos-sample` takes the next ones at each commit.
`CHAOS_FIRST_SEED=N REAL_TIME_ONCE_KILLS=1` repeats one, as far as time can be repeated.
tests/servers/test_killed_stores.py kills segment stores, too.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from client_tools import Proxy, scale_at_random
from controller_relay import ControllerRelay, relayed
from test_killed_real_time import Program
from test_streams import FIRST_SEED
from turns import turn
from waiting import eventually

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.timeout(28800), pytest.mark.in_turn(1)]

SEEDS = int(os.environ.get("REAL_TIME_ONCE_KILLS", "3"))
ALL_SEEDS = 200
"""As many as `make chaos` has: when runs in turn have taken all of them, they begin again with the first one."""
WITHIN_S = 300.0
_HEADER_BYTES = 5
KILLS = ["worker", "worker", "catalog", "connection", "connection", "driver", "forgotten"]
_COLUMNS = "(id BIGINT, who STRING, text STRING) CLUSTERED BY (who)"


@contextmanager
def through(proxy: Proxy, relay: ControllerRelay) -> Iterator[None]:
    """Whoever asks the relay where a segment is, is led to a proxy."""
    address = pb.NodeUri(endpoint=proxy.address[0], port=proxy.address[1]).SerializeToString()
    relay.answer = lambda method, call: address if method == "getURI" else call()
    yield


class Rows:
    """What was written, and what must have come of it."""

    def __init__(self, client: Client, scope: str, seed: int, chance: random.Random) -> None:
        self._client, self._chance, self._count = client, chance, 0
        self.sources = [Stream(scope, f"from-{seed}-{name}") for name in "ab"[: chance.randint(1, 2)]]
        self.target = Stream(scope, f"to-{seed}")
        self.lists = chance.random() < 0.5
        self.function = chance.choice(["none", "python", "arrow", "pandas"])
        self._keys = chance.randint(1, 9)
        self.expected = dict[str, list[tuple[int, str]]]()

    def statements(self) -> list[str]:
        streams = [*self.sources, self.target]
        return [
            f"CREATE TABLE {table(one)} {_COLUMNS} INTO {self._chance.randint(1, 4)} BUCKETS "
            "TBLPROPERTIES ('format' = 'json')"
            for one in streams
        ]

    def query(self, folder: Path) -> dict[str, Any]:
        tables = [table(one) for one in self.sources]
        sink = {"sink": table(self.target), "checkpoint": str(folder)}
        return {"tables": tables, **sink, "lists": self.lists, "function": self.function}

    def more(self, count: int) -> None:
        for source in self.sources:
            # Of events of the same places in both sources.
            who = [f"{source.name[-1]}{self._chance.randrange(self._keys)}" for _ in range(count)]
            texts = [" ".join(self._chance.choices(["x", "no", "yes", "z" * 50], k=1 + id % 5)) for id in range(count)]
            rows = list(zip(range(self._count, self._count + count), who, texts, strict=True))
            events = [json.dumps({"id": id, "who": key, "text": text}).encode() for id, key, text in rows]
            with self._client.writer(source) as writer:
                writer.write_batch(events, who)
            for id, key, text in rows:
                if id % 7 != 3:
                    words = [word for word in text.split(" ") if word != "no"] if self.lists else [text]
                    self.expected.setdefault(key, []).extend((id, word.upper()) for word in words)
        self._count += count

    def found(self) -> dict[str, list[tuple[int, str]]]:
        found = dict[str, list[tuple[int, str]]]()
        for batch in self._client.read(self.target):
            for event in batch.payloads.to_pylist():
                row = json.loads(event[_HEADER_BYTES:])
                found.setdefault(row["who"], []).append((row["id"], row["text"]))
        return found

    def all_there(self) -> bool:
        return sum(map(len, self.found().values())) >= sum(map(len, self.expected.values()))


def table(stream: Stream) -> str:
    return f"pravega.`{stream.scope}`.`{stream.name}`"


@contextmanager
def scaled(client: Client, streams: list[Stream], seed: int, count: Counter[str]) -> Iterator[None]:
    """One of the streams is scaled now and then."""
    over, failures, chance = threading.Event(), list[BaseException](), random.Random(f"{seed}/scales")

    def scale() -> None:
        try:
            # A batch comes behind a few scales of its source only: on a busy machine more would come than are followed.
            for _ in range(chance.randint(1, 12)):
                if over.wait(chance.uniform(0.3, 2.5)):
                    return
                scale_at_random(client, chance.choice(streams), chance)
                count["scales"] += 1
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=scale)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not failures, failures


def run_seed(
    client: Client,
    program: Program,
    scope: str,
    seed: int,
    folder: Path,
    kills: Sequence[str],
    servers: Mapping[str, Callable[[], object]],
) -> Counter[str]:
    """Write, scale and kill in an order that the seed decides; returns what was done.

    Args:
        client: the cluster.
        program: Spark.
        scope: of the tables.
        seed: decides.
        folder: for the checkpoint.
        kills: one of them is taken each time.
        servers: how those of them are done that have to do with servers.
    """
    chance, done = random.Random(f"{seed}/killed once"), Counter[str]()
    rows = Rows(client, scope, seed, chance)
    query = rows.query(folder)
    program.tell({"statements": rows.statements()}, "executed")
    rows.more(chance.randint(1, 50))
    program.start(query)
    program.wait_for("started")
    with scaled(client, [*rows.sources, rows.target], seed, done):
        for _ in range(chance.randint(1, 3)):
            rows.more(chance.randint(10, 200))
            # Some kills come when all is done, some when rows are on their way, some between two batches.
            if chance.random() < 0.4:
                eventually(rows.all_there, within_s=WITHIN_S)
            time.sleep(chance.uniform(0, 1.5))
            if chance.random() < 0.7:
                rows.more(chance.randint(1, 300))
                time.sleep(chance.uniform(0, 0.3))
            what = chance.choice(kills)
            if what in servers:
                servers[what]()
                done[what] += 1
            elif what == "forgotten":
                program.forget()
                program.start(query)
                program.wait_for("started")
                time.sleep(chance.uniform(0, 3))
                program.thaw()
                rows.more(chance.randint(1, 100))
                # Long enough for it to write; then it might take the query over again.
                time.sleep(chance.uniform(0, 3))
                program.end_forgotten()
                done[what] += 1
            else:
                done[what] += program.kill(what) > 0
            if what == "driver":
                program.start(query)
    rows.more(20)
    eventually(rows.all_there, within_s=WITHIN_S)
    program.stop()
    what_it_was = f"seed {seed}, {len(rows.sources)} sources, lists {rows.lists}, function {rows.function}"
    assert rows.found() == rows.expected, what_it_was
    done["rows"] = sum(map(len, rows.expected.values()))
    done.update({rows.function: 1, "lists": rows.lists, "several sources": len(rows.sources) > 1})
    for stream in (*rows.sources, rows.target):
        client.controller.delete_stream(stream, seal=True)
    return done


def run_all(program: Program, seeds: range, run: Callable[[int], Counter[str]]) -> Counter[str]:
    """Run seeds, and end the program; returns all that was done."""
    begun, total = time.monotonic(), Counter[str]()
    try:
        for seed in seeds:
            try:
                done = run(seed)
            except Exception as error:
                error.add_note(f"CHAOS_FIRST_SEED={seed} repeats it; it said: {program.said}")
                raise
            total += done
            print(f"seed {seed}: {dict(done)}, {time.monotonic() - begun:.0f} s so far", flush=True)
    finally:
        program.end()
    print(f"{len(seeds)} queries that were killed and write once, {dict(total)}, {time.monotonic() - begun:.0f} s")
    return total


def test_each_row_is_there_once_and_each_key_in_order(
    client: Client, sandbox: Sandbox, scope: str, tmp_path: Path
) -> None:
    store = client.controller.endpoint(Stream(scope, "any"), 0)
    with Proxy(store) as proxy, relayed(sandbox.controller_uri) as relay, through(proxy, relay):
        assert sandbox.schema_registry_uri
        program = Program(tmp_path / "log", relay.uri, sandbox.schema_registry_uri)
        first = FIRST_SEED + SEEDS * (turn() or 0) % ALL_SEEDS
        seeds = range(first, first + SEEDS)

        def run(seed: int) -> Counter[str]:
            return run_seed(client, program, scope, seed, tmp_path / str(seed), KILLS, {"connection": proxy.cut_all})

        total = run_all(program, seeds, run)
    assert sum(total[what] for what in KILLS) >= SEEDS
