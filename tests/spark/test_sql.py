"""The SQL scripts in `sql/`, run by spark-sql as a user does, with the answers that stand in them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
import pytest
from sql_scripts import differences, statements

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark]

SCRIPTS = Path(__file__).parent / "sql"
CLI = [sys.executable, "-m", "pyspark_pravega.cli"]
MARK = "--- statement"


def answers(output: str) -> list[list[str]]:
    """What was answered to each statement, by the marks between."""
    parts = re.split(rf"^{MARK} \d+$\n?", output, flags=re.MULTILINE)
    return [[line.rstrip() for line in part.splitlines()] for part in parts[1:]]


def printed(*arguments: str, environment: Mapping[str, str]) -> list[str]:
    """The flags that `pravega-spark config` prints."""
    command = [*CLI, "config", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return shlex.split(done.stdout)


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.sql")), ids=lambda path: path.stem)
def test_a_script_answers_as_it_says(sandbox: Sandbox, tmp_path: Path, script: Path) -> None:
    """In a `spark-sql` that knows of Pravega only by the flags that `pravega-spark config` prints, of two catalogs."""
    wanted = statements(script.read_text())
    marked = tmp_path / script.name
    marked.write_text("\n".join(f"SELECT '{MARK} {s.line}';\n{s.text}" for s in wanted))
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PRAVEGA_")}
    clean.pop("PYSPARK_PYTHON", None)
    environment = {**clean, **sandbox.environment(), "PRAVEGA_SHARED_MEMORY": "2m"}
    flags = printed(environment=environment) + printed("--catalog", "streams", environment=environment)
    home = Path(pyspark.__file__).parent

    done = subprocess.run(
        [str(home / "bin" / "spark-sql"), *flags, "-f", str(marked)],
        env={**clean, "SPARK_HOME": str(home)},
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
