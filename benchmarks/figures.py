"""Which figures docs/figures.md and RESULTS.md show as pictures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.picture import Bar, Groups, Range, bars, lines, ranges

PEERS = Path(__file__).parent / "results" / "peers.json"
"""Figures beside other systems: they were measured with programs that aren't in this repository."""
IMAGES = Path(__file__).parents[1] / "docs" / "images"
GROWTH = PEERS.with_name("growth.json")
"""Figures of runs of several benchmarks."""
JAVA = "benchmarks.read_write"
_RATE = "1,000 events/s"
"""A column of reports."""
_UNIT = "thousands of events a second"
_COLOURS = {"this": 0, "official": 1, "Kafka": 2, "Kafka, tuned": 2}


def pictures(last: Mapping[str, Any]) -> dict[Path, str]:
    """Each picture's file, and what stands in it.

    Args:
        last: the last run of each command.
    """
    peers = json.loads(PEERS.read_text())
    return {
        IMAGES / "results.svg": beside_java(last_of(JAVA, last)),
        IMAGES / "beside.svg": beside_others(peers),
        IMAGES / "latency.svg": latency(peers),
        IMAGES / "growth.svg": growth(json.loads(GROWTH.read_text())),
    }


def last_of(module: str, last: Mapping[str, Any]) -> Any:
    """A module's last run."""
    return [run for run in last.values() if f" {module} " in f"{run['command']} "][-1]


def beside_java(run: Any) -> str:
    """A run's rates: a group for each of its tables that has them; Java's client is grey."""
    groups = []
    for table in tables(run):
        names = [column["name"] for column in table["columns"]]
        if _RATE in names:
            rates = [(row[0], row[names.index(_RATE)]) for row in table["rows"]]
            some = [Bar(name, rate, 1 if name.startswith("Java") else 0) for name, rate in rates]
            groups.append((names[0], some))
    return bars(f"{run['command']}, {run['date']}", [groups], unit=_UNIT, names=300, one_scale=False)


def beside_others(peers: Any) -> str:
    """Reads on the left, writes and large events on the right."""

    def groups(cases: Iterable[str]) -> Groups:
        return [(case, list(systems(peers["throughput"][case]))) for case in cases]

    def systems(figures: Iterable[Any]) -> Iterable[Bar]:
        for name, one in zip(peers["systems"], figures, strict=True):
            if one is not None:
                yield Bar(name, one if isinstance(one, str) else one[0], _COLOURS[name])

    cases = list(peers["throughput"])
    title = f"{_UNIT.capitalize()} of this package, Pravega's own Spark connector and Spark's Kafka source"
    return bars(title, [groups(cases[:4]), groups(cases[4:])], unit=_UNIT, names=110, one_scale=True)


def latency(peers: Any) -> str:
    """Each way from a writer to a reader."""
    groups = [
        (way, [Range(name, one if isinstance(one, str) else tuple(one), _COLOURS[name]) for name, one in some.items()])
        for way, some in peers["latency, ms: median, 99 %, most"].items()
    ]
    return ranges("Milliseconds from writer to reader at 1,000 events/s", groups, "ms", (0.5, 2000))


def growth(figures: Any) -> str:
    """A panel for each thing that grows."""
    panels = [(f"by {panel['grows']}", panel["ms"]) for panel in figures["panels"]]
    return lines("Milliseconds of statements while a table grows", panels, "ms")


def tables(run: Any) -> list[Any]:
    """A run's tables, from its beginning."""
    return [part["table"] for part in run["parts"] if "table" in part]
