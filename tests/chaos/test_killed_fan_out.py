"""A query that writes each micro-batch into three tables as one transaction, killed at many moments.

Some rows go to a table with a key, some twice to one table. The catalog process or the driver with all its processes is
killed, or the connections of the catalog process are cut, at each step of the commit and at random; tables are scaled.
Whoever looks at the three tables at one moment finds each epoch in all of them or in none, and in the end each row is
there once.
`FAN_OUT_KILLS` says how many moments there are, `CHAOS_FIRST_SEED` which ones.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from client_tools import scale_at_random
from test_killed_real_time import Program
from test_streams import FIRST_SEED
from waiting import eventually
from write_processes import TOGETHER_STEPS

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import take_snapshots
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.read import snapshot_reader
from pyspark_pravega.connector.table import load_definition
from pyspark_pravega.errors import PravegaError, UnavailableError
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.timeout(14_400)]

KILLS = int(os.environ.get("FAN_OUT_KILLS", "3"))
WITHIN_S, STRUCK_WITHIN_S = 180.0, 20.0
STEPS = [step for step in TOGETHER_STEPS if step != "withdrawal"]
_PROGRAM = Path(__file__).parent / "fan_out_program.py"
_WHO = 7


class Tables:
    """The source, and what must have come of it."""

    def __init__(self, client: Client, settings: Settings, scope: str) -> None:
        self._client, self._settings = client, settings
        self.source, *self.sinks = (Stream(scope, name) for name in ("source", "all-rows", "latest", "some"))
        self.count = self.looks = 0

    def statements(self) -> list[str]:
        columns = "(id BIGINT, who STRING{})"
        return [
            f"CREATE TABLE {name(self.source)} {columns.format('')} CLUSTERED BY (who) INTO 2 BUCKETS "
            "TBLPROPERTIES ('format' = 'json')",
            f"CREATE TABLE {name(self.sinks[0])} {columns.format(', epoch BIGINT')} CLUSTERED BY (who) INTO 2 BUCKETS",
            f"CREATE TABLE {name(self.sinks[1])} {columns.format(', epoch BIGINT')} "
            "TBLPROPERTIES ('primary-key' = 'who')",
            f"CREATE TABLE {name(self.sinks[2])} {columns.format(', epoch BIGINT')}",
        ]

    def more(self, count: int) -> None:
        with self._client.writer(self.source) as writer:
            for id in range(self.count, self.count + count):
                who = f"w{id % _WHO}"
                writer.write_batch([json.dumps({"id": id, "who": who}).encode()], [who])
        self.count += count

    def look(self) -> dict[int, int]:
        """All tables at one moment: each epoch is in all of them or in none.

        Returns:
            Of each row its epoch.
        """
        taken = take_snapshots(self._client, self.sinks)
        rows, latest, some = (self._rows(stream, taken[stream]) for stream in self.sinks)
        epochs = {id: epoch for id, _, epoch in rows}
        assert len(epochs) == len(rows), "rows are there twice"
        newest: dict[str, tuple[int, int]] = {}
        for id, who, epoch in rows:
            newest[who] = max(newest.get(who, (-1, -1)), (id, epoch))
        assert {who: (id, epoch) for id, who, epoch in latest} == newest
        assert sorted(some) == sorted(row for row in rows if row[0] % 3 != 2)
        # Each key's rows come in their order.
        for who in newest:
            order = [epoch for id, one, epoch in sorted(rows) if one == who]
            assert order == sorted(order)
        self.looks += 1
        return epochs

    def all_there(self) -> bool:
        with suppress(UnavailableError):
            return set(self.look()) == set(range(self.count))
        return False

    def _rows(self, stream: Stream, taken: Any) -> list[tuple[int, str, int]]:
        definition = load_definition(self._client, self._settings, stream)
        reader = snapshot_reader(definition, taken, ["id", "who", "epoch"], ReadOptions())
        rows = []
        for partition in reader.partitions():
            for batch in reader.read(partition):
                columns = [batch.column(one).to_pylist() for one in ("id", "who", "epoch")]
                rows += list(zip(*columns, strict=True))
        return rows


def name(stream: Stream) -> str:
    return f"pravega.`{stream.scope}`.`{stream.name}`"


@contextmanager
def watched(tables: Tables) -> Iterator[None]:
    """Look at the tables again and again meanwhile."""
    over, failures = threading.Event(), list[BaseException]()

    def look() -> None:
        try:
            while not over.wait(0.3):
                with suppress(PravegaError):
                    tables.look()
        except BaseException as error:
            failures.append(error)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    assert not failures, failures


class Moment:
    """When somebody is killed, and who."""

    def __init__(self, seed: int, *, drivers: bool) -> None:
        self.chance = random.Random(f"{seed}/fan-out")
        victims = ["catalog"] * 4 + ["connection"] * 2 + ["driver"] * 3
        self.victim = self.chance.choice(victims) if drivers else self.chance.choice(victims[:6])
        # Each step in turn, and the next round of them at the other end.
        place, self.after = STEPS[seed % (len(STEPS) + 3) - 3 :], bool(seed // (len(STEPS) + 3) % 2)
        self.step = None if seed % (len(STEPS) + 3) < 3 else place[0]
        self.times = self.chance.choice((0, 0, 1, 2)) if self.step in _SEVERAL_TIMES else 0

    def __str__(self) -> str:
        when = "at random" if self.step is None else f"{'after' if self.after else 'before'} {self.step} {self.times}"
        return f"{self.victim} {when}"

    def order(self) -> str:
        return json.dumps(
            {"step": self.step, "after": self.after, "times": self.times, "victim": self.victim, "moment": str(self)}
        )


_SEVERAL_TIMES = {"intent", "transaction committed", "commit", "table completed", "log entry"}


def strike(program: Program, tables: Tables, moment: Moment, order: Path) -> bool:
    """Have it happen; False where the step wasn't reached."""
    if moment.step is None:
        tables.more(moment.chance.randint(1, 60))
        time.sleep(moment.chance.uniform(0, 1.5))
        if moment.victim == "connection":
            return program.kill("catalog", signal.SIGUSR1) > 0
        return program.kill(moment.victim) > 0
    staged = order.with_suffix(".staged")
    staged.write_text(moment.order())
    staged.rename(order)
    begun = time.monotonic()
    while order.exists():
        tables.more(moment.chance.randint(1, 40))
        if time.monotonic() - begun > STRUCK_WITHIN_S:
            order.unlink(missing_ok=True)
            return False
        for _ in range(20):
            if order.exists():
                time.sleep(0.1)
    return True


