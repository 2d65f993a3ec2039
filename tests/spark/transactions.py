"""Which transactions of a stream are open: the controller can't list them, but their ids are a counter."""

from __future__ import annotations

import uuid

from pyspark_pravega.client import Client, Stream, TransactionState

_AT_MOST = 1000
_OF_OTHERS = 100
"""So many ids in a row that aren't the stream's: it is younger than they are. To ask for one costs Pravega 1 to 2 ms of
CPU, and all streams share the counter."""


def open_transactions(client: Client, stream: Stream) -> list[str]:
    """The open transactions that were begun in the stream's epoch."""
    controller = client.controller
    latest = controller.begin_transaction(stream, lease_ms=10_000)
    controller.abort_transaction(stream, latest.id)
    still_open: list[str] = []
    others = 0
    for back in range(1, min(_AT_MOST, latest.id.int & (2**64 - 1)) + 1):
        transaction = uuid.UUID(int=latest.id.int - back)
        state = controller.transaction_state(stream, transaction)
        if state is TransactionState.OPEN:
            still_open.append(str(transaction))
        others = others + 1 if state is TransactionState.UNKNOWN else 0
        if others == _OF_OTHERS:
            break
    return still_open
