"""What needs pyiceberg, which is an extra."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from pyspark_pravega.errors import ConfigurationError


def load_iceberg() -> ModuleType:
    """The part of this room that needs pyiceberg; it is loaded when it is asked for.

    Raises:
        ConfigurationError: it isn't installed.
    """
    try:
        return import_module("pyspark_pravega.lake.iceberg")
    except ImportError as error:
        raise ConfigurationError(
            f'a table with a lake needs pyiceberg: pip install "pyspark-pravega[lake]" ({error})'
        ) from None
