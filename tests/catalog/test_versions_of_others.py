"""Versions of what others write: who notes them, and what is found by time; on servers with authentication."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from catalog_tools import rows
from pyspark.sql.types import BinaryType, StructField, StructType
from waiting import eventually

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import RemoveProperty, SetProperty
from pyspark_pravega.catalog.plans import sampling as sampling_module
from pyspark_pravega.catalog.plans.sampling import Sampling, sample
from pyspark_pravega.client import Stream, StreamCut
from pyspark_pravega.client.events import EventWriter
from pyspark_pravega.client.positions import watermarks
from pyspark_pravega.connector.bounds import Time, Word
from pyspark_pravega.connector.log import Commit, Ledger, create_ledger, open_ledger, take_snapshot
from pyspark_pravega.connector.log.tail import behind
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.read import moment_at, snapshot_until
from pyspark_pravega.connector.read.extent import resolve_end, resolve_start
from pyspark_pravega.errors import ConfigurationError, ConflictError, VersionNotFoundError
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.in_turn]

COLUMNS = StructType([StructField("event", BinaryType(), False)])
SAMPLER = """
import os, signal, sys, time
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.plans.sampling import Sampling
from pyspark_pravega.connector.log import Ledger
from pyspark_pravega.settings import Settings

scope, dies = sys.argv[1:]
complete = Ledger.complete

def dying(*arguments, **named):
    if dies == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    done = complete(*arguments, **named)
    if dies == "behind":
        os.kill(os.getpid(), signal.SIGKILL)
    return done

Ledger.complete = dying
Sampling().consider(Catalog(Settings.resolve()).load_table([scope], "t"))
time.sleep(300)
"""
"""A catalog process that was asked about a table, and dies at a step of its first version, or never."""


@pytest.fixture(scope="module")
def catalog(auth_sandbox: Sandbox) -> Catalog:
    options = {"username": "admin", "password": auth_sandbox.password_of("admin"), "timeout": "30"}
    return Catalog(Settings.resolve(options, environ=auth_sandbox.environment(secrets=False)))


@pytest.fixture
def scope(catalog: Catalog) -> Iterator[str]:
    name = f"others_{uuid.uuid4().hex[:8]}"
    catalog.namespaces.create([name])
    yield name
    catalog.namespaces.drop([name], cascade=True)


@pytest.fixture(scope="module")
def marked(catalog: Catalog) -> Marked:
    scope = f"marked_{uuid.uuid4().hex[:8]}"
    catalog.namespaces.create([scope])
    others = others_of(catalog, scope)
    create_ledger(others.client, others.stream)
    return Marked(others)


@pytest.fixture(autouse=True)
def _go_on(marked: Marked) -> None:
    """Before each test: so the last one has less long to wait."""
    marked.write_and_note()


class Others:
    """A program that knows nothing of this package's tables, and remembers what it has written when."""

    def __init__(self, catalog: Catalog, stream: Stream) -> None:
        self.catalog, self.client, self.stream = catalog, catalog.client, stream
        self.sent: dict[int, float] = {}
        self.acknowledged: dict[int, float] = {}

    def write(self, count: int) -> None:
        ids = range(len(self.sent), len(self.sent) + count)
        self.sent |= dict.fromkeys(ids, time.time() * 1000)
        with EventWriter(self.client, self.stream) as writer:
            for number in ids:
                writer.write(str(number), key=str(number))
        self.acknowledged |= dict.fromkeys(ids, time.time() * 1000)

    def ids_before(self, cut: StreamCut | dict[int, int] | Word) -> set[int]:
        """What lies before a cut that was the stream's tail once."""
        if isinstance(cut, Word):
            assert cut is Word.EARLIEST
            return set()
        rest = behind(take_snapshot(self.client, self.stream), dict(cut))
        return set(self.sent) - {int(event) for event in rows(self.catalog.definition(self.stream), rest, "event")}

    def ids_at(self, milliseconds: int) -> set[int]:
        """What `TIMESTAMP AS OF` shows."""
        moment = moment_at(self.client, self.stream, milliseconds * 1000)
        held = snapshot_until(self.client, self.stream, moment)
        ids = {int(event) for event in rows(self.catalog.definition(self.stream), held, "event")}
        assert ids == self.ids_before(moment.offsets)
        return ids


