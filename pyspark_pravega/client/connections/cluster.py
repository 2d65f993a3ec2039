"""One Pravega cluster, as everything in the client sees it: its controller and its segment stores."""

from __future__ import annotations

from typing import Self

from pyspark_pravega.client.connections.pool import ConnectionPool
from pyspark_pravega.client.controller import Controller
from pyspark_pravega.settings import Settings


class Cluster:
    """The controller and the segment stores of one Pravega cluster. Safe for use by several threads."""

    def __init__(self, settings: Settings, *, presumed: bool = False) -> None:
        """Connect lazily: when something is asked.

        Args:
            settings: where the cluster is, and who asks.
            presumed: whether the addresses are right for sure, because another process has reached them. A server that
                has never answered is given up after a minute otherwise, or at once (`outages.Contact`).
        """
        self.settings = settings
        credentials = settings.credentials()
        tls = settings.tls if settings.uses_tls else None
        self.controller = Controller(
            settings.controller_uri, timeout=settings.timeout, credentials=credentials, tls=tls, presumed=presumed
        )
        self.pool = ConnectionPool(
            self.controller,
            timeout=settings.timeout,
            authenticated=credentials is not None,
            tls=tls,
            presumed=presumed,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.pool.close()
        self.controller.close()
