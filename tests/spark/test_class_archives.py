"""The tests' JVMs use the archives of classes that `make test` makes; Java doesn't tell when it does without."""

from pathlib import Path

import pytest
from class_archives import PRAVEGA, REGISTRY, SPARK, Archive
from pyspark.sql import SparkSession

from pyspark_pravega.sandbox import Sandbox


def test_servers_and_sessions_have_the_archives_of_their_classes(spark: SparkSession, sandbox: Sandbox) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    session_pid = jvm.java.lang.ProcessHandle.current().pid()
    programs = ((SPARK, session_pid), (PRAVEGA, sandbox.pravega_pid), (REGISTRY, sandbox.registry_pid))
    for archive, pid in programs:
        assert _has(pid, archive), f"{pid} runs without {archive.file()}: has its class path changed?"


def _has(pid: int, archive: Archive) -> bool:
    file = archive.file()
    if file is None or not file.exists():
        pytest.skip(f"no archive of {archive.name}'s classes has been made: make classes")
    return str(file) in Path(f"/proc/{pid}/maps").read_text()
