"""The SQL scripts in `sql/`, run by spark-sql as a user does, with the answers that stand in them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark]

SCRIPTS = Path(__file__).parent / "sql"
CLI = [sys.executable, "-m", "pyspark_pravega.cli", "sql"]
MARK = "--- statement"


@dataclass
class Statement:
    """A statement of a script and the lines that it is to answer."""

    text: str
    line: int
    answer: list[str]


def statements(script: str) -> list[Statement]:
    """The statements of a script; a line that begins with `-->` belongs to the answer of the one before."""
    found: list[Statement] = []
    lines: list[str] = []
    for number, line in enumerate(script.splitlines(), 1):
        if line.startswith("-->"):
            found[-1].answer.append(line.removeprefix("-->").removeprefix(" ").rstrip())
        elif line.strip() and not line.startswith("--"):
            lines.append(line)
            if line.endswith(";"):
                found.append(Statement("\n".join(lines), number - len(lines) + 1, []))
                lines = []
    assert not lines, f"no ; at the end of {lines}"
    return found


def answers(output: str) -> list[list[str]]:
    """What was answered to each statement, by the marks between."""
    parts = re.split(rf"^{MARK} \d+$\n?", output, flags=re.MULTILINE)
    return [[line.rstrip() for line in part.splitlines()] for part in parts[1:]]


def matches(wanted: list[str], found: list[str]) -> bool:
    """Whether an answer is the wanted one, in which `...` stands for any text."""
    patterns = [".*".join(map(re.escape, line.split("..."))) for line in wanted]
    return len(wanted) == len(found) and all(map(re.fullmatch, patterns, found))


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
    wrong = [
        f"{script.name}, line {statement.line}: {statement.text}\n  wanted {statement.answer}\n  found  {answer}"
        for statement, answer in zip(wanted, found, strict=False)
        if not matches(statement.answer, answer)
    ]
    assert not wrong, "\n".join(wrong)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(found) == len(wanted)
