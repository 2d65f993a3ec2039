"""Whether the JVM still reads what a Spark worker's task gives.

A query with a LIMIT may read a part of a task's batches. The JVM then makes a file, whose name the worker was told, and
reads what is left in the socket. The worker looks for the file, and comes to its end, so that Spark gives it the next
task. Otherwise Spark would stop it.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

import pyarrow as pa

_stop: str | None = None
"""The file that the JVM makes when it reads no more of the task that runs."""


class Unwanted(BaseException):
    """Nobody reads what a task would give. It isn't an error, so what handles errors doesn't meet it."""


def check_wanted() -> None:
    """Look whether the JVM still reads what this task gives; a look takes some microseconds.

    Raises:
        Unwanted: it doesn't.
    """
    if _stop is not None and os.path.exists(_stop):
        raise Unwanted


def while_wanted(batches: Iterator[pa.RecordBatch], stop: str) -> Generator[pa.RecordBatch, None, None]:
    """A task's batches, until nobody reads them any more.

    Args:
        batches: may call `check_wanted` while they are made.
        stop: the file that says so.
    """
    global _stop
    _stop = stop
    try:
        for batch in batches:
            yield batch
            check_wanted()
    except Unwanted:
        return
    finally:
        _stop = None
