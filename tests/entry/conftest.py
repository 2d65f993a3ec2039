"""One Thrift server for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from entry_tools import ThriftServer, descendants, thrift_server, wait_until_gone

from pyspark_pravega.sandbox import Sandbox

FEW_TASKS = ["--", "--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2"]


@pytest.fixture(scope="session")
def thrift(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThriftServer]:
    """Stopped by SIGTERM at the end, when it must leave neither processes nor files."""
    folder = tmp_path_factory.mktemp("thrift")
    with thrift_server(sandbox.environment(), folder, *FEW_TASKS) as running:
        yield running
        processes = descendants(running.process.pid)
        assert running.stop() == 0
    wait_until_gone(processes)
    assert list((folder / "home").iterdir()) == []
