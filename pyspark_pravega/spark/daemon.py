"""Spark's Python daemon, with all that this package's tasks need loaded before it forks their workers.

Spark's own loads nothing, so each worker imports numpy, pyarrow and this package anew: half a second of CPU. The JVM
names this module for its own tasks only (`jvm/common/pyspark/pravega/internals/WorkerRunner.java`), and others' never
meet it.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import socket
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

_LOADED = (
    "pyspark.worker",
    "pyspark_pravega.catalog.process.pickles",
    "pyspark_pravega.catalog.pushdown",
    "pyspark_pravega.serde.native",
    # What the first channel and the first connection load.
    "grpc.experimental",
    "encodings.idna",
)
_PLAIN = "pyspark.daemon"
_SETTLING_TASKS = 2
"""After so many tasks a worker has loaded what it needs."""
_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""For numpy's linear algebra, and for the one of pyarrow's allocators that it doesn't use."""


def leave_archives() -> None:
    """Take pyspark and py4j from where they are installed, rather than from Spark's archives of the same version.

    Spark puts these archives, of sources only, first on the path. What is imported from them is compiled anew by each
    process. Where nothing is installed, or another version, the archives stay. Spark's own jar is on the path, too,
    and has no Python in it. Spark has each worker forget what Python knows of the archives on its path, which then
    reads their lists of 8,000 files again: 0.07 s of CPU.
    """
    for package in ("pyspark", "py4j"):
        installed = next((Path(entry, package) for entry in sys.path if Path(entry, package).is_dir()), None)
        archives = [entry for entry in sys.path if entry.endswith(".zip") and Path(entry).name.startswith(package)]
        if installed is None:
            continue
        for archive in archives:
            # OSError: an archive that isn't there, a package without a version; KeyError: an archive of something else.
            with contextlib.suppress(OSError, KeyError, BadZipFile), ZipFile(archive) as sources:
                if sources.read(f"{package}/version.py") == (installed / "version.py").read_bytes():
                    _leave(archive)
    for jar in [entry for entry in sys.path if Path(entry).name.startswith("spark-core_")]:
        _leave(jar)
    # Python's own `copy` and `pickle` look for Jython's classes, and have found Java's packages in the jar.
    sys.modules.pop("org", None)


def _leave(archive: str) -> None:
    sys.path.remove(archive)
    for entry in [entry for entry in sys.path_importer_cache if entry.startswith(archive)]:
        del sys.path_importer_cache[entry]


def load() -> bool:
    """Load what tasks need, and nothing more: no connection is made, and no thread begun.

    Returns:
        Whether the process may fork: it has one thread, as far as the system tells.
    """
    # Standard output is for the port.
    with contextlib.redirect_stdout(sys.stderr):
        for module in _LOADED:
            import_module(module)
        from pyspark_pravega.frames import native_module
        from pyspark_pravega.frames.pandas_later import load_pandas_later

        native_module.module()
        load_pandas_later()
    gc.collect()
    # Workers share these pages for as long as nobody writes to them, as the collector would.
    gc.freeze()
    threads = Path("/proc/self/task")
    return not threads.exists() or len(list(threads.iterdir())) == 1


def main() -> None:
    """Serve as Spark's daemon does."""
    leave_archives()
    with _without_threads():
        may_fork = load()
    if not may_fork:
        os.execv(sys.executable, [sys.executable, "-m", _PLAIN, *sys.argv[1:]])
    daemon: Any = import_module(_PLAIN)
    daemon.worker = _prompt(_settling(_quiet(daemon.worker)))
    daemon.manager()


def _prompt(worker: Callable[..., int]) -> Callable[..., int]:
    """Spark's worker, whose small messages don't wait until the JVM has acknowledged those before: up to 40 ms, with
    Linux."""

    def prompt(connection: socket.socket, *arguments: Any) -> int:
        if connection.family != getattr(socket, "AF_UNIX", None):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return worker(connection, *arguments)

    return prompt


def _settling(worker: Callable[..., int]) -> Callable[..., int]:
    """Spark's worker, which keeps what is there after its first tasks out of the garbage collector's way.

    Spark collects after each task, and looks at all that the first ones have loaded: 8 % of a worker's CPU while it
    read events of 1,000 bytes. Nothing of it is garbage, because it is collected once more before.
    """
    tasks = itertools.count()

    def settling(*arguments: Any) -> int:
        code = worker(*arguments)
        if next(tasks) < _SETTLING_TASKS:
            gc.collect()
            gc.freeze()
        return code

    return settling


def _quiet(worker: Callable[..., int]) -> Callable[..., int]:
    """Spark's worker, but one whose task is cancelled ends without a trace: the JVM has closed the connection, and what
    it was about to be told nobody waits for."""

    def quiet(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except (BrokenPipeError, ConnectionResetError):
            return 1

    return quiet


@contextlib.contextmanager
def _without_threads() -> Iterator[None]:
    """Libraries that begin threads when they are loaded don't do so meanwhile."""
    before = {name: os.environ.get(name) for name in _NO_THREADS}
    os.environ.update(_NO_THREADS)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


if __name__ == "__main__":
    main()
