"""`CALL tier` has a process of its own, which gives way to others, ends with who asked, and may be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from lake_tools import Table
from waiting import eventually

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.connector.lake.apart import NICE
from pyspark_pravega.errors import PravegaError, UnsupportedOperationError

pytestmark = [pytest.mark.server, pytest.mark.skipif(sys.platform != "linux", reason="/proc tells of processes")]

ASKING = """
import sys
sys.path[:0] = sys.argv[1].split(":")
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.lake import tier_apart
from pyspark_pravega.lake import LakeConfiguration
from pyspark_pravega.settings import Settings
settings = Settings.resolve({"controller-uri": sys.argv[2], "schema-registry-uri": sys.argv[3]}, environ={})
tier_apart(settings, LakeConfiguration.of({"warehouse": sys.argv[5]}), Stream.parse(sys.argv[4]))
"""


def tiering_of(asking: int) -> int:
    """The process that tiers for another one, once it gives way to others; 0 where there is none yet."""
    for task in Path(f"/proc/{asking}/task").iterdir():
        for pid in map(int, (task / "children").read_text().split()):
            begin, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
            if "python" in begin and int(rest.split()[16]) == min(19, os.getpriority(os.PRIO_PROCESS, asking) + NICE):
                return pid
    return 0


@contextmanager
def stopped(asking: int) -> Iterator[int]:
    """The process that tiers for another one, stopped before it does anything; goes on behind that."""
    process = eventually(lambda: tiering_of(asking))
    os.kill(process, signal.SIGSTOP)
    try:
        yield process
    finally:
        if Path(f"/proc/{process}").exists():
            os.kill(process, signal.SIGCONT)


@pytest.fixture
def table(catalog: Catalog, scope: str, tmp_path: Path) -> Table:
    """One whose files and rows are few, so that it takes a while."""
    table = Table(catalog, scope, tmp_path, **{"lake-row-group-size": "1 KiB", "lake-file-size": "1 KiB"})
    for _ in range(3):
        table.insert(30)
    return table


def test_it_gives_way_and_who_is_killed_leaves_nothing(table: Table) -> None:
    call = table.catalog.procedures.call
    for signalled in (signal.SIGKILL, signal.SIGTERM):
        with ThreadPoolExecutor(1) as thread:
            asked = thread.submit(call, "tier", [table.name])
            with stopped(os.getpid()) as process:
                os.kill(process, signalled)
            with pytest.raises(PravegaError, match=f"has ended by signal {int(signalled)}: run it again"):
                asked.result()
        table.check()
    assert call("tier", [table.name])[0][:2] == [3, 90]
    table.check()
    known = table.files
    call("clean_lake", [table.name, "0 ms"])
    call("clean_lake", [table.name, "0 ms"])
    assert table.files <= known
    table.check()


def test_it_ends_with_who_has_asked_and_leaves_no_file(table: Table) -> None:
    settings = table.catalog.settings
    assert settings.schema_registry_uri is not None
    places = [settings.controller_uri, settings.schema_registry_uri, table.name, str(table.folder)]
    asking = subprocess.Popen([sys.executable, "-c", ASKING, ":".join(filter(None, sys.path)), *places])
    try:
        with stopped(asking.pid) as process:
            asking.kill()
            asking.wait()
    finally:
        asking.kill()
        asking.wait()
    eventually(lambda: not Path(f"/proc/{process}").exists())
    assert list(table.folder.rglob("*.parquet")) == []
    table.check()
    assert table.catalog.procedures.call("tier", [table.name])[0][:2] == [3, 90]
    table.check()


def test_errors_are_those_of_the_call(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    table = Table(catalog, scope, tmp_path)
    table.insert()
    call = table.catalog.procedures.call
    assert call("tier", [table.name])[0][:2] == [1, 3]
    table.folder.joinpath("catalog.db").unlink()
    with pytest.raises(UnsupportedOperationError, match="an Iceberg table that isn't there: bring it back"):
        call("tier", [table.name])
    table.folder.joinpath("catalog.db").write_bytes(b"nothing of the kind")
    with pytest.raises(PravegaError, match=r"catalog process's log"):
        call("tier", [table.name])