class Marked:
    """A table whose writer says how far it is in time; the controller makes a watermark of that every few seconds."""

    def __init__(self, others: Others) -> None:
        self.others = others
        self.noted: dict[int, set[int]] = {}
        """What had been written at each time."""
        self._times = iter(range(1_700_000_000_000, 1_800_000_000_000, 1_000))

    def write_and_note(self) -> None:
        others, at = self.others, next(self._times)
        others.write(3)
        self.noted[at] = set(others.sent)
        others.client.controller.note_timestamp(others.stream, "java", at, others.client.tail(others.stream))


def others_of(catalog: Catalog, scope: str, **properties: str) -> Others:
    given = {"format": "raw", "segments": "3", **{key.replace("_", "-"): value for key, value in properties.items()}}
    return Others(catalog, catalog.tables.create([scope], "t", COLUMNS, [], given).stream)


def start(others: Others, milliseconds: int) -> StreamCut | Word:
    return resolve_start(others.client, others.stream, ReadOptions(start=Time(milliseconds)))


def end(others: Others, milliseconds: int) -> StreamCut | Word:
    return resolve_end(others.client, others.stream, ReadOptions(end=Time(milliseconds)))


def versions(others: Others) -> list[Commit]:
    ledger = open_ledger(others.client, others.stream)
    return [] if ledger is None else list(ledger.all_commits())


def take(catalog: Catalog, scope: str) -> tuple[int, int]:
    ((version, size, text, offsets),) = catalog.procedures.call("take_version", [f"{scope}.t"])
    cut = StreamCut.from_text(text)
    assert isinstance(cut, StreamCut)
    assert dict(cut) == dict(offsets)
    return version, size


def test_a_version_that_is_taken_holds_what_was_written_before(catalog: Catalog, scope: str) -> None:
    others = others_of(catalog, scope)
    others.write(40)
    with pytest.raises(ConfigurationError, match=r"needs versions, .* or by CALL take_version"):
        end(others, 1)
    held = {}
    for number in range(1, 5):
        version, size = take(catalog, scope)
        assert (version, size > 0) == (number, True)
        held[version], whole = set(others.sent), take_snapshot(others.client, others.stream).size
        # Nothing has come since.
        assert take(catalog, scope) == (version, 0)
        if number == 2:
            others.client.controller.scale_to(others.stream, 5)
        others.write(25)
    noted = versions(others)
    assert sum(commit.bytes for commit in noted) == whole
    for commit in noted:
        assert others.ids_at(commit.committed_at) == held[commit.version]
        assert others.ids_before(start(others, commit.committed_at + 1)) == held[commit.version]
        assert others.ids_before(end(others, commit.committed_at + 1)) == held[commit.version]
    shown = catalog.metadata.rows([scope], "t$commits", ["version", "rows", "job"], []).rows
    assert shown == [[number, None, "others"] for number in range(1, 5)]
    # What lay there before the first version has no time.
    first = noted[0].committed_at
    with pytest.raises(VersionNotFoundError, match="no commit or named cut"):
        others.ids_at(first - 1)
    for find in (start, end):
        with pytest.raises(VersionNotFoundError, match="others had written to it before its first version"):
            find(others, first)


def test_a_table_that_was_empty_is_known_from_then_on(catalog: Catalog, scope: str) -> None:
    others = others_of(catalog, scope)
    assert take(catalog, scope) == (1, 0)
    others.write(10)
    assert take(catalog, scope)[0] == 2
    assert [others.ids_at(commit.committed_at) for commit in versions(others)] == [set(), set(range(10))]
    assert start(others, 1) is Word.EARLIEST


