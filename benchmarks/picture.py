"""A picture of a run's figures: a bar for each row of its tables, in SVG."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

_WIDTH, _NAMES, _ROW, _BAR, _PAD = 760, 300, 22, 14, 12
_RATE = "1,000 events/s"
_STYLE = """\
    text { font: 13px system-ui, sans-serif; fill: #333 }
    .title { font-weight: 600 }
    .ours { fill: #2a7ab9 }
    .java { fill: #9a9a9a }
    @media (prefers-color-scheme: dark) { text { fill: #ddd } }"""


def draw(run: dict[str, Any]) -> str:
    """The picture: Java's client is grey, ours is blue, and a group has one scale.

    Args:
        run: the run, as its file has it.
    """
    rows: list[str] = []
    top = _PAD
    for title, bars in _groups(run):
        rows.append(f'  <text class="title" x="{_PAD}" y="{top + _BAR}">{escape(title)}, {_RATE}</text>')
        most = max(rate for _, rate in bars)
        for name, rate in bars:
            top += _ROW
            length = round((_WIDTH - _NAMES - 80) * rate / most)
            kind = "java" if name.startswith("Java") else "ours"
            rows += [
                f'  <text x="{_NAMES}" y="{top + _BAR - 2}" text-anchor="end">{escape(name)}</text>',
                f'  <rect class="{kind}" x="{_NAMES + 8}" y="{top}" width="{length}" height="{_BAR}"/>',
                f'  <text x="{_NAMES + 14 + length}" y="{top + _BAR - 2}">{rate:,.0f}</text>',
            ]
        top += _ROW + _PAD
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" width="{_WIDTH}" role="img">'
    title = f"  <title>{escape(run['command'])}, {run['date']}</title>"
    return "\n".join([head, title, f"  <style>\n{_STYLE}\n  </style>", *rows, "</svg>"]) + "\n"


def _groups(run: dict[str, Any]) -> Iterator[tuple[str, list[tuple[str, float]]]]:
    """The tables that have rates: title, and the name and rate of each row."""
    for part in run["parts"]:
        names = [column["name"] for column in part["table"]["columns"]] if "table" in part else []
        if _RATE in names:
            yield names[0], [(row[0], row[names.index(_RATE)]) for row in part["table"]["rows"]]
