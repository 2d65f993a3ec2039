"""Since when events wait that nobody has read yet: the oldest commit that lies behind a position."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_pravega.client.names import segment_epoch
from pyspark_pravega.connector.log import Commit, Ledger


def lies_behind(cut: Mapping[int, int], begins: Mapping[int, int]) -> bool:
    """Whether some of what was there at a moment lies behind a position.

    Args:
        cut: the stream's tail at that moment: segment id to offset in bytes.
        begins: where what wasn't read begins, of each segment that has some: segment id to offset in bytes.
    """
    epoch = max(map(segment_epoch, cut), default=-1)
    # A segment that the tail didn't have was read to its end before, or came later.
    return any(cut[s] > begin if s in cut else segment_epoch(s) <= epoch for s, begin in begins.items())


def oldest_behind(ledger: Ledger, last: int, begins: Mapping[int, int]) -> Commit | None:
    """The first commit of which some lies behind a position.

    Args:
        ledger: the stream's commit log.
        last: its last version.
        begins: as of `lies_behind`.

    Returns:
        None where there is none, or the log doesn't know it any more.
    """
    low, high, oldest = 1, last, None
    while begins and low <= high:
        middle = (low + high) // 2
        commit = next(iter(ledger.commits([middle])), None)
        # The oldest commits aren't kept.
        if commit is not None and lies_behind(commit.cut, begins):
            oldest, high = commit, middle - 1
        else:
            low = middle + 1
    return oldest
