"""A Spark program says once that it uses the running sandbox, whichever of its processes finds it first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_pravega.client import Client, Stream, StreamConfiguration
from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark]
PROGRAM = Path(__file__).with_name("found_program.py")


@pytest.mark.parametrize("way", ["configure", "flags", "source"])
@pytest.mark.in_turn(8)
def test_the_running_sandbox_is_named_once(
    way: str, sandbox: Sandbox, client: Client, scope: str, tmp_path: Path
) -> None:
    """By `configure`, by the catalog process, by Spark's workers: each program asks in every way that it can."""
    client.controller.create_stream(Stream(scope, "events"), StreamConfiguration())
    known = tmp_path / "pyspark-pravega" / "sandbox" / "sandbox.json"
    known.parent.mkdir(parents=True)
    known.write_text((sandbox.data_dir / "sandbox.json").read_text())
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PRAVEGA_", "PYSPARK_"))}
    environment |= {"XDG_STATE_HOME": str(tmp_path), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), way, f"{scope}/events"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == ([0, 0] if way == "source" else [0, 0, 0, 0])
    assert done.stderr.count("using the running sandbox") == 1
