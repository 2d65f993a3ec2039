"""What the daemon of Spark's Python workers loads before it forks them, and what the command line doesn't load."""

from __future__ import annotations

import subprocess
import sys

LOAD = """
import os, sys
from pyspark_pravega.catalog.process import daemon
before = dict(os.environ)
with daemon._without_threads():
    assert daemon.load(), "threads were begun"
assert dict(os.environ) == before
missing = {"numpy", "pyarrow", "grpc", "pyspark.worker", "pyspark_pravega.connector.read"} - set(sys.modules)
assert not missing, missing
if os.fork() == 0:
    import numpy as np, pyarrow as pa, pyarrow.compute as pc
    # In the child threads are welcome, and work.
    assert pc.sum(pa.table({"x": np.arange(1_000_000)}).group_by([]).aggregate([("x", "sum")])["x_sum"]).as_py() > 0
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
"""


def test_nothing_that_is_loaded_begins_a_thread() -> None:
    subprocess.run([sys.executable, "-c", LOAD], check=True, timeout=600)


def test_the_prompt_s_command_loads_neither_spark_nor_arrow() -> None:
    code = (
        "import sys; from pyspark_pravega import cli; cli._parser('sql'); "
        "assert not {'pyspark', 'pyarrow', 'grpc', 'numpy'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
