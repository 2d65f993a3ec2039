"""Tables with keys: which segments may hold events of one key, and how tasks get them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pyspark_pravega.client import Client, SegmentPart, Stream
from pyspark_pravega.client.names import SegmentRange
from pyspark_pravega.connector.base import BaseRows, base_rows
from pyspark_pravega.connector.log import Snapshot, behind_base
from pyspark_pravega.connector.read.event_pointers import MOST_PARTS
from pyspark_pravega.connector.read.partitions import PACKED_BYTES, SlicePartition, pack
from pyspark_pravega.errors import AuthenticationError
from pyspark_pravega.lake import Between
from pyspark_pravega.spark.datasource import InputPartition

Floats = npt.NDArray[np.float64]


@dataclass
class ChainPartition(SlicePartition):
    """Segments that one task reads by key, in the order of time."""

    compacted: tuple[bool, ...] = ()
    """For each part whether it holds nothing but the rows that a compaction has written, each key once."""
    lake: BaseRows | None = None
    """Rows in the lake that are older than all parts, each key once; None where there are none."""

    def __init__(self, parts: Sequence[tuple[SegmentPart, bool]], lake: BaseRows | None = None) -> None:
        InputPartition.__init__(self, parts[0][0].segment_id if parts else None)
        self.parts = tuple(part for part, _ in parts)
        self.compacted = tuple(compacted for _, compacted in parts)
        self.lake = lake

    @property
    def stream(self) -> Stream:
        """Whose they are."""
        return super().stream if self.lake is None else self.lake.stream

    def __repr__(self) -> str:
        return f"ChainPartition({', '.join(map(str, self.parts))})"


def chains(parts: Sequence[SegmentPart], ranges: Mapping[int, SegmentRange]) -> list[list[SegmentPart]]:
    """Parts of segments, those together that may hold events of one key.

    Args:
        parts: the parts of one stream.
        ranges: segment id to the part of the key space that the segment owns or owned.

    Returns:
        Each chain in the order of time: of two segments that own a key the later one has the higher id.
    """
    by_range: list[list[SegmentPart]] = []
    reached = 0.0
    for part in sorted(parts, key=lambda part: ranges[part.segment_id].min_key):
        owned = ranges[part.segment_id]
        if by_range and owned.min_key < reached:
            by_range[-1].append(part)
        else:
            by_range.append([part])
        reached = max(reached, owned.max_key)
    return [sorted(chain, key=lambda part: part.segment_id) for chain in by_range]


def arrange_chains(
    client: Client,
    snapshot: Snapshot,
    only: Collection[int] | None = None,
    wanted: tuple[Between, ...] = (),
    files: Collection[str] | None = None,
) -> list[ChainPartition]:
    """Share a keyed table's segments out among tasks.

    Args:
        client: tells what part of the key space a segment has owned.
        snapshot: what is to be read.
        only: segments; chains without any of them are left out. None for all chains.
        wanted: which values are wanted of rows in the lake.
        files: the files of the lake whose rows are; None for all.

    Raises:
        DataLossError: the lake doesn't hold any more what it has to.
    """
    parts = [part for part in behind_base(snapshot).parts if part.size]
    base = _base_of(client, snapshot, wanted, files)
    # A segment of which only the lake has rows stands in its chain, too.
    there = {part.segment_id for part in parts}
    lacking = [id for id in sorted(base.segments) if id not in there] if base is not None else []
    parts += [SegmentPart(stream=snapshot.stream, segment_id=id, start=0, end=0) for id in lacking]
    ranges = _ranges(client, snapshot.stream, [part.segment_id for part in parts], snapshot.ranges)
    cut = [
        _Chain(
            pieces=[piece for part in chain if part.size for piece in _pieces(part, snapshot.compacted)],
            base=None if base is None else base.of({part.segment_id for part in chain}),
        )
        for chain in chains(parts, ranges)
        if only is None or any(part.segment_id in only for part in chain)
    ]
    packed = pack(cut, lambda chain: chain.size, PACKED_BYTES, count_of=lambda one: len(one.pieces), most=MOST_PARTS)
    return [_partition(some, base) for some in packed]


@dataclass
class _Chain:
    """A chain of segments."""

    pieces: list[tuple[SegmentPart, bool]]
    base: BaseRows | None

    @property
    def size(self) -> int:
        return sum(part.size for part, _ in self.pieces) + (0 if self.base is None else self.base.bytes)


def _partition(some: Sequence[_Chain], base: BaseRows | None) -> ChainPartition:
    # The pieces of a part stay in their order.
    pieces = sorted((piece for one in some for piece in one.pieces), key=lambda piece: piece[0].segment_id)
    segments = {segment for one in some if one.base is not None for segment in one.base.segments}
    return ChainPartition(pieces, None if base is None else base.of(segments))


def _base_of(
    client: Client, snapshot: Snapshot, wanted: tuple[Between, ...], files: Collection[str] | None
) -> BaseRows | None:
    """The wanted rows in the lake with which a table begins."""
    if snapshot.base is None:
        return None
    base = base_rows(client.settings, snapshot.stream, snapshot.base, wanted, files)
    if base is None or snapshot.base_keys is None:
        return base
    return base.of(_segments_of_keys(client, snapshot.stream, base.segments, np.array(snapshot.base_keys), {}))


def _pieces(part: SegmentPart, compacted: Mapping[int, tuple[int, int]]) -> Iterator[tuple[SegmentPart, bool]]:
    """A part, cut around what a compaction has written into it."""
    first, behind = (part.end, part.end)
    if part.transaction is None:
        first, behind = compacted.get(part.segment_id, (part.end, part.end))
    first, behind = max(part.start, first), min(part.end, behind)
    if first >= behind:
        yield part, False
        return
    for start, end, is_compacted in ((part.start, first, False), (first, behind, True), (behind, part.end, False)):
        if start < end:
            yield replace(part, start=start, end=end), is_compacted


def parts_of_keys(client: Client, snapshot: Snapshot, fractions: Floats) -> Snapshot:
    """The part of a snapshot that may hold some keys.

    Args:
        client: tells what part of the key space a segment has owned.
        snapshot: what there is.
        fractions: where in the key space the keys lie, each in [0, 1).
    """
    holding = _segments_of_keys(
        client, snapshot.stream, {part.segment_id for part in snapshot.parts}, fractions, snapshot.ranges
    )
    parts = tuple(part for part in snapshot.parts if part.segment_id in holding)
    return replace(snapshot, parts=parts, base_keys=None if snapshot.base is None else tuple(fractions.tolist()))


def chains_of_keys(client: Client, partitions: Sequence[ChainPartition], fractions: Floats) -> list[ChainPartition]:
    """What of some chains may hold some keys; chains of which nothing is left are left out.

    Args:
        client: tells what part of the key space a segment has owned.
        partitions: the chains.
        fractions: as of `parts_of_keys`.
    """
    if not partitions:
        return []
    segments = {part.segment_id for partition in partitions for part in partition.parts}
    segments.update(*(partition.lake.segments for partition in partitions if partition.lake is not None))
    holding = _segments_of_keys(client, partitions[0].stream, segments, fractions, {})
    wanted_chains = (
        (
            [
                (part, compacted)
                for part, compacted in zip(partition.parts, partition.compacted, strict=True)
                if part.segment_id in holding
            ],
            None if partition.lake is None else partition.lake.of(holding),
        )
        for partition in partitions
    )
    return [ChainPartition(parts, base) for parts, base in wanted_chains if parts or base is not None]


def _ranges(
    client: Client, stream: Stream, segment_ids: Collection[int], known: Mapping[int, SegmentRange]
) -> dict[int, SegmentRange]:
    """The parts of the key space that segments have owned, or larger ones where the user may only read.

    The controller's answer names all segments of an epoch, so it isn't asked for what is known already.
    """
    missing = [segment_id for segment_id in segment_ids if segment_id not in known]
    asked: Mapping[int, SegmentRange] = {}
    if missing:
        try:
            asked = client.controller.segment_ranges(stream, missing)
        except AuthenticationError:
            asked = client.controller.covering_ranges(stream, missing)
    return {segment_id: known.get(segment_id) or asked[segment_id] for segment_id in segment_ids}


def _segments_of_keys(
    client: Client, stream: Stream, segments: Collection[int], fractions: Floats, known: Mapping[int, SegmentRange]
) -> set[int]:
    ordered = np.sort(fractions)
    ranges = _ranges(client, stream, segments, known)
    return {
        segment_id
        for segment_id, owned in ranges.items()
        if np.searchsorted(ordered, owned.min_key) < np.searchsorted(ordered, owned.max_key)
    }
