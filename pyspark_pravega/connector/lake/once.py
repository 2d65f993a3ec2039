"""How files whose rows don't stand in the order of their events are shared out, so that each is read about once: among
tasks by segments, among micro-batches by versions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from pyspark_pravega.client.names import segment_epoch
from pyspark_pravega.client.positions import SegmentRanges
from pyspark_pravega.lake import GroupOfRows

Numbers = npt.NDArray[np.float64]
TASK_BYTES = 8 << 20
"""What is less shares a task."""
_AGAIN = 0.25
"""The share of what is read that may be read once more."""


def families(ranges: SegmentRanges, segments: Collection[int]) -> list[set[int]]:
    """Segments together with those that have some of their keys.

    Args:
        ranges: the keys of segments.
        segments: which ones.
    """
    if len({segment_epoch(segment) for segment in segments}) < 2:
        return [{segment} for segment in sorted(segments)]
    keys = ranges.of(segments)
    some: list[set[int]] = []
    for segment in sorted(segments):
        of_keys = [one for one in some if any(keys[segment].overlaps(keys[other]) for other in one)]
        some = [one for one in some if one not in of_keys]
        some.append({segment}.union(*of_keys))
    return some


def tasks_of(
    some: Sequence[set[int]], groups: Sequence[GroupOfRows], laid_out: Collection[str], minimum: int | None
) -> list[set[int]]:
    """Families of segments by the tasks that read them.

    Those whose rows are in the same row groups share one, as long as more would be read several times otherwise than
    is worth it. So do small ones.

    Args:
        some: the families.
        groups: the row groups that are read.
        laid_out: the files whose rows don't stand in the order of their events.
        minimum: how many tasks there shall be at least, if there are as many families.
    """
    tasks = _merged(some, [group for group in groups if group.path in laid_out], minimum or 1)
    if minimum is not None and len(tasks) <= minimum:
        return tasks
    sizes: dict[int, int] = defaultdict(int)
    for group in groups:
        for segment in group.segments:
            sizes[segment] += group.bytes // len(group.segments)
    packed: list[set[int]] = []
    size = 0
    for number, task in enumerate(tasks):
        own = sum(sizes[segment] for segment in task)
        size += own
        if packed and size <= TASK_BYTES and len(packed) + len(tasks) - number > (minimum or 1):
            packed[-1] |= task
        else:
            packed.append(task)
            size = own
    return packed


def _merged(some: Sequence[set[int]], groups: Sequence[GroupOfRows], minimum: int) -> list[set[int]]:
    owner = {segment: number for number, family in enumerate(some) for segment in family}
    shared: dict[frozenset[int], int] = defaultdict(int)
    for group in groups:
        if owners := frozenset(owner[segment] for segment in group.segments if segment in owner):
            shared[owners] += group.bytes
    enough = sum(shared.values()) * (1 + _AGAIN)
    # By family the one that stands for all of its task.
    heads = list(range(len(some)))
    for owners, _ in sorted(shared.items(), key=lambda item: (-item[1] * (len(item[0]) - 1), sorted(item[0]))):
        tasks = {heads[number] for number in owners}
        left = len(set(heads)) - minimum
        if len(tasks) < 2 or left < 1:
            continue
        if sum(size * len({heads[number] for number in of}) for of, size in shared.items()) <= enough:
            break
        first, *others = sorted(tasks)[: left + 1]
        heads = [first if head in others else head for head in heads]
    tasks_of_heads: dict[int, set[int]] = defaultdict(set)
    for family, head in zip(some, heads, strict=True):
        tasks_of_heads[head] |= family
    return [tasks_of_heads[head] for head in sorted(tasks_of_heads)]


def whole_end(groups: Iterable[GroupOfRows], after: int, most: int, last: int) -> int:
    """The version with which a read ends, so that little is read again by who goes on behind it.

    Args:
        groups: the row groups with rows behind `after`, of files whose rows don't stand in the order of their events.
        after: the version behind which it begins.
        most: the last version that is to be read, if that is well.
        last: the last one that may be.

    Returns:
        A version up to `most`, or the next one behind it, with which few of the row groups end in the middle.
    """
    known = list(groups)
    if not known or most >= last:
        return most
    sizes = np.array([group.bytes for group in known], np.float64)
    firsts, lasts = (np.array([getattr(group, side) for group in known], np.int64) for side in ("first", "last"))
    ends = np.unique(np.clip(np.concatenate([lasts, firsts - 1, [most, last]]), after + 1, last))
    begun, ended = _up_to(firsts, sizes, ends), _up_to(lasts, sizes, ends)
    new = begun - sizes[firsts <= after].sum()
    good = ends[(begun - ended <= _AGAIN * new) | (ends == last)]
    within = good[good <= most]
    return int(within[-1] if len(within) else good[0])


def _up_to(versions: npt.NDArray[np.int64], sizes: Numbers, ends: npt.NDArray[np.int64]) -> Numbers:
    """How many bytes have versions up to each of some."""
    order = np.argsort(versions, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(sizes[order])])
    reached: Numbers = sums[np.searchsorted(versions[order], ends, side="right")]
    return reached
