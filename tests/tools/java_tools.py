"""The Java that the tests use: the one of this machine, told to be ready soon rather than fast in the long run."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

_OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=240m"]
"""Most JVMs of the tests live for seconds: the second compiler and a collector with threads of its own cost them more
than they give (a sandbox's start took 16 s of CPU, and 10 s so; six statements of spark-sql 34 s, and 20 s so). With
one compiler Java has 48 MB for what it compiles, which a session of many tests fills ("Out of space in CodeCache"): it
gets as much as with both."""
PRAVEGA_MAIN = "io.pravega.local.LocalPravegaEmulator"
"""What the command lines of Pravega's servers have whose data lies in memory."""
KEEPING_MAINS = (
    "pyspark.pravega.sandbox.Durable",
    "io.pravega.controller.server.Main",
    "io.pravega.segmentstore.server.host.ServiceStarter",
    "org.apache.bookkeeper.server.Main",
    "org.apache.zookeeper.server.quorum.QuorumPeerMain",
)
"""The same of those whose data is kept: a sandbox in one process, and the processes of a cluster."""
_OF_PROGRAMS = {
    PRAVEGA_MAIN: [
        # Pravega looks for watermarks each 10 s, for which some tests wait.
        "-Dcontroller.watermarking.frequency.seconds=3",
        # Data lies in memory: nothing is to be kept when the machine fails.
        "-Dzookeeper.forceSync=no",
    ]
}
"""Measured: docs/internals/test-suite.md ("Where the CPU goes")."""
_LAUNCHER = "org.apache.spark.launcher.Main"
"""It has another program's name among its arguments."""


def find_java() -> Path | None:
    """The `java` of `JAVA_HOME`, or the one on the path; None where there is none."""
    home = os.environ.get("JAVA_HOME")
    command = Path(home, "bin", "java") if home else shutil.which("java")
    return Path(command).resolve() if command and Path(command).exists() else None


def make_home(folder: Path, options: Mapping[str, Sequence[str]]) -> Path | None:
    """Make a JAVA_HOME whose `java` has these options.

    Args:
        folder: where; it must be empty.
        options: more of them, of programs whose command line has a word, beside those of the servers.

    Returns:
        None where no Java is found: whoever needs it says so.
    """
    java = find_java()
    if java is None:
        return None
    for original in java.parent.parent.iterdir():
        if original.name != "bin":
            (folder / original.name).symlink_to(original)
    (folder / "bin").mkdir()
    for original in java.parent.iterdir():
        if original.name != "java":
            (folder / "bin" / original.name).symlink_to(original)
    cases = [f"*{_LAUNCHER}*) ;;"]
    words = {word: [*_OF_PROGRAMS.get(word, ()), *options.get(word, ())] for word in {**_OF_PROGRAMS, **options}}
    cases += [f'*{word}*) set -- {shlex.join(more)} "$@" ;;' for word, more in words.items()]
    starter = folder / "bin" / "java"
    run = f'exec {shlex.join([str(java), *_OPTIONS])} "$@"'
    starter.write_text("\n".join(["#!/bin/sh", 'case "$*" in', *cases, "esac", run, ""]))
    starter.chmod(0o755)
    return folder
