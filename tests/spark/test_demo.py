"""`make demo`, as a newcomer runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.server, pytest.mark.spark]

REPOSITORY = Path(__file__).parents[2]


def test_the_demo_answers_rightly_and_stops_its_servers(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "examples" / "nyc_flights.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n    336776\n" in done.stdout
    assert "United Air Lines Inc." in done.stdout
    assert "2013-11-27" in done.stdout
    assert "Checked: the answers equal those computed from the files" in done.stdout
    assert list(tmp_path.iterdir()) == []
