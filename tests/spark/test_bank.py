"""Sessions move money between two tables while their streams scale: who sums it up in one statement finds all of it.

`BANK_READS=10000` reads as often (`make nightly`), `BANK_WITHIN_S=500` as often as that time lets it, and
`BANK_FIRST_SEED=N` makes other moves: so what several runs have read adds up.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import bank_program
import pytest
from bank_program import ACCOUNTS, BALANCE, TABLES, Moved
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import pyspark_pravega
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.controller import even_ranges
from pyspark_pravega.errors import ScaleRefusedError
from pyspark_pravega.sandbox import Sandbox

pytestmark = [
    pytest.mark.server,
    pytest.mark.spark,
    pytest.mark.in_turn(8),
    pytest.mark.timeout(7200),
    pytest.mark.usefixtures("interpreted"),
]

READS = int(os.environ.get("BANK_READS", "300"))
WITHIN_S = float(os.environ.get("BANK_WITHIN_S", "7200"))
FIRST_SEED = 1000 * int(os.environ.get("BANK_FIRST_SEED", "0"))
SPARK_READS = max(10, READS // 100)
"""By Spark, at least; the others are made without it."""
READERS, READERS_EACH = 2, 3
"""Processes that read without Spark, and the sessions of each."""
SPARK_PAUSE_S, SCALES_PAUSE_S = 8.0, 6.0
"""How long a session of Spark's waits between two moves, at most, and how long the streams stay as they are, at most:
Spark takes most of the processors, and a read goes through all segments behind the last compaction."""
COMPACTED_EACH_S = 30.0
"""What one has replaced stays until the next one: no statement takes as long as that."""
Tally = Counter[str]


@pytest.fixture
def bank(spark: SparkSession, namespace: str) -> str:
    for name in TABLES:
        columns = "(id BIGINT, balance BIGINT, moves BIGINT)"
        spark.sql(f"CREATE TABLE {namespace}.{name} {columns} TBLPROPERTIES ('primary-key' = 'id')")
        spark.sql(f"INSERT INTO {namespace}.{name} SELECT id, {BALANCE}, 0 FROM range({ACCOUNTS})")
    return namespace


class Program:
    """Sessions without Spark."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.tally: dict[str, int] = {}
        self._process, self._log = process, log
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.tally = json.loads(line)

    def check(self) -> None:
        """Whether it still runs, and has seen nothing wrong."""
        assert self._process.poll() is None, self._log.read_text()[-5000:]
        assert not [word for word in self.tally if word.startswith("wrong")], self.tally

    def end(self) -> dict[str, int]:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(120) == 0, self._log.read_text()[-5000:]
        time.sleep(0.5)
        return self.tally


