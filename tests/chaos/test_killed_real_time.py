"""Real-time queries from stream to stream, killed at random: no event is lost, and each key's stay in their order.

Each seed is run at least once, and exactly once: then no event comes again.

Writers number the events of each key, the source is split and merged, and Python workers, the catalog process and the
driver with all its processes are killed. `REAL_TIME_KILLS` says how many seeds there are; `CHAOS_FIRST_SEED=N
REAL_TIME_KILLS=1` repeats one, as far as time can be repeated.
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
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from client_tools import make_stream, scale_at_random
from ingestion_tools import members
from test_streams import FIRST_SEED, Oracle, write
from waiting import eventually

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.timeout(14400)]

SEEDS = int(os.environ.get("REAL_TIME_KILLS", "1"))
WITHIN_S = 300.0
_PROGRAM = Path(__file__).parent / "real_time_program.py"


class Program:
    """Spark, in a process that is started again when it was killed."""

    def __init__(
        self, log: Path, *servers: str, program: Path = _PROGRAM, environment: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._servers, self._log, self._program, self._environment = servers, log, program, environment
        self._process: subprocess.Popen[str] | None = None
        self._forgotten: subprocess.Popen[str] | None = None
        self.starts = 0
        """How often it has said that a query was started."""

    @property
    def process(self) -> subprocess.Popen[str]:
        if self._process is None:
            with self._log.open("a") as log:
                self._process = subprocess.Popen(
                    [sys.executable, str(self._program), *self._servers],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **self._environment},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    start_new_session=True,
                )
            self.wait_for("ready")
        return self._process

    def start(self, query: dict[str, Any]) -> None:
        self._tell(json.dumps(query))

    def end_forgotten(self) -> None:
        """End the one that was forgotten."""
        running, self._process = self._process, None
        self.end()
        self._process = running

    def tell(self, command: dict[str, Any], answer: str) -> None:
        """Give a command, and wait for its answer."""
        self._tell(json.dumps(command))
        self.wait_for(answer)

    def stop(self) -> None:
        self._tell("stop")
        self.wait_for("stopped")

    def wait_for(self, answer: str) -> str:
        """Its next answer that begins so."""
        output = self.process.stdout
        assert output is not None
        for line in output:
            self.starts += line.startswith("started")
            if line.startswith(answer):
                return line
        raise AssertionError(f"it has ended: {self.said}")

    def kill(self, what: str, by: signal.Signals = signal.SIGKILL) -> int:
        """Kill the driver with all its processes, or one kind of them; returns how many there were."""
        own = members(self.process.pid)
        kinds = {"catalog": b"process.service", "worker": b"daemon"}
        # Not the daemon that forks the workers: Spark doesn't get over both.
        daemons = {pid for pid, command in own if b"daemon" in command and _has_child(pid, own)}
        victims = [pid for pid, command in own if what == "driver" or (kinds[what] in command and pid not in daemons)]
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, by)
        if what == "driver":
            self.end()
        return len(victims)

    def forget(self) -> None:
        """Freeze it with all its processes: the next command has another one take its place."""
        process = self.process
        os.killpg(process.pid, signal.SIGSTOP)
        self._forgotten, self._process = process, None

    def thaw(self) -> None:
        """Let the one that was forgotten go on."""
        assert self._forgotten is not None
        os.killpg(self._forgotten.pid, signal.SIGCONT)

    def end(self) -> None:
        """End it, and the one that was forgotten."""
        if self._forgotten is not None:
            running, self._process, self._forgotten = self._process, self._forgotten, None
            self.end()
            self._process = running
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            for end in (self._process.stdin, self._process.stdout):
                assert end is not None
                with contextlib.suppress(BrokenPipeError):
                    end.close()
            self._process = None

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    def _tell(self, command: str) -> None:
        entry = self.process.stdin
        assert entry is not None
        entry.write(command + "\n")
        entry.flush()


def _has_child(pid: int, processes: list[tuple[int, bytes]]) -> bool:
    for other, _ in processes:
        with contextlib.suppress(OSError, ValueError):
            if int(Path(f"/proc/{other}/stat").read_text().rpartition(")")[2].split()[1]) == pid:
                return True
    return False


@pytest.fixture
def program(sandbox: Sandbox, tmp_path: Path) -> Iterator[Program]:
    found = Program(tmp_path / "log", sandbox.controller_uri)
    yield found
    found.end()


def events_of(client: Client, stream: Stream) -> list[str]:
    return [event.decode() for batch in client.read(stream) for event in batch.payloads.to_pylist()]


def query_of(source: Stream, sink: Stream, folder: Path, mode: str, columns: str = "event") -> dict[str, str]:
    tables = {name: f"pravega.`{stream.scope}`.`{stream.name}`" for name, stream in (("table", source), ("sink", sink))}
    return {**tables, "checkpoint": str(folder), "mode": mode, "columns": columns}


def run_seed(
    client: Client, program: Program, scope: str, seed: int, folder: Path, *, once: bool
) -> tuple[dict[str, int], int]:
    """Write, scale and kill in an order that the seed decides; returns what was killed, and how many came again.

    Exactly once, the sink is scaled, too.
    """
    chance = random.Random(f"{seed}/killed in real time")
    source = make_stream(client, scope, f"from-{seed}", segments=chance.randint(1, 4))
    sink = make_stream(client, scope, f"to-{seed}")
    oracle = Oracle(seed=seed, chance=chance, keys=chance.randint(1, 12))
    expected: list[str] = []
    kills = {"worker": 0, "catalog": 0, "driver": 0}

    def more(count: int) -> None:
        events = oracle.events(count)
        expected.extend(events)
        write(client, source, events, chance)

    def all_there() -> bool:
        return set(events_of(client, sink)) >= set(expected)

    if once:
        query = query_of(source, sink, folder, "exactly-once", "event _segment _offset")
    else:
        query = query_of(source, sink, folder, "at-least-once")
    more(chance.randint(1, 50))
    program.start(query)
    program.wait_for("started")
    for _ in range(chance.randint(1, 3)):
        for _ in range(chance.randint(1, 3)):
            more(chance.randint(10, 100))
            if chance.random() < 0.6:
                scale_at_random(client, source, chance)
            if once and chance.random() < 0.6:
                scale_at_random(client, sink, chance)
        # Some kills come when all is done, some when rows are on their way, some between two batches.
        if chance.random() < 0.5:
            eventually(all_there, within_s=WITHIN_S)
        time.sleep(chance.uniform(0, 1.5))
        if chance.random() < 0.7:
            more(chance.randint(1, 300))
        what = chance.choice(["worker", "worker", "catalog", "catalog", "driver"])
        kills[what] += program.kill(what) > 0
        if what == "driver":
            program.start(query)
    more(20)
    eventually(all_there, within_s=WITHIN_S)
    program.stop()

    found = events_of(client, sink)
    assert set(found) == set(expected), f"seed {seed}: events that nobody wrote"
    oracle.check([found if once else list(dict.fromkeys(found))], "the first time that each event comes")
    for stream in (source, sink):
        client.controller.delete_stream(stream, seal=True)
    return kills, len(found) - len(expected)


@pytest.mark.parametrize("once", [False, True])
def test_nothing_is_lost_and_each_key_stays_in_order(
    once: bool, client: Client, scope: str, program: Program, tmp_path: Path
) -> None:
    total: dict[str, Any] = {"worker": 0, "catalog": 0, "driver": 0}
    begun, again = time.monotonic(), 0
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        try:
            kills, repeated = run_seed(client, program, scope, seed, tmp_path / str(seed), once=once)
        except Exception as error:
            error.add_note(f"CHAOS_FIRST_SEED={seed} REAL_TIME_KILLS=1 repeats it; it said: {program.said}")
            raise
        again += repeated
        total = {what: total[what] + count for what, count in kills.items()}
        print(f"seed {seed}: {kills}, {repeated} again, {time.monotonic() - begun:.0f} s so far", flush=True)
    print(f"{SEEDS} killed real-time queries, {total}, {again} events again, {time.monotonic() - begun:.0f} s")
    assert sum(total.values()) >= SEEDS

    # Without the places of events exactly once is refused, and nothing is written.
    source, sink = make_stream(client, scope, "once-from"), make_stream(client, scope, "once-to")
    write(client, source, ["0:0:"], random.Random(0))
    program.start(query_of(source, sink, tmp_path / "once", "exactly-once"))
    assert '"at-least-once"' in program.wait_for("refused")
    program.stop()
    assert events_of(client, sink) == []
