"""The states that the commit of a job has. docs/internals/writes.md draws the ways from one to the next."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from pyspark_pravega.connector.log import Progress, State


class Stage(Enum):
    """How far the commit of a job has come."""

    UNPROMISED = auto()
    """The log knows nothing of it: its intent wasn't recorded yet, or was withdrawn."""
    PROMISED = auto()
    """The log holds its intent: it becomes a version as a whole, or is withdrawn as a whole."""
    COMMITTING = auto()
    """Its transaction is being committed: it can't be withdrawn any more."""
    COMMITTED = auto()
    """It is a version."""
    REPEATED = auto()
    """There was a version of it before this call could promise one: its epoch's, or by another process its own."""
    EMPTY = auto()
    """It has no rows and replaces none, so it makes no version."""


@dataclass(frozen=True)
class Standing:
    """What a look at the log tells of a job's commit."""

    stage: Stage
    state: State
    """The log's state; of a commit that is promised, the one with its intent."""
    progress: Progress | None = None
    """How far the commit's query has come, as of that look, where it was asked for."""
