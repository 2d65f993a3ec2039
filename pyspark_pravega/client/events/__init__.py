"""Events of streams: written directly (`writer`, `numbered`) or in transactions, read (`reader`), followed (`tail`).

`blocks` puts events and their keys into blocks for segments, `batches` takes them out of bytes as Arrow arrays. It uses
`positions`, `segments` and below.
"""

from pyspark_pravega.client.events.batches import EventBatch, event_batches
from pyspark_pravega.client.events.numbered import NumberedWriter, settled_since
from pyspark_pravega.client.events.reader import plan, read_part, split_part
from pyspark_pravega.client.events.tail import EventTail
from pyspark_pravega.client.events.transaction_writer import (
    DEFAULT_LEASE_MS,
    LeaseKeeper,
    OwnTransaction,
    TransactionWriter,
    abort_quietly,
)
from pyspark_pravega.client.events.writer import LINGER_S, EventWriter

__all__ = [
    "DEFAULT_LEASE_MS",
    "LINGER_S",
    "EventBatch",
    "EventTail",
    "EventWriter",
    "LeaseKeeper",
    "NumberedWriter",
    "OwnTransaction",
    "TransactionWriter",
    "abort_quietly",
    "event_batches",
    "plan",
    "read_part",
    "settled_since",
    "split_part",
]
