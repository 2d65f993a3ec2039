"""The native module, where it is installed and not switched off."""

from __future__ import annotations

import os
from types import ModuleType

SWITCH = "PYSPARK_PRAVEGA_NATIVE"
"""The environment variable that keeps the native codec from being used when it is `0`."""


def module() -> ModuleType | None:
    """The native module; None when its wheel isn't installed, or it is switched off."""
    if os.environ.get(SWITCH) == "0":
        return None
    try:
        import pyspark_pravega_native
    except ImportError:
        return None
    found: ModuleType = pyspark_pravega_native
    return found
