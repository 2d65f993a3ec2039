"""Memory that is used again instead of taken afresh, and not looked through again and again."""

from __future__ import annotations

import ctypes
import functools
import gc
import os

from pyspark_pravega.spark.datasource import TaskContext

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""glibc's numbers for mallopt (malloc.h)."""
_TRIM_BYTES, _MMAP_BYTES = 64 << 20, 32 << 20


@functools.cache
def keep_freed_memory() -> bool:
    """Let this process keep some memory that it frees: blocks of about a megabyte come and go all the time.

    glibc gives such memory back to the system at once and takes it anew, whose page faults are a quarter of what a
    worker does while it writes (measured: benchmarks/RESULTS.md). Each of glibc's arenas keeps
    at most about 64 MiB, and where the environment says how (`MALLOC_TRIM_THRESHOLD_`), nothing is changed.

    Returns:
        Whether the C library has such a setting.
    """
    if "MALLOC_TRIM_THRESHOLD_" in os.environ:
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES) and mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES))


def spare_what_is_loaded() -> bool:
    """In a Spark task, keep what this process has loaded so far out of the garbage collector's way.

    Spark's Python daemon collects after each task. With this package, pyarrow and numpy there are 100,000 objects to
    look at, of which none is garbage: 58 ms of CPU after each task, a third of what a task that reads a million events
    costs (measured: benchmarks/RESULTS.md). What is made from now on is collected as ever.

    Returns:
        Whether this is a task.
    """
    if TaskContext.get() is None:
        return False
    gc.freeze()
    return True
