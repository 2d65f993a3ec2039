"""A disk that is full: nothing that was acknowledged is lost, and the sandbox starts again when there is room."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from java_tools import find_java
from sandbox_tools import command
from waiting import eventually

from pyspark_pravega.client import Client, Stream, StreamConfiguration
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.sandbox.java.changed import OWN
from pyspark_pravega.sandbox.java.parts import BOOKIE
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

_STREAM = Stream("full", "events")
_EVENT_BYTES = 40_000
_BATCH = 8
_FIRST_RECORD = 512
_PADDING = -0x100
_LEDGER_KEY = -0x1000


class Filling:
    """Writes numbered events until there is no server any more."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.acknowledged = 0
        self._settings = Settings.resolve({"timeout": "15"}, environ=sandbox.environment())
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with Client(self._settings) as client:
            writer = client.writer(_STREAM)
            try:
                while True:
                    numbers = range(self.acknowledged, self.acknowledged + _BATCH)
                    writer.write_batch([b"%d " % number + os.urandom(_EVENT_BYTES) for number in numbers])
                    writer.flush()
                    self.acknowledged += _BATCH
            except PravegaError:
                pass

    def end(self) -> int:
        """Wait for its end; the number of events that were acknowledged."""
        self._thread.join()
        return self.acknowledged


def numbers(sandbox: Sandbox) -> list[int]:
    with Client(Settings.resolve({}, environ=sandbox.environment())) as client:
        batches = client.read(_STREAM)
        return sorted(int(event.split(b" ", 1)[0]) for batch in batches for event in batch.payloads.to_pylist())


def newest_journal(folder: Path) -> Path:
    journals = (folder / "data" / "bookkeeper" / "journal" / "current").glob("*.txn")
    return max(journals, key=lambda path: int(path.stem, 16))


def records(journal: bytes) -> list[tuple[int, int]]:
    """Where each record of one of BookKeeper's journals begins and ends; what fills up a block is none."""
    ends, at = list[tuple[int, int]](), _FIRST_RECORD
    while at + 8 <= len(journal) and (size := struct.unpack_from(">i", journal, at)[0]):
        if size == _PADDING:
            at += 8 + struct.unpack_from(">i", journal, at + 4)[0]
        else:
            ends.append((at, at + 4 + size))
            at += 4 + size
    return ends


def is_key(journal: bytes, record: int) -> bool:
    """Whether a record tells the key of a ledger: its place for the entry's number says so."""
    return struct.unpack_from(">q", journal, record + 12) == (_LEDGER_KEY,)


def limit_the_journal(pid: int, folder: Path) -> bool:
    """Let the server's next records be written in part: whether the end is within what was taken in advance."""
    os.kill(pid, signal.SIGSTOP)
    journal = newest_journal(folder).read_bytes()
    end = len(journal.rstrip(b"\0"))
    if fits := len(journal) - end > 4 * _BATCH * _EVENT_BYTES:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (end + _EVENT_BYTES, resource.RLIM_INFINITY))
    os.kill(pid, signal.SIGCONT)
    return fits


def test_a_record_of_the_journal_that_was_written_in_part_harms_nothing(tmp_path: Path) -> None:
    """A file that can't become longer is written up to there, as on a full disk, or when power is lost."""
    folder = tmp_path / "sandbox"
    with Sandbox(data_dir=folder, durable=True, heap="512m") as sandbox:
        with Client(Settings.resolve({}, environ=sandbox.environment())) as client:
            client.controller.create_scope(_STREAM.scope)
            client.controller.create_stream(_STREAM, StreamConfiguration())
        filling = Filling(sandbox)
        eventually(lambda: filling.acknowledged >= 20 * _BATCH)
        eventually(lambda: limit_the_journal(sandbox.pravega_pid, folder))
        acknowledged = filling.end()
        with suppress(ProcessLookupError):
            os.kill(sandbox.pravega_pid, signal.SIGKILL)
    journal = newest_journal(folder).read_bytes()
    with Sandbox(data_dir=folder, durable=True, heap="512m") as sandbox:
        there = numbers(sandbox)
        assert there == list(range(len(there))), "events are lost or doubled"
        assert len(there) >= acknowledged, "acknowledged events are lost"
        assert "was written in part, and is cut off" in sandbox.pravega_log.read_text()
    check_other_places(journal, tmp_path)


def check_other_places(journal: bytes, folder: Path) -> None:
    """Tear a journal at other places, and damage it in the midst, which must not be cut."""
    chance = random.Random(7)
    there = records(journal)[:-1]
    assert len(there) > 20
    current = folder / "journal" / "current"
    current.mkdir(parents=True)
    settings = folder / "bookie.properties"
    settings.write_text(f"journalDirectory={current.parent}\n")
    middle = there[len(there) // 2][1] - 1
    damaged = journal[:middle] + bytes([journal[middle] ^ 1]) + journal[middle + 1 :]
    files = {"fff0": damaged, "fff1": b"", "fff2": journal[:100], "fff3": b"no journal" * 100}
    wanted = files.copy()
    for number in range(40):
        begin, end = chance.choice(there)
        at = min(end - 1, chance.choice([begin + chance.randrange(44), chance.randrange(begin, end)]))
        name = f"{number:x}"
        files[name] = journal[:at] + bytes(chance.choice([0, 1, 4 << 20]))
        # What is missing may be zeros, as what follows is.
        whole = not journal[at:end].rstrip(b"\0") and len(files[name]) >= end
        # No sum tells whether a ledger's key is whole.
        wanted[name] = journal[: end if whole and not (is_key(journal, begin) and not journal[end - 1]) else begin]
    begin, end = next(record for record in there if is_key(journal, record[0]))
    for at in range(begin + 1, end):
        files[name := f"a{at - begin:x}"] = journal[:at] + bytes(100)
        wanted[name] = journal[:begin]
    for name, content in files.items():
        (current / f"{name}.txn").write_bytes(content)
    run = subprocess.run(
        [find_java() or "java", "-cp", OWN, BOOKIE, "--conf", settings], capture_output=True, text=True, check=False
    )
    assert "ClassNotFoundException: org.apache.bookkeeper.server.Main" in run.stderr
    for name, content in wanted.items():
        assert (current / f"{name}.txn").read_bytes().rstrip(b"\0") == content.rstrip(b"\0"), name


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="only root can make a small disk")
def test_a_full_disk_is_said(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", small], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be made here: {mounted.stderr}")
    try:
        answer = subprocess.run(
            command("start", "--data-dir", small / "sandbox"), capture_output=True, text=True, timeout=120, check=False
        )
    finally:
        subprocess.run(["umount", small], check=True)
    assert answer.returncode == 1
    assert f"the disk of {small / 'sandbox'} is full: " in answer.stderr
