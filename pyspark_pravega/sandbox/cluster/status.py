"""What the processes of a cluster are and use, for people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark_pravega.sandbox import data
from pyspark_pravega.sandbox.cluster.members import BOOKIE, CONTROLLER, SEGMENT_STORE, SEGMENTS
from pyspark_pravega.sandbox.state import State, role

_LINE = "{:<16} {:>6} {:>8} {:>9} {:>9}"


def table(folder: Path, running: State) -> Iterator[str]:
    """The processes of a cluster, in the order in which they are started: ports, process ids, memory, disk.

    Args:
        folder: the cluster's.
        running: its state.

    Yields:
        Lines.
    """
    yield _LINE.format("process", "port", "pid", "memory", "disk")
    for name, process in running.servers.items():
        alive = process.alive()
        own = role(name) in ("zookeeper", BOOKIE)
        disk = _megabytes(data.used_bytes(folder, name)) if own else "-"
        pid, memory = (process.pid, _megabytes(process.resident_bytes())) if alive else ("ended", "-")
        yield _LINE.format(name, running.ports[name], pid, memory, disk)
    yield _LINE.format("(all segments)", "", "", "", _megabytes(data.used_bytes(folder, SEGMENTS)))


def summary(running: State) -> str:
    """How many processes a cluster has, in words.

    Args:
        running: its state.
    """
    kinds = {"segment store": SEGMENT_STORE, "controller": CONTROLLER, "bookie": BOOKIE}
    counts = {word: sum(role(name) == kind for name in running.servers) for word, kind in kinds.items()}
    return ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for word, count in counts.items())


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
