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

_KIND_AND_LENGTH = struct.Struct(">ii")

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
        return len(self.frames)

    @property
    def payloads(self) -> pa.Array:
        """The events, without their frames."""
        return self.frames.payloads

    @property
    def offsets(self) -> pa.Array:
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
    # Of an event that goes on from one buffer to the next: what is there of it, and how many bytes it has as far as is
    # known. Only these are copied; the other events are found where they were received.
    cut: list[memoryview | bytes] = []
    have, need = 0, framing.HEADER_SIZE
    for buffer in buffers:
        rest = buffer
        while cut and have < need and rest:
            piece, rest = rest[: need - have], rest[need - have :]
            cut.append(piece)
            have += len(piece)
            if have == need == framing.HEADER_SIZE:
                cut = [b"".join(cut)]
                need = _whole_size(cut[0])
        if have < need and (cut or not rest):
            # A large event: joining what is there each time would copy it again and again.
            continue
        try:
            frames = framing.split(rest, first=b"".join(cut))
        except BadEventError as error:
            raise EventDecodeError(
                f'no event begins near offset {start} of segment {segment_id} of stream "{stream}": {error.reason}'
            ) from None
        if len(frames):
            yield EventBatch(stream=stream, segment_id=segment_id, start=start, frames=frames)
        start += frames.consumed
        # A copy, so that a few bytes don't hold a megabyte.
        left = bytes(rest[frames.consumed - have if cut else frames.consumed :])
        cut, have = ([left] if left else []), len(left)
        need = framing.HEADER_SIZE
        if have >= need:
            need = _whole_size(left)
            if end is not None and start + need > end:
                # Nothing that comes can complete it: what follows isn't worth the memory.
                have = end - start
                break
    if have and end is not None:
        raise WireError(
            f'segment {segment_id} of stream "{stream}" holds {have} bytes before offset {end} that are no whole event'
        )


def _whole_size(head: memoryview | bytes) -> int:
    """How many bytes an event has with its frame, by the frame's begin."""
    kind, length = _KIND_AND_LENGTH.unpack_from(head)
    # What is no event isn't waited for: `split` says so.
    return framing.HEADER_SIZE + (length if kind == 0 and length > 0 else 0)
