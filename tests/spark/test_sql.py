"""The SQL scripts in `sql/`, run by spark-sql as a user does, with the answers that stand in them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sql_scripts import differences, statements

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark]

SCRIPTS = Path(__file__).parent / "sql"
CLI = [sys.executable, "-m", "pyspark_pravega.cli", "sql"]
MARK = "--- statement"


def answers(output: str) -> list[list[str]]:
    """What was answered to each statement, by the marks between."""
    parts = re.split(rf"^{MARK} \d+$\n?", output, flags=re.MULTILINE)
    return [[line.rstrip() for line in part.splitlines()] for part in parts[1:]]


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.sql")), ids=lambda path: path.stem)
def test_a_script_answers_as_it_says(sandbox: Sandbox, tmp_path: Path, script: Path) -> None:
    wanted = statements(script.read_text())
    marked = tmp_path / script.name
    marked.write_text("\n".join(f"SELECT '{MARK} {s.line}';\n{s.text}" for s in wanted))
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PRAVEGA_")}

    done = subprocess.run(
        [*CLI, "-f", str(marked)],
        env={**clean, **sandbox.environment()},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    found = answers(done.stdout)
    wrong = differences(wanted, found)
    assert not wrong, "\n".join([script.name, *wrong])
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(found) == len(wanted)
