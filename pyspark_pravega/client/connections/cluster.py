"""One Pravega cluster, as everything in the client sees it: its controller and its segment stores."""

from __future__ import annotations

from typing import Self

from pyspark_pravega.client.connections.pool import ConnectionPool
from pyspark_pravega.client.controller import Controller
from pyspark_pravega.settings import Settings


class Cluster:
    """The controller and the segment stores of one Pravega cluster. Safe for use by several threads."""

    def __init__(self, settings: Settings) -> None:
        """Connect lazily: when something is asked.

        Args:
            settings: where the cluster is, and who asks.
        """
        self.settings = settings
        credentials = settings.credentials()
        tls = settings.tls if settings.uses_tls else None
        self.controller = Controller(
            settings.controller_uri, timeout=settings.timeout, credentials=credentials, tls=tls
        )
        self.pool = ConnectionPool(
            self.controller, timeout=settings.timeout, authenticated=credentials is not None, tls=tls
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.pool.close()
        self.controller.close()
