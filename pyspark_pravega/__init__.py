"""Pravega streams as Spark SQL tables.

Spark imports this module in each program that looks for Python data sources, so it loads nothing by itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pyspark_pravega._version import __version__

# gRPC's own handlers at a fork abort one in fifty children, and with them the JVM that pyspark starts; it reads this
# when it is loaded. Nothing here uses a connection in a forked child.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

if TYPE_CHECKING:
    from pyspark_pravega.connector.datasource import DefaultSource
    from pyspark_pravega.sql.session import configure
    from pyspark_pravega.sql.transactions import transaction

__all__ = ["DefaultSource", "__version__", "configure", "transaction"]


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from pyspark_pravega.connector.datasource import DefaultSource

        return DefaultSource
    if name == "configure":
        from pyspark_pravega.sql.session import configure

        return configure
    if name == "transaction":
        from pyspark_pravega.sql.transactions import transaction

        return transaction
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
