"""With which version each row of a stream has come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyspark_pravega.client import SegmentPart
from pyspark_pravega.client.names import segment_epoch
from pyspark_pravega.connector.log import Commit
from pyspark_pravega.connector.read import CommittedRange


def versioned(parts: Sequence[SegmentPart], commits: Sequence[Commit]) -> list[CommittedRange]:
    """Parts of segments with the versions that have added what is in them.

    Args:
        parts: from one version's cut, or the table's first row, to another version's cut.
        commits: the versions that are known, ascending, the last one at whose cut the parts end. Rows of those before
            the first one count as its.
    """
    ranges = []
    for part in parts:
        if not part.size:
            continue
        ends: list[int] = []
        versions: list[int] = []
        times: list[int] = []
        for commit in commits:
            end = min(part.end, _reached(commit, part))
            if end > (ends[-1] if ends else part.start):
                ends.append(end)
                versions.append(commit.version)
                times.append(commit.committed_at)
        assert ends, part
        assert ends[-1] == part.end, part
        longs = (np.array(numbers, np.int64) for numbers in (ends, versions, times))
        ranges.append(CommittedRange(part=part, **dict(zip(("ends", "versions", "times"), longs, strict=True))))
    return ranges


def _reached(commit: Commit, part: SegmentPart) -> int:
    """How far a segment went when a version was committed."""
    offset = commit.cut.get(part.segment_id)
    if offset is not None:
        return max(0, offset)
    # A version names the segments of its time: later ones than this one stand for its end.
    is_past = any(segment_epoch(other) > segment_epoch(part.segment_id) for other in commit.cut)
    return part.end if is_past else 0
