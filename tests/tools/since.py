"""Which Spark there is, and what a test needs of it (docs/testing.md)."""

from __future__ import annotations

from pyspark_pravega.spark import versions
from pyspark_pravega.spark.jars import installed

SPARK = versions.numbers(installed())
"""Which Spark there is, by major and minor version."""


def is_missing(version: str) -> bool:
    """Whether there is an older Spark than something came with.

    Args:
        version: the minor version of Spark that it came with.

    Raises:
        ValueError: this package runs on no such Spark.
    """
    if version not in versions.SUPPORTED:
        raise ValueError(f"since Spark {version!r}: this package runs on {', '.join(versions.SUPPORTED)}")
    return versions.numbers(version) > SPARK
