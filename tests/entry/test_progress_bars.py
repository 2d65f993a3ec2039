"""What takes long says on a terminal how far it is: bytes, and the time left; pipes and JSON have none of it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StringType, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

COLUMNS = StructType().add("id", LongType(), nullable=False).add("name", StringType())
ROWS = 10_000
"""Of 800 bytes: several MB, and two of the pieces of lines that `put` writes."""
CLEAR = "\r\x1b[K"
SOONER = "import sys; from pyspark_pravega import cli, progress; progress.FIRST_S = 0.0; sys.exit(cli.main())"
"""The command, which takes everything for long: a test shall not have to."""
BAR = re.compile(r"\[[#-]{30}\] +(\d+) of (\d+) MB, \d+ s(?:, \d+ (?:s|min) left)?")


class Terminal:
    """Runs commands whose standard error is a terminal."""

    def __init__(self, running: Sandbox) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PRAVEGA_")}
        self._environment = {**environment, **running.environment()}

    def start(
        self, *arguments: str, code: Sequence[str], stdin: int, stdout: int
    ) -> tuple[subprocess.Popen[bytes], int]:
        ours, theirs = pty.openpty()
        command = [sys.executable, *code, *arguments]
        process = subprocess.Popen(command, env=self._environment, stdin=stdin, stdout=stdout, stderr=theirs)
        os.close(theirs)
        return process, ours

    def run(self, *arguments: str, source: Path | None = None, sooner: bool = True) -> tuple[bytes, str]:
        """What a command has written to its standard output, a file, and what it has shown on the terminal."""
        code = ["-c", SOONER] if sooner else ["-m", "pyspark_pravega.cli"]
        out = Path(os.environ.get("TMPDIR", "/tmp")) / f"out-{uuid.uuid4().hex}"
        try:
            with open(source or os.devnull, "rb") as stdin, out.open("wb") as stdout:
                process, ours = self.start(*arguments, code=code, stdin=stdin.fileno(), stdout=stdout.fileno())
            screen = _until_its_end(ours)
            assert process.wait() == 0, screen
            return out.read_bytes(), screen
        finally:
            out.unlink(missing_ok=True)


def _some(ours: int) -> str:
    try:
        return os.read(ours, 4096).decode()
    except OSError:  # nobody has the terminal open any more
        return ""


def _until_its_end(ours: int) -> str:
    screen = ""
    while some := _some(ours):
        screen += some
    os.close(ours)
    return screen


def left_over(screen: str) -> str:
    """What is still to be seen at the end."""
    return "\n".join(line.rpartition(CLEAR)[2] for line in screen.replace("\r\n", "\n").split("\n"))


@pytest.fixture
def table(sandbox: Sandbox) -> str:
    scope = f"test-{uuid.uuid4().hex[:12]}"
    catalog = Catalog(Settings.resolve(environ=sandbox.environment()))
    catalog.namespaces.create([scope], {})
    catalog.tables.create([scope], "t", COLUMNS, [], {"format": "json"})
    return f"{scope.replace('-', '_')}.t"


@pytest.mark.in_turn
def test_what_is_put_and_read_is_told_in_bytes_while_it_takes_long(
    sandbox: Sandbox, table: str, tmp_path: Path
) -> None:
    terminal, source = Terminal(sandbox), tmp_path / "rows.jsonl"
    lines = [json.dumps({"id": number, "name": "x" * 800}) for number in range(ROWS)]
    source.write_text("\n".join(lines) + "\n")
    megabytes = str(round(source.stat().st_size / 1e6))

    shown, screen = terminal.run("put", table, source=source)
    assert shown == b""
    bars = BAR.findall(screen)
    assert screen.startswith(f"{CLEAR}writing {table}: [")
    assert {total for _, total in bars} == {megabytes}
    done = [int(so_far) for so_far, _ in bars]
    assert done == sorted(done)
    assert " left" in screen
    assert re.fullmatch(rf"{ROWS:,} rows, [\d,]+ bytes of events, committed to {table}\n", left_over(screen))

    # History to a file; events have frames, and the names of columns as the lines do.
    shown, screen = terminal.run("tail", table, "-n", str(ROWS))
    assert len(shown.splitlines()) == ROWS + 2
    assert screen.startswith(f"{CLEAR}reading {table}: [")
    totals = {int(total) for _, total in BAR.findall(screen)}
    assert len(totals) == 1
    assert totals.pop() == pytest.approx(int(megabytes), abs=2)
    assert left_over(screen) == ""

    # Lines of JSON are for programs.
    shown, screen = terminal.run("tail", table, "-n", str(ROWS), "--json")
    assert sorted(map(json.dumps, map(json.loads, shown.splitlines()))) == sorted(lines)
    assert screen == ""
    shown, screen = terminal.run("put", table, "--json", source=source)
    report = json.loads(shown)
    assert (report["table"], report["rows"]) == (table, ROWS)
    assert screen == ""


def test_lines_that_keep_coming_are_counted_after_two_seconds(sandbox: Sandbox, table: str) -> None:
    """Nobody knows how many will come through a pipe, so there is no bar, and no time that is left."""
    reads, writes = os.pipe()
    process, ours = Terminal(sandbox).start(
        "put", table, code=["-m", "pyspark_pravega.cli"], stdin=reads, stdout=subprocess.DEVNULL
    )
    os.close(reads)
    screen, count = "", 0
    try:
        while " MB, " not in screen:
            # The pipe is full while the command starts: this waits for it.
            os.write(writes, b"".join(b'{"id": %d, "name": "x"}\n' % number for number in range(count, count + 1000)))
            count += 1000
            # Not as fast as they can be written: that is two seconds of both cores.
            if select.select([ours], [], [], 0.02)[0]:
                screen += os.read(ours, 4096).decode()
        os.close(writes)
        screen += _until_its_end(ours)
        assert process.wait() == 0
    finally:
        process.kill()
        process.wait()
    first = re.match(rf"{re.escape(CLEAR)}writing {table}: \d+ MB, (\d+) s{re.escape(CLEAR)}", screen)
    assert first is not None, screen
    assert int(first[1]) >= 2
    assert left_over(screen).startswith(f"{count:,} rows, ")


def test_what_is_done_soon_shows_no_bar(sandbox: Sandbox, table: str, tmp_path: Path) -> None:
    source = tmp_path / "one.jsonl"
    source.write_text('{"id": 1, "name": "x"}\n')
    _, screen = Terminal(sandbox).run("put", table, source=source, sooner=False)
    assert CLEAR not in screen
    assert screen.startswith("1 row, ")


def test_a_pack_tells_how_far_it_is_and_leaves_nothing_when_it_is_interrupted(sandbox: Sandbox, tmp_path: Path) -> None:
    archive = tmp_path / "pravega.tar.gz"
    process, ours = Terminal(sandbox).start(
        "pack", "-o", str(archive), code=["-c", SOONER], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    screen = ""
    try:
        while not re.search(r"\[#.* [1-9]\d* of \d+ MB.* left", screen):
            some = _some(ours)
            assert some, screen
            screen += some
        process.send_signal(signal.SIGINT)
        screen += _until_its_end(ours)
        assert process.wait() == 130
    finally:
        process.kill()
        process.wait()
    assert f"packing {archive.name}: [" in screen
    (total,) = {int(total) for _, total in BAR.findall(screen)}
    files = distribution("pyarrow").files
    assert files
    assert total > sum(path.size or 0 for path in files) / 1e6
    assert left_over(screen) == ""
    assert list(tmp_path.iterdir()) == []
