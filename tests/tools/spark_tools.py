"""The Spark session of a test process."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from server_tools import FORMAT_CLASSES

import pyspark_pravega
from pyspark_pravega.sandbox import Sandbox

_TESTS = Path(__file__).parents[1]
MEASURED = "COVERAGE_PROCESS_CONFIG" in os.environ
"""Whether coverage is measured: it tells the processes that it starts by this variable."""


class Sessions:
    """One session at a time, in one JVM: the servers that it is configured for may change."""

    def __init__(self) -> None:
        self._session: SparkSession | None = None
        self._controller = ""
        self._modules = tempfile.TemporaryDirectory(prefix="tests-modules-")

    @property
    def modules(self) -> Path:
        """A folder in which the catalog's process and the workers find modules, as those of a user."""
        return Path(self._modules.name)

    def get(self, sandbox: Sandbox) -> SparkSession:
        """The session for servers, configured as a user would do it: four task slots; a task may fail twice.

        Args:
            sandbox: the servers.
        """
        if self._session is not None and self._controller != sandbox.controller_uri:
            self.stop()
        if self._session is None:
            self._session, self._controller = self._start(sandbox), sandbox.controller_uri
        return self._session

    def stop(self) -> None:
        """End it."""
        if self._session is not None:
            self._session.stop()
            self._session = None

    def end(self) -> None:
        """Stop it, and take away what was made for it."""
        self.stop()
        self._modules.cleanup()

    def _start(self, sandbox: Sandbox) -> SparkSession:
        # Where the catalog's process and the workers find a user's formats, and how coverage is measured.
        places = [str(_TESTS / "serde"), str(_TESTS / "tools"), str(self.modules)]
        path = os.environ.get("PYTHONPATH", "")
        if not path.startswith(os.pathsep.join(places)):
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*places, path]))
        os.environ["PRAVEGA_FORMAT_CLASSES"] = FORMAT_CLASSES
        builder = SparkSession.builder.master("local[4,3]").appName("tests")
        builder = pyspark_pravega.configure(
            builder, controller=sandbox.controller_uri, schema_registry=sandbox.schema_registry_uri
        )
        conf = {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "4",
            # As users have it; programs that tests start do without (CHEAPER_PROGRAMS).
            "spark.sql.codegen.wholeStage": "true",
            "spark.sql.codegen.factoryMode": "FALLBACK",
            # An INSERT of some rows has two tasks then, not four.
            "spark.default.parallelism": "2",
            "spark.driver.memory": "2g",
            "spark.driver.host": "localhost",
        }
        if MEASURED:
            conf["spark.python.daemon.module"] = "coverage_daemon"
        for key, value in conf.items():
            builder = builder.config(key, value)
        # Spark's own daemon has loaded it all, too (sitecustomize.py), for this session only.
        with pytest.MonkeyPatch.context() as patch:
            if not MEASURED:
                patch.setenv("TESTS_PRELOADED", "1")
            session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        return session


def catalog_processes() -> list[int]:
    """The catalog processes that this program's JVM has started."""
    own = []
    for process in Path("/proc").iterdir():
        try:
            command = (process / "cmdline").read_bytes()
            parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
            grandparent = int(Path(f"/proc/{parent}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if b"pyspark_pravega.catalog.process.service" in command and grandparent == os.getpid():
            own.append(int(process.name))
    return own
