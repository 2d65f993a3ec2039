"""The record of results: a file of figures for each run in `results/`, of which RESULTS.md and pictures are made.

`python -m benchmarks.results` makes them anew.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import shlex
import subprocess
import textwrap
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.figures import pictures
from pyspark_pravega.sandbox import places

RUNS = Path(__file__).parent / "results"
RECORD = Path(__file__).parent / "RESULTS.md"
_PACKAGES = ("pyspark-pravega", "pyspark", "pyarrow", "numpy", "fastavro")
_NUMBER = re.compile(r"-?[0-9][0-9,]*(?:\.([0-9]+))?")
_RANGE = " - "

Run = dict[str, Any]
"""What a file has: `date`, `command`, and `parts`, each of which is a `text`, as lines, or a `table`."""


def describe_machine() -> str:
    """Machine and versions in a sentence."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        f"{_processor()}, {os.cpu_count()} cores shared by server and clients, {_memory_gib():.0f} GiB; "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}, Java {_java_version()}; "
        f"{packages}; Pravega 0.13.0, its Java client 0.13.0 with the serializers 0.6.0; commit {_commit()}."
    )


def append(report: str, module: str, arguments: Sequence[str]) -> None:
    """Keep a run's figures, and show them in place of those that the same command has left before.

    Args:
        report: the results in Markdown.
        module: what was run.
        arguments: those of the command line.
    """
    command = shlex.join(["python", "-m", module, *arguments])
    machine = textwrap.fill(describe_machine(), 120, break_on_hyphens=False)
    today = str(datetime.date.today())
    run = {"date": today, "command": command, "parts": parts_of(f"{machine}\n\n{report}")}
    name, number = f"{today}-{module.rpartition('.')[2]}", 1
    while (path := RUNS / f"{name}-{number}.json").exists():
        number += 1
    write(path, run)
    show()


def show() -> None:
    """Make RESULTS.md and the pictures from the figures."""
    last = last_runs()
    RECORD.write_text(page(RECORD.read_text(), last))
    for path, picture in pictures(last).items():
        path.write_text(picture)


def last_runs() -> dict[str, Run]:
    """The last run of each command."""
    runs = [json.loads(path.read_text()) for path in sorted(RUNS.glob("20*.json"), key=_in_order)]
    return {run["command"]: run for run in runs}


def page(before: str, last: dict[str, Run]) -> str:
    """The page of results.

    Args:
        before: the page that there is: its beginning stays, and the order of its commands.
        last: the last run of each command.
    """
    first, *sections = before.rstrip("\n").split("\n\n## ")
    shown = [section.partition("\n")[0].partition(": `")[2].removesuffix("`") for section in sections]
    order = [command for command in shown if command in last]
    order += [command for command in last if command not in order]
    return "\n\n## ".join([first, *(markdown(last[command]) for command in order)]) + "\n"


def markdown(run: Run) -> str:
    """A run's section, without the signs of its heading."""
    parts = [_table_text(part["table"]) if "table" in part else "\n".join(part["text"]) for part in run["parts"]]
    return "\n\n".join([f"{run['date']}: `{run['command']}`", *parts])


def parts_of(report: str) -> list[dict[str, Any]]:
    """Texts and tables of a report in Markdown."""
    return [
        {"table": _table(block.splitlines())} if block.startswith("|") else {"text": block.splitlines()}
        for block in report.strip("\n").split("\n\n")
    ]


def write(path: Path, run: Run) -> None:
    """Write a run's file, with a line for each line of text, each column and each row."""
    parts = []
    for part in run["parts"]:
        if "text" in part:
            parts.append(f'{{"text": {_lines(part["text"])}}}')
        else:
            table = part["table"]
            parts.append(f'{{"table": {{"columns": {_lines(table["columns"])}, "rows": {_lines(table["rows"])}}}}}')
    head = "".join(f" {_json(name)}: {_json(run[name])},\n" for name in ("date", "command"))
    path.write_text("{\n" + head + ' "parts": [\n' + ",\n".join(parts) + "\n ]\n}\n")


def _lines(values: Sequence[Any]) -> str:
    return "[\n" + ",\n".join(f"  {_json(value)}" for value in values) + "\n ]"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _table(lines: Sequence[str]) -> dict[str, Any]:
    head, rule, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    columns, values = [], []
    for index, (name, signs) in enumerate(zip(head, rule, strict=True)):
        cells = [row[index] for row in rows]
        kind = _kind(cells)
        columns.append({"name": name, "signs": signs, "format": kind})
        values.append([_value(cell, kind) for cell in cells])
    return {"columns": columns, "rows": [list(row) for row in zip(*values, strict=True)]}


def _table_text(table: dict[str, Any]) -> str:
    columns = table["columns"]
    kinds = [column["format"] for column in columns]
    lines = [[column["name"] for column in columns]]
    lines += [[_cell(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in table["rows"]]
    texts = ["|" + "".join(f" {cell} |" if cell else " |" for cell in line) for line in lines]
    return "\n".join([texts[0], f"|{'|'.join(column['signs'] for column in columns)}|", *texts[1:]])


def _kind(cells: Sequence[str]) -> str | None:
    """How the cells of a column are numbers: `.2f`, or `.0f - .0f` for two of them; None where they are texts."""
    matches = [[_NUMBER.fullmatch(text) for text in cell.split(_RANGE)] for cell in cells if cell]
    kinds = {_RANGE.join(f".{len(match[1] or '')}f" if match else "?" for match in match_of) for match_of in matches}
    kind = kinds.pop() if len(kinds) == 1 else "?"
    return None if "?" in kind else kind


def _value(cell: str, kind: str | None) -> Any:
    if kind is None:
        return cell
    numbers = [float(text.replace(",", "")) for text in cell.split(_RANGE)] if cell else []
    numbers = [int(number) if number.is_integer() else number for number in numbers]
    return None if not numbers else numbers[0] if len(numbers) == 1 else numbers


def _cell(value: Any, kind: str | None) -> str:
    if kind is None or value is None:
        return value or ""
    numbers = value if isinstance(value, list) else [value]
    return _RANGE.join(f"{number:,{form}}" for number, form in zip(numbers, kind.split(_RANGE), strict=True))


def _in_order(path: Path) -> tuple[str, int]:
    name, _, number = path.stem.rpartition("-")
    return name[:10], int(number)


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _java_version() -> str:
    output = subprocess.run([str(places.java()), "-version"], capture_output=True, text=True, check=True).stderr
    return output.split('"')[1]


def _commit() -> str:
    process = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=RECORD.parent, capture_output=True, text=True, check=False
    )
    return process.stdout.strip() or "unknown"


if __name__ == "__main__":
    show()
