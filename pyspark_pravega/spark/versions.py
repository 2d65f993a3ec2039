"""Which Sparks this package runs on."""

from __future__ import annotations

from pyspark_pravega.errors import ConfigurationError

SUPPORTED = ("4.0", "4.1", "4.2", "4.3")
"""The minor versions of Spark that there is a jar for."""


def named() -> str:
    """The supported versions, as a sentence has them."""
    return f"{SUPPORTED[0]} to {SUPPORTED[-1]}"


def is_supported(version: str) -> bool:
    """Whether there is a jar for a Spark."""
    return _minor(version) in SUPPORTED


def minor(version: str) -> str:
    """The minor version that has a jar.

    Args:
        version: a Spark's version.

    Raises:
        ConfigurationError: no jar fits that Spark.
    """
    if not is_supported(version):
        raise ConfigurationError(f"pyspark-pravega runs on Spark {named()}, and this is Spark {version}")
    return _minor(version)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def numbers(version: str) -> tuple[int, int]:
    """Major and minor version, to compare.

    Args:
        version: a Spark's version.
    """
    major, minor = version.split(".")[:2]
    return int(major), int(minor)
