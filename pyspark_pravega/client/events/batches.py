"""Events as they are found in a segment's bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from pyspark_pravega.client.names import Stream
from pyspark_pravega.errors import EventDecodeError, WireError
from pyspark_pravega.frames import framing
from pyspark_pravega.frames.bad_events import BadEventError

_LENGTH = struct.Struct(">xxxxi")

BATCH_SCHEMA = pa.schema(
    [
        pa.field("event", pa.binary(), nullable=False),
        pa.field("scope", pa.string(), nullable=False),
        pa.field("stream", pa.string(), nullable=False),
        pa.field("segment_id", pa.int64(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
    ]
)
"""Of `EventBatch.to_arrow`: the columns of Pravega's own Spark connector."""


@dataclass(frozen=True, kw_only=True)
class EventBatch:
    """Some events of one segment, one after another."""

    stream: Stream
    segment_id: int
    start: int
    """Offset of the first event's frame in the segment, in bytes."""
    frames: framing.Frames

    def __len__(self) -> int:
        return len(self.frames.payloads)

    @property
    def payloads(self) -> pa.BinaryArray:
        """The events, without their frames."""
        return self.frames.payloads

    @property
    def offsets(self) -> pa.Int64Array:
        """Where each event's frame begins in the segment, in bytes."""
        return pa.array(self.frames.starts + self.start)

    @property
    def end(self) -> int:
        """Offset behind the last event, in bytes: where reading may go on."""
        return self.start + self.frames.consumed

    def to_arrow(self) -> pa.RecordBatch:
        """The events as a batch of `BATCH_SCHEMA`."""
        rows = len(self)
        columns = [
            self.payloads,
            pa.repeat(self.stream.scope, rows),
            pa.repeat(self.stream.name, rows),
            pa.repeat(pa.scalar(self.segment_id, pa.int64()), rows),
            self.offsets,
        ]
        return pa.RecordBatch.from_arrays(columns, schema=BATCH_SCHEMA)


def event_batches(
    buffers: Iterable[memoryview], stream: Stream, segment_id: int, start: int, *, end: int | None = None
) -> Iterator[EventBatch]:
    """Cut a segment's bytes into events.

    Args:
        buffers: the bytes in order, as `reading.read_range` gives them; an event may go on from one to the next.
        stream: the segment's stream.
        segment_id: the segment.
        start: offset of the first byte, where an event begins.
        end: offset behind the last byte, where it must be known that no event is cut; None where more may come.

    Yields:
        Batches of at least one event, about one for each buffer.

    Raises:
        EventDecodeError: no event begins at `start`.
        WireError: the bytes end within an event.
    """
    pieces: list[memoryview | bytes] = []
    have, need = 0, framing.HEADER_SIZE
    for buffer in buffers:
        pieces.append(buffer)
        have += len(buffer)
        if have < need:
            # A large event: joining what is there each time would copy it again and again.
            continue
        chunk = buffer if len(pieces) == 1 else memoryview(b"".join(pieces))
        try:
            frames = framing.split(chunk)
        except BadEventError as error:
            raise EventDecodeError(
                f'no event begins near offset {start} of segment {segment_id} of stream "{stream}": {error.reason}'
            ) from None
        if len(frames.payloads):
            yield EventBatch(stream=stream, segment_id=segment_id, start=start, frames=frames)
        start += frames.consumed
        # A copy, so that a few bytes don't hold a megabyte.
        rest = bytes(chunk[frames.consumed :])
        pieces, have = ([rest] if rest else []), len(rest)
        need = framing.HEADER_SIZE
        if have >= need:
            need += _LENGTH.unpack_from(rest)[0]
            if end is not None and start + need > end:
                # Nothing that comes can complete it: what follows isn't worth the memory.
                have = end - start
                break
    if have and end is not None:
        raise WireError(
            f'segment {segment_id} of stream "{stream}" holds {have} bytes before offset {end} that are no whole event'
        )
