"""A Spark program whose JVM can't open its Python workers' files, as where `/proc` hides processes.

Arguments: controller, schema registry, table. It prints what it has read, whether tasks still ask for shared memory,
whether a ring was mapped, and how often the log tells of it, as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from shared_memory_tools import looked_at

import pyspark_pravega

_SET_DUMPABLE, _DROP_CAPABILITY, _PTRACE = 4, 24, 19
_HIDDEN = f"import ctypes\nctypes.CDLL(None).prctl({_SET_DUMPABLE}, 0, 0, 0, 0)\n"


def close_files() -> None:
    """The workers' files can be opened by those only who may trace every process; the JVM may not, even as root."""
    ctypes.CDLL(None).prctl(_DROP_CAPABILITY, _PTRACE, 0, 0, 0)
    folder = tempfile.mkdtemp()
    (Path(folder) / "sitecustomize.py").write_text(_HIDDEN)
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])


def main(controller: str, registry: str, table: str) -> None:
    close_files()
    number, name = tempfile.mkstemp()
    os.dup2(number, 2)  # The JVM inherits it.
    builder = SparkSession.builder.master("local[2]")
    builder = pyspark_pravega.configure(builder, controller=controller, schema_registry=registry)
    for key, value in {"spark.ui.enabled": "false", "spark.driver.host": "localhost"}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    seen = looked_at(spark, table)
    log = Path(name)
    warnings = log.read_text().count("WARN SharedRing: This process can't open files of its Python workers (")
    log.unlink()
    print(json.dumps({**seen, "warnings": warnings}))


if __name__ == "__main__":
    main(*sys.argv[1:])
