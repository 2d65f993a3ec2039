"""The longest tests run in turn: three runs together leave none out."""

from __future__ import annotations

from collections import Counter

import pytest
from turns import TURNS, others


def test_each_turn_runs_what_the_others_leave_out(request: pytest.FixtureRequest) -> None:
    items = request.session.items
    marked = {item for item in items if item.get_closest_marker("in_turn")}
    left = Counter(item for turn in range(7, 7 + TURNS) for item in others(items, turn))
    assert left == dict.fromkeys(marked, TURNS - 1)
    assert others(items, 1) == others(items, 1 + TURNS)
