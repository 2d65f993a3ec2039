"""Which transactions of a stream are open: the controller can't list them, but their ids are a counter."""

from __future__ import annotations

import uuid

from pyspark_pravega.client import Client, Stream, TransactionState


def open_transactions(client: Client, stream: Stream) -> list[str]:
    """The open transactions among the last thousand that were begun in the stream's epoch."""
    controller = client.controller
    latest = controller.begin_transaction(stream, lease_ms=10_000)
    controller.abort_transaction(stream, latest.id)
    candidates = [uuid.UUID(int=latest.id.int - back) for back in range(1, min(1000, latest.id.int & (2**64 - 1)) + 1)]
    return [str(t) for t in candidates if controller.transaction_state(stream, t) == TransactionState.OPEN]
