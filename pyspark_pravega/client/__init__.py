"""Pravega without Spark: the controller, the segment store's wire protocol, and what is built on both."""

from __future__ import annotations

from typing import Self

from pyspark_pravega.client.controller import Controller
from pyspark_pravega.client.deadlines import deadline
from pyspark_pravega.client.event_writer import EventWriter
from pyspark_pravega.client.names import SegmentRange, Stream, StreamSegments
from pyspark_pravega.client.policies import (
    RetentionPolicy,
    RetentionType,
    ScaleType,
    ScalingPolicy,
    StreamConfiguration,
)
from pyspark_pravega.client.pool import ConnectionPool
from pyspark_pravega.client.transaction_writer import DEFAULT_LEASE_MS, OwnTransaction, TransactionWriter
from pyspark_pravega.client.transactions import Transaction, TransactionState
from pyspark_pravega.settings import Settings

__all__ = [
    "Client",
    "ConnectionPool",
    "Controller",
    "EventWriter",
    "OwnTransaction",
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
    "TransactionWriter",
    "deadline",
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

    def writer(self, stream: Stream | str) -> EventWriter:
        """Write events to a stream directly; see `EventWriter`.

        Args:
            stream: the stream, or `scope/stream`.

        Raises:
            StreamNotFoundError: there is no such stream.
            StreamSealedError: it takes no more events.
        """
        return EventWriter(self, self._stream(stream))

    def transaction(self, stream: Stream | str, *, lease_ms: int = DEFAULT_LEASE_MS) -> OwnTransaction:
        """Begin a transaction; see `OwnTransaction`.

        Args:
            stream: the stream, or `scope/stream`.
            lease_ms: how long it outlives this process, in milliseconds.

        Raises:
            StreamNotFoundError: there is no such stream.
            TransactionError: the stream is sealed, or the lease isn't within the server's limits.
        """
        return OwnTransaction(self, self._stream(stream), lease_ms=lease_ms)

    def join(self, transaction: Transaction) -> TransactionWriter:
        """Write into a transaction that was begun elsewhere; see `TransactionWriter`.

        Args:
            transaction: the one that was begun: `OwnTransaction.transaction`, which can be pickled.
        """
        return TransactionWriter(self, transaction)

    def _stream(self, stream: Stream | str) -> Stream:
        return stream if isinstance(stream, Stream) else Stream.parse(stream, self.settings.scope)

    def close(self) -> None:
        """Close all connections."""
        self.pool.close()
        self.controller.close()