def test_each_epoch_is_in_all_tables_or_in_none(
    client: Client, sandbox: Sandbox, settings: Settings, scope: str, tmp_path: Path
) -> None:
    begun, done, missed = time.monotonic(), Counter[str](), list[str]()
    tables, order = Tables(client, settings, scope), tmp_path / "order"
    assert sandbox.schema_registry_uri
    servers = (sandbox.controller_uri, sandbox.schema_registry_uri)
    program = Program(tmp_path / "log", *servers, program=_PROGRAM, environment={"STRUCK_BY": str(order)})
    query = {
        "source": name(tables.source),
        "sinks": [name(one) for one in tables.sinks],
        "checkpoint": str(tmp_path / "checkpoint"),
        "query": "fan-out",
        "most": 100,
    }
    try:
        program.tell({"statements": tables.statements()}, "executed")
        program.start(query)
        program.wait_for("started")
        tables.more(20)
        eventually(tables.all_there, within_s=WITHIN_S)
        with watched(tables):
            seed = FIRST_SEED
            while done.total() < KILLS and seed - FIRST_SEED < 2 * KILLS + 10:
                moment = Moment(seed, drivers=KILLS > 10 or seed == FIRST_SEED + 1)
                if moment.chance.random() < 0.3:
                    scale_at_random(client, moment.chance.choice(tables.sinks), moment.chance)
                if strike(program, tables, moment, order):
                    done[moment.victim] += 1
                else:
                    missed.append(str(moment))
                    if moment.victim == "driver":
                        moment.victim = "nobody"
                if moment.victim == "driver":
                    program.end()
                    program.start(query)
                if moment.chance.random() < 0.4:
                    eventually(tables.all_there, within_s=WITHIN_S)
                seed += 1
                print(f"moment {seed - 1}: {moment}, {time.monotonic() - begun:.0f} s so far", flush=True)
        tables.more(20)
        eventually(tables.all_there, within_s=WITHIN_S)
        program.stop()
        epochs = tables.look()
    except BaseException as error:
        error.add_note(f"it said: {program.said}")
        raise
    finally:
        program.end()
    assert set(epochs) == set(range(tables.count))
    print(
        f"{done.total()} moments, {dict(done)}, not reached: {missed}, {len(set(epochs.values()))} epochs, "
        f"{tables.count} rows, {tables.looks} looks, {time.monotonic() - begun:.0f} s"
    )
