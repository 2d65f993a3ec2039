"""The page and the pictures of benchmarks are those of their files of figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.figures import IMAGES, pictures

REPORT = """\
Some words: 7 of them,
on two lines.

| write | 1,000 events/s | min - max | beside | times |
|---|--:|--:|---|--:|
| Java | 1,574 | 450 - 1,654 | | |
| ours | 2,078 | 1,433 - 2,092 | Java | 1.30 |

More words."""


def test_the_page_is_made_from_the_files() -> None:
    text = results.RECORD.read_text()
    assert results.page(text, results.last_runs()) == text


def test_the_pictures_are_made_from_the_files() -> None:
    drawn = pictures(results.last_runs())
    assert {path.name for path in drawn} == {path.name for path in IMAGES.glob("*.svg")}
    assert [path.name for path, picture in drawn.items() if picture != path.read_text()] == [], "run `make results`"


def test_a_run_is_kept_as_data_and_shown_again(tmp_path: Path) -> None:
    run = {"date": "2026-11-27", "command": "python -m benchmarks.writes", "parts": results.parts_of(REPORT)}
    results.write(tmp_path / "run.json", run)
    kept = json.loads((tmp_path / "run.json").read_text())
    assert kept == run
    assert kept["parts"][1]["table"]["rows"] == [
        ["Java", 1574, [450, 1654], "", None],
        ["ours", 2078, [1433, 2092], "Java", 1.3],
    ]
    assert results.markdown(kept) == f"2026-11-27: `python -m benchmarks.writes`\n\n{REPORT}"


def test_a_run_takes_the_place_of_the_same_command_s_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RUNS", "RECORD"):
        monkeypatch.setattr(results, name, tmp_path / name)
    results.RECORD.write_text("# Results\n\nAll of them.\n")
    monkeypatch.setattr(results, "pictures", lambda last: {})
    results.RUNS.mkdir()
    monkeypatch.setattr(results, "describe_machine", lambda: "A machine.")
    for report in ("First.", "Second."):
        results.append(report, "benchmarks.read_write", ["--runs", "1"])
    assert len(list(results.RUNS.iterdir())) == 2
    first, section = results.RECORD.read_text().split("\n\n## ")
    assert first == "# Results\n\nAll of them."
    assert section.endswith(": `python -m benchmarks.read_write --runs 1`\n\nA machine.\n\nSecond.\n")
