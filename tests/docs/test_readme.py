"""What README.md shows runs as a stranger types it: block after block, each a program, in an empty folder.

The sandbox runs already, and nothing else says where Pravega is.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from page_tools import RUNNABLE, Snippet, snippets

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn]
FOUND = "using the running sandbox, Pravega 0.13, controller {}"


def blocks() -> Iterator[tuple[str, list[Snippet]]]:
    """The blocks that run, by their languages. Programs in Python that follow each other are one: a JVM takes long."""
    some = [snippet for snippet in snippets("README.md") if snippet.language in RUNNABLE and snippet.marker is None]
    for language, group in itertools.groupby(some, key=lambda snippet: snippet.language):
        yield language, list(group)


@pytest.mark.since_spark("4.2")
def test_what_the_readme_shows_runs_as_it_is_typed(
    sandbox: Sandbox, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    state, folder = tmp_path / "state", tmp_path / "empty"
    known = state / "pyspark-pravega" / "sandbox" / "sandbox.json"
    known.parent.mkdir(parents=True)
    known.write_text((sandbox.data_dir / "sandbox.json").read_text())
    folder.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PRAVEGA_", "PYSPARK_"))}
    environment |= {
        "XDG_STATE_HOME": str(state),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    # A scope of its own: other tests' servers are these.
    own = f"shop{uuid.uuid4().hex[:8]}"

    def run(*command: str) -> tuple[str, str]:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout, done.stderr

    said: dict[str, tuple[str, str]] = {}
    ran = 0
    for language, some in blocks():
        text = re.sub(r"\bshop\b", own, "\n".join(snippet.text for snippet in some))
        file = tmp_path / f"block.{language}"
        file.write_text(text)
        command = {"sql": ["pravega-spark", "sql", "-f"], "sh": ["bash", "-eu"], "python": ["python"]}[language]
        said[language] = run(*command, str(file))
        ran += len(some)
    record_property("snippets run", ran)

    assert sorted(said["sql"][0].split("\n")) == ["", "1\tAda\tsilver", "2\tBob\tgold"]
    assert all(FOUND.format(sandbox.controller_uri) in errors for _, errors in said.values())
    assert said["python"][1].count(FOUND.format(sandbox.controller_uri)) == 1
    assert re.search(r"ok +sandbox +the one in", said["sh"][0])
    assert re.search(r"\b3 +Cyd\b", said["sh"][0])
    # As the first program sees the customers; then one order is written again.
    assert sorted(re.findall(r"\| *(\w+)\| +(\d+)\|", said["python"][0])) == [("NULL", "1"), ("gold", "2")]
    assert len(re.findall(r"\| *1\| *Ada\|", said["python"][0])) == 1
    assert [path.name for path in folder.iterdir()] == ["checkpoints"]
