"""What a transaction is."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import IntEnum

from pyspark_pravega.client.names import StreamSegments, transaction_segment_name


class TransactionState(IntEnum):
    """Where a transaction is in its life; the numbers are the controller's."""

    UNKNOWN = 0
    OPEN = 1
    COMMITTING = 2
    COMMITTED = 3
    ABORTING = 4
    ABORTED = 5


@dataclass(frozen=True, kw_only=True)
class Transaction:
    """An open transaction: a shadow of each segment that was current when it began."""

    id: uuid.UUID
    segments: StreamSegments

    @property
    def epoch(self) -> int:
        """The stream's epoch in which it began, the upper 32 bits of its id's first half."""
        return self.id.int >> 96

    def segment_name(self, segment_id: int) -> str:
        """The name on the wire of this transaction's shadow of a segment.

        Args:
            segment_id: one of `segments.ids`.
        """
        return transaction_segment_name(self.segments.stream.segment_name(segment_id), self.id)
