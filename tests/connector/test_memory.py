"""What a process shares, and what it does about its memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pyspark_pravega.connector.shared import shared_client, shared_registry
from pyspark_pravega.settings import Settings

_PROGRAM = """
import gc, sys
from pyspark import TaskContext
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.settings import Settings

if sys.argv[1] == "task":
    TaskContext._getOrCreate()
shared_client(Settings.resolve({"controller-uri": "tcp://127.0.0.1:1"}, environ={}))
kept, looked_at = gc.get_freeze_count(), len(gc.get_objects())
cycle = []
cycle.append(cycle)
del cycle
print(kept > looked_at, gc.collect() > 0)
"""


@pytest.mark.parametrize("where", ["task", "driver"])
def test_only_tasks_keep_what_they_have_loaded_from_the_collector(where: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, where], capture_output=True, text=True, check=True, timeout=120
    )
    # New garbage is found as ever.
    assert done.stdout.split() == [str(where == "task"), "True"]


def test_reads_that_differ_in_shared_memory_only_share_their_connections() -> None:
    servers = {"controller-uri": "tcp://127.0.0.1:1", "schema-registry-uri": "http://127.0.0.1:1"}
    one, other = (Settings.resolve({**servers, "shared-memory": value}, environ={}) for value in ("0", "1m"))
    assert shared_client(one) is shared_client(other)
    assert shared_registry(one) is shared_registry(other)
