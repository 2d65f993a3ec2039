"""Pravega without Spark: the controller, the segment store's wire protocol, and what is built on both."""

from __future__ import annotations

from typing import Self

from pyspark_pravega.client.controller import Controller
from pyspark_pravega.client.names import SegmentRange, Stream, StreamSegments
from pyspark_pravega.client.policies import (
    RetentionPolicy,
    RetentionType,
    ScaleType,
    ScalingPolicy,
    StreamConfiguration,
)
from pyspark_pravega.client.pool import ConnectionPool
from pyspark_pravega.client.transactions import Transaction, TransactionState
from pyspark_pravega.settings import Settings

__all__ = [
    "Client",
    "ConnectionPool",
    "Controller",
    "RetentionPolicy",
    "RetentionType",
    "ScaleType",
    "ScalingPolicy",
    "SegmentRange",
    "Stream",
    "StreamConfiguration",
    "StreamSegments",
    "Transaction",
    "TransactionState",
]


class Client:
    """The controller and the segment stores of one Pravega cluster. Safe for use by several threads."""

    def __init__(self, settings: Settings) -> None:
        """Make a client; it connects when it is used.

        Args:
            settings: where the cluster is.
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
