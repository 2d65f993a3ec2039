"""The Java that the tests use: the one of this machine, told to be ready soon rather than fast in the long run."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

_OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
"""Most JVMs of the tests live for seconds: the second compiler and a collector with threads of its own cost them more
than they give (a sandbox's start took 16 s of CPU, and 10 s so; six statements of spark-sql 34 s, and 20 s so)."""


def make_home(folder: Path) -> Path | None:
    """Make a JAVA_HOME whose `java` has these options.

    Args:
        folder: where; it must be empty.

    Returns:
        None where no Java is found: whoever needs it says so.
    """
    home = os.environ.get("JAVA_HOME")
    command = Path(home, "bin", "java") if home else shutil.which("java")
    if not command or not Path(command).exists():
        return None
    java = Path(command).resolve()
    for original in java.parent.parent.iterdir():
        if original.name != "bin":
            (folder / original.name).symlink_to(original)
    (folder / "bin").mkdir()
    for original in java.parent.iterdir():
        if original.name != "java":
            (folder / "bin" / original.name).symlink_to(original)
    starter = folder / "bin" / "java"
    starter.write_text(f'#!/bin/sh\nexec {shlex.quote(str(java))} {" ".join(_OPTIONS)} "$@"\n')
    starter.chmod(0o755)
    return folder
