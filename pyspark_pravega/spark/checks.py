"""Whether Spark's internals that this package uses are as it expects them, each by its name."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from pyspark_pravega.spark import output
from pyspark_pravega.spark.here import Spark
from pyspark_pravega.spark.jars import jar

_CLASS = "pyspark.pravega.internals.SelfCheck"
_USED = {"Python daemon": ("pyspark.daemon", "manager", "worker"), "pickles": ("pyspark.worker_util", "pickleSer")}
"""Modules of pyspark, and what this package uses of them without Spark's documenting it."""
_LIMIT_S = 60


def internals(java: Path, spark: Spark) -> Mapping[str, str | None]:
    """Look at all of them, in Python and in a JVM of its own.

    Args:
        java: the program.
        spark: whose internals.

    Returns:
        Name to what is otherwise than expected; None when nothing is.

    Raises:
        ConfigurationError: no jar fits the Spark that is installed.
    """
    problems = {name: _missing(*used) for name, used in _USED.items()}
    problems["output of workers"] = output.why_unknown()
    return problems | _of_jvm(java, spark)


def _missing(module: str, *names: str) -> str | None:
    loaded = import_module(module)
    missing = [name for name in names if not hasattr(loaded, name)]
    return f"{module} has no {', '.join(missing)}" if missing else None


def _of_jvm(java: Path, spark: Spark) -> dict[str, str | None]:
    classes = f"{jar(spark.version)}:{spark.home}/jars/*"
    command = [str(java), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classes, _CLASS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    lines = [line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line]
    if not lines:
        last = done.stderr.strip().splitlines()[-1:] or ["it says nothing"]
        return {"classes in the JVM": f"{_CLASS} doesn't run: {last[0]}"}
    return {name: None if said == "ok" else said for name, said in lines}
