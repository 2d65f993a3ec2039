"""The tests' JVMs use the archives of classes that `make test` makes; Java doesn't tell when it does without."""

import subprocess
from pathlib import Path

import pytest
from class_archives import IVY, PRAVEGA, REGISTRY, SPARK, Archive
from pyspark.sql import SparkSession

from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.sandbox.files import ivy


def test_servers_and_sessions_have_the_archives_of_their_classes(spark: SparkSession, sandbox: Sandbox) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    session_pid = jvm.java.lang.ProcessHandle.current().pid()
    programs = ((SPARK, session_pid), (PRAVEGA, sandbox.pravega_pid), (REGISTRY, sandbox.registry_pid))
    for archive, pid in programs:
        assert _has(pid, archive), f"{pid} runs without {archive.file()}: has its class path changed?"


def test_ivy_has_the_archive_of_its_classes(tmp_path: Path) -> None:
    file = IVY.file()
    if file is None or not file.exists():
        pytest.skip("no archive of Ivy's classes has been made: make classes")
    command = ivy.command(tmp_path / "none.xml", tmp_path, "-version", settings=None, jvm=["-Xlog:class+load"])
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "org.apache.ivy.Main source: shared objects file (top)" in said


def _has(pid: int, archive: Archive) -> bool:
    file = archive.file()
    if file is None or not file.exists():
        pytest.skip(f"no archive of {archive.name}'s classes has been made: make classes")
    return str(file) in Path(f"/proc/{pid}/maps").read_text()
