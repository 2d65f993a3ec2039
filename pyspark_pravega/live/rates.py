"""How fast something grows, from samples of how far it was when."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

RATE_S = 5.0
"""Rates are means over the last seconds: over so many, or over as many as lie between two samples."""
SLOW_S = 60.0
"""Where nothing came in those, over so many: what comes each ten seconds isn't nothing."""
GAP_S = 15.0
"""Between samples that are farther from each other nobody has looked."""
Points = Sequence[tuple[float, float]]
"""When, in seconds, and how much until then; the oldest first."""


def recent_rate(points: Points) -> float | None:
    """How much a second is added now.

    Args:
        points: what was sampled.

    Returns:
        None where there are less than two.
    """
    if len(points) < 2:
        return None
    last = points[-1]
    rate = 0.0
    for seconds in (RATE_S, SLOW_S):
        first = next((point for point in points[:-1] if point[0] >= last[0] - seconds), points[-2])
        rate = (last[1] - first[1]) / max(0.001, last[0] - first[0])
        if rate:
            break
    return rate


def curve_of(points: Points, now: float) -> list[tuple[float, float | None]]:
    """The rates between each two samples of the last minute.

    Args:
        points: what was sampled.
        now: in seconds, as those.

    Returns:
        How many seconds ago, and how much a second came until then; None where nobody has looked, so that no line is
        drawn over it.
    """
    curve: list[tuple[float, float | None]] = []
    for before, after in pairwise(points):
        if after[0] < now - SLOW_S:
            continue
        seconds = max(0.001, after[0] - before[0])
        rate = (after[1] - before[1]) / seconds
        curve.append((round(now - after[0], 2), None if seconds > GAP_S else round(rate, 2)))
    return curve
