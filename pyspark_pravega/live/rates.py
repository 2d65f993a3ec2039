"""How fast something grows, from samples of how far it was when; and how often something comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

RATE_S = 5.0
"""Rates are means over the last seconds: over so many, or over as many as lie between two samples."""
SLOW_S = 60.0
"""Where nothing came in those, over so many: what comes each ten seconds isn't nothing."""
GAP_S = 15.0
"""Between samples that are farther from each other nobody has looked."""
SILENT_S, SILENT_INTERVALS, SILENT_PAUSES = 60.0, 10, 2
"""Who is silent for less isn't silent: seconds, usual intervals, and pauses of one who pauses now and then."""
_LATELY = 10
Points = Sequence[tuple[float, float]]
"""When, in seconds, and how much until then; the oldest first."""


@dataclass(frozen=True, kw_only=True)
class Rhythm:
    """How often something comes."""

    interval_s: float | None
    """How far the last ones are from each other, in the middle; None where it came once."""
    silence_s: float
    """For so long nothing may come."""


def rhythm(times: Sequence[float]) -> Rhythm:
    """How often something comes: steadily, or in runs with pauses between them, as a job that is started each hour.

    Args:
        times: when it came, in seconds, ascending.
    """
    gaps = [after - before for before, after in pairwise(times)]
    interval_s = median(gaps[-_LATELY:]) if gaps else None
    usual_s = max(SILENT_S, SILENT_INTERVALS * (interval_s or 0.0))
    pauses = [gap for gap in gaps if gap > usual_s]
    # One pause may have been a fault.
    silence_s = max(usual_s, SILENT_PAUSES * median(pauses)) if len(pauses) > 1 else usual_s
    return Rhythm(interval_s=interval_s, silence_s=silence_s)


def recent_rate(points: Points) -> float | None:
    """How much a second is added now.

    Args:
        points: what was sampled.

    Returns:
        None where there are less than two.
    """
    if len(points) < 2:
        return None
    return _mean_rate(points, RATE_S) or _mean_rate(points, SLOW_S)


def _mean_rate(points: Points, seconds: float) -> float:
    """The rate over the last seconds, or since the first sample."""
    end, total = points[-1]
    begin = max(points[0][0], min(end - seconds, points[-2][0]))
    behind = next(number for number, (at, _) in enumerate(points) if at > begin or number == len(points) - 1)
    (at, before), (until, after) = points[max(0, behind - 1)], points[behind]
    # Between two samples it is taken as even.
    base = before + (after - before) * min(1.0, max(0.0, (begin - at) / max(0.001, until - at)))
    return (total - base) / max(0.001, end - begin)


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
