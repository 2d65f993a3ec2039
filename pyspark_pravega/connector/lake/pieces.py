"""What versions have added, read in pieces of all segments by turns, so that rows of about one time come together."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pyspark_pravega.client import SegmentPart
from pyspark_pravega.client.events import EventBatch
from pyspark_pravega.client.names import segment_epoch
from pyspark_pravega.connector.read import ChangesReader, CommittedPartition, CommittedRange
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import WireError

_ROUND_BYTES = 32 << 20
"""About how much of all segments is read before each has its next turn."""
_LEAST_BYTES, _MOST_BYTES = 2 << 20, 8 << 20
"""How much of one segment is read in its turn."""


class PiecesReader(ChangesReader):
    """Reads ranges of segments by turns: next is always the one that is farthest behind.

    How far one is, its version says, and within a version the share of its bytes there. Of two segments with rows of
    one version the one that was made earlier comes first, as the other one may have taken its place.
    """

    _ends_with_events: ClassVar[bool] = False

    def __init__(self, definition: TableDefinition, columns: Sequence[str]) -> None:
        """Plan nothing yet.

        Args:
            definition: what the stream is as a table.
            columns: as of `ChangesReader`.
        """
        super().__init__(definition, (), columns)
        self._reached = 0

    def by_turns(self, ranges: Sequence[CommittedRange]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of ranges, each batch with its segment; those of one segment and of what has come in its place are
        in their order.

        Args:
            ranges: one for each segment.

        Raises:
            As `BatchReader.batches`.
        """
        size = min(_MOST_BYTES, max(_LEAST_BYTES, _ROUND_BYTES // max(1, len(ranges))))
        waiting = [(*_progress(one, one.part.start), number, one.part.start) for number, one in enumerate(ranges)]
        heapq.heapify(waiting)
        while waiting:
            *_, number, start = heapq.heappop(waiting)
            one, most = ranges[number], size
            self._reached = start
            while self._reached == start:
                end = min(one.part.end, start + most)
                piece = replace(one, part=replace(one.part, start=start, end=end))
                for batch in self.read(CommittedPartition([piece])):
                    yield one.part.segment_id, batch
                if self._reached == start and end == one.part.end:
                    raise WireError(f"{one.part} doesn't end where an event does")
                # It doesn't hold one event.
                most *= 2
            if self._reached < one.part.end:
                heapq.heappush(waiting, (*_progress(one, self._reached), number, self._reached))

    def _frames(self, part: SegmentPart) -> Iterator[EventBatch]:
        for events in super()._frames(part):
            self._reached = events.end
            yield events


def _progress(one: CommittedRange, offset: int) -> tuple[int, int, float]:
    """How far a range is: the version, the epoch of its segment, and the share of its bytes of that version."""
    index = int(np.searchsorted(one.ends, offset, side="right"))
    start = int(one.ends[index - 1]) if index else one.part.start
    share = (offset - start) / (int(one.ends[index]) - start)
    return int(one.versions[index]), segment_epoch(one.part.segment_id), share
