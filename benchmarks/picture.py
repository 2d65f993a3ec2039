"""Pictures of figures, in SVG: bars, ranges on a scale, and lines. Each has its own ground, light or dark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 760
_PAD, _ROW, _BAR = 16, 20, 13
_STYLE = """\
    text { font: 13px system-ui, sans-serif; fill: #333 }
    .title { font-weight: 600 }
    .small { font-size: 11px }
    .ground { fill: #fff }
    .grid { stroke: #ddd }
    .c0 { fill: #2a7ab9; stroke: #2a7ab9 }
    .c1 { fill: #8a8a8a; stroke: #8a8a8a }
    .c2 { fill: #d0761b; stroke: #d0761b }
    .c3 { fill: #4d9a51; stroke: #4d9a51 }
    .line { fill: none; stroke-width: 2 }
    .range { stroke-width: 2 }
    @media (prefers-color-scheme: dark) {
      text { fill: #ddd }
      .ground { fill: #1e2127 }
      .grid { stroke: #444 }
      .c0 { fill: #5aa9e6; stroke: #5aa9e6 }
      .c1 { fill: #a8a8a8; stroke: #a8a8a8 }
      .c2 { fill: #f0a050; stroke: #f0a050 }
      .c3 { fill: #7cc680; stroke: #7cc680 }
    }"""


@dataclass(frozen=True)
class Bar:
    """A figure with its name; of a text in place of the figure there is no bar."""

    name: str
    value: float | str
    colour: int


@dataclass(frozen=True)
class Range:
    """Three figures on one scale: a dot, a mark, and the end of a line."""

    name: str
    values: tuple[float, float, float] | str
    colour: int


Groups = Sequence[tuple[str, Sequence[Bar]]]


def bars(title: str, columns: Sequence[Groups], *, unit: str, names: int, one_scale: bool) -> str:
    """Groups of bars, in columns beside each other.

    Args:
        title: what a reader is told who doesn't see it.
        columns: the groups of each, from the top: a title and its bars.
        unit: of the figures.
        names: how wide the bars' names are, in pixels.
        one_scale: whether bars of different groups may be compared; else each group has a scale of its own.
    """
    wide = WIDTH // len(columns)
    everywhere = _most(bar for groups in columns for _, some in groups for bar in some)
    body: list[str] = []
    heights = []
    for number, groups in enumerate(columns):
        left, top = number * wide, _PAD
        for heading, some in groups:
            body.append(_text(left + _PAD, top + _BAR, heading, "title"))
            most = everywhere if one_scale else _most(some)
            for bar in some:
                top += _ROW
                begin = left + names
                body.append(_text(begin, top + _BAR - 2, bar.name, anchor="end"))
                if isinstance(bar.value, str):
                    body.append(_text(begin + 8, top + _BAR - 2, bar.value))
                    continue
                length = round((wide - names - 72) * bar.value / most)
                body += [
                    f'<rect class="c{bar.colour}" x="{begin + 8}" y="{top}" width="{length}" height="{_BAR}"/>',
                    _text(begin + 16 + length, top + _BAR - 2, f"{bar.value:,.0f}"),
                ]
            top += _ROW + _PAD
        heights.append(top)
    bottom = max(heights)
    body.append(_text(WIDTH - _PAD, bottom - 4, unit, "small", "end"))
    return _document(title, bottom + _PAD // 2, body)


def ranges(title: str, groups: Sequence[tuple[str, Sequence[Range]]], unit: str, limits: tuple[float, float]) -> str:
    """Ranges on a logarithmic scale.

    Args:
        title: what a reader is told who doesn't see it.
        groups: from the top: a title and its ranges.
        unit: of the figures.
        limits: the scale's ends.
    """
    left, right = 90, 560
    body: list[str] = []
    top = _PAD
    rows: list[str] = []
    for heading, some in groups:
        rows.append(_text(_PAD, top + _BAR, heading, "title"))
        for one in some:
            top += _ROW
            middle = top + _BAR // 2 + 1
            rows.append(_text(left - 10, middle + 4, one.name, anchor="end"))
            if isinstance(one.values, str):
                rows.append(_text(left, middle + 4, one.values))
                continue
            median, high, most = (_on_scale(value, limits, left, right) for value in one.values)
            told = " / ".join(f"{value:,g}" for value in one.values)
            rows += [
                f'<line class="c{one.colour} range" x1="{median}" x2="{most}" y1="{middle}" y2="{middle}"/>',
                f'<circle class="c{one.colour}" cx="{median}" cy="{middle}" r="5"/>',
                f'<rect class="c{one.colour}" x="{high - 2}" y="{middle - 5}" width="4" height="10"/>',
                f'<rect class="c{one.colour}" x="{most - 1}" y="{middle - 3}" width="1" height="6"/>',
                _text(right + 24, middle + 4, f"{told} {unit}"),
            ]
        top += _ROW + _PAD
    for power in range(math.ceil(math.log10(limits[0])), math.floor(math.log10(limits[1])) + 1):
        x = _on_scale(10**power, limits, left, right)
        body.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{_PAD + _ROW}" y2="{top}"/>')
        rows.append(_text(x, top + 14, f"{10**power:,g} {unit}", "small", "middle"))
    rows.append(_text(right + 24, top + 14, "median / 99 % / most", "small"))
    return _document(title, top + 14 + _PAD, [*body, *rows])


def lines(title: str, panels: Sequence[tuple[str, Mapping[str, Sequence[tuple[float, float]]]]], unit: str) -> str:
    """Lines over a logarithmic scale in both directions, a panel below another one.

    Args:
        title: what a reader is told who doesn't see it.
        panels: of each its title, and its lines: points from left to right, by name.
        unit: of the heights.
    """
    left, right, high = 86, 460, 110
    values = [y for _, some in panels for points in some.values() for _, y in points]
    limits = 10 ** math.floor(math.log10(min(values) / 2)), 10 ** math.ceil(math.log10(max(values)))
    body: list[str] = []
    top = _PAD
    for heading, some in panels:
        body.append(_text(_PAD, top + _BAR, heading, "title"))
        top += _ROW + 8
        for power in range(round(math.log10(limits[0])), round(math.log10(limits[1])) + 1):
            y = _on_scale(10**power, limits, top + high, top)
            body.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y}" y2="{y}"/>')
            body.append(_text(left - 8, y + 4, f"{10**power:,g} {unit}", "small", "end"))
        sizes = sorted({x for points in some.values() for x, _ in points})
        wide = (sizes[0], sizes[-1])
        for size in sizes:
            x = _on_scale(size, wide, left + 14, right - 14)
            body.append(_text(x, top + high + 16, f"{size:,.0f}", "small", "middle"))
        ends = []
        for colour, (name, points) in enumerate(some.items()):
            places = [
                (_on_scale(x, wide, left + 14, right - 14), _on_scale(y, limits, top + high, top)) for x, y in points
            ]
            path = " ".join(f"{x},{y}" for x, y in places)
            body.append(f'<polyline class="c{colour} line" style="fill: none" points="{path}"/>')
            body += [f'<circle class="c{colour}" cx="{x}" cy="{y}" r="3"/>' for x, y in places]
            ends.append((places[-1][1], f"{name}: {points[0][1]:,g} to {points[-1][1]:,g} {unit}", colour))
        below = 0.0
        for y, name, colour in sorted(ends):
            below = max(y, below + 15)
            body.append(f'<rect class="c{colour}" x="{right + 4}" y="{below - 2}" width="8" height="4"/>')
            body.append(_text(right + 16, below + 4, name, "small"))
        top += high + 16 + 2 * _PAD
    return _document(title, top, body)


def _most(some: Iterable[Bar]) -> float:
    return max(bar.value for bar in some if not isinstance(bar.value, str))


def _on_scale(value: float, limits: tuple[float, float], begin: float, end: float) -> float:
    """Where a value lies between two places of a picture, on a logarithmic scale."""
    share = math.log(value / limits[0]) / math.log(limits[1] / limits[0])
    return round(begin + share * (end - begin), 1)


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    kinds = f' class="{kind}"' if kind else ""
    anchors = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text{kinds} x="{x}" y="{y}"{anchors}>{escape(text)}</text>'


def _document(title: str, height: float, body: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">'
    ground = f'<rect class="ground" width="{WIDTH}" height="{height}" rx="6"/>'
    inside = [f"<title>{escape(title)}</title>", f"<style>\n{_STYLE}\n  </style>", ground, *body]
    return "\n".join([head, *(f"  {one}" for one in inside), "</svg>"]) + "\n"