@contextmanager
def program(sandbox: Sandbox, folder: Path, scope: str, what: str, sessions: int, seed: int) -> Iterator[Program]:
    where = [sandbox.controller_uri, str(sandbox.schema_registry_uri), scope]
    log = folder / f"{what} {seed}.log"
    with log.open("w") as messages:
        process = subprocess.Popen(
            [sys.executable, bank_program.__file__, *where, what, str(sessions), str(seed)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=messages,
            text=True,
        )
    try:
        yield Program(process, log)
    finally:
        process.kill()
        with process:
            process.wait()


def move(session: SparkSession, bank: str, rng: random.Random, tally: Tally) -> None:
    amount, (one, other) = rng.randrange(1, 100), rng.sample(TABLES, 2)
    try:
        with pyspark_pravega.transaction(session, "pravega"):
            for table, change in ((one, f"- {amount}"), (other, f"+ {amount}")):
                session.sql(f"""UPDATE {bank}.{table} SET balance = balance {change}, moves = moves + 1
                                WHERE id = {rng.randrange(ACCOUNTS)}""")
        tally["moves"] += 1
    except PySparkException as error:
        words = [word for word in ("PRAVEGA_WRITE_CONFLICT", "PRAVEGA_TRANSACTION_FAILED") if word in str(error)]
        if not words:
            raise
        tally[words[0]] += 1


def sums(session: SparkSession, bank: str) -> dict[str, tuple[int, int]]:
    """Of balances and moves of each table, by one statement."""
    each = [f"SELECT '{name}', sum(balance), sum(moves) FROM {bank}.{name}" for name in TABLES]
    return {name: (balances, moves) for name, balances, moves in session.sql(" UNION ALL ".join(each)).collect()}


def test_money_is_neither_made_nor_lost(
    spark: SparkSession, sandbox: Sandbox, client: Client, bank: str, tmp_path: Path
) -> None:
    """Each transaction moves money from an account of one table to one of the other, and both accounts count it."""
    scope, tally, ended = bank.partition(".")[2].replace("_", "-"), Tally(), threading.Event()
    since = time.monotonic()

    def often(do: Callable[[SparkSession, random.Random], Any], seed: int, pause_s: float) -> None:
        session, rng = spark.newSession(), random.Random(FIRST_SEED + seed)
        while not ended.is_set():
            do(session, rng)
            ended.wait(rng.uniform(0, pause_s))

    seen = Moved()

    def read(session: SparkSession, _: random.Random) -> None:
        assert seen.check(sums(session, bank)) is None
        tally["reads"] += 1

    def scale(session: SparkSession, rng: random.Random) -> None:
        stream = Stream(scope, rng.choice(TABLES))
        current = client.controller.current_segments(stream).ids
        segments = rng.choice([number for number in (1, 2, 3) if number != len(current)])
        try:
            client.controller.scale_stream(stream, current, even_ranges(segments))
        except ScaleRefusedError:
            # An earlier try of it was made after all.
            return
        tally["scales"] += 1
        if tally["compactions"] < (time.monotonic() - since) // COMPACTED_EACH_S:
            session.sql(f"CALL pravega.system.compact('{bank.partition('.')[2]}.{stream.name}')").collect()
            tally["compactions"] += 1

    def mover(session: SparkSession, rng: random.Random) -> None:
        move(session, bank, rng, tally)

    def is_enough() -> bool:
        reads = sum(side.tally.get("reads", 0) for side in readers)
        if time.monotonic() - since > WITHIN_S:
            return True
        return tally["reads"] >= SPARK_READS and tally["reads"] + reads >= READS

    with ExitStack() as stack:
        movers, *readers = (
            stack.enter_context(program(sandbox, tmp_path, scope, what, sessions, FIRST_SEED + seed))
            for what, sessions, seed in (
                ("move", 4, 100),
                *(("read", READERS_EACH, 200 + number * READERS_EACH) for number in range(READERS)),
            )
        )
        threads = stack.enter_context(ThreadPoolExecutor(6))
        running = [threads.submit(often, mover, seed, SPARK_PAUSE_S) for seed in range(4)]
        running += [threads.submit(often, read, 4, 1.0), threads.submit(often, scale, 5, SCALES_PAUSE_S)]
        try:
            while not is_enough():
                for side in (movers, *readers):
                    side.check()
                for failed in [one for one in running if one.done()]:
                    failed.result()
                time.sleep(0.2)
        finally:
            ended.set()
        for one in running:
            one.result()
        moved, *looked = (side.end() for side in (movers, *readers))
    print(f"{time.monotonic() - since:.0f} s; with Spark {dict(tally)}; without Spark {moved}; readers {looked}")
    assert not [word for side in (moved, *looked) for word in side if word.startswith("wrong")], (moved, looked)
    last = sums(spark, bank)
    assert seen.check(last) is None
    # Each that was acknowledged is there, and no other one.
    assert {moves for _, moves in last.values()} == {tally["moves"] + moved["moves"]}
    assert moved["moves"] > 0
    assert tally["moves"] > 0
    assert tally["scales"] > 0
