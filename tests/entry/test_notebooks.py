"""`notebooks/`, executed as Jupyter does, and as they are stored: with what they gave on a real sandbox."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from entry_tools import clean_environment
from notebook_tools import NOTEBOOKS, Kernel, Shown, output_of, read, written

from pyspark_pravega.sandbox import Sandbox


def stored(name: str) -> nbformat.NotebookNode:
    return read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


def check_quickstart(output: Shown) -> None:
    assert output.plots == 2
    for row in ("|      1|12208|", "|      2|14796|", "| 12208|27004|14796|"):
        assert row in output.printed, output.printed
    # The rows of the INSERT are seen all at once: those of all other months, or of February (SOONER).
    assert re.search(r"counts of flights: \[27004, (336776|51955)\]", output.printed), output.printed


def check_streaming(output: Shown) -> None:
    assert output.plots == 2
    # Two segments are split in two each. Their ids have the epoch, 1, in the upper 32 bits.
    segments = re.search(r"segments: \[0, 1\] and then \[([\d, ]+)\]", output.printed)
    assert segments is not None, output.printed
    ids = [int(text) for text in segments.group(1).split(",")]
    assert ids[:4] == [(1 << 32) + number for number in range(2, 6)]
    # A commit whose transaction was begun before the split makes copies of the segments, in two epochs more.
    assert all(segment_id >> 32 > 1 for segment_id in ids[4:])
    counts = re.search(r"(\d+) counted in time, (\d+) came too late", output.printed)
    assert counts is not None, output.printed
    assert int(counts.group(1)) > int(counts.group(2)) > 0


def check_realtime(output: Shown) -> None:
    assert output.plots == 1
    for way in ("micro-batches, exactly-once", "real time, at-least-once"):
        alarms = re.search(rf"{way}: median \d+ ms of (\d+) alarms", output.printed)
        assert alarms is not None, output.printed
        assert int(alarms.group(1)) > 0
    counts = re.search(r"\|\s*(\d+)\|\s*(\d+)\|\s*true\|\s*true\|", output.printed)
    assert counts is not None, output.printed
    assert int(counts.group(1)) >= int(counts.group(2)) > 0


def check_killed(output: Shown) -> None:
    assert output.plots == 1
    assert re.search(r"killed: [13], sent: 100000, arrived: 100000, missing: 0, twice: 0\n", output.printed), (
        output.printed
    )


def check_changes(output: Shown) -> None:
    assert output.plots == 1
    assert re.search(r"the table has the database's \d{3,4} rows: True\n", output.printed), output.printed
    counts = re.search(r"versions: 8, inserted less deleted: (\d+), rows at the end: (\d+)\n", output.printed)
    assert counts is not None, output.printed
    assert counts.group(1) == counts.group(2)


def check_letters(output: Shown) -> None:
    assert output.plots == 1
    # Five of twelve hours have numbers that no INT can hold.
    assert re.search(r"\|\s*1000\|\s*2147483648\|", output.printed), output.printed
    assert "letters: 1000, redelivered: 1000, remaining: 0\n" in output.printed
    row = re.search(r"\|\s*(\d+)\|\s*(\d+)\|\s*(\d+)\|\s*(\d+)\|\n", output.printed.rpartition("dear_orders")[2])
    assert row is not None, output.printed
    dear, replayed, clean, different = row.groups()
    assert dear == replayed
    assert clean == different == "2400"
    assert [f"rows: {dear}, repeated: {repeated}\n" in output.printed for repeated in (False, True)] == [True, True]


SINCE = {"quickstart": "4.2", "realtime": "4.3", "changes": "4.2", "letters": "4.2"}
"""Which Spark has all that a notebook shows."""
CHECKS = {
    "quickstart": check_quickstart,
    "streaming": check_streaming,
    "realtime": check_realtime,
    "killed": check_killed,
    "changes": check_changes,
    "letters": check_letters,
}

SOONER = {
    "quickstart": {'archive.extract("flights.csv", folder.name)':
                   'Path(folder.name, "flights.csv").write_text("".join(line for line in archive.read("flights.csv")'
                   '.decode().splitlines(True) if line.startswith(("year", "2013,1,", "2013,2,"))))'},
    "killed": {"KILL_AT = (0.2, 0.5, 0.8)": "KILL_AT = (0.4,)"},
    "streaming": {"first()[0] < 3_000": "first()[0] < 500",
                  "while len(looks) <= 10:": "while len(looks) <= 5:", "if len(looks) == 6:": "if len(looks) == 3:",
                  "while len(windows_given_out()) < 16:": "while len(windows_given_out()) < 10:",
                  "time.sleep(2)": "time.sleep(0.5)", "INTERVAL 10 SECONDS": "INTERVAL 4 SECONDS",
                  'window("at", "2 seconds")': 'window("at", "1 second")', '"at", "4 seconds"': '"at", "1 second"',
                  "window(at, '2 seconds')": "window(at, '1 second')",
                  'processingTime="2 seconds"': 'processingTime="1 second"'},
    "realtime": {"time.time() < warm + 20": "time.time() < warm + 1", "came[drawn][0] + 5": "came[drawn][0] + 0.5",
                 "time.sleep(2.5)": "time.sleep(0.5)"},
}  # fmt: skip
"""How long the notebooks watch their streams, and how many rows they insert: that makes prettier pictures, and shows
nothing else.
"""


def test_all_notebooks_are_checked_here() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == CHECKS.keys()


@pytest.mark.parametrize("name", CHECKS)
def test_a_notebook_is_stored_with_its_outputs(name: str) -> None:
    notebook = stored(name)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), "run `make notebooks`"
    assert not [output for cell in code for output in cell.outputs if output.output_type == "error"]
    CHECKS[name](output_of(notebook))


@pytest.mark.parametrize("name", CHECKS)
def test_a_stored_notebook_tells_nothing_of_the_machine(name: str) -> None:
    notebook = stored(name)
    # In the pictures' letters there may be anything.
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop("image/png", None)
    assert not re.search(r"/(home|root|Users|tmp|work)/|127\.0\.0\.1", written(notebook))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the notebooks run."""
    return tmp_path_factory.mktemp("kernel")


@pytest.fixture(scope="module")
def kernel(sandbox: Sandbox, folder: Path) -> Iterator[Kernel]:
    """For all of them: a JVM takes seconds of CPU to begin, and as much again until it has compiled what it runs."""
    kernel = Kernel(clean_environment(sandbox.environment()), folder)
    yield kernel
    kernel.stop()


@pytest.mark.server
@pytest.mark.spark
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.since_spark(SINCE[name]) if name in SINCE else ()) for name in CHECKS],
)
@pytest.mark.in_turn(8)
def test_a_notebook_runs(name: str, kernel: Kernel, folder: Path) -> None:
    notebook = kernel.execute(name, SOONER.get(name))
    CHECKS[name](output_of(notebook))
    assert list(folder.iterdir()) == []
