"""SQL scripts with the answers that their statements are to give."""

from __future__ import annotations

import re
from dataclasses import dataclass

from since import is_missing


@dataclass
class Statement:
    """A statement of a script and the lines that it is to answer."""

    text: str
    line: int
    answer: list[str]


def statements(script: str, *, first_line: int = 1) -> list[Statement]:
    """The statements of a script that this Spark has.

    A line that begins with `-->` belongs to the answer of the one before. What stands behind a line `-- since 4.2`, up
    to an empty line, is left out where Spark is older.
    """
    found: list[Statement] = []
    lines: list[str] = []
    lacks = False
    for number, line in enumerate(script.splitlines(), first_line):
        if since := re.fullmatch(r"-- since (\S+)", line):
            lacks = is_missing(since[1])
        elif not line:
            lacks = False
        if lacks:
            continue
        if line.startswith("-->"):
            found[-1].answer.append(line.removeprefix("-->").removeprefix(" ").rstrip())
        elif line.strip() and not line.startswith("--"):
            lines.append(line)
            if line.endswith(";"):
                found.append(Statement("\n".join(lines), number - len(lines) + 1, []))
                lines = []
    assert not lines, f"no ; at the end of {lines}"
    return found


def matches(wanted: list[str], found: list[str]) -> bool:
    """Whether an answer is the wanted one, in which `...` stands for any text."""
    patterns = [".*".join(map(re.escape, line.split("..."))) for line in wanted]
    return len(wanted) == len(found) and all(map(re.fullmatch, patterns, found))


def differences(asked: list[Statement], found: list[list[str]]) -> list[str]:
    """What was answered otherwise than wanted, a text for each such statement."""
    return [
        f"line {statement.line}: {statement.text}\n  wanted {statement.answer}\n  found  {answer}"
        for statement, answer in zip(asked, found, strict=False)
        if not matches(statement.answer, answer)
    ]
