"""Suites of queries, and how their generators' rows become files."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyspark

from pyspark_pravega.sandbox import Bundle, fetch, places

_JARS = Path(__file__).parents[1] / "tests" / "jars"
_PROGRAMS = Path(__file__).parent / "java"


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Tables and queries."""

    title: str
    """Its name as people write it."""
    keys: Mapping[str, str]
    """Each table's primary key: columns, with commas."""
    queries: Callable[[float], Mapping[str, str]]
    """The queries' texts by their names, for tables of a scale."""
    generate: Callable[[Path, float, Collection[str]], Mapping[str, str]]
    """Writes rows of some tables at a scale into a folder, each table's as a file of lines whose fields end with a bar,
    as `orders.tbl`; returns each table's columns, as SQL declares them."""


def bundle(name: str) -> Bundle:
    """Jars that `tests/jars` names.

    Args:
        name: of its files there.
    """
    return Bundle(name, _JARS / f"{name}.xml", _JARS / f"{name}.sha256")


def run_generator(jars: Bundle, program: str, folder: Path, scale: float, tables: Collection[str]) -> str:
    """Run a program that writes tables' rows.

    Args:
        jars: what it needs beside Guava, which is among Spark's jars.
        program: its file in `benchmarks/java`.
        folder: where it writes to.
        scale: 1 is a gigabyte.
        tables: which.

    Returns:
        What it printed.
    """
    paths = [*fetch(jars).glob("*.jar"), *(Path(pyspark.__file__).parent / "jars").glob("guava-*.jar")]
    command = [str(places.java()), "-cp", ":".join(map(str, paths)), str(_PROGRAMS / program)]
    command += [str(folder), str(scale), *tables]
    return subprocess.run(command, check=True, timeout=600, stdout=subprocess.PIPE, encoding="utf-8").stdout
