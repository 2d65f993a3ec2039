"""A real Pravega and a real schema registry on this machine, for demos, tests and notebooks.

with Sandbox() as sandbox:
    ...  # sandbox.controller_uri, sandbox.schema_registry_uri
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_pravega.sandbox.cluster import Cluster
    from pyspark_pravega.sandbox.files import PRAVEGA, SCHEMA_REGISTRY, Bundle, fetch, pin
    from pyspark_pravega.sandbox.security import Account
    from pyspark_pravega.sandbox.servers import Sandbox

__all__ = ["PRAVEGA", "SCHEMA_REGISTRY", "Account", "Bundle", "Cluster", "Sandbox", "fetch", "pin"]


def __getattr__(name: str) -> Any:
    # Loaded at first use: the command line registers this package's commands at every start, and needs none of it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = {"Sandbox": "servers", "Cluster": "cluster", "Account": "security.accounts"}.get(name, "files")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
