"""What a limited micro-batch takes first, so that all segments of its streams stay at one time.

Where streams have versions these are steps: each is what a commit has added, in the order of the commits. What has no
versions is one step, of all that is there when it is begun. A limit that ends within a step takes the same share of it
from each segment.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.positions import SegmentRanges
from pyspark_pravega.connector.log import Commit, Ledger
from pyspark_pravega.connector.read import commits_between
from pyspark_pravega.connector.stream.frontier import Look, StreamFrontier
from pyspark_pravega.connector.stream.offsets import StreamPosition

Segment = tuple[Stream, int]
Range = tuple[int, int]
"""Where something begins and ends in a segment, in bytes."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """What lies between two moments of some streams."""

    ends: Mapping[Segment, int]
    """Where it ends in each segment; what isn't named has nothing in it."""
    weights: Mapping[Segment, float] | None = None
    """How much there is in each segment's keys, in bytes, where the step ends before all of it, perhaps within events.
    None: it ends between events, and with all that there is."""
    events: int | None = None
    """How many events a version has, where all of it is in the step."""
    bytes: int | None = None
    """Likewise."""
    at: int = 0
    """When the version was committed, in ms since 1970."""


def versions_of(
    client: Client, ledgers: Mapping[Stream, Ledger | None], looks: Mapping[Stream, Look]
) -> Iterator[Step] | None:
    """The versions behind a query's position, those of several streams in the order of their times.

    Args:
        client: the cluster.
        ledgers: the streams' commit logs.
        looks: where the query is in each stream, and how far it could go.

    Returns:
        A step for each version, as far as their segments can be read now; None where a stream has no versions.
    """
    by_stream = []
    for stream, look in looks.items():
        if not look.bytes:
            continue
        ledger = ledgers[stream]
        last = 0 if ledger is None else ledger.state().version
        oldest = None if ledger is None or not last else ledger.first_commit()
        if ledger is None or oldest is None or not oldest.cut:
            return None
        behind = _Behind(client, stream, look)
        first = behind.first(ledger, oldest.version, last)
        if first is None:
            return None
        by_stream.append(behind.steps(commits_between(ledger, first, last)))
    return heapq.merge(*by_stream, key=lambda step: step.at)


def all_that_is_left(
    client: Client,
    frontiers: Mapping[Stream, StreamFrontier],
    positions: Mapping[Stream, StreamPosition],
    looks: Mapping[Stream, Look],
) -> Step:
    """What there is to be read, as one step.

    A segment that was scaled ends earlier than others. So that these don't run ahead of its successors, the step ends
    where it does: each has the share of what is left in its keys.

    Args:
        client: the cluster.
        frontiers: how the query goes on in each stream.
        positions: where it is in each.
        looks: the same with how far it could go.
    """
    ends: dict[Segment, int] = {}
    weights: dict[Segment, float] = {}
    share = 1.0
    for stream, look in looks.items():
        left = {segment_id: end - look.position[segment_id] for segment_id, end in look.ends.items()}
        weight = {segment_id: float(size) for segment_id, size in left.items()}
        behind = {s: part.size for s, part in frontiers[stream].behind(positions[stream]).items() if s not in left}
        if any(behind.values()):
            ranges = SegmentRanges(client, stream).of([*left, *behind])
            for later, size in behind.items():
                before = [s for s in left if ranges[s].overlaps(ranges[later])]
                for segment_id in before:
                    weight[segment_id] += size / len(before)
        for segment_id, size in left.items():
            if size:
                share = min(share, size / weight[segment_id])
        ends |= {(stream, s): end for s, end in look.ends.items()}
        weights |= {(stream, s): size for s, size in weight.items()}
    if share == 1.0:
        return Step(ends=ends)
    starts = {(stream, s): start for stream, look in looks.items() for s, start in look.position.items()}
    shared = {s: min(end, starts[s] + round(share * weights[s])) for s, end in ends.items()}
    return Step(ends=shared, weights=weights)


class _Behind:
    """What lies behind a query's position in one stream, version by version."""

    def __init__(self, client: Client, stream: Stream, look: Look) -> None:
        self._stream, self._look = stream, look
        self._ranges = SegmentRanges(client, stream)

    def first(self, ledger: Ledger, oldest: int, last: int) -> int | None:
        """The first version of which something lies behind the position; None when there is none."""
        low, high = oldest, last + 1
        while low < high:
            middle = (low + high) // 2
            commits = ledger.commits([middle])
            if not commits or self._is_read(commits[0]):
                low = middle + 1
            else:
                high = middle
        return low if low <= last else None

    def steps(self, commits: Iterator[Commit]) -> Iterator[Step]:
        """A step for each version."""
        for commit in commits:
            position, ends = self._look.position, self._look.ends
            left = {s: ends[s] for s in self._replaced(commit) if position[s] < ends[s]}
            if left:
                # What has come before a scale comes first; then its successors are in the position.
                yield Step(ends={(self._stream, s): end for s, end in left.items()}, at=commit.committed_at)
                return
            yield Step(
                ends={(self._stream, s): min(offset, ends[s]) for s, offset in commit.cut.items() if s in ends},
                events=None if commit.of_others else commit.rows,
                bytes=commit.bytes,
                at=commit.committed_at,
            )

    def _is_read(self, commit: Commit) -> bool:
        reached = all(commit.cut.get(s, offset) <= offset for s, offset in self._look.position.items())
        return reached and not self._replaced(commit)

    def _replaced(self, commit: Commit) -> list[int]:
        """The segments of the position that had given way to others when a version was committed."""
        unknown = [segment_id for segment_id in self._look.position if segment_id not in commit.cut]
        if not unknown:
            return []
        ranges = self._ranges.of([*unknown, *commit.cut])
        return [s for s in unknown if any(s < later and ranges[s].overlaps(ranges[later]) for later in commit.cut)]
