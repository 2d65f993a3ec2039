"""A stream from its head to its tail, as the segment stores know it at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark_pravega.client import Client, SegmentPart, Stream
from pyspark_pravega.client.names import SegmentRange, segment_epoch
from pyspark_pravega.client.positions import SegmentRanges
from pyspark_pravega.client.segments import states_of_stream
from pyspark_pravega.connector.log.tiered import Base, Tiered
from pyspark_pravega.errors import DataLossError


@dataclass(frozen=True, kw_only=True)
class LakePart:
    """Rows of a table that are read from the lake."""

    tiered: Tiered
    """What lies there."""
    last: int
    """The last version whose rows are wanted."""
    behind: Mapping[int, int] | None = None
    """The cut before which none are; None for all."""
    until: Mapping[int, int] | None = None
    """The cut behind which none are; None for all."""

    @property
    def is_bounded(self) -> bool:
        """Whether cuts say which rows are wanted."""
        return self.behind is not None or self.until is not None


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """All of a stream at one moment."""

    stream: Stream
    parts: tuple[SegmentPart, ...]
    """In ascending order of segment ids, predecessors before successors."""
    version: int = 0
    """The last version of the commit log that it holds; 0 when there is none."""
    replaced_table: int = 0
    """As `State.replaced_table`, at that moment."""
    current: frozenset[int] = frozenset()
    """The segments that took events at that moment, where that is known; none of a sealed stream."""

    compacted: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """As `State.compacted`, at that moment."""
    counted: tuple[int, int] | None = field(default=None, compare=False, repr=False)
    """The rows and the bytes of all versions together, as the commit log has counted them; None where it hasn't."""
    tiered: Tiered | None = field(default=None, compare=False, repr=False)
    """As `State.tiered`, at that moment: what of it the stream, and so the parts, may lack."""
    lake: LakePart | None = field(default=None, compare=False)
    """What is read from the lake, before the parts; None where the parts are all, or nobody has asked yet."""
    base: Base | None = field(default=None, compare=False, repr=False)
    """Of a table with a key the rows in the lake, of which the parts needn't hold the events; None where they do."""
    base_keys: tuple[float, ...] | None = field(default=None, compare=False, repr=False)
    """Where in the key space those of these rows lie that are wanted; None for all."""
    ranges: Mapping[int, SegmentRange] = field(default_factory=dict, compare=False, repr=False)
    """What part of the key space segments own: of those that took events, where the controller has just told it."""

    @property
    def size(self) -> int:
        """Bytes, frames included."""
        return sum(part.size for part in self.parts)

    @property
    def cut(self) -> dict[int, int]:
        """Segment id to the offset at which the snapshot ends.

        Of current segments only, where they are known: their predecessors are read to the end, and a stream that is
        scaled again and again has ever more of them.
        """
        return {part.segment_id: part.end for part in self.parts if not self.current or part.segment_id in self.current}


def behind(snapshot: Snapshot, begins: Mapping[int, int]) -> Snapshot:
    """The part of a snapshot that lies behind a cut which was once a stream's tail.

    Args:
        snapshot: the stream from its head to its tail.
        begins: the cut: segment id to offset in bytes, of all segments that could be written to then.
    """
    # All segments of that time's epoch, or of one before it, that could still be written to are in the cut.
    epoch = max(segment_id >> 32 for segment_id in begins)
    parts = [
        replace(part, start=min(part.end, max(part.start, begins.get(part.segment_id, 0))))
        for part in snapshot.parts
        if part.segment_id in begins or part.segment_id >> 32 > epoch
    ]
    return replace(snapshot, parts=tuple(parts))


def behind_base(snapshot: Snapshot) -> Snapshot:
    """A table with a key, of whose events those are left that are newer than its base in the lake. Doing it again is
    harmless.

    Args:
        snapshot: the table; what a transaction has written stays.

    Raises:
        DataLossError: some of these events are gone.
    """
    base = snapshot.base
    if base is None:
        return snapshot
    own = [part for part in snapshot.parts if part.transaction is not None]
    parts = behind(replace(snapshot, parts=tuple(p for p in snapshot.parts if p.transaction is None)), base.cut).parts
    if any(part.size and part.start > max(0, base.cut.get(part.segment_id, 0)) for part in parts):
        raise DataLossError(
            f'events of stream "{snapshot.stream}" behind version {base.version}, of which the lake has the rows, were '
            "truncated"
        )
    return replace(snapshot, parts=(*parts, *own))


def take_tail(client: Client, stream: Stream) -> Snapshot | None:
    """The stream from its head to its tail, without regard to commits in progress.

    Args:
        client: the cluster.
        stream: the stream.

    Returns:
        None when the stream was scaled or truncated meanwhile: then try again.

    Raises:
        StreamNotFoundError: there is no such stream.
    """
    listed = states_of_stream(client.pool, stream)
    if listed is None:
        return None
    segments, states = listed
    parts = []
    for segment_id in segments.ids:
        state = states[segment_id]
        start = max(state.start_offset, segments.head.get(segment_id, 0))
        parts.append(SegmentPart(stream=stream, segment_id=segment_id, start=start, end=max(start, state.write_offset)))
    current = segments.current
    ranges = {own.segment_id: own for own in current.ranges}
    return Snapshot(stream=stream, parts=tuple(parts), current=frozenset(current.ids), ranges=ranges)


def comes_after(ranges: SegmentRanges, segment: int, cut: Mapping[int, int]) -> bool:
    """Whether a segment has come in the place of some that a cut names.

    Args:
        ranges: the keys of segments.
        segment: one that the cut doesn't name.
        cut: the cut.
    """
    earlier = [other for other in cut if segment_epoch(other) < segment_epoch(segment)]
    known = ranges.of([segment, *earlier]) if earlier else {}
    return any(known[segment].overlaps(known[other]) for other in earlier)


def lies_behind(ranges: SegmentRanges, cut: Mapping[int, int], other: Mapping[int, int]) -> bool:
    """Whether a cut lies nowhere before another one.

    Args:
        ranges: the keys of segments.
        cut: the cut.
        other: the other one.
    """
    return all(
        offset >= other[segment] if segment in other else comes_after(ranges, segment, other)
        for segment, offset in cut.items()
    )
