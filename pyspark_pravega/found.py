"""The sandbox that a user has running, for a program that may be without the sandbox's room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any


def running_sandbox() -> Mapping[str, str]:
    """The environment of the sandbox that this user has running; nothing when there is none."""
    room: Any = _room()
    environment: Mapping[str, str] = {} if room is None else room.variables("pravega")
    return environment


def sandbox_said_by(folder: Path) -> None:
    """Note for a Spark program's other processes that this one has said which sandbox is used.

    Args:
        folder: the first of those in which the program keeps its blocks.
    """
    room: Any = _room()
    if room is not None:
        room.said_by(folder)


def is_of_cluster(controllers: Sequence[tuple[str, int]]) -> bool:
    """Whether addresses are those of a running sandbox of several processes, of which some may be gone.

    Args:
        controllers: host and port.
    """
    room: Any = _room()
    return room is not None and bool(room.is_of_cluster(controllers))


def way_out(controllers: Sequence[tuple[str, int]]) -> str:
    """What to do where no controller answers.

    Args:
        controllers: host and port of those that were asked.

    Returns:
        A part of a sentence; empty for other machines' addresses.
    """
    room: Any = _room()
    words: str = "" if room is None else room.way_out(controllers)
    return words


def _room() -> ModuleType | None:
    """What tells of it, loaded when it is asked for."""
    try:
        from pyspark_pravega.sandbox import running
    except ModuleNotFoundError:
        # It isn't in the archives of `pravega-spark pack`.
        return None
    return running