def test_several_processes_note_each_version_once_whoever_dies(
    auth_sandbox: Sandbox, catalog: Catalog, scope: str
) -> None:
    others = others_of(catalog, scope, version_every="1 second")
    environment = {**os.environ, **auth_sandbox.environment(secrets=False), "PRAVEGA_USERNAME": "admin"}
    environment["PRAVEGA_PASSWORD"] = auth_sandbox.password_of("admin")
    started: list[subprocess.Popen[bytes]] = []

    def begin(dies: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", SAMPLER, scope, dies], env=environment))
        return started[-1]

    def grown() -> int:
        others.write(5)
        return len(versions(others))

    try:
        others.write(20)
        for dies, left in (("before", 0), ("behind", 1)):
            assert begin(dies).wait(120) == -9
            assert len(versions(others)) == left
        two = [begin("never"), begin("never")]
        eventually(lambda: grown() >= 3, within_s=120)
        others.client.controller.scale_to(others.stream, 2)
        eventually(lambda: grown() >= 5, within_s=120)
        two[0].kill()
        last = len(versions(others))
        eventually(lambda: grown() >= last + 2, within_s=120)
        assert two[1].poll() is None
    finally:
        for one in started:
            one.kill()
            one.wait()
    noted = versions(others)
    assert [commit.version for commit in noted] == list(range(1, len(noted) + 1))
    before = None
    for commit in noted:
        assert before is None or commit.committed_at - before.committed_at >= 1000
        held = others.ids_at(commit.committed_at)
        assert held <= {number for number, at in others.sent.items() if at <= commit.committed_at}
        if before is not None:
            # The look at the stream comes behind the version before.
            assert held >= {number for number, at in others.acknowledged.items() if at <= before.committed_at}
        before = commit
        later = {number for number, at in others.sent.items() if at >= commit.committed_at + 1}
        assert not others.ids_before(start(others, commit.committed_at + 1)) & later


def test_of_two_looks_at_once_one_makes_the_version(catalog: Catalog, scope: str) -> None:
    others = others_of(catalog, scope, version_every="1 hour")

    def look(_: int) -> float | None:
        try:
            return sample(catalog.settings, others.stream)
        except ConflictError:
            return -1.0

    others.write(5)
    with ThreadPoolExecutor(8) as threads:
        next_looks = list(threads.map(look, range(8)))
    assert len(versions(others)) == 1
    # Who lost was told so, or saw that the version was there.
    assert all(due is not None and (due == -1.0 or 0 < due <= 3600) for due in next_looks)


def test_a_process_samples_a_table_until_its_property_is_taken_away(catalog: Catalog, scope: str) -> None:
    others = others_of(catalog, scope, version_every="1 second")
    sampling = Sampling()
    sampling.consider(catalog.load_table([scope], "t"))
    eventually(lambda: versions(others))
    catalog.altering.alter([scope], "t", [RemoveProperty(property="version-every")])
    eventually(lambda: not sampling._running)
    for text in ("1", "soon", "500 ms"):
        with pytest.raises(ConfigurationError, match="version-every"):
            catalog.altering.alter([scope], "t", [SetProperty(property="version-every", value=text)])


def test_a_process_says_when_it_samples_as_many_tables_as_it_may(
    catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    others = others_of(catalog, scope, version_every="1 second")
    catalog.tables.create([scope], "further", COLUMNS, [], {"format": "raw", "version-every": "1 second"})
    monkeypatch.setattr(sampling_module, "_MOST", 1)
    sampling = Sampling()
    for name in ("t", "further", "further"):
        sampling.consider(catalog.load_table([scope], name))
    assert [
        f'no versions of stream "{others.stream.scope}/further"' in record.getMessage() for record in caplog.records
    ] == [True]
    eventually(lambda: versions(others))
    catalog.altering.alter([scope], "t", [RemoveProperty(property="version-every")])
    eventually(lambda: not sampling._running)
    sampling.consider(catalog.load_table([scope], "further"))
    eventually(lambda: list(catalog.metadata.rows([scope], "further$commits", ["version"], []).rows))
    catalog.altering.alter([scope], "further", [RemoveProperty(property="version-every")])


def test_a_ledger_s_version_of_others_counts_no_rows(catalog: Catalog, scope: str) -> None:
    others = others_of(catalog, scope)
    others.write(7)
    take(catalog, scope)
    ledger = open_ledger(others.client, others.stream)
    assert isinstance(ledger, Ledger)
    assert (ledger.state().rows, ledger.state().bytes) == (0, 0)


# The last one: its writer has been noting times since the first test.


def test_watermarks_of_others_tell_times(marked: Marked) -> None:
    others, noted = marked.others, marked.noted

    def marks() -> int:
        marked.write_and_note()
        return len(list(watermarks(others.client.pool, others.stream)))

    eventually(lambda: marks() >= 2, within_s=120)
    marks_there = list(watermarks(others.client.pool, others.stream))
    for mark in marks_there:
        # All that the writer had written when it noted the time lies before, and nothing of later times.
        assert others.ids_at(mark.upper_ms) == others.ids_before(mark.cut)
        assert others.ids_before(mark.cut) <= noted[mark.upper_ms]
        assert others.ids_before(start(others, mark.upper_ms + 1)) == others.ids_before(end(others, mark.upper_ms + 1))
        assert others.ids_before(start(others, mark.upper_ms + 1)) == others.ids_before(mark.cut)
    with pytest.raises(VersionNotFoundError, match="its first watermark is of 2023-"):
        start(others, marks_there[0].upper_ms)
    with pytest.raises(VersionNotFoundError, match="its first watermark is of 2023-"):
        others.ids_at(marks_there[0].upper_ms - 1)
