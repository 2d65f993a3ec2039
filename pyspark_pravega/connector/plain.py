"""Errors in Spark's Python workers: those of this package are told by their sentence, without Python's traceback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark_pravega.errors import PravegaError

_HIDE = "SPARK_HIDE_TRACEBACK"
"""Where this is set a worker of Spark's sends only an error's own line to the JVM."""
_WORKER = "PYTHON_WORKER_FACTORY_"
"""With this the names begin by which Spark tells a worker how to reach the JVM; other processes have none of them."""


@contextmanager
def told_plainly() -> Iterator[None]:
    """Around what a worker calls. It also decorates functions, but no generators.

    A worker ends with the error that it sends, so nothing else loses its traceback. Errors of other kinds keep theirs.
    """
    try:
        yield
    except PravegaError:
        if any(name.startswith(_WORKER) for name in os.environ):
            os.environ[_HIDE] = "1"
        raise
