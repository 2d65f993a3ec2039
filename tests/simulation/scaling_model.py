"""How a stream is scaled, and how a transaction of an epoch before is committed then.

As Pravega does it: new segments are made, the old ones are sealed one after another, and then the controller tells of
the new epoch. A transaction of an epoch before is merged into copies of its segments, which make an epoch of their own;
the epoch that was current is made again behind it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark_pravega.client import SegmentRange, StreamSegments

if TYPE_CHECKING:
    from cluster_model import ClusterModel, TransactionModel

_LEAST = 0.25


@dataclass(frozen=True)
class Epoch:
    """Segments that take events together."""

    segments: StreamSegments
    reference: int
    """The epoch of which it is a copy, or its own number: a transaction of the one can be merged into the other."""


class Scale:
    """Segments that are to give way to others."""

    def __init__(self) -> None:
        self.begun = False
        self._steps: list[Callable[[], None]] = []

    def go_on(self, cluster: ClusterModel) -> None:
        """Do the next thing."""
        if not self.begun:
            self._begin(cluster)
        self._steps.pop(0)()
        if not self._steps:
            cluster.scale = None

    def _begin(self, cluster: ClusterModel) -> None:
        """Choose what is split, or which two neighbours are merged."""
        self.begun = True
        rng, current, epoch = cluster.world.rng, cluster.current.ranges, len(cluster.epochs)
        number = rng.randrange(len(current))
        one = current[number]
        if (number + 1 < len(current) and rng.random() < 0.5) or one.max_key - one.min_key <= _LEAST:
            number = min(number, len(current) - 2)
            one, other = current[number : number + 2]
            sealed: tuple[int, ...] = (one.segment_id, other.segment_id)
            borders: tuple[float, ...] = (one.min_key, other.max_key)
        else:
            sealed, borders = (one.segment_id,), (one.min_key, (one.min_key + one.max_key) / 2, one.max_key)
        new = []
        for low, high in itertools.pairwise(borders):
            new.append(SegmentRange(segment_id=epoch << 32 | cluster.numbers, min_key=low, max_key=high))
            cluster.numbers += 1
        kept = [owner for owner in current if owner.segment_id not in sealed]
        ranges = tuple(sorted([*kept, *new], key=lambda owner: owner.min_key))
        after = Epoch(StreamSegments(stream=cluster.current.stream, ranges=ranges), reference=epoch)
        self._steps = [lambda: cluster.make(owner.segment_id for owner in new)]
        self._steps += [lambda s=s: _seal(cluster, s) for s in sealed]  # type: ignore[misc]
        self._steps.append(lambda: cluster.enter(after))


class Rolling:
    """A commit of a transaction that was begun before the stream was scaled."""

    def __init__(self, cluster: ClusterModel, own: Epoch, again: Epoch) -> None:
        self._own, self._again = own, again
        self._made = False
        self._sealed = [*own.segments.ids, *cluster.current.ids]

    @classmethod
    def of(cls, cluster: ClusterModel, segments: StreamSegments) -> Rolling:
        """For a transaction's segments."""
        epoch = len(cluster.epochs)
        reference = next(e.reference for e in cluster.epochs if e.segments.ids == segments.ids)
        return cls(
            cluster,
            Epoch(_made_again(segments, epoch), reference),
            Epoch(_made_again(cluster.current, epoch + 1), cluster.epochs[-1].reference),
        )

    def go_on(self, cluster: ClusterModel, one: TransactionModel) -> bool:
        """Do the next thing; False when it was the last one."""
        if not self._made:
            self._made = True
            cluster.make((*self._own.segments.ids, *self._again.segments.ids))
        elif one.unmerged:
            shadow = one.unmerged.pop()
            number = shadow & 0xFFFFFFFF
            segment_id = next(s for s in self._own.segments.ids if s & 0xFFFFFFFF == number)
            cluster.segments[segment_id].events += one.events[shadow]
            cluster.world.note(f"- segment {segment_id}, made again, is merged")
        elif self._sealed:
            _seal(cluster, self._sealed.pop(0))
        else:
            cluster.enter(self._own, self._again)
            return False
        return True


def _made_again(segments: StreamSegments, epoch: int) -> StreamSegments:
    ranges = tuple(
        SegmentRange(segment_id=epoch << 32 | (r.segment_id & 0xFFFFFFFF), min_key=r.min_key, max_key=r.max_key)
        for r in segments.ranges
    )
    return StreamSegments(stream=segments.stream, ranges=ranges)


def _seal(cluster: ClusterModel, segment_id: int) -> None:
    cluster.segments[segment_id].sealed = True
    cluster.world.note(f"- segment {segment_id} is sealed")
