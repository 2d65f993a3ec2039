"""The record of results: RESULTS.md beside this file."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import subprocess
import textwrap
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from pyspark_pravega.sandbox import places

RECORD = Path(__file__).parent / "RESULTS.md"
_PACKAGES = ("pyspark-pravega", "pyspark", "pyarrow", "numpy", "fastavro")


def describe_machine() -> str:
    """Machine and versions in a sentence."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        f"{_processor()}, {os.cpu_count()} cores shared by server and clients, {_memory_gib():.0f} GiB; "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}, Java {_java_version()}; "
        f"{packages}; Pravega 0.13.0, its Java client 0.13.0 with the serializers 0.6.0; commit {_commit()}."
    )


def append(report: str, module: str, arguments: Sequence[str]) -> None:
    """Put a section into the record, in place of the one that the same command has left before.

    Args:
        report: the results in Markdown.
        module: what was run.
        arguments: those of the command line.
    """
    command = shlex.join(["python", "-m", module, *arguments])
    first, *sections = RECORD.read_text().rstrip("\n").split("\n\n## ")
    kept = [section for section in sections if not section.partition("\n")[0].endswith(f": `{command}`")]
    machine = textwrap.fill(describe_machine(), 120, break_on_hyphens=False)
    new = f"{datetime.date.today()}: `{command}`\n\n{machine}\n\n{report}"
    RECORD.write_text("\n\n## ".join([first, *kept, new]) + "\n")


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _java_version() -> str:
    output = subprocess.run([str(places.java()), "-version"], capture_output=True, text=True, check=True).stderr
    return output.split('"')[1]


def _commit() -> str:
    process = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=RECORD.parent, capture_output=True, text=True, check=False
    )
    return process.stdout.strip() or "unknown"
