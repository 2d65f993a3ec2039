"""Timing, CPU accounting and tables."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _CPU_TIMES = 1, slice(11, 15)


@dataclass(frozen=True, kw_only=True)
class Case:
    """Something to measure."""

    name: str
    run: Callable[[str, int], int]
    """Takes the stream's name and the number of events to write or read; returns how many there were."""
    cpu_seconds: Callable[[], float]
    """User and system time of the client's processes so far."""
    baseline: str | None = None
    """The case that this one is compared with; None for one that others are compared with."""


@dataclass(kw_only=True)
class Measured:
    """A case's runs."""

    case: Case
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    server_cpu_seconds: list[float] = field(default_factory=list)
    """Empty where it isn't measured."""

    def events_per_second(self, events: int) -> float:
        """The median of the runs."""
        return events / statistics.median(self.seconds)

    def cpu_microseconds_per_event(self, events: int) -> float:
        """The median of the runs."""
        return statistics.median(self.cpu_seconds) / events * 1e6

    def server_cpu_microseconds_per_event(self, events: int) -> float:
        """The median of the runs."""
        return statistics.median(self.server_cpu_seconds) / events * 1e6


def tell(line: str) -> None:
    """Say how far a measurement is."""
    print(line, file=sys.stderr, flush=True)


def driver_pid(session: SparkSession) -> int:
    """The process id of a session's JVM."""
    gateway = session.sparkContext._gateway
    assert gateway is not None
    return int(gateway.proc.pid)


def process_tree_cpu_seconds(root: int) -> float:
    """User and system time of a process and all that it started, those that have ended included.

    Args:
        root: its process id.
    """
    children: dict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for pid, fields in _processes():
        children[int(fields[_PARENT])].append(pid)
        # With the times of children that have ended and were waited for, so that none is lost when one ends.
        ticks[pid] = sum(int(ticks) for ticks in fields[_CPU_TIMES])
    total, open_ids = 0, [root]
    while open_ids:
        pid = open_ids.pop()
        total += ticks.get(pid, 0)
        open_ids += children[pid]
    return total / _TICKS


def process_tree(root: int) -> list[int]:
    """A process and all that it has started and that is still there.

    Args:
        root: its process id.
    """
    children: dict[int, list[int]] = defaultdict(list)
    for pid, fields in _processes():
        children[int(fields[_PARENT])].append(pid)
    ids, open_ids = [], [root]
    while open_ids:
        pid = open_ids.pop()
        ids.append(pid)
        open_ids += children[pid]
    return ids


def measure(
    cases: Sequence[Case],
    *,
    runs: int,
    events: int,
    stage: Callable[[], AbstractContextManager[str]],
    tell: Callable[[str], None],
    server_cpu_seconds: Callable[[], float] | None = None,
) -> list[Measured]:
    """Run cases one after the other, and all of them again: what disturbs the machine for a while disturbs all.

    Args:
        cases: what to measure.
        runs: how often.
        events: how many events each of them has to handle.
        stage: gives the stream's name, and clears up after a case; not timed.
        tell: takes a line about each run.
        server_cpu_seconds: user and system time of the server so far, to be told, too.

    Raises:
        AssertionError: a case handled another number of events.
    """
    measured = [Measured(case=case) for case in cases]
    for run in range(1, runs + 1):
        for entry in measured:
            with stage() as stream:
                server_before = server_cpu_seconds() if server_cpu_seconds else 0.0
                cpu_before, before = entry.case.cpu_seconds(), time.perf_counter()
                handled = entry.case.run(stream, events)
                seconds = time.perf_counter() - before
                cpu_seconds = entry.case.cpu_seconds() - cpu_before
                if server_cpu_seconds:
                    entry.server_cpu_seconds.append(server_cpu_seconds() - server_before)
            if handled != events:
                raise AssertionError(f"{entry.case.name} handled {handled:,} events instead of {events:,}")
            entry.seconds.append(seconds)
            entry.cpu_seconds.append(cpu_seconds)
            tell(f"run {run} of {runs}, {entry.case.name}: {seconds:.2f} s, CPU {cpu_seconds:.2f} s")
    return measured


def case_in(session: SparkSession, name: str, query: Callable[[], object]) -> Case:
    """A case that is a query of a session, whatever its events are.

    Args:
        session: whose processes' CPU counts.
        name: the case's.
        query: runs it.
    """
    jvm = driver_pid(session)

    def run(_: str, events: int) -> int:
        query()
        return events

    return Case(name=name, run=run, cpu_seconds=lambda: process_tree_cpu_seconds(jvm))


def table(title: str, measured: Sequence[Measured], events: int) -> str:
    """The results in Markdown.

    Args:
        title: the first column's head.
        measured: the results; each baseline is among them.
        events: how many events each run handled.
    """
    by_name = {entry.case.name: entry for entry in measured}
    with_server = any(entry.server_cpu_seconds for entry in measured)
    lines = [
        f"| {title} | 1,000 events/s | min - max | CPU us/event | beside | times | CPU, times |"
        + (" server, us |" if with_server else ""),
        "|---|--:|--:|--:|---|--:|--:|" + ("--:|" if with_server else ""),
    ]
    for entry in measured:
        rate, cpu = entry.events_per_second(events), entry.cpu_microseconds_per_event(events)
        slowest, fastest = events / max(entry.seconds), events / min(entry.seconds)
        cells = [
            entry.case.name,
            f"{rate / 1000:,.0f}",
            f"{slowest / 1000:,.0f} - {fastest / 1000:,.0f}",
            f"{cpu:.2f}",
        ]
        if entry.case.baseline is None:
            cells += ["", "", ""]
        else:
            base = by_name[entry.case.baseline]
            cells += [
                base.case.name,
                f"{rate / base.events_per_second(events):.2f}",
                f"{cpu / base.cpu_microseconds_per_event(events):.2f}",
            ]
        if with_server:
            cells.append(f"{entry.server_cpu_microseconds_per_event(events):.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _processes() -> Iterator[tuple[int, list[str]]]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # The name in parentheses may hold spaces and parentheses itself: count from the last one.
            yield int(folder.name), (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
