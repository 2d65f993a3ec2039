"""Tables with keys: which segments may hold events of one key, and how tasks get them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pyspark_pravega.client import Client, SegmentPart, Stream
from pyspark_pravega.client.names import SegmentRange
from pyspark_pravega.connector.log import Snapshot
from pyspark_pravega.connector.read.event_pointers import MOST_PARTS
from pyspark_pravega.connector.read.partitions import PACKED_BYTES, SlicePartition, pack
from pyspark_pravega.errors import AuthenticationError

Floats = npt.NDArray[np.float64]


@dataclass
class ChainPartition(SlicePartition):
    """Segments that one task reads by key, in the order of time."""

    compacted: tuple[bool, ...] = ()
    """For each part whether it holds nothing but the rows that a compaction has written, each key once."""

    def __init__(self, parts: Sequence[tuple[SegmentPart, bool]]) -> None:
        super().__init__([part for part, _ in parts])
        self.compacted = tuple(compacted for _, compacted in parts)

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


def arrange_chains(client: Client, snapshot: Snapshot, only: Collection[int] | None = None) -> list[ChainPartition]:
    """Share a keyed table's segments out among tasks.

    Args:
        client: tells what part of the key space a segment has owned.
        snapshot: what is to be read.
        only: segments; chains without any of them are left out. None for all chains.
    """
    parts = [part for part in snapshot.parts if part.size]
    ranges = _ranges(client, snapshot.stream, [part.segment_id for part in parts], snapshot.ranges)
    wanted_chains = [
        chain for chain in chains(parts, ranges) if only is None or any(p.segment_id in only for p in chain)
    ]
    cut = [[piece for part in chain for piece in _pieces(part, snapshot.compacted)] for chain in wanted_chains]
    packed = pack(cut, lambda chain: sum(part.size for part, _ in chain), PACKED_BYTES, count_of=len, most=MOST_PARTS)
    # The pieces of a part stay in their order.
    ordered = (sorted(itertools.chain(*some), key=lambda piece: piece[0].segment_id) for some in packed)
    return [ChainPartition(pieces) for pieces in ordered]


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
    holding = _segments_of_keys(client, snapshot.parts, fractions, snapshot.ranges)
    return replace(snapshot, parts=tuple(part for part in snapshot.parts if part.segment_id in holding))


def chains_of_keys(client: Client, partitions: Sequence[ChainPartition], fractions: Floats) -> list[ChainPartition]:
    """What of some chains may hold some keys; chains of which nothing is left are left out.

    Args:
        client: tells what part of the key space a segment has owned.
        partitions: the chains.
        fractions: as of `parts_of_keys`.
    """
    holding = _segments_of_keys(client, [part for partition in partitions for part in partition.parts], fractions, {})
    wanted_chains = (
        [
            (part, compacted)
            for part, compacted in zip(partition.parts, partition.compacted, strict=True)
            if part.segment_id in holding
        ]
        for partition in partitions
    )
    return [ChainPartition(parts) for parts in wanted_chains if parts]


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
    client: Client, parts: Sequence[SegmentPart], fractions: Floats, known: Mapping[int, SegmentRange]
) -> set[int]:
    if not parts:
        return set()
    ordered = np.sort(fractions)
    ranges = _ranges(client, parts[0].stream, [part.segment_id for part in parts], known)
    return {
        segment_id
        for segment_id, owned in ranges.items()
        if np.searchsorted(ordered, owned.min_key) < np.searchsorted(ordered, owned.max_key)
    }
