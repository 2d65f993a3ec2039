"""The native module, where its wheel is installed."""

from __future__ import annotations

import os
from functools import cache
from types import ModuleType

SWITCH = "PYSPARK_PRAVEGA_NATIVE"
"""The environment variable that keeps the native codec from being used when it is `0`."""

INTERFACE = 9
"""What this package expects of the native module; one of another interface isn't used."""


def module() -> ModuleType | None:
    """The native module; None when its wheel isn't installed, is one of another release, or is
    switched off."""
    return None if os.environ.get(SWITCH) == "0" else _installed_module()


@cache
def _installed_module() -> ModuleType | None:
    try:
        import pyspark_pravega_native
    except ImportError:
        return None
    native: ModuleType = pyspark_pravega_native
    return native if getattr(native, "INTERFACE", None) == INTERFACE else None
