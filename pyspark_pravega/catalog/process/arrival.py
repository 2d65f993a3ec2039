"""Functions for Spark's workers that say so in a sentence when the worker's Python lacks this package.

A function that is pickled names the modules that it needs. A worker without them would fail with a trace of Python's.
So what is sent is a small function that comes whole, with its code. It looks for the modules, and then opens the real
one.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.worker_util import pickleSer

_NEEDED = ("pyspark_pravega", "numpy", "pyarrow", "grpc", "google.protobuf", "httpx")
"""What a worker loads, by the names of the modules."""


def sealed(function: bytes) -> bytes:
    """A pickled function, in a pickle that checks the worker's Python before it opens it.

    Args:
        function: as Spark's Python workers unpickle it.
    """
    pickled: bytes = pickleSer.dumps(_Sealed(function))  # type: ignore[no-untyped-call]
    return pickled


class _Sealed:
    """Unpickles as what `function` is the pickle of."""

    def __init__(self, function: bytes) -> None:
        self._function = function

    def __reduce__(self) -> tuple[Any, ...]:
        # The package's own module isn't imported above, as it offers what stands above this room.
        return opened, (self._function, _NEEDED, sys.modules[_NEEDED[0]].__version__)


def opened(function: bytes, needed: tuple[str, ...], version: str) -> Any:
    """Unpickle a function in a worker. It is sent with its code, so it uses nothing of this module.

    Args:
        function: the pickled function.
        needed: the modules that must be there.
        version: the driver's, which must be the worker's, too.

    Returns:
        The function.

    Raises:
        ModuleNotFoundError: this Python lacks a module, or has another version of the package.
    """
    import os
    import platform
    from importlib import import_module
    from importlib.util import find_spec

    from pyspark import worker_util

    def is_missing(name: str) -> bool:
        try:
            module = find_spec(name)
        except ModuleNotFoundError:  # the package above it is missing
            return True
        # A folder without a module is none: Spark's jars are on the path, and have a folder google/protobuf.
        return module is None or module.origin is None

    ways = (
        "send it to the executors with `pravega-spark pack`, or install it in their Python; "
        "--py-files can't bring it (docs/clusters.md)"
    )
    here = f"the Python of an executor on {platform.node()} ({sys.executable}, {platform.python_version()})"
    wrong = None
    missing = [name for name in needed if is_missing(name)]
    if missing:
        wrong = f"{here} has no {', '.join(missing)}, which tasks of pyspark-pravega need: {ways}"
    elif (own_version := import_module(needed[0]).__version__) != version:
        wrong = f"{here} has pyspark-pravega {own_version}, and the driver has {version}: {ways}"
    if wrong is not None:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise ModuleNotFoundError(wrong) from None
    return worker_util.pickleSer.loads(function)  # type: ignore[no-untyped-call]


register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
